"""Pieces of a file that are made by a thread of their own, ahead of whoever uses them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import Final

from seiche.store.base import Buffer, Chunks

__all__ = ["read_ahead"]

_AHEAD: Final = 2


@contextmanager
def read_ahead(chunks: Chunks) -> Iterator[Iterator[Buffer]]:
    """The pieces, as something to iterate over that does nothing but wait for them.

    For native writers that ask for pieces from inside their own machinery: there, reading them from the same kind of
    storage fails. If making a piece fails, that error is raised at the end of the block, whatever the writer made of
    it.
    """
    pieces: Queue[Buffer | None] = Queue(_AHEAD)
    failure: list[BaseException] = []
    left = Event()

    def make() -> None:
        try:
            for chunk in chunks():
                pieces.put(chunk)
                if left.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            failure.append(error)
        pieces.put(None)

    def take() -> Iterator[Buffer]:
        while (piece := pieces.get()) is not None:
            yield piece
        if failure:
            raise failure[0]

    maker = Thread(target=make, name="seiche-read-ahead", daemon=True)
    maker.start()
    try:
        yield take()
    except BaseException as error:
        if failure and error is not failure[0]:
            raise failure[0] from error
        raise
    finally:
        left.set()
        while maker.is_alive():
            with suppress(Empty):
                pieces.get_nowait()
            maker.join(0.01)
