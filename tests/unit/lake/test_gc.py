"""What a clean-up takes and what it leaves, on real tables: by file and reason, with a way back."""

import os
from functools import partial
from pathlib import Path
from uuid import UUID

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import Corrupt, Lake, NotFound, Unavailable
from seiche.lake import adopt as adopt_module
from seiche.lake.care.gc import CleanUp, Files, collect
from seiche.lake.care.layout import Sort, place
from seiche.lake.care.path_set import PathSet
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.intent import Intent
from seiche.lake.objects.keys import TRASH, table_key
from seiche.lake.objects.rows import TableRow
from seiche.lake.saved import saved_path
from seiche.store.base import ObjectInfo, Store
from seiche.store.local import LocalStore
from seiche.table.change import Change
from seiche.table.data.shadow import Shadow
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Append
from seiche.table.versions.naming import Naming
from seiche.testing import Fault, SimulatedStore
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.past import put_row
from tests.unit.lake.test_foreign import foreign_append

DAY = 24 * 3600.0


def files(lake: Lake) -> set[str]:
    return {info.path for info in lake.store.list()}


def folder(lake: Lake) -> Path:
    return Path(lake.store.native_uri())


def location(lake: Lake, table: str) -> str:
    return lake.table(table).row.location


def at_once(lake: Lake, **options: object) -> CleanUp:
    """Everything that nothing needs, moved in one run."""
    return lake.gc(**{"dry_run": False, "grace": 0, **options})  # type: ignore[arg-type]


def older(lake: Lake, days: float, *folders: str) -> None:
    """Make files look as if they had been written so much earlier; those of clean-ups if nothing else is said.

    A file of another time is another file to a clean-up, so those that it is to take must be old from the beginning.
    """
    for name in folders or ("_noted", "_trash"):
        for path in (folder(lake) / name).rglob("*"):
            if path.is_file():
                when = path.stat().st_mtime - days * DAY
                os.utime(path, (when, when))


def lost(lake: Lake, table: str = "shop.b") -> str:
    """A data file of a transaction that never committed, long ago."""
    before = files(lake)
    tx = lake.transaction()
    tx.table(table).append(rows(77))
    tx.late.write()
    tx.rollback()
    (path,) = files(lake) - before
    os.utime(folder(lake) / path, (0, 0))
    return path


def test_nothing_to_do(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    before, version = files(lake), lake.version
    done = at_once(lake)
    assert (done.unneeded, done.foreign, done.unknown, done.closed, done.fence, done.run) == (
        (),
        (),
        (),
        {},
        None,
        None,
    )
    assert done.files == len(before)
    assert files(lake) == before
    assert lake.version == version, "with nothing to take there is no fence"


def test_a_dry_run_says_what_would_go_and_writes_nothing(lake: Lake) -> None:
    path = lost(lake)
    before, version = files(lake), lake.version
    plan = lake.gc(grace=0)
    assert [(one.path, one.sort, one.reason, one.fate) for one in plan.unneeded] == [
        (path, "data file", "no kept version leads to it", "moved")
    ]
    assert not plan.done
    plan = lake.gc()
    assert [one.fate for one in plan.unneeded] == ["waits"]
    assert "1 day" in plan.waiting_for
    assert files(lake) == before
    assert lake.version == version


@pytest.mark.parametrize("fault", ["lost", "after", "before"])
def test_a_note_without_an_answer_is_written_again(lake: Lake, fault: Fault) -> None:
    lost(lake)
    rehearsal = SimulatedStore(lake.store)
    seiche.open(rehearsal).gc(dry_run=False)
    (number,) = [at for at, call in enumerate(rehearsal.calls, 1) if (call.verb, call.path[:6]) == ("put", "_noted")]
    store = SimulatedStore(lake.store, plan={number: fault})
    # `CommitUnknown` would send people to ask for the outcome of a commit that there is not.
    assert seiche.open(store).gc(dry_run=False).unneeded
    assert store.injected == [(number, fault)]
    assert len(list(lake.store.list("_noted"))) == 2


def test_three_runs_days_apart(lake: Lake) -> None:
    path = lost(lake)
    content = lake.store.get(path)
    first = lake.gc(dry_run=False)
    assert [one.fate for one in first.unneeded] == ["waits"]
    assert lake.store.exists(path)
    assert [one.fate for one in lake.gc(dry_run=False).unneeded] == ["waits"], "a run right after changes nothing"
    older(lake, 1.1)
    assert [one.path for one in lake.gc().moved] == [path]
    second = lake.gc(dry_run=False)
    assert second.run is not None
    assert not lake.store.exists(path)
    (run,) = lake.trash()
    assert (run.id, [one.path for one in run.files]) == (second.run, [path])
    assert run.files[0].reason == "no kept version leads to it"
    third = lake.gc(dry_run=False)
    assert third.removed == 0
    older(lake, 7.1)
    last = lake.gc(dry_run=False)
    assert (last.removed, last.removed_bytes) == (1, len(content))
    assert list(lake.trash()) == []
    assert not any("_trash" in one for one in files(lake))


def test_a_file_that_changed_since_it_was_noted_is_another_file(lake: Lake) -> None:
    path = lost(lake)
    lake.gc(dry_run=False)
    older(lake, 2)
    lake.store.put(path, b"something else")
    os.utime(folder(lake) / path, (1, 1))
    assert lake.gc(dry_run=False).moved == ()


def test_a_young_file_stays_although_an_old_note_names_it(lake: Lake) -> None:
    path = lost(lake)
    now = (folder(lake) / "_latest_hint").stat().st_mtime
    os.utime(folder(lake) / path, (now, now))
    lake.gc(dry_run=False)
    older(lake, 2)
    assert lake.gc(dry_run=False).moved == ()
    assert lake.store.exists(path)


def test_a_note_that_cannot_be_read_only_costs_time(lake: Lake) -> None:
    path = lost(lake)
    lake.gc(dry_run=False)
    for note in (folder(lake) / "_noted").iterdir():
        note.write_bytes(b"nonsense")
    older(lake, 2)
    assert lake.gc(dry_run=False).moved == ()
    older(lake, 2)
    assert [one.path for one in lake.gc(dry_run=False).moved] == [path]


def test_a_list_in_the_trash_that_cannot_be_read_stops_nothing(lake: Lake) -> None:
    path = lost(lake)
    assert at_once(lake).run is not None
    (listed,) = (folder(lake) / "_trash").glob("*/list")
    listed.write_bytes(b"nonsense")
    older(lake, 30)
    assert at_once(lake).removed == 1
    assert not [one for one in files(lake) if one.endswith(Path(path).name)]


def test_expired_versions_leave_their_files(lake: Lake) -> None:
    table = lake.table("shop.a")
    for number in range(5):
        table.append(rows(number, number + 10))
    table.delete("id = 3")
    table.create_index("id", "BTREE")
    table.compact()
    table.optimize_indices()
    table.delete("id = 12")
    expected = ids(lake, "shop.a")
    assert at_once(lake).unneeded == (), "all versions are kept"
    lake.expire(older_than=0, keep=1)
    done = at_once(lake)
    gone = {one.sort for one in done.moved}
    assert {"data file", "deletion file", "manifest", "staged manifest", "index file"} <= gone
    assert ids(lake, "shop.a") == expected
    assert table.to_arrow(filter="id = 11")["id"].to_pylist() == [11]
    plain = lance.dataset(table.uri)
    plain.validate()  # type: ignore[no-untyped-call]
    assert sorted(plain.to_table()["id"].to_pylist()) == expected
    assert plain.to_table(filter="id = 11")["id"].to_pylist() == [11]
    assert lake.fsck(deep=True).problems == ()
    table.append(rows(99))
    assert ids(lake, "shop.a") == [*expected, 99]
    (run,) = lake.trash()
    before = files(lake)
    one, *others = sorted(file.path for file in run.files)
    assert others
    assert lake.trash().restore(run.id, f"{one} and {others[0]}") == [], "no file has this name"
    assert lake.trash().restore(run.id, one) == [one]
    assert len(lake.trash().restore(run.id)) == len(others)
    assert {one.path for one in done.moved} <= files(lake)
    assert before - {one for one in before if one.startswith("_trash/")} <= files(lake)
    with pytest.raises(NotFound):
        lake.trash().restore(run.id)


def test_two_clean_ups_at_once_both_come_to_their_end(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that used a newer note removes that of the other before it is looked at."""
    path, other, head = lost(lake), seiche.open(lake.store), LocalStore.head
    met: list[str] = []

    def late(self: LocalStore, path: str) -> ObjectInfo:
        if path.startswith("_noted/") and not met:
            met.append(path)
            other.create_namespace("later")
            at_once(other)
            assert not lake.store.exists(path)
        return head(self, path)

    monkeypatch.setattr(LocalStore, "head", late)
    assert at_once(lake).done
    assert met
    assert path not in files(lake)
    assert lake.fsck().problems == ()


def test_what_was_brought_back_from_the_trash_is_given_its_time_again(lake: Lake) -> None:
    path = lost(lake)
    lake.gc(dry_run=False)
    older(lake, 2)
    run = lake.gc(dry_run=False).run
    assert run is not None
    assert lake.trash().restore(run) == [path]
    assert lake.gc(dry_run=False).moved == (), "the note was of a file that went"
    assert path in files(lake)


def test_a_tagged_version_stays_readable_and_so_does_all_that_came_since(lake: Lake) -> None:
    table = lake.table("shop.a")
    table.append(rows(1))
    lake.tag("early")
    for number in range(2, 6):
        table.overwrite(rows(number))
    lake.expire(older_than=0, keep=1)
    done = at_once(lake, window=0)
    assert {one.sort for one in done.moved} == {"manifest", "staged manifest"}
    assert [one.path for one in done.moved if one.sort == "manifest"] == [
        f"{location(lake, 'shop.a')}/{Naming.V2.path(1)}"
    ], "only what is older than the tagged version"
    old = seiche.open(lake.uri, version="early", durability="os")
    assert ids(old, "shop.a") == [1]
    assert lance.dataset(table.uri).version == table.version
    assert [one["version"] for one in lance.dataset(table.uri).versions()] == list(range(2, table.version + 1))
    lake.untag("early")
    lake.expire(older_than=0, keep=1)
    done = at_once(lake, window=0)
    assert {"data file", "manifest"} <= {one.sort for one in done.moved}
    assert ids(lake, "shop.a") == [5]


def test_a_dropped_table_goes_with_the_last_version_that_has_it(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    place_of_a = location(lake, "shop.a")
    lake.tag("with", lake.version)
    lake.table("shop.a").append(rows(2))
    lake.drop_table("shop.a")
    lake.expire(older_than=0, keep=1)
    done = at_once(lake)
    assert not any(one.sort == "data file" for one in done.moved), "bringing it back goes on from its last version"
    assert remembered(lake) == 1
    lake.rollback(to="with")
    assert ids(lake, "shop.a") == [1]
    assert lake.fsck(deep=True).problems == ()
    lake.drop_table("shop.a")
    lake.untag("with")
    lake.expire(older_than=0, keep=1)
    assert remembered(lake) == 1
    done = at_once(lake, window=0)
    assert {one.reason for one in done.moved if one.path.startswith(place_of_a)} == {
        "no kept version of the lake has the table"
    }
    assert not any(path.startswith(place_of_a) for path in files(lake))
    assert remembered(lake) == 0
    assert lake.tables("shop") == [("shop", "b")]


def remembered(lake: Lake) -> int:
    """How many dropped tables the lake knows."""
    return sum(1 for _ in lake.state().tree.scan_prefix(TRASH))


def test_a_table_that_was_never_made_leaves_nothing(lake: Lake) -> None:
    tx = lake.transaction()
    made = tx.create_table("shop.never", SCHEMA)
    made.append(rows(1))
    tx.late.write()
    tx.rollback()
    done = at_once(lake, window=0)
    assert {one.reason for one in done.moved} == {"no kept version of the lake has the table"}
    assert not any("never" in path for path in files(lake))


def test_files_of_a_saved_transaction_stay_until_it_is_decided(lake: Lake) -> None:
    garbage = lost(lake)
    tx = lake.transaction()
    tx.table("shop.a").append(rows(1))
    tx.table("shop.b").append(rows(2))
    tx.save()
    tx.table("shop.b").append(rows(3))
    tx.late.write()
    held = at_once(lake)
    assert held.moved == ()
    assert tx.id in held.waiting_for
    assert garbage in [one.path for one in held.unneeded]
    again = seiche.open(lake.uri, durability="os").resume(tx.id)
    again.commit()
    assert ids(lake, "shop.b") == [2]
    gone = at_once(lake)
    assert garbage in [one.path for one in gone.moved]
    assert "saved transaction" in {one.sort for one in gone.moved}
    assert len([one for one in gone.moved if one.sort == "data file"]) == 2, "and what was written after it was saved"
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([1], [2])
    with pytest.raises(NotFound):
        lake.resume(tx.id)


def test_a_saved_transaction_that_storage_sends_in_part_is_not_passed_over(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = lake.transaction()
    tx.table("shop.a").append(rows(1))
    tx.save()
    whole, before = LocalStore.get, files(lake)
    monkeypatch.setattr(LocalStore, "get", lambda self, path: whole(self, path)[: 20 if tx.id in path else None])
    with pytest.raises(Unavailable):
        at_once(lake)
    assert before <= files(lake)


def test_a_saved_transaction_does_not_hold_what_was_noted_before_it_began(lake: Lake) -> None:
    garbage = lost(lake)
    lake.gc(dry_run=False)
    lake.table("shop.a").append(rows(1))
    older(lake, 2)
    tx = lake.transaction()
    tx.table("shop.a").append(rows(2))
    tx.save()
    done = lake.gc(dry_run=False)
    assert [one.path for one in done.moved] == [garbage]
    lake.resume(tx.id).commit()
    assert ids(lake, "shop.a") == [1, 2]


def test_what_the_lake_does_not_know_is_reported_and_left_alone(lake: Lake) -> None:
    own = location(lake, "shop.a")
    strange = ["notes.txt", "backup/lake.tar", "tables/readme.md", f"{own}/readme.md", f"{own}/_other/x.bin", "_x/y"]
    foreign = [f"{own}/_refs/tags/mine.json", f"{own}/_foreign/00000000000000000009.manifest", f"{own}/tree/b/data/x"]
    for path in (*strange, *foreign):
        lake.store.put(path, b"mine")
    done = at_once(lake, window=0)
    assert set(done.unknown) == set(strange)
    assert set(done.foreign) == set(foreign)
    assert {*strange, *foreign} <= files(lake)
    assert own in done.closed, "a foreign manifest that cannot be read may need anything of its table"


def test_a_foreign_commit_is_left_for_adopt_with_all_its_files(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2, 3)
    done = at_once(lake, window=0)
    assert done.moved == ()
    assert [Path(path).name for path in done.foreign] == [Naming.V2.file_name(3)]
    assert len(lake.adopt("shop.a")) == 1
    assert ids(lake, "shop.a") == [1, 2, 3]


def test_so_is_one_whose_version_the_lake_has_made_too(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2, 3)
    seiche.open(lake.store).table("shop.a").append(rows(4))
    done = at_once(lake, window=0)
    assert done.moved == ()
    assert [Path(path).name for path in done.foreign] == [Naming.V2.file_name(3)]
    assert len(lake.adopt("shop.a")) == 1
    assert ids(lake, "shop.a") == [1, 2, 3, 4]
    assert lake.fsck(deep=True).problems == ()


def test_so_is_one_that_does_not_say_who_made_it(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    before = files(lake)
    foreign_append(lake, 2, 3)
    theirs = {path for path in files(lake) - before if "/data/" in path}
    name = f"{location(lake, 'shop.a')}/{Naming.V2.path(3)}"
    read = file.decode(lake.store.get(name), path=name).manifest
    header = read.copy_header()
    header.transaction_file = ""
    lake.store.put(name, b"".join(file.encode(Manifest(header, read.fragments, read.index_section), b"")))
    seiche.open(lake.store).table("shop.a").append(rows(4))
    done = at_once(lake, window=0)
    assert done.foreign == (name,)
    assert theirs
    assert theirs <= files(lake)


@pytest.mark.parametrize("overtaken", [False, True])
@pytest.mark.parametrize("listed", ["before", "after"])
def test_so_is_one_that_is_set_aside_while_files_are_listed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, listed: str, *, overtaken: bool
) -> None:
    """Its name was looked at too late, or it could not be read there any more, and its new place too early."""
    lake.table("shop.a").append(rows(1))
    foreign_append(lake, 2, 3)
    if overtaken:
        seiche.open(lake.store).table("shop.a").append(rows(4))

    class Died(BaseException):
        pass

    def dying(*_: object) -> None:
        raise Died

    def set_aside() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(adopt_module, "_commit", dying)
            with pytest.raises(Died):
                seiche.open(lake.store).adopt("shop.a")

    def slowly(store: Store, _needed: PathSet) -> Files:
        versions = f"{location(lake, 'shop.a')}/_versions"
        rest = [info for info in store.list() if not info.path.startswith(versions)]
        if listed == "before":
            set_aside()
        found = list(store.list(versions))
        if listed == "after":
            set_aside()
        return Files([*rest, *found])

    done = collect(lake, dry_run=False, grace=0, window=0, listing=slowly)
    assert [one.sort for one in done.moved if one.sort == "data file"] == []
    assert [path.split("/")[-2] for path in done.foreign if "_foreign" in path] == ["_foreign"]
    assert len(lake.adopt("shop.a")) == 1
    assert ids(lake, "shop.a") == ([1, 2, 3, 4] if overtaken else [1, 2, 3])
    assert lake.fsck(deep=True).problems == ()


def test_a_table_that_cannot_be_looked_into_is_closed(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    lake.table("shop.b").append(rows(1))
    garbage = lost(lake, "shop.a"), lost(lake, "shop.b")
    broken = location(lake, "shop.a")
    published = folder(lake) / broken / Naming.V2.path(1)
    published.write_bytes(b"torn")
    done = at_once(lake)
    assert list(done.closed) == [broken]
    assert garbage[1] in [one.path for one in done.moved]
    assert lake.store.exists(garbage[0]), "nothing of a table that cannot be read is garbage"
    assert ids(lake, "shop.a") == [1]


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_a_row_that_names_no_version_closes_its_table(lake: Lake, format: str) -> None:
    """It is damaged. That nothing leads to its files does not mean that nobody needs them."""
    row = TableRow(id="x", location=f"tables/shop/odd-{'0' * 8}-0000-0000-0000-{'0' * 12}.lance", format=format)
    put_row(lake, table_key(("shop", "odd")), row)
    lake.store.put(f"{row.location}/data/1.lance", b"x")
    done = at_once(lake, window=0)
    assert list(done.closed) == [row.location]
    assert lake.store.exists(f"{row.location}/data/1.lance")


def test_tables_of_formats_that_are_not_known_are_closed(lake: Lake) -> None:
    row = TableRow(id="x", location="tables/shop/ice", format="delta")
    put_row(lake, table_key(("shop", "ice")), row)
    for path in ("metadata/v1.json", "data/1.parquet"):
        lake.store.put(f"tables/shop/ice/{path}", b"x")
    done = at_once(lake, window=0)
    assert done.moved == ()
    assert "delta" in done.closed["tables/shop/ice"]
    assert lake.store.exists("tables/shop/ice/data/1.parquet")


def shared(lake: Lake) -> tuple[str, DataFragment]:
    """A data file of `shop.a`, and the fragment under which `shop.b` may have it too."""
    lake.table("shop.a").append(rows(1, 2))
    source = location(lake, "shop.a")
    (path,) = [path for path in files(lake) if path.startswith(f"{source}/data/")]
    # As a clone on another machine would write it: the same place, by another name.
    lake.table("shop.b").add_bases({"path": f"/mnt/elsewhere/{source}", "is_dataset_root": True})
    fragment = DataFragment()
    fragment.CopyFrom(manifest_fragment(lake, "shop.a"))
    fragment.ClearField("id")
    for one in fragment.files:
        one.base_id = LakeRead(lake, "shop.b").header.base_paths[0].id
    return path, fragment


def test_files_that_another_table_shares_stay(lake: Lake) -> None:
    """A version with a base path names files of another table, which may be gone."""
    path, fragment = shared(lake)
    source = location(lake, "shop.a")
    with lake.transaction() as tx:
        tx.table("shop.b").apply(Change(Append((fragment,)), rows=2))
    lake.drop_table("shop.a")
    lake.expire(older_than=0, keep=1)
    done = at_once(lake, window=0)
    assert any(one.path.startswith(source) for one in done.moved)
    assert lake.store.exists(path)


@pytest.mark.parametrize("older_is_kept", [True, False])
def test_files_that_a_table_may_share_that_cannot_be_looked_into_stay(lake: Lake, *, older_is_kept: bool) -> None:
    """Whether they are shared, and which, is known from the damaged version only."""
    path, fragment = shared(lake)
    source = location(lake, "shop.a")
    others = [
        f"{source}/_deletions/0-1-1.arrow",
        f"{source}/_indices/{UUID(int=1)}/page.idx",
        f"tables/shop/i-{UUID(int=2)}.iceberg/metadata/m.avro",
    ]
    for one in others:
        lake.store.put(one, b"of a version that nobody can read now")
    if older_is_kept:
        lake.tag("older")
    with lake.transaction() as tx:
        tx.table("shop.b").apply(Change(Append((fragment,)), rows=2))
    lake.drop_table("shop.a")
    lake.expire(older_than=0, keep=1)
    row = lake.table("shop.b").row
    assert row.manifest is not None
    whole = lake.store.get(f"{row.location}/{row.manifest.path}")
    lake.store.put(f"{row.location}/{row.manifest.path}", b"torn")
    done = at_once(seiche.open(lake.uri, durability="os"), window=0)
    assert "of other tables" in done.closed[row.location]
    assert {path, *others} <= files(lake)
    lake.store.put(f"{row.location}/{row.manifest.path}", whole)
    assert not at_once(seiche.open(lake.uri, durability="os"), window=0).closed
    assert lake.store.exists(path)
    assert not files(lake).intersection(others), "which of them are shared is known again"


def test_files_of_another_table_that_a_saved_transaction_shares_stay(lake: Lake) -> None:
    path, fragment = shared(lake)
    source = location(lake, "shop.a")
    lake.drop_table("shop.a")
    lake.expire(older_than=0, keep=1)
    tx = lake.transaction()
    tx.table("shop.b").apply(Change(Append((fragment,)), rows=2))
    tx.save()
    unneeded = {one.path for one in lake.gc(grace=0).unneeded if one.path.startswith(source)}
    assert unneeded
    assert path not in unneeded


@pytest.mark.parametrize("damage", [b"", b"\x6a", b"torn"])
def test_while_a_saved_transaction_is_damaged_nothing_that_it_may_need_goes(lake: Lake, damage: bytes) -> None:
    """Its file comes back from a copy, and it is gone on with: it finds its base, and what it had written."""
    tx = lake.transaction()
    tx.append("shop.a", rows(500))
    tx.save()
    path = saved_path(tx.id)
    whole = lake.store.get(path)
    for number in range(3):
        lake.table("shop.b").overwrite(rows(number))
    lake.store.put(path, damage)
    before = files(lake)
    acts = (partial(lake.expire, older_than=0, keep=1), partial(at_once, lake, window=0), lake.health)
    for act in acts:
        with pytest.raises(Corrupt, match=path):
            act()
    assert {one.kind: one.remedy for one in lake.fsck().problems}["saved.damaged"].startswith("Put it back")
    assert files(lake) == before
    lake.store.put(path, whole)
    lake.resume(tx.id).commit()
    assert 500 in ids(lake, "shop.a")
    lake.store.put(path, damage)
    with pytest.raises(Corrupt, match=path):
        lake.expire(older_than=0, keep=1)
    lake.store.delete(path)
    lake.expire(older_than=0, keep=1)
    assert at_once(lake, window=0).moved


class LakeRead:
    """The newest manifest of a table."""

    def __init__(self, lake: Lake, table: str) -> None:
        from seiche.lake.versions import LakeVersions

        row = lake.table(table).row
        self.manifest = LakeVersions(lake.store, row).read(row.table_version).manifest
        self.header = self.manifest.header


def manifest_fragment(lake: Lake, table: str) -> DataFragment:
    return LakeRead(lake, table).manifest.fragments[0]


def test_what_was_taken_wrongly_is_put_back_before_it_is_removed_for_good(lake: Lake) -> None:
    """It cannot happen. If it did, this is what stands between it and the loss."""
    lake.table("shop.a").append(rows(1))
    (needed,) = [path for path in files(lake) if "/shop/a-" in path and "/data/" in path]
    lost(lake)
    done = at_once(lake)
    lake.store.rename_if_absent(needed, f"_trash/{done.run}/files/{needed}")
    assert ids_or_none(lake) is None
    older(lake, 8)
    last = lake.gc(dry_run=False)
    assert last.restored == (needed,)
    assert last.removed == 1
    assert ids(lake, "shop.a") == [1]


def test_the_only_whole_copy_is_not_removed_because_a_damaged_one_stands_in_its_place(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    (needed,) = [path for path in files(lake) if "/shop/a-" in path and "/data/" in path]
    lost(lake)
    done = at_once(lake)
    lake.store.copy(needed, f"_trash/{done.run}/files/{needed}")
    lake.store.put(needed, b"torn")
    older(lake, 8)
    last = lake.gc(dry_run=False)
    assert (last.restored, last.removed) == ((), 1)
    assert lake.store.exists(f"_trash/{done.run}/files/{needed}")


def ids_or_none(lake: Lake) -> list[int] | None:
    try:
        return ids(lake, "shop.a")
    except Exception:
        return None


def test_a_table_goes_back_only_to_versions_that_are_kept(lake: Lake) -> None:
    table = lake.table("shop.a")
    for number in range(1, 5):
        table.overwrite(rows(number))
    assert table.restore(2).version == 6
    assert ids(lake, "shop.a") == [1]
    lake.expire(older_than=0, keep=2)
    for version in (1, 2, 4):
        with pytest.raises(NotFound, match="have expired"):
            table.restore(version)
    assert table.restore(5).version == 7
    assert ids(lake, "shop.a") == [4]
    at_once(lake, window=0)
    assert ids(lake, "shop.a") == [4]
    assert lake.fsck(deep=True).problems == ()


def test_a_table_that_was_dropped_and_brought_back_goes_back_to_all_that_is_kept(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    lake.table("shop.a").append(rows(2))
    version = lake.version
    lake.drop_table("shop.a")
    for number in range(8):
        lake.create_namespace(f"meanwhile{number}")
    lake.rollback(version, tables=["shop.a"])
    lake.table("shop.a").restore(2)
    assert ids(lake, "shop.a") == [1]


def test_large_values_beside_their_data_file_stay_with_it(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    (data,) = [path for path in files(lake) if "/shop/a-" in path and "/data/" in path]
    beside = f"{data.removesuffix('.lance')}/1.blob"
    lake.store.put(beside, b"large")
    gone = lost(lake, "shop.a")
    also = f"{gone.removesuffix('.lance')}/1.blob"
    lake.store.put(also, b"large")
    done = at_once(lake)
    assert sorted(one.path for one in done.moved) == sorted([gone, also])
    assert lake.store.exists(beside)


def test_work_on_indices_whose_process_was_killed_goes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table("shop.a")
    table.append(rows(*range(300)))
    table.create_index("id", "BTREE")
    table.append(rows(*range(300, 400)))
    before = files(lake)
    with monkeypatch.context() as killed:
        killed.setattr(Shadow, "take_over", _killed)
        killed.setattr(type(lake.store), "delete", _killed)
        with pytest.raises(Unavailable):
            table.optimize_indices()
    left = {path for path in files(lake) - before if "/_shadow/" in path}
    assert any("/_indices/" in path for path in left)
    assert left <= {one.path for one in at_once(lake).moved}
    assert not left & files(lake)
    table.optimize_indices()
    assert table.to_arrow(filter="id = 350").num_rows == 1


def _killed(*_arguments: object, **_options: object) -> None:
    raise Unavailable("killed")


@pytest.mark.parametrize(
    ("path", "sort"),
    [
        ("_00100110000000000000000000000000.ipc", Sort.ROOT),
        ("_0010.ipc", Sort.UNKNOWN),
        ("_latest_hint", Sort.HINT),
        ("_oldest", Sort.HINT),
        ("_lakehouse_def_f728b4fa-4248-4e3a-8a5d-2f346baa9455.binpb", Sort.DEFINITION),
        ("0101/1100/0011/10101010-node-f728b4fa-4248-4e3a-8a5d-2f346baa9455.ipc", Sort.NODE),
        ("0101/1100/0011/10101010-txn-f728b4fa-4248-4e3a-8a5d-2f346baa9455.binpb", Sort.CHANGES),
        ("0101/1100/0011/10101010-table-f728b4fa-4248-4e3a-8a5d-2f346baa9455.binpb", Sort.ROW),
        ("0101/1100/0011/10101010-view-a~b-c_1-f728b4fa-4248-4e3a-8a5d-2f346baa9455.binpb", Sort.ROW),
        ("0101/1100/0011/10101010-mine.ipc", Sort.UNKNOWN),
        ("_saved/x.binpb", Sort.SAVED),
        ("_leases/x", Sort.LEASE),
        ("tables/shop/a.lance/data/x.lance", Sort.UNKNOWN),
        ("elsewhere/a.lance/data/x.lance", Sort.DATA),
        ("elsewhere/a.lance/_versions/18446744073709551610.manifest", Sort.MANIFEST),
        ("elsewhere/a.lance/_versions/5.manifest", Sort.FOREIGN),
        ("elsewhere/a.lance/_versions/d9223372036854775999.manifest", Sort.FOREIGN),
        ("elsewhere/a.lance/_versions/18446744073709551610.manifest-abc", Sort.STAGED),
        ("elsewhere/a.lance/_versions/latest_version_hint.json", Sort.TABLE_HINT),
        ("elsewhere/a.lance/_staged/x.manifest", Sort.STAGED),
        ("elsewhere/a.lance/_indices/f728b4fa-4248-4e3a-8a5d-2f346baa9455/page.lance", Sort.INDEX),
        ("elsewhere/a.lance/_indices/mine/page.lance", Sort.UNKNOWN),
        ("elsewhere/a.lance/_deletions/1-2-3.arrow", Sort.DELETIONS),
        ("elsewhere/a.lance/_transactions/1-x.txn", Sort.TRANSACTION),
        ("elsewhere/a.lance/_shadow/f728b4fa-4248-4e3a-8a5d-2f346baa9455/_versions/1.manifest", Sort.SHADOW),
        ("elsewhere/a.lance/_shadow/mine", Sort.UNKNOWN),
        ("elsewhere/a.lance/tree/b/data/x.lance", Sort.FOREIGN),
        ("elsewhere/a.lance", Sort.UNKNOWN),
    ],
)
def test_what_a_file_is(path: str, sort: Sort) -> None:
    assert place(path, {"elsewhere/a.lance"}).sort is sort


def test_a_path_set_remembers_what_was_added_and_takes_little_room() -> None:
    found = PathSet()
    for number in range(300_000):
        found.add(f"tables/shop/a.lance/data/{number}.lance")
    assert len(found) == 300_000
    assert all(f"tables/shop/a.lance/data/{number}.lance" in found for number in range(0, 300_000, 997))
    assert not any(f"tables/shop/a.lance/data/{number}.lance" in found for number in range(300_000, 310_000))
    assert found._settled.nbytes == 8 * 300_000
    assert 7 not in found


def test_reading_stays_possible_for_pinned_versions_in_a_column_of_types(lake: Lake) -> None:
    """Nothing about types of columns matters to what is needed."""
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 4)), ("s", pa.struct([("x", pa.string())]))])
    lake.create_table("shop.wide", schema)
    data = pa.table({"id": [1, 2], "v": [[1.0] * 4] * 2, "s": [{"x": "a"}, {"x": None}]}, schema=schema)
    for _ in range(3):
        lake.table("shop.wide").append(data)
    lake.table("shop.wide").add_columns({"twice": "id * 2"})
    lake.table("shop.wide").drop_columns(["v"])
    lake.expire(older_than=0, keep=1)
    at_once(lake, window=0)
    assert lake.table("shop.wide").to_arrow().num_rows == 6
    assert lake.fsck(deep=True).problems == ()


@pytest.mark.parametrize("again", [True, False], ids=["rows in memory", "a stream"])
def test_a_verb_does_not_offer_files_from_before_a_clean_up_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """The first attempt of an append meets the fence of a clean-up that has taken its files for garbage."""
    commit = Committer.commit
    table = lake.table("shop.a")
    before = files(lake)
    taken: set[str] = set()

    def cleaned(self: Committer, intent: Intent) -> Answer:
        monkeypatch.setattr(Committer, "commit", commit)
        taken.update(path for path in files(lake) - before if "/data/" in path)
        at_once(seiche.open(lake.store))
        return commit(self, intent)

    monkeypatch.setattr(Committer, "commit", cleaned)
    new = rows(7)
    if again:
        table.append(new)
        assert ids(lake, "shop.a") == [7]
    else:
        with pytest.raises(seiche.RetryableConflict, match="stream"):
            table.append(iter(new.to_batches()))
    assert taken
    assert not taken & {path for path in files(lake) if not path.startswith("_trash")}


def test_a_lake_inside_of_a_lake_is_left_alone(lake: Lake) -> None:
    """Its files are called as those of the lake around it are, and no version of that one has them."""
    lake.create_table("shop.t", rows(1))
    lake.create_table("shop.u", rows(1))
    places = ["tables/shop/inner", f"{location(lake, 'shop.t')}/data/inner", "_saved", "_payloads/inner"]
    inner = [seiche.create(str(folder(lake) / place), durability="os") for place in places]
    for one in inner:
        one.create_namespace("n")
        one.create_table("n.t", rows(1, 2))
    theirs = {path for path in files(lake) if path.startswith(tuple(f"{place}/" for place in places))}
    lake.table("shop.u").overwrite(rows(3))
    lake.expire(older_than=0, keep=1)
    done = at_once(lake, window=0)
    assert [one.sort for one in done.unneeded].count("data file") == 1
    assert theirs <= set(done.unknown) & files(lake)
    for one in inner:
        assert (ids(one, "n.t"), one.fsck(deep=True).problems) == ([1, 2], ())
    assert (ids(lake, "shop.u"), ids(lake, "shop.t")) == ([3], [1])
