"""Pieces that are made ahead: in order, with their errors, and by a thread that does not stay."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from seiche import NotFound
from seiche.store.read_ahead import read_ahead


def makers() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "seiche-read-ahead"]


def numbers(most: int) -> Iterator[bytes]:
    return (str(number).encode() for number in range(most))


def test_all_pieces_in_order() -> None:
    with read_ahead(lambda: numbers(50)) as pieces:
        assert list(pieces) == list(numbers(50))
    with read_ahead(lambda: iter(())) as pieces:
        assert list(pieces) == []
    assert makers() == []


def test_an_error_of_the_maker_is_the_one_that_is_raised() -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise NotFound("the source is gone")

    def write(*, other_words: bool) -> None:
        with read_ahead(broken) as pieces:
            try:
                list(pieces)
            except NotFound as error:
                if other_words:
                    raise RuntimeError("the writer calls it something else") from error
                raise

    for other_words in (False, True):
        with pytest.raises(NotFound, match="gone"):
            write(other_words=other_words)
    assert makers() == []


def test_a_writer_that_stops_leaves_no_thread() -> None:
    def write() -> None:
        with read_ahead(lambda: numbers(1000)) as pieces:
            next(pieces)
            raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="full"):
        write()
    assert makers() == []


def test_a_writer_that_stops_while_pieces_are_waiting_is_not_held_up_by_those_that_would_follow() -> None:
    waiting = threading.Event()

    def endless() -> Iterator[bytes]:
        for number in count():
            if number == 3:  # one was taken, two wait for the writer, and this one waits for room
                waiting.set()
            yield b"x"

    def write() -> None:
        with suppress(ValueError), read_ahead(endless) as pieces:
            next(pieces)
            waiting.wait(30)
            raise ValueError("the disk is full")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(30)
    assert not writer.is_alive()
    assert makers() == []
