"""Exports: a copy is a lake of its own, plain readers and writers know it, and the lake remembers what it shares."""

import hashlib
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import AlreadyExists, Corrupt, InvalidInput, Lake, NotFound, PermissionDenied, Unavailable
from seiche.lake.export import copying, export
from seiche.lake.export.copying import FOLDER, LIST, read_list
from seiche.lake.export.items import Item
from seiche.lake.export.records import Export
from seiche.lake.export.target import claim, open_target
from seiche.lake.objects.rows import TableRow
from seiche.store import open_store
from seiche.store.base import Store
from seiche.store.local import LocalStore
from seiche.store.paths import join
from seiche.table.change import Change
from seiche.table.format import file
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.format.manifest_pb2 import DataFile, DataFragment
from seiche.table.operations import Append
from seiche.table.versions.naming import Naming
from tests.unit.lake.conftest import ids, rows
from tests.unit.lake.test_foreign import foreign_append
from tests.unit.lake.test_gc import LakeRead, manifest_fragment

# The version that the tag names.
EARLY = 6


@pytest.fixture
def full(lake: Lake, tmp_path: Path) -> Lake:
    """A lake with what an export can meet: several versions, deletions, an index, a tag, a view, a dropped table, and
    a table that has files of another one.
    """
    lake.table("shop.a").append(rows(*range(100)))
    lake.create_table("shop.gone", rows().schema)
    lake.table("shop.gone").append(rows(9))
    lake.tag("early")
    lake.table("shop.gone").append(rows(10))
    lake.drop_table("shop.gone")
    lake.table("shop.a").delete("id < 10")
    lake.table("shop.a").create_index("id", "BTREE")
    lake.run(lambda tx: tx.create_view("shop.v", "SELECT 1"))
    share(lake, "shop.a", "shop.b")
    return lake


def share(lake: Lake, source: str, target: str) -> None:
    """Give a table rows that stay in the files of another, as a shallow clone does."""
    fragment = manifest_fragment(lake, source)
    lake.table(target).add_bases({"path": lake.table(source).to_lance().uri, "is_dataset_root": True})
    moved = DataFragment(physical_rows=fragment.physical_rows)
    for one in fragment.files:
        made = DataFile()
        made.CopyFrom(one)
        made.base_id = LakeRead(lake, target).header.base_paths[-1].id
        moved.files.append(made)
    with lake.transaction() as tx:
        tx.table(target).apply(Change(Append((moved,)), rows=fragment.physical_rows))


def moved(copy: Path, original: Lake) -> Lake:
    """The copy under another address, the lake that it was made from gone."""
    shutil.rmtree(original.store.native_uri())
    return seiche.open(str(shutil.move(copy, copy.with_name("moved"))))


def test_a_full_export_moved_elsewhere_is_a_whole_lake_without_the_original(full: Lake, tmp_path: Path) -> None:
    version, expected, tags = full.version, ids(full, "shop.a"), full.tags()
    made = full.export("nightly", str(tmp_path / "copy"))
    assert (made.name, made.version, made.mode, made.done) == ("nightly", version, "full", True)
    assert made.location == f"file://{tmp_path}/copy"
    copy = moved(tmp_path / "copy", full)
    assert copy.version == version
    assert ids(copy, "shop.a") == expected == list(range(10, 100))
    assert ids(copy, "shop.b") == list(range(100)), "files of the other table came along"
    assert not LakeRead(copy, "shop.b").header.base_paths
    assert copy.table("shop.a").to_arrow(filter="id = 42").num_rows == 1
    assert [one.name for one in copy.table("shop.a").to_lance().describe_indices()] == ["id_idx"]
    assert copy.tables("shop") == [("shop", "a"), ("shop", "b"), ("shop", "v")]
    assert copy.tags() == tags, "made when they were made, not when they were exported"
    assert {name: one.version for name, one in tags.items()} == {"early": EARLY}
    early = seiche.open(copy.uri, version="early")
    assert (ids(early, "shop.gone"), ids(early, "shop.a")) == ([9], list(range(100)))
    assert copy.fsck(deep=True).problems == ()
    assert copy.gc().unneeded == ()
    assert copy.exports() == {}


def test_a_copy_goes_on_as_a_lake(full: Lake, tmp_path: Path) -> None:
    full.export("nightly", str(tmp_path / "copy"))
    copy = moved(tmp_path / "copy", full)
    version = copy.version
    with copy.transaction() as tx:
        tx.append("shop.a", rows(1000))
        tx.append("shop.b", rows(1001))
    assert copy.version == version + 1
    copy.rollback("early", tables=["shop.gone"])
    assert ids(copy, "shop.gone") == [9]
    copy.table("shop.a").compact()
    copy.untag("early")
    copy.expire(older_than=0, keep=1)
    copy.gc(dry_run=False, grace=0, window=0)
    assert copy.fsck(deep=True).problems == ()
    assert ids(copy, "shop.a") == [*range(10, 100), 1000]
    with pytest.raises(NotFound, match=r"does not exist|expired"):
        seiche.open(copy.uri, version=1)


def test_the_past_of_a_copy_begins_with_its_first_version(full: Lake, tmp_path: Path) -> None:
    before = full.log()[0].time
    full.untag("early")
    version = full.version
    full.export("nightly", str(tmp_path / "copy"))
    copy = seiche.open(str(tmp_path / "copy"))
    assert [one.version for one in copy.log()] == [version]
    assert len(list(copy.store.list(recursive=False))) == 4, "one root, a definition, two hints"
    copy.create_namespace("x")
    assert [one.version for one in copy.log()] == [one.version for one in copy.log()[:]] == [version + 1, version]
    for moment in (before - timedelta(days=1), datetime(2001, 1, 1, tzinfo=UTC)):
        with pytest.raises(NotFound):
            seiche.open(copy.uri, as_of=moment)
    for hint in ("_latest_hint", "_oldest"):
        copy.store.delete(hint)
    assert seiche.open(copy.uri).version == version + 1, "found without any hint"
    assert copy.fsck().ok


def test_a_root_that_a_copy_lost_is_still_found_missing(full: Lake, tmp_path: Path) -> None:
    full.export("nightly", str(tmp_path / "copy"))
    copy = seiche.open(str(tmp_path / "copy"))
    copy.store.delete(copy.states.at(EARLY).root.name)
    assert copy.fsck().kinds() == {"root.missing"}


def test_a_tagged_version_of_before_a_release_is_copied_with_the_table_that_was_the_lakes_own_then(
    lake: Lake, tmp_path: Path
) -> None:
    """Of a table that was released and forgotten only the tag was left, and there could be no export any more."""
    lake.table("shop.a").append(rows(1))
    lake.table("shop.b").append(rows(2))
    lake.tag("early")
    lake.release("shop.a", drop=True)
    lake.export("nightly", str(tmp_path / "copy"))
    copy = moved(tmp_path / "copy", lake)
    assert (copy.tables(), ids(copy, "shop.b")) == ([("shop", "b")], [2])
    early = seiche.open(copy.store, version="early")
    assert (ids(early, "shop.a"), ids(early, "shop.b")) == ([1], [2])
    assert copy.fsck(deep=True).kinds() == set()


def test_a_version_by_time(full: Lake, tmp_path: Path) -> None:
    time = full.log()[-1 - EARLY].time
    assert full.export("old", str(tmp_path / "copy"), version=time).version == full.states.as_of(time)


@pytest.mark.parametrize("wanted", [EARLY, "early", "before"])
def test_any_version_can_be_exported(full: Lake, tmp_path: Path, wanted: int | str) -> None:
    full.export("before", str(tmp_path / "first"), version=EARLY)
    made = full.export("old", str(tmp_path / "copy"), version=wanted)
    assert made.version == EARLY
    copy = seiche.open(str(tmp_path / "copy"))
    assert copy.version == EARLY
    assert (ids(copy, "shop.a"), ids(copy, "shop.gone")) == (list(range(100)), [9])


def test_plain_pylance_reads_and_writes_a_table_of_a_copy(full: Lake, tmp_path: Path) -> None:
    full.export("nightly", str(tmp_path / "copy"))
    copy = moved(tmp_path / "copy", full)
    uri = copy.table("shop.a").uri
    plain = lance.dataset(uri)
    assert sorted(plain.to_table()["id"].to_pylist()) == list(range(10, 100))
    published = [info.path for info in copy.store.list() if "/_versions/" in info.path and "hint" not in info.path]
    for path in published:
        header = file.decode(copy.store.get(path), path=path).manifest.header
        assert not header.writer_feature_flags & SEICHE_FENCE, path
    assert len(published) >= 7, "also of versions that only a tag needs, and of those between"
    lance.write_dataset(rows(500), uri, mode="append")
    assert lance.dataset(uri).count_rows() == 91
    copy.table("shop.a").append(rows(501))
    with pytest.raises(Corrupt, match="adopt"):
        copy.table("shop.a").append(rows(502))
    copy.adopt("shop.a")
    assert ids(copy, "shop.a") == [*range(10, 100), 500, 501]
    with pytest.raises(OSError, match="cannot be written"):
        lance.write_dataset(rows(503), uri, mode="append")


def test_only_some_tables(full: Lake, tmp_path: Path) -> None:
    made = full.export("one", str(tmp_path / "copy"), tables=["shop.a"])
    assert made.tables == (("shop", "a"),)
    copy = moved(tmp_path / "copy", full)
    assert copy.tables("shop") == [("shop", "a"), ("shop", "v")]
    assert ids(copy, "shop.a") == list(range(10, 100))
    assert ids(seiche.open(copy.uri, version="early"), "shop.a") == list(range(100))
    assert copy.fsck(deep=True).problems == ()
    assert copy.gc().unneeded == ()
    assert not any("gone" in info.path or "/b-" in info.path for info in copy.store.list())


def test_the_name_opens_the_version_and_is_taken(full: Lake, tmp_path: Path) -> None:
    version = full.version
    full.export("nightly", str(tmp_path / "copy"), tables="shop.a")
    full.table("shop.a").append(rows(1000))
    assert seiche.open(full.uri, version="nightly").version == version
    assert list(full.exports()) == ["nightly"]
    for taken in ("nightly", "early"):
        with pytest.raises(AlreadyExists, match=taken):
            full.export(taken, str(tmp_path / "other"))
        with pytest.raises(AlreadyExists, match=taken):
            full.tag(taken)
    assert not (tmp_path / "other").exists()
    full.unexport("nightly")
    full.tag("nightly")
    with pytest.raises(NotFound, match="no export"):
        full.unexport("nightly")
    full.rollback(version)
    assert "nightly" in full.tags()


def test_a_finished_export_is_not_made_again_in_silence(lake: Lake, tmp_path: Path) -> None:
    target = str(tmp_path / "copy")
    made = lake.export("x", target)
    with pytest.raises(AlreadyExists, match="finished"):
        lake.export("x", target)
    assert lake.export("x", target, version=made.version) == made, "whoever names the version asks whether it is there"
    for other in ({"version": 1}, {"version": made.version, "tables": ["shop.a"]}):
        with pytest.raises(AlreadyExists):
            lake.export("x", target, **other)


def test_a_place_that_is_something_else_is_left_alone(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("dear diary")
    version = lake.version
    with pytest.raises(AlreadyExists, match="diary"):
        lake.export("x", str(tmp_path / "full"))
    other = seiche.create(str(tmp_path / "other"))
    with pytest.raises(AlreadyExists, match="not empty"):
        lake.export("x", other.uri)
    for inside in (lake.uri, f"{lake.uri}/copy", f"file://{tmp_path}"):
        with pytest.raises(InvalidInput, match="inside"):
            lake.export("x", inside)
    assert lake.version == version, "nothing was recorded"
    lake.export("x", str(tmp_path / "copy"))
    version = lake.version
    with pytest.raises(AlreadyExists, match="another export"):
        lake.export("y", str(tmp_path / "copy"))
    assert lake.version == version


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "some"},
        {"mode": "partial"},
        {"mode": "minimal", "tables": ["shop.a"]},
        {"tables": ["shop.nothing"]},
        {"tables": ["nonsense name"]},
        {"version": 99},
        {"version": "nothing"},
    ],
)
def test_nonsense_is_refused_before_anything_is_written(lake: Lake, tmp_path: Path, wrong: dict[str, object]) -> None:
    version = lake.version
    with pytest.raises((InvalidInput, NotFound)):
        lake.export("x", str(tmp_path / "copy"), **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        lake.export("12", str(tmp_path / "copy"))
    assert lake.version == version
    assert not (tmp_path / "copy").exists()


def test_a_place_inside_of_the_lake_is_refused_also_if_it_is_called_otherwise(lake: Lake, tmp_path: Path) -> None:
    """A clean-up would find the copy among its own files, and whoever removes the lake would remove its copy."""
    (tmp_path / "link").symlink_to(lake.store.native_uri())
    for place in (Path(lake.store.native_uri()), tmp_path / "link", tmp_path / "link" / ".." / "link"):
        with pytest.raises(InvalidInput, match="lie inside of each other"):
            lake.export("x", place / "copy")
    assert lake.exports() == {}
    open_target(f"{lake.uri}-copy", lake.store)  # beside it, though its name begins alike


def test_of_two_exports_that_come_to_a_place_at_once_one_gets_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*given: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(export, "claim", claim)
            lake.export("first", str(tmp_path / "copy"))
        claim(*given)

    monkeypatch.setattr(export, "claim", late)
    with pytest.raises(AlreadyExists, match="another export"):
        lake.export("second", str(tmp_path / "copy"))
    assert list(lake.exports()) == ["first"]


def test_a_place_that_cannot_be_one_leaves_no_export_behind(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="Not a directory"):
        lake.export("x", tmp_path / "file")
    assert lake.exports() == {}

    def refused(*_: object) -> None:
        raise failure

    monkeypatch.setattr(export, "claim", refused)
    failure: Exception = PermissionDenied("no right to write there")
    with pytest.raises(PermissionDenied):
        lake.export("x", tmp_path / "copy")
    assert lake.exports() == {}
    for failure in (Unavailable("no answer"), PermissionDenied("the right is gone")):
        with pytest.raises(type(failure)):
            lake.export("x", tmp_path / "copy")
        assert list(lake.exports()) == ["x"], "one that was begun earlier may have copied much"
    monkeypatch.undo()
    assert lake.export("x", tmp_path / "copy").done


def test_the_list_proves_every_file(full: Lake, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    full.export("nightly", str(tmp_path / "copy"), progress=lambda what, done: told.append((what, done)))
    copy = seiche.open(str(tmp_path / "copy"))
    listed = {one.path: one for one in read_list(copy.store)}
    there = {info.path: info.size for info in copy.store.list()}
    hints = {path for path in there if "hint" in path or path == "_oldest" or path.startswith(FOLDER)}
    assert there.keys() - hints == listed.keys()
    assert all(there[path] == one.size for path, one in listed.items())
    assert LIST in there
    whats = [what for what, _ in told]
    assert whats[0] == "looking at versions"
    assert {"copying files", "verifying files"} <= set(whats)


def test_a_file_that_arrives_damaged_is_no_export(full: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was damaged can be made good by running it again."""
    target = seiche.store.open_store(str(tmp_path / "copy"))
    write = type(target).put_stream
    damaged: list[str] = []

    def put_stream(self: object, path: str, chunks: object) -> None:
        write(self, path, chunks)  # type: ignore[arg-type]
        if "/data/" in path and not damaged:
            damaged.append(path)
            found = (tmp_path / "copy" / path).read_bytes()
            (tmp_path / "copy" / path).write_bytes(found[:-1] + bytes([found[-1] ^ 1]))

    monkeypatch.setattr(type(target), "put_stream", put_stream)
    monkeypatch.setattr(copying, "LocalStore", type("NotHere", (), {}))  # as from or to another kind of storage
    with pytest.raises(Corrupt, match="arrived"):
        full.export("nightly", target)
    with pytest.raises(NotFound):
        seiche.open(str(tmp_path / "copy"))
    assert not full.exports()["nightly"].done
    full.export("nightly", target)
    assert seiche.open(str(tmp_path / "copy")).fsck(deep=True).ok


def test_a_missing_file_stops_it(full: Lake, tmp_path: Path) -> None:
    row: TableRow = full.table("shop.a").row
    for info in full.store.list(f"{row.location}/data"):
        full.store.delete(info.path)
    with pytest.raises((NotFound, Corrupt), match="missing"):
        full.export("nightly", str(tmp_path / "copy"))
    with pytest.raises(NotFound):
        seiche.open(str(tmp_path / "copy"))


def test_a_staged_manifest_that_is_not_the_decided_one_stops_it(full: Lake, tmp_path: Path) -> None:
    row: TableRow = full.table("shop.a").row
    assert row.manifest is not None
    path = f"{row.location}/{row.manifest.path}"
    full.store.put(path, full.store.get(path)[:-20] + b"x" * 20)
    with pytest.raises(Corrupt, match="decided on"):
        full.export("nightly", str(tmp_path / "copy"))


def test_a_foreign_commit_stays_behind(lake: Lake, tmp_path: Path) -> None:
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 7)
    lake.export("x", str(tmp_path / "copy"))
    assert ids(seiche.open(str(tmp_path / "copy")), "shop.a") == [1]


def test_an_earlier_version_is_exported_without_what_was_tagged_since(lake: Lake, tmp_path: Path) -> None:
    lake.table("shop.a").append(rows(1))
    version = lake.tag("before")
    lake.table("shop.a").append(rows(2))
    lake.tag("after")
    assert lake.export("x", str(tmp_path / "copy"), version="before").versions == [version]
    copy = seiche.open(str(tmp_path / "copy"))
    assert (copy.version, ids(copy, "shop.a")) == (version, [1])
    assert list(copy.tags()) == ["before"]
    assert copy.fsck().problems == ()


def test_while_it_runs_everything_is_pinned_and_when_it_is_done_nothing(full: Lake, tmp_path: Path) -> None:
    version = full.version
    whys: list[tuple[str, ...]] = []

    def look(_what: str, _done: int) -> None:
        plan = seiche.open(full.uri).expire(older_than=0, keep=1, dry_run=True)
        whys.extend((plan.why(EARLY), plan.why(version)))

    full.export("nightly", str(tmp_path / "copy"), progress=look)
    assert all("export nightly, which is not finished, needs it" in why for why in whys)
    assert all("tag early needs it" in why for why in whys[::2])
    plan = full.expire(older_than=0, keep=1, dry_run=True)
    assert plan.why(EARLY) == ("tag early needs it",)
    assert version in plan.versions


class _Died(BaseException):
    pass


def test_an_export_does_not_finish_another_that_has_got_its_name(full: Lake, tmp_path: Path) -> None:
    """The other is believed to be complete else, and what it has not copied yet is held no longer."""
    other = seiche.open(full.store)

    def die(what: str, _done: int) -> None:
        if what != "looking at versions":
            raise _Died

    def taken(what: str, _done: int) -> None:
        if what == "looking at versions":
            other.unexport("nightly")
            other.table("shop.a").append(rows(1000))
            with pytest.raises(_Died):
                other.export("nightly", tmp_path / "second", progress=die)

    with pytest.raises(Unavailable, match="was forgotten while it was made"):
        full.export("nightly", tmp_path / "first", progress=taken)
    assert not full.exports()["nightly"].done
    assert full.export("nightly", tmp_path / "second").done
    assert 1000 in ids(seiche.open(tmp_path / "second"), "shop.a")


def test_an_export_without_a_place_does_not_forget_another_that_has_got_its_name(
    full: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = seiche.open(full.store)

    def late(*given: Any) -> None:
        monkeypatch.setattr(export, "claim", claim)
        other.unexport("nightly")
        other.export("theirs", tmp_path / "first")
        other.export("nightly", tmp_path / "second")
        claim(*given)

    monkeypatch.setattr(export, "claim", late)
    with pytest.raises(AlreadyExists, match="first"):
        full.export("nightly", tmp_path / "first")
    assert full.exports()["nightly"].location == open_store(str(tmp_path / "second")).uri


def test_an_export_that_two_go_on_with_is_finished_once(full: Lake, tmp_path: Path) -> None:
    other = seiche.open(full.store)
    made: list[Export] = []

    def beside(what: str, _done: int) -> None:
        if what == "looking at versions":
            made.append(other.export("nightly", tmp_path / "copy"))

    assert [full.export("nightly", tmp_path / "copy", progress=beside)] == made
    assert full.exports()["nightly"].done


def test_hashes_are_of_what_was_read(full: Lake, tmp_path: Path) -> None:
    made = copying.hashed(Item("x", lambda: iter((b"ab", b"c"))))
    assert (made.size, made.sha256[:8]) == (3, "ba7816bf")


def test_an_empty_lake(tmp_path: Path) -> None:
    lake = seiche.create(str(tmp_path / "lake"))
    lake.export("x", str(tmp_path / "copy"))
    copy = moved(tmp_path / "copy", lake)
    copy.create_namespace("shop")
    copy.create_table("shop.a", pa.schema([("id", pa.int64())]))
    assert copy.fsck().problems == ()


@pytest.mark.parametrize("mode", ["minimal", "partial"])
def test_what_is_not_copied_is_read_where_it_is(full: Lake, tmp_path: Path, mode: str) -> None:
    version, tables = full.version, ["shop.b"] if mode == "partial" else None
    full.export("small", str(tmp_path / "copy"), mode=mode, tables=tables)  # type: ignore[arg-type]
    copy = seiche.open(str(tmp_path / "copy"))
    assert {name: copy.table(name).row.type for name in ("shop.a", "shop.b")} == {
        "shop.a": "external",
        "shop.b": "managed" if mode == "partial" else "external",
    }
    assert copy.tags() == {}
    full.table("shop.a").delete("true")
    full.table("shop.a").compact()
    full.untag("early")
    plan = full.expire(older_than=0, keep=1)
    assert plan.why(version) == ("export small needs it",)
    full.gc(dry_run=False, grace=0, window=0)
    assert ids(copy, "shop.a") == list(range(10, 100)), "at the version that was exported"
    assert ids(copy, "shop.b") == list(range(100))
    copied = {info.path.split("/")[0] for info in copy.store.list() if "/" in info.path}
    assert ("tables" in copied) == (mode == "partial")
    with pytest.raises(InvalidInput, match="only be read"):
        copy.table("shop.a").append(rows(1))
    copy.create_table("shop.own", rows().schema)
    copy.table("shop.own").append(rows(1))
    assert copy.fsck().problems == ()
    full.unexport("small")
    full.expire(older_than=0, keep=1)
    full.gc(dry_run=False, grace=0, window=0)
    with pytest.raises((NotFound, Corrupt)):
        ids(copy, "shop.a")


def test_tables_of_others_stay_where_they_are(lake: Lake, tmp_path: Path) -> None:
    other = seiche.Table.create(str(tmp_path / "other.lance"), rows().schema)
    other.append(rows(1))
    lake.register_table("shop.ext", other.uri)
    lake.register_table("shop.fed", other.uri, type="federated")
    lake.export("x", str(tmp_path / "copy"))
    copy = moved(tmp_path / "copy", lake)
    copy.table("shop.fed").append(rows(2))
    assert ids(copy, "shop.ext") == ids(copy, "shop.fed") == [1, 2]


def test_an_export_that_was_left_is_told_by_health(lake: Lake, tmp_path: Path) -> None:
    def die(_what: str, _done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.export("x", str(tmp_path / "copy"), progress=die)
    (found,) = [one for one in lake.health().advice if one.about == "exports"]
    assert found.command == f"seiche export {lake.uri} x file://{tmp_path}/copy"
    lake.export("x", str(tmp_path / "copy"))
    assert not [one for one in lake.health().advice if one.about == "exports"]


def test_a_file_that_was_cut_off_after_it_was_copied_is_copied_again(lake: Lake, tmp_path: Path) -> None:
    def die(what: str, _done: int) -> None:
        if what == "copying files":
            raise KeyboardInterrupt

    lake.table("shop.a").append(rows(1))
    with pytest.raises(KeyboardInterrupt):
        lake.export("x", str(tmp_path / "copy"), progress=die)
    (data,) = (tmp_path / "copy").glob("tables/**/data/*.lance")
    data.write_bytes(data.read_bytes()[:-1])
    lake.export("x", str(tmp_path / "copy"))
    assert ids(seiche.open(str(tmp_path / "copy")), "shop.a") == [1]


def test_an_export_that_died_as_a_lake_gets_its_tags_and_nothing_that_was_cleared_away_there(
    full: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(export, "write_hint", die)
        with pytest.raises(KeyboardInterrupt):
            full.export("x", str(tmp_path / "copy"))
    data = next((tmp_path / "copy").glob("tables/**/data/*.lance"))
    data.unlink()
    full.export("x", str(tmp_path / "copy"))
    assert seiche.open(str(tmp_path / "copy"), version="early").version == EARLY
    assert not data.exists()


def test_what_a_copy_refers_to_is_published_first(lake: Lake, tmp_path: Path) -> None:
    """A copy knows the table by its address, as anybody else does."""
    lake.table("shop.a").append(rows(1))
    row = lake.table("shop.a").row
    lake.store.delete(join(row.location, Naming.V2.path(row.table_version)))
    lake.export("x", str(tmp_path / "copy"), mode="minimal")
    assert ids(seiche.open(str(tmp_path / "copy")), "shop.a") == [1]


@pytest.mark.parametrize("damage", ["changed", "longer", "shorter"])
def test_a_copy_from_disk_to_disk_is_compared_with_its_original(
    full: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A storage that changes bytes on the way is found at once; the next run makes up for it."""
    copy_from = LocalStore.copy_from

    def changing(self: LocalStore, source: Store, path: str, target: str) -> None:
        copy_from(self, source, path, target)
        if target.endswith(".lance") and "/data/" in target:
            data = self.get(target)
            changed = {"changed": bytes([data[0] ^ 1]) + data[1:], "longer": data + b"x", "shorter": data[:-1]}
            self.put(target, changed[damage])

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "copy_from", changing)
        with pytest.raises(Corrupt, match="something else than was sent"):
            full.export("x", str(tmp_path / "copy"))
    with pytest.raises(NotFound):
        seiche.open(str(tmp_path / "copy"))
    full.export("x", str(tmp_path / "copy"))
    assert seiche.open(str(tmp_path / "copy")).fsck(deep=True).problems == ()
    files = {one.path: one for one in read_list(open_store(str(tmp_path / "copy")))}
    for path, one in files.items():
        data = (tmp_path / "copy" / path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (one.size, one.sha256)
    assert len(files) >= 20


def test_values_that_stand_elsewhere_are_found_from_the_copy(tmp_path: Path) -> None:
    """Blobs given by an address are kept as the id of a base: the copy keeps that base, and no other."""
    (tmp_path / "media").mkdir()
    (tmp_path / "media/film").write_bytes(b"long")
    lake = seiche.create(str(tmp_path / "lake"), durability="os")
    lake.create_namespace("shop")
    table = lake.create_table("shop.films", pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")]))
    table.add_bases({"path": str(tmp_path / "media"), "name": "media"})
    table.add_bases({"path": str(tmp_path / "table"), "is_dataset_root": True})
    table.append([{"id": 1, "b": f"file://{tmp_path}/media/film"}, {"id": 2, "b": b"s" * 100_000}])
    lake.export("nightly", str(tmp_path / "copy"))
    copy = moved(tmp_path / "copy", lake)
    assert copy.fsck(deep=True).ok
    plain: Any = lance.dataset(copy.store.native_uri(copy.table("shop.films").row.location))
    live: Any = copy.table("shop.films").to_lance()
    for dataset in (live, plain):
        assert [one.readall() for one in dataset.take_blobs("b", indices=[0, 1])] == [b"long", b"s" * 100_000]
    assert [base.name for base in LakeRead(copy, "shop.films").header.base_paths] == ["media"]
    copy.table("shop.films").append([{"id": 3, "b": f"file://{tmp_path}/media/film"}])
    live = copy.table("shop.films").to_lance()
    assert live.take_blobs("b", indices=[2])[0].readall() == b"long"
