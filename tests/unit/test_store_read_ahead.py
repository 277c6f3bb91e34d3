"""Pieces that are made ahead: in order, with their errors, and by a thread that does not stay."""

import threading
from collections.abc import Iterator

import pytest

from seiche import NotFound
from seiche.store.read_ahead import read_ahead


def makers() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "seiche-read-ahead"]


def numbers(count: int) -> Iterator[bytes]:
    return (str(number).encode() for number in range(count))


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
