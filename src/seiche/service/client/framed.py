"""One call that stays open over a connection of its own, in frames, to a server that understands them."""

from contextlib import suppress
from typing import Any, Final

import grpc

from seiche.service.client.calls import Ended, Failed
from seiche.service.client.wires import Wire
from seiche.service.frames import END, HEAD, HELLO, End, framed, hello
from seiche.service.statuses import DETAILS

__all__ = ["FramedCall", "NotSpoken"]

_CODES: Final[dict[int, Any]] = {code.value[0]: code for code in grpc.StatusCode}


class NotSpoken(Exception):
    """The other side does not speak in frames; nothing was asked yet."""


class FramedCall:
    """A `seiche.service.client.calls.Call`. Made when the server has said that it may go on.

    `NotSpoken` if that is another kind of server, `Failed` if it refuses.
    """

    def __init__(self, wire: Wire, headers: tuple[tuple[str, str], ...], seconds: float) -> None:
        self._wire = wire
        self._received = b""
        try:
            self._greet(headers, seconds)
        except BaseException:
            wire.close()
            raise

    def _greet(self, headers: tuple[tuple[str, str], ...], seconds: float) -> None:
        try:
            self._wire.write(hello(headers))
            self._wire.limit(seconds)
            while len(self._received) < HEAD.size:
                self._receive(wait=True)
            if HEAD.unpack_from(self._received)[1] not in (HELLO, END):
                raise NotSpoken
            while (frame := self._frame()) is None:
                self._receive(wait=True)
            self._wire.limit(None)
        except OSError as error:
            raise NotSpoken from error
        if frame[0] == END:
            raise _ending(frame[1])

    def send(self, message: bytes) -> bool:
        with suppress(OSError):  # whoever listens finds out that the connection is gone
            self._wire.write(framed(message))
        return False

    def next(self) -> bytes | None:
        while (frame := self._frame()) is None:
            try:
                self._receive(wait=True)
            except OSError as error:
                text = f"the connection was lost: {error.strerror or error}"
                raise Failed(grpc.StatusCode.UNAVAILABLE, text, ()) from error
        return self._message(*frame)

    def glance(self) -> None:
        with suppress(BlockingIOError):
            while True:
                try:
                    self._receive(wait=False)
                except BlockingIOError:
                    raise
                except OSError as error:
                    raise Failed(grpc.StatusCode.UNAVAILABLE, f"the connection was lost: {error}", ()) from error
                while (frame := self._frame()) is not None:
                    self._message(*frame)  # an answer that nobody waits for any more

    def finish(self) -> None:
        self._wire.close()

    def cancel(self) -> None:
        self._wire.shut()

    def _receive(self, *, wait: bool) -> None:
        data = self._wire.read(wait=wait)
        if not data:
            raise ConnectionError("it was closed")
        self._received = self._received + data if self._received else data

    def _frame(self) -> tuple[int, bytes] | None:
        """The next frame, if all of it is here."""
        data = self._received
        if len(data) < HEAD.size:
            return None
        size, kind = HEAD.unpack_from(data)
        end = HEAD.size + size
        if len(data) < end:
            return None
        self._received = data[end:]
        return kind, data[HEAD.size : end]

    def _message(self, kind: int, content: bytes) -> bytes:
        if kind == END:
            raise _ending(content)
        return content


def _ending(content: bytes) -> Exception:
    """What the end of a call says about how it went."""
    try:
        how = End.decode(content)
    except ValueError as error:
        return Failed(grpc.StatusCode.UNAVAILABLE, str(error), ())
    if not how.code:
        return Ended()
    trailers = ((DETAILS, how.details),) if how.details else ()
    return Failed(_CODES.get(how.code, grpc.StatusCode.UNKNOWN), how.text, trailers)
