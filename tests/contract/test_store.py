"""What every store promises, whichever it is."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.store import Store, open_store
from seiche.store.base import Data
from tests.store_backends import BACKENDS, BY_ADDRESS, CONFIGURED, REACHABLE, Backend, backend

ODD_NAMES = [
    "a b", "a%20b", "a%b", "a#b", "a?b", "a+b", "a&b=c", "a~b", "a*b", "a[b]", "a{b}", "a|b", "a<b>", "a^b", "a`b",
    'a"b', "a'b", "a:b@c", "a.", "..a", "a..b", "...", ".hidden", "a;b,c", "$x!(y)", "é", "e\u0301", "日本",
    "\U0001f600", "-", "_", "ü/é/x y", "00000000000000000001.manifest", "a" * 200,
]  # fmt: skip

BAD_PATHS = [
    "", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".", "./a", "a/.", "a/./b",
    "a\\b", "\\", "a\x00b", "a\nb", "a\x1fb", "\x7f", "a\x85b", "\ud800", "a/\udfff",
    ".seiche-tmp-1", "a/.seiche-tmp-x/b",
]  # fmt: skip


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return backend(request.param, tmp_path, request)


@pytest.mark.parametrize("name", CONFIGURED)
def test_the_suite_runs_on_every_kind_of_store(name: str) -> None:
    variable, what = CONFIGURED[name]
    if name not in BACKENDS:
        pytest.skip(f"no {name}: set {variable} to {what}, and {variable}_OPTIONS to its options as JSON")


@pytest.fixture
def store(place: Backend) -> Store:
    return place.open()


def paths(store: Store, prefix: str = "", **how: object) -> list[str]:
    return [info.path for info in store.list(prefix, **how)]  # type: ignore[arg-type]


def test_a_new_name_holds_what_was_written_and_is_not_written_twice(store: Store) -> None:
    store.put_if_absent("dir/name", b"first")
    with pytest.raises(AlreadyExists) as refused:
        store.put_if_absent("dir/name", b"second")
    assert store.get("dir/name") == b"first"
    assert refused.value.path.endswith("dir/name")
    with pytest.raises(AlreadyExists):
        store.put_own("dir/name", b"second")
    assert store.get("dir/name") == b"first"
    store.put_own("dir/own", b"mine")
    assert store.get("dir/own") == b"mine"
    assert paths(store) == ["dir/name", "dir/own"]


@pytest.mark.parametrize("name", [*BY_ADDRESS, "prefix"])
def test_a_pickled_store_is_another_handle_on_the_same_files(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = backend(name, tmp_path, request).open()
    copied = pickle.loads(pickle.dumps(store))
    store.put_if_absent("dir/name", b"first")
    assert copied.get("dir/name") == b"first"
    with pytest.raises(AlreadyExists):
        copied.put_if_absent("dir/name", b"second")
    assert (copied.uri, copied.native_uri("dir/name")) == (store.uri, store.native_uri("dir/name"))
    assert getattr(copied, "durability", None) == getattr(store, "durability", None)


FORMS: dict[str, Data] = {
    "empty": b"",
    "none": [],
    "empties": [b"", b""],
    "bytearray": bytearray(b"ab"),
    "slice": memoryview(b"xabx")[1:3],
    "wide": memoryview(b"abcdefgh").cast("I"),
    "mixed": [b"a", bytearray(b"b"), memoryview(b"c"), b""],
    "tuple": (b"ab", b"cd"),
    "many": [b"%d," % number for number in range(2500)],
    "large": bytes(range(256)) * 12_000,
}


def test_every_form_of_data_arrives_whole(store: Store) -> None:
    for form, data in FORMS.items():
        parts = [data] if isinstance(data, bytes | bytearray | memoryview) else data
        expected = b"".join(map(bytes, parts))
        for write in (store.put, store.put_if_absent):
            write(f"{write.__name__}/{form}", data, durable=False)
            assert store.get(f"{write.__name__}/{form}") == expected, form
            assert store.head(f"{write.__name__}/{form}").size == len(expected), form


def test_put_replaces_the_whole_file(store: Store) -> None:
    store.put("d/f", b"a long first version")
    before = store.head("d/f")
    store.put("d/f", b"short")
    assert store.get("d/f") == b"short"
    assert store.head("d/f").size == 5
    assert store.head("d/f").etag != before.etag or before.etag is None


def test_a_note_is_found_again(store: Store) -> None:
    for note in (b"1", b'{"version": 12}', b"3"):
        store.note("d/hint", note)
        assert store.get("d/hint").rstrip() == note


def test_files_of_others_can_be_flushed(place: Backend, store: Store) -> None:
    store.put("d/one", b"1", durable=False)
    store.put("two", b"2", durable=False)
    assert store.flush(["d/one", "two"]) == (2 if place.name == "local-fsync" else 0)
    assert store.flush([]) == 0


def test_a_file_is_found_or_not(store: Store) -> None:
    assert store.find("d/f") is None
    store.put("d/f", b"x")
    assert store.find("d/f") == store.head("d/f")
    assert store.find("d") is None
    assert store.find("d/f/g") is None


def test_a_last_file_is_put_once_and_not_without_those_it_names(place: Backend, store: Store) -> None:
    store.put("d/one", b"1", durable=False)
    store.put_last("d/last", b"names one", ["d/one"])
    with pytest.raises(AlreadyExists):
        store.put_last("d/last", b"again", ["d/one"])
    assert store.get("d/last") == b"names one"
    if place.name == "local-fsync":
        with pytest.raises(NotFound):
            store.put_last("d/other", b"names none", ["d/none"])
        assert not store.exists("d/other")


RANGES = [
    (0, 4, b"0123"), (3, 4, b"3456"), (8, 10, b"89"), (0, 10, b"0123456789"), (0, 99, b"0123456789"),
    (10, 1, b""), (50, 5, b""), (2, 0, b""), (-3, 3, b"789"), (-3, 2, b"78"), (-3, 99, b"789"),
    (-10, 10, b"0123456789"), (-50, 4, b"0123"), (-50, 99, b"0123456789"), (-1, 0, b""),
]  # fmt: skip


def test_ranges(store: Store) -> None:
    store.put("ten", b"0123456789")
    store.put("none", b"")
    for start, length, expected in RANGES:
        assert store.get_range("ten", start, length) == expected, (start, length)
        assert store.get_range("none", start, length) == b"", (start, length)


def test_a_negative_length_is_refused(store: Store) -> None:
    store.put("f", b"abc")
    with pytest.raises(InvalidInput):
        store.get_range("f", 0, -1)


def test_head_knows_size_and_storage_time(store: Store) -> None:
    store.put("f", b"abc")
    info = store.head("f")
    assert (info.path, info.size) == ("f", 3)
    assert info.modified.utcoffset() == timedelta(0)
    assert abs(info.modified - datetime.now(UTC)) < timedelta(minutes=5)
    assert [listed.modified for listed in store.list()] == [info.modified]
    assert [listed.size for listed in store.list()] == [3]


def test_what_is_missing_is_not_found(store: Store) -> None:
    store.put("dir/file", b"x")
    for missing in ("none", "dir/none", "none/none", "dir", "dir/file/below"):
        for read in (
            store.get,
            store.head,
            lambda path: store.get_range(path, 0, 1),
            lambda path: store.get_range(path, 0, 0),
        ):
            with pytest.raises(NotFound):
                read(missing)
        assert not store.exists(missing)
        store.delete(missing)
    assert store.get("dir/file") == b"x"
    for verb in ("copy", "copy_if_absent", "rename_if_absent"):
        with pytest.raises(NotFound) as refused:
            getattr(store, verb)("dir/none", "target")
        assert refused.value.path.endswith("dir/none")
        with pytest.raises(NotFound):
            getattr(store, verb)("dir", "target")
    assert paths(store) == ["dir/file"]


def test_a_deleted_name_is_free(store: Store) -> None:
    store.put_if_absent("d/f", b"1")
    store.delete("d/f")
    assert not store.exists("d/f")
    assert paths(store) == []
    store.put_if_absent("d/f", b"2")
    assert store.get("d/f") == b"2"


@pytest.mark.parametrize("content", [b"", b"content", b"x" * 3_000_000], ids=["empty", "small", "3MB"])
def test_copies_are_whole_and_independent(store: Store, content: bytes) -> None:
    store.put("a/source", content)
    store.copy("a/source", "b/over")
    store.copy("a/source", "b/over")
    store.copy_if_absent("a/source", "c/new")
    store.put("a/source", b"changed")
    assert store.get("b/over") == store.get("c/new") == content
    store.delete("a/source")
    assert store.get("b/over") == store.get("c/new") == content


def test_copy_overwrites(store: Store) -> None:
    store.put("source", b"new")
    store.put("target", b"something older")
    store.copy("source", "target")
    assert store.get("target") == store.get("source") == b"new"
    store.copy("source", "source")
    assert store.get("source") == b"new"


@pytest.mark.parametrize("verb", ["copy_if_absent", "rename_if_absent"])
def test_a_taken_target_stays_and_so_does_the_source(store: Store, verb: str) -> None:
    store.put("d/source", b"new")
    store.put("d/target", b"old")
    with pytest.raises(AlreadyExists) as refused:
        getattr(store, verb)("d/source", "d/target")
    assert refused.value.path.endswith("d/target")
    assert store.get("d/target") == b"old"
    assert store.get("d/source") == b"new"
    with pytest.raises(AlreadyExists):
        getattr(store, verb)("d/source", "d/source")
    assert store.get("d/source") == b"new"


def test_rename_moves(store: Store) -> None:
    store.put("staging/source", b"bytes")
    store.rename_if_absent("staging/source", "final/target")
    assert store.get("final/target") == b"bytes"
    assert paths(store) == ["final/target"]


TREE = ["a", "a-1", "a.b", "d/a", "d/a-1", "d/a.b", "d/b", "d/b1/x", "d/b1/y/z", "d/c", "da/x", "e/f/g/h", "é", "z"]


@pytest.fixture
def tree(store: Store) -> Store:
    for path in reversed(TREE):
        store.put_if_absent(path, path.encode())
    return store


def assert_ordered_within_directories(found: list[str]) -> None:
    by_directory: dict[str, list[str]] = {}
    for path in found:
        by_directory.setdefault(path.rpartition("/")[0], []).append(path)
    for names in by_directory.values():
        assert names == sorted(names, key=str.encode)


def test_listing_everything(tree: Store) -> None:
    found = paths(tree)
    assert sorted(found) == sorted(TREE)
    assert_ordered_within_directories(found)
    assert {info.path: info.size for info in tree.list()} == {path: len(path.encode()) for path in TREE}


def test_listing_a_directory(tree: Store) -> None:
    below = [path for path in TREE if path.startswith("d/")]
    assert sorted(paths(tree, "d")) == below
    assert_ordered_within_directories(paths(tree, "d"))
    assert paths(tree, "d", recursive=False) == ["d/a", "d/a-1", "d/a.b", "d/b", "d/c"]
    assert paths(tree, "", recursive=False) == ["a", "a-1", "a.b", "z", "é"]
    assert paths(tree, "d/b1/y") == ["d/b1/y/z"]
    assert paths(tree, "e/f") == ["e/f/g/h"]
    assert paths(tree, "e", recursive=False) == []


def test_names_are_those_of_the_files_of_one_directory(tree: Store) -> None:
    assert list(tree.names("d")) == ["a", "a-1", "a.b", "b", "c"]
    assert list(tree.names()) == ["a", "a-1", "a.b", "z", "é"]
    assert list(tree.names("e")) == []
    assert list(tree.names("none")) == []


def test_folders_lead_to_everything(tree: Store) -> None:
    assert tree.folders("none") in ([], None)
    a_file = next(tree.list()).path
    assert tree.folders(a_file) in ([], None)
    assert tree.folders(f"{a_file}/none") in ([], None)
    found, folders = list[str](), [""]
    while folders:
        folder = folders.pop()
        inside = tree.folders(folder)
        found += paths(tree, folder, recursive=inside is None)
        folders += inside or []
    assert sorted(found) == sorted(TREE)


def test_listing_nothing(tree: Store) -> None:
    for nothing in ("none", "d/none", "d/a", "da/x/y"):
        assert paths(tree, nothing) == paths(tree, nothing, recursive=False) == []
    with pytest.raises(InvalidInput):
        tree.list("d/")


def test_start_after_leaves_out_what_comes_before_in_that_directory_only(tree: Store) -> None:
    direct = ["d/a", "d/a-1", "d/a.b", "d/b", "d/c"]
    for start_after in ("d/0", *direct, "d/a.a", "d/bb", "d/z"):
        left = [path for path in direct if path > start_after]
        assert paths(tree, "d", start_after=start_after, recursive=False) == left
        everything = paths(tree, "d", start_after=start_after)
        assert sorted(everything) == sorted([*left, "d/b1/x", "d/b1/y/z"])
        assert_ordered_within_directories(everything)


def test_start_after_in_the_root(tree: Store) -> None:
    assert paths(tree, start_after="a.b", recursive=False) == ["z", "é"]


def test_start_after_must_lie_in_the_directory(store: Store) -> None:
    for elsewhere in ("a", "da/x", "d/b1/x", "../d/a", "d"):
        with pytest.raises(InvalidInput):
            store.list("d", start_after=elsewhere)


def test_listings_longer_than_a_page(place: Backend, store: Store) -> None:
    count = 1100 if place.name != "moto" else 1010  # S3 pages have 1000 names
    names = [f"d/{number:020d}.manifest" for number in range(count)]
    store.put_many(dict.fromkeys(names, b"x"), durable=False)
    assert paths(store, "d") == paths(store, "d", recursive=False) == names
    assert paths(store, "d", start_after=names[1003], recursive=False) == names[1004:]


def test_a_listing_may_be_left_early(tree: Store) -> None:
    assert next(iter(tree.list("d"))).path == "d/a"


def test_names_are_literal(store: Store) -> None:
    for name in ODD_NAMES:
        store.put_if_absent(f"odd/{name}", name.encode())
    for name in ODD_NAMES:
        assert store.get(f"odd/{name}") == name.encode()
    assert sorted(paths(store)) == sorted(f"odd/{name}" for name in ODD_NAMES)
    store.copy_if_absent("odd/a%20b", "odd/copy of a%20b #1")
    assert store.get("odd/copy of a%20b #1") == b"a%20b"
    for name in ODD_NAMES:
        store.delete(f"odd/{name}")
    assert paths(store) == ["odd/copy of a%20b #1"]


def test_what_is_no_path_and_no_content_is_named(store: Store) -> None:
    for wrong in (None, 5, b"f", ["f"]):
        for verb in (store.get, store.head, store.exists, store.delete):
            with pytest.raises(InvalidInput, match="path"):
                verb(wrong)  # type: ignore[arg-type]
    for content in ("text", None, 5, ["text"], {1: b""}):
        for write in (store.put, store.put_if_absent):
            with pytest.raises(InvalidInput, match="content of a file"):
                write("f", content)  # type: ignore[arg-type]
    assert paths(store) == []


def test_parts_that_no_file_can_have_are_named_or_empty(store: Store) -> None:
    store.put("f", b"0123456789")
    for wrong in (None, "1", 1.5, True):
        for part in ((wrong, 1), (1, wrong)):
            with pytest.raises(InvalidInput, match="of a part"):
                store.get_range("f", *part)
    with pytest.raises(InvalidInput, match="-1 bytes"):
        store.get_range("f", 0, -1)
    for far in (2**63 - 1, 2**63, 2**64, 2**70):
        assert store.get_range("f", far, 5) == store.get_range("f", far, far) == b""
        assert store.get_range("f", 7, far) == b"789"
        assert store.get_range("f", -far, 3) == b"012"


def test_bad_paths_are_refused_before_any_io(store: Store) -> None:
    store.put("good", b"untouched")
    for bad in BAD_PATHS:
        assert_refused(store, bad)
    assert paths(store) == ["good"]
    assert store.get("good") == b"untouched"


def assert_refused(store: Store, bad: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get(bad),
        lambda: store.get_range(bad, 0, 1),
        lambda: store.head(bad),
        lambda: store.exists(bad),
        lambda: store.put(bad, b"x"),
        lambda: store.put_if_absent(bad, b"x"),
        lambda: store.copy("good", bad),
        lambda: store.copy("missing", bad),
        lambda: store.copy_if_absent("missing", bad),
        lambda: store.rename_if_absent("missing", bad),
        lambda: store.copy(bad, "target"),
        lambda: store.copy_if_absent("good", bad),
        lambda: store.copy_if_absent(bad, "target"),
        lambda: store.rename_if_absent("good", bad),
        lambda: store.rename_if_absent(bad, "target"),
        lambda: store.delete(bad),
        lambda: store.get_many(["good", bad]),
        lambda: store.put_many({bad: b"x"}),
    ]
    if bad:
        calls += [lambda: store.list(bad), lambda: store.list("", start_after=bad), lambda: store.native_uri(bad)]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()


def test_empty_directories_can_be_removed_and_come_back(store: Store) -> None:
    store.put("a/b/c", b"kept")
    store.put("a/x/y/z", b"gone")
    store.delete("a/x/y/z")
    store.prune("a")
    store.prune("none")
    store.sweep(timedelta(hours=1))
    assert paths(store) == ["a/b/c"]
    store.put_if_absent("a/x/y/z", b"again")
    assert store.get("a/x/y/z") == b"again"


def test_many_at_once(store: Store) -> None:
    files = {f"m/{number}": b"%d" % number for number in range(40)}
    store.put_many(files)
    assert list(store.get_many(reversed(files))) == list(reversed(files.values()))
    assert list(store.get_many([])) == []
    store.put_many({})
    with pytest.raises(AlreadyExists):
        store.put_many({"m/new": b"n", "m/7": b"other"})
    assert store.get("m/7") == b"7"
    with pytest.raises(NotFound):
        store.get_many(["m/1", "m/none"])


@pytest.mark.parametrize("verb", ["put_if_absent", "copy_if_absent", "rename_if_absent"])
def test_of_many_creators_one_wins(place: Backend, verb: str) -> None:
    # All rounds at the same time, each with a start of its own: SeaweedFS takes seconds for one.
    writers, rounds = 8, 3
    handles = [place.open() for _ in range(writers)]
    everybody = [threading.Barrier(writers) for _ in range(rounds)]

    def race(number: int, writer: int) -> bool:
        store = handles[writer]
        mine = f"writer {writer} round {number}".encode() * 100
        if verb != "put_if_absent":
            store.put(f"staged/{writer}-{number}", mine)
        everybody[number].wait(60)
        try:
            if verb == "put_if_absent":
                store.put_if_absent(f"final/{number}", mine)
            else:
                getattr(store, verb)(f"staged/{writer}-{number}", f"final/{number}")
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(writers * rounds) as pool:
        results = [[pool.submit(race, number, writer) for writer in range(writers)] for number in range(rounds)]
    for number in range(rounds):
        winners = [writer for writer in range(writers) if results[number][writer].result()]
        assert len(winners) == 1
        assert handles[0].get(f"final/{number}") == f"writer {winners[0]} round {number}".encode() * 100


def test_what_one_handle_wrote_every_other_sees(place: Backend) -> None:
    writer, reader = place.open(), place.open()
    for number in range(20):
        writer.put_if_absent(f"d/{number:02}", b"%d" % number)
        assert reader.exists(f"d/{number:02}")
        assert reader.get(f"d/{number:02}") == b"%d" % number
        assert paths(reader, "d")[-1] == f"d/{number:02}"
        with pytest.raises(AlreadyExists):
            reader.put_if_absent(f"d/{number:02}", b"other")
    writer.delete("d/07")
    assert not reader.exists("d/07")
    assert "d/07" not in paths(reader, "d")


def test_no_reader_sees_part_of_an_overwrite(place: Backend) -> None:
    if place.name == "hdfs":
        pytest.skip("HDFS cannot replace a file at once: for a moment there is none")
    writer, reader = place.open(), place.open()
    versions = {bytes([letter]) * (200_000 + letter) for letter in b"abc"}
    writer.put("f", min(versions))
    done = threading.Event()

    def overwrite() -> int:
        writes = 0
        while not done.is_set() or not writes:
            for version in versions:
                writer.put("f", version, durable=False)
                writes += 1
        return writes

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(overwrite)
        try:
            for _ in range(30):
                assert reader.get("f") in versions
        finally:
            done.set()
        assert writing.result() > 0


@pytest.mark.parametrize("name", BY_ADDRESS + REACHABLE)
def test_the_address_leads_back_and_holds_no_secret(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = backend(name, tmp_path, request)
    store = place.open()
    store.put("d/f", b"found")
    for secret in (value for name, value in place.options.items() if "key" in name or "token" in name):
        assert secret not in store.uri
        assert secret not in repr(store)
    assert open_store(store.uri, **place.options).get("d/f") == b"found"


@pytest.mark.parametrize("name", [name for name in BY_ADDRESS + REACHABLE if name != "hdfs"])
def test_native_readers_and_writers_find_the_same_files(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = backend(name, tmp_path, request).open()
    table = pa.table({"x": list(range(10))})
    where = "tables of 100%/t#1.lance"
    lance.write_dataset(table, store.native_uri(where), storage_options=dict(store.native_options))
    files = paths(store, where)
    assert sum(path.startswith(f"{where}/data/") for path in files) == 1
    assert sum(path.startswith(f"{where}/_versions/") and path.endswith(".manifest") for path in files) == 1
    for path in files:
        store.copy(path, path.replace("t#1", "copy"))
    copied = lance.dataset(store.native_uri("tables of 100%/copy.lance"), storage_options=dict(store.native_options))
    assert copied.to_table() == table
