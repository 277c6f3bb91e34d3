"""Files that go from one store to another, whichever kinds these are: in pieces, or past this process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seiche.errors import InvalidInput, NotFound
from seiche.store import Store, open_store
from seiche.store.beside import open_beside
from seiche.store.prefix import below
from seiche.testing import CountingStore, DictStore
from tests.store_backends import BACKENDS, backend

# More than one piece, and no multiple of one.
LARGE = bytes(range(256)) * 40_000 + b"end"


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return backend(request.param, tmp_path, request).open()


def pieces(data: bytes, size: int) -> Callable[[], Iterator[bytes]]:
    return lambda: (data[start : start + size] for start in range(0, len(data), size))


def test_a_stream_is_written_whole_and_overwrites(store: Store) -> None:
    store.put("a/b", b"before")
    store.put_stream("a/b", pieces(LARGE, 3_000_000))
    assert store.get("a/b") == LARGE
    assert store.head("a/b").size == len(LARGE)
    store.put_stream("a/b", pieces(b"", 10))
    assert store.get("a/b") == b""
    with pytest.raises(InvalidInput):
        store.put_stream("../b", pieces(b"x", 1))


def test_a_stream_that_fails_leaves_what_was_there(store: Store) -> None:
    class Broken(Exception):
        pass

    def broken() -> Iterator[bytes]:
        yield b"x" * 6_000_000
        raise Broken

    store.put("a/b", b"before")
    with pytest.raises(Broken):
        store.put_stream("a/b", broken)
    with pytest.raises(Broken):
        store.put_stream("a/new", broken)
    assert store.get("a/b") == b"before"
    assert [info.path for info in store.list()] == ["a/b"]


def test_files_are_read_in_pieces(store: Store) -> None:
    store.put("a", LARGE)
    found = list(store.chunks("a", 4_000_000))
    assert [len(piece) for piece in found] == [4_000_000, 4_000_000, len(LARGE) - 8_000_000]
    assert b"".join(found) == LARGE
    store.put("empty", b"")
    assert list(store.chunks("empty")) == []


def test_a_copy_between_stores(store: Store, tmp_path: Path) -> None:
    other = open_store(tmp_path / "other", durability="os")
    other.put("from/here", LARGE)
    other.put("empty", b"")
    store.put("to/there", b"before")
    store.copy_from(other, "from/here", "to/there")
    store.copy_from(other, "empty", "to/empty")
    assert (store.get("to/there"), store.get("to/empty")) == (LARGE, b"")
    other.copy_from(store, "to/there", "back")
    assert other.get("back") == LARGE
    with pytest.raises(NotFound):
        store.copy_from(other, "nothing", "to/nothing")
    assert not store.exists("to/nothing")


def test_a_copy_within_a_store_and_between_its_directories(store: Store) -> None:
    store.put("one/a", LARGE)
    below(store, "two").copy_from(below(store, "one"), "a", "b")
    assert store.get("two/b") == LARGE
    store.copy_from(below(store, "two"), "b", "three/c")
    assert store.get("three/c") == LARGE
    store.copy_from(store, "one/a", "one/a")
    assert store.get("one/a") == LARGE


def test_within_one_store_nothing_passes_through_this_process() -> None:
    store = CountingStore(DictStore())
    store.put("one/a", LARGE)
    store.reset()
    below(store, "two").copy_from(below(store, "one"), "a", "b")
    assert store.counts == {"copy": 1}
    assert store.bytes_read == 0


def test_within_one_bucket_nothing_passes_through_this_process(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = backend("seaweedfs", tmp_path, request).open()
    other = backend("seaweedfs", tmp_path, request).open()
    one.put("a", LARGE)
    monkeypatch.setattr(type(other), "put_stream", lambda *_: pytest.fail("it was read and written"))
    other.copy_from(one, "a", "b")
    assert other.get("b") == LARGE


@pytest.mark.parametrize("why", ["too large for one request", "other options"])
def test_what_a_bucket_cannot_copy_by_itself_passes_through_this_process(
    why: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = backend("seaweedfs", tmp_path, request)
    one, other = here.open(), here.open()
    if why == "other options":
        # They may be other rights: what the one may read, the other may not, and that one would ask the server.
        other = open_store(here.uri, **here.options, aws_disable_bulk_delete="true")
    else:
        monkeypatch.setattr("seiche.store.object._LARGEST_COPY", len(LARGE) - 1)
    one.put("a", LARGE)
    monkeypatch.setattr(type(other), "_copy", lambda *_: pytest.fail("the server was asked to copy it"))
    other.copy_from(one, "a", "b")
    assert one.get("b") == LARGE


def test_what_lies_inside_the_store_at_hand_is_reached_through_it(store: Store) -> None:
    store.put("tables/some where/x", b"x")
    table = below(store, "tables/other")
    address = below(store, "tables/some where").native_uri()
    found = open_beside(table, address)
    assert found.get("x") == b"x"
    assert found.origin("x")[0] is store.origin("tables/some where/x")[0]
    assert open_beside(table, store.native_uri() + "/").get("tables/some where/x") == b"x"


def test_what_lies_elsewhere_is_opened_with_the_same_settings(tmp_path: Path) -> None:
    here = open_store(tmp_path / "here", durability="os")
    there = open_beside(here, str(tmp_path / "there"))
    there.put("x", b"x")
    assert (tmp_path / "there/x").read_bytes() == b"x"
    assert getattr(there, "durability", "") == "os"
    assert open_beside(here, f"file://{tmp_path}/there").get("x") == b"x"


def test_elsewhere_in_a_bucket_the_same_credentials_are_used(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    one = backend("moto", tmp_path, request).open()
    other = backend("moto", tmp_path, request).open()
    other.put("x", b"x")
    assert open_beside(one, other.native_uri()).get("x") == b"x"
