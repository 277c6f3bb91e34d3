"""What keeps a clean-up and an expiry at a distance from those who are still at work."""

import os
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import seiche
from seiche import CommitUnknown, Lake, RetryableConflict, SeicheError, Unavailable
from seiche.core.clock import SimulatedClock
from seiche.core.insisting import insist
from seiche.core.runtime import Runtime
from seiche.lake.care import expiry, gc
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.layout import Place, Sort, place
from seiche.lake.care.notes import Note, leave_note
from seiche.lake.care.reachable import Reachable
from seiche.lake.care.saved_work import saved_work
from seiche.lake.care.table_files import NeededNames
from seiche.lake.care.trash import Trash
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.intent import Intent
from seiche.lake.commit.written import written_since
from seiche.lake.lake import create, open_lake
from seiche.lake.tree import transactions
from seiche.lake.tree.names import root_name
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.pointer import target
from seiche.lake.tree.root import Root
from seiche.store.base import Data
from seiche.store.local import LocalStore
from seiche.table import invariants
from seiche.table.format import manifest_pb2 as wire
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.format.transaction_pb2 import CreateIndex, Transaction
from seiche.table.operations import Append
from seiche.table.operations.context import Build
from seiche.testing import DictStore
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.test_gc import at_once, files, folder, location, lost, older


def test_change_sets_beside_a_root_stay_with_it(lake: Lake) -> None:
    with lake.transaction() as tx:
        for number in range(400):
            tx.create_namespace(("shop", f"{number:04}{'x' * 80}"))
    root = lake.state().root
    assert root.transactions_file is not None
    lake.table("shop.a").append(rows(1))
    at_once(lake)
    (record,) = transactions.load(lake.store, root.transactions_file)
    assert len(record.keys or ()) == 400


def test_all_versions_that_the_oldest_kept_transaction_made_stay(lake: Lake) -> None:
    """The table can be taken back to the one before its compaction, whose data files only that one has."""
    lake.table("shop.a").append(rows(1))
    with lake.transaction() as tx:
        tx.append("shop.a", rows(2))
        tx.table("shop.a").compact()
    row = lake.table("shop.a").row
    assert row.earlier
    lake.expire(older_than=0, keep=1)
    at_once(lake, window=0)
    lake.table("shop.b").append(rows(1))
    lake.table("shop.a").restore(row.table_version - len(row.earlier))
    assert ids(lake, "shop.a") == [1, 2]
    assert lake.fsck(deep=True).problems == ()


def test_manifests_come_back_from_the_trash_after_what_they_name(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever dies in between leaves none that names what is still in the trash; nor a gap among those that stand."""
    for number in range(3):
        lake.table("shop.a").append(rows(number))
        lake.table("shop.a").compact()
    lake.expire(older_than=0, keep=1)
    run = at_once(lake).run
    assert run is not None
    back: list[Place] = []
    move = Trash._move

    def noted(trash: Trash, source: str, target: str) -> None:
        back.append(place(target))
        move(trash, source, target)

    monkeypatch.setattr(Trash, "_move", noted)
    lake.trash().restore(run)
    sorts = [one.sort is Sort.MANIFEST for one in back]
    assert sorts == sorted(sorts)
    assert min(sorts.count(True), sorts.count(False)) > 2
    versions = [one.version for one in back if one.sort is Sort.MANIFEST]
    assert versions == sorted(versions, reverse=True)


def test_temporary_files_of_the_living_and_leases_that_just_ran_out_stay_also_without_grace(lake: Lake) -> None:
    temporary = folder(lake) / "tables" / ".seiche-tmp-0123456789abcdef"
    temporary.write_bytes(b"half")
    lease = folder(lake) / "_leases" / f"{0:020}-60-{'0' * 8}-0000-0000-0000-{'0' * 12}"
    lease.parent.mkdir()
    lease.write_bytes(b"held")
    an_hour_ago = lease.stat().st_mtime - 1800
    for path in (lease, temporary):
        os.utime(path, (an_hour_ago, an_hour_ago))
    lost(lake)
    assert at_once(lake).moved
    assert lease.exists()
    assert temporary.exists()


def test_files_of_a_saved_transaction_are_not_even_named(lake: Lake) -> None:
    before = files(lake)
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    tx.save()
    written = files(lake) - before
    assert len(written) == 2
    assert written.isdisjoint(one.path for one in lake.gc(grace=0).unneeded)


def test_what_a_saved_transaction_wrote_lasts_before_it_is_saved(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    put = LocalStore.put

    def flush(_: LocalStore, paths: Iterable[str]) -> int:
        flushed.extend(paths)
        return 0

    def saved(store: LocalStore, path: str, data: Data, *, durable: bool = True) -> None:
        assert any(one.startswith(location(lake, "shop.a")) for one in flushed)
        put(store, path, data, durable=durable)

    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    monkeypatch.setattr(LocalStore, "flush", flush)
    monkeypatch.setattr(LocalStore, "put", saved)
    tx.save()


def test_what_is_in_the_trash_stays_while_it_cannot_be_known_who_needs_it(lake: Lake) -> None:
    path = lost(lake, "shop.a")
    assert [one.path for one in at_once(lake).moved] == [path]
    row = lake.table("shop.a").row
    assert row.manifest is not None
    lake.store.put(f"{row.location}/{row.manifest.path}", b"damaged")
    done = at_once(lake, window=0)
    assert list(done.closed) == [row.location]
    assert done.removed == 0
    assert [one.path for run in lake.trash() for one in run.files] == [path]


def test_an_expiry_gives_up_nothing_behind_its_fence(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on while it decides: versions that have become old meanwhile are left to the next one."""
    plan = expiry._plan
    others = iter(range(3))

    def planned(*given: object, **options: object) -> expiry.Expiry:
        made = plan(*given, **options)  # type: ignore[arg-type]
        for number in others:
            lake.table("shop.a").append(rows(number))
        return made

    monkeypatch.setattr(expiry, "_plan", planned)
    lake.expire(older_than=0, keep=2)
    state = lake.state()
    assert GivenUp.of(state).versions
    assert max(GivenUp.of(state).versions) < state.root.min_base


def test_files_of_an_earlier_attempt_are_as_old_as_that_attempt(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Committer.commit
    bases: list[int] = []

    def slow(committer: Committer, intent: Intent) -> Answer:
        bases.append(intent.base)
        if len(bases) == 2:
            monkeypatch.undo()
        if len(bases) == 1:
            monkeypatch.setattr(Committer, "commit", commit)
            lake.create_namespace("meanwhile")
            monkeypatch.setattr(Committer, "commit", slow)
            raise RetryableConflict("somebody was faster")
        return commit(committer, intent)

    monkeypatch.setattr(Committer, "commit", slow)
    lake.table("shop.a").append(rows(1))
    assert bases[1] == bases[0]
    assert lake.version == bases[0] + 2


def test_a_file_that_may_be_as_old_as_a_root_counts_as_older(lake: Lake) -> None:
    """Storage times are in whole seconds for some stores, and a file has that of its last byte."""
    for number in range(3):
        lake.create_table(f"shop.t{number}", SCHEMA)
    base = lake.version
    (folder(lake) / "written").write_bytes(b"x")

    def at(path: Path, when: float) -> None:
        os.utime(path, (when, when))

    newest = lake.store.head(root_name(base)).modified.timestamp()
    at(folder(lake) / "written", newest + 0.5)
    assert written_since(["written"], base, lake.state(), lake.states.runtime) < base
    at(folder(lake) / "written", newest + 1.5)
    assert written_since(["written"], base, lake.state(), lake.states.runtime) == base


def test_a_saved_transaction_counts_a_day_longer_than_its_owner_would_take_it_for_young(lake: Lake) -> None:
    """Clocks may differ by so much: one that its owner can still commit must not lose its files."""
    tx = lake.transaction(lifetime=60.0)
    tx.append("shop.a", rows(1))
    tx.save()
    (work,) = saved_work(lake.store)
    assert work.may_commit(lake.state(), work.until + timedelta(hours=12))
    assert not work.may_commit(lake.state(), work.until + timedelta(hours=36))


def test_a_saved_transaction_still_keeps_the_lake_sound() -> None:
    """What it found of namespaces must still be so, whatever its isolation."""
    runtime = Runtime.seeded(1)
    lake = create(DictStore(runtime=runtime), runtime=runtime)
    for name in ("full", "gone"):
        lake.create_namespace(name)
    inside, outside = lake.transaction(), lake.transaction()
    inside.create_namespace("gone.inside")
    outside.drop_namespace("full")
    for tx in (inside, outside):
        tx.save()
    lake.drop_namespace("gone")
    lake.create_namespace("full.inside")
    for tx in (inside, outside):
        with pytest.raises(RetryableConflict):
            lake.resume(tx.id).commit()


def test_a_saved_transaction_whose_time_is_up_is_not_gone_on_with() -> None:
    runtime = Runtime.seeded(1)
    lake = create(DictStore(runtime=runtime), runtime=runtime)
    tx = lake.transaction(lifetime=60)
    tx.create_namespace("late")
    tx.save()
    assert lake.resume(tx.id).id == tx.id
    runtime.clock.sleep(61)
    with pytest.raises(RetryableConflict, match="older than transactions may become"):
        lake.resume(tx.id)


@pytest.mark.parametrize("jumps", [False, True], ids=["it takes longer", "the clock jumps"])
def test_what_takes_longer_than_a_transaction_may_is_not_run_again_and_again(*, jumps: bool) -> None:
    """The next attempt would take as long; but where only the time of day was wrong it does not."""
    runtime = Runtime.seeded(1)
    lake = create(DictStore(runtime=runtime), runtime=runtime)
    runs = 0

    def work(tx: Any) -> None:
        nonlocal runs
        runs += 1
        tx.create_namespace("late")
        if not jumps:
            runtime.clock.sleep(61)
        elif runs == 1:
            assert isinstance(runtime.clock, SimulatedClock)
            runtime.clock._start += timedelta(days=1)

    if jumps:
        lake.run(work, lifetime=60)
        assert (runs, lake.namespaces()) == (2, [("late",)])
        return
    with pytest.raises(RetryableConflict, match="older than transactions may become") as caught:
        lake.run(work, lifetime=60)
    assert (runs, lake.namespaces()) == (1, [])
    assert "others were faster" not in caught.value.message


def test_a_transaction_that_was_saved_for_longer_than_there_are_dates_does_not_stop_a_clean_up(lake: Lake) -> None:
    tx = lake.transaction(lifetime=1e12)
    tx.append("shop.a", rows(1))
    tx.save()
    garbage = lost(lake)
    assert [one.path for one in lake.gc(grace=0).unneeded] == [garbage]
    lake.resume(tx.id).commit()
    assert ids(lake, "shop.a") == [1]


def test_a_saved_transaction_with_files_from_before_it_began_is_as_old_as_those(lake: Lake) -> None:
    since = lake.version
    lost(lake)
    lake.gc(dry_run=False)
    lake.table("shop.a").append(rows(1))
    older(lake, 2)
    tx = lake.transaction()
    tx.append("shop.a", rows(2))
    tx.oldest = since
    tx.save()
    held = lake.gc(dry_run=False)
    assert held.moved == ()
    assert tx.id in held.waiting_for
    resumed = lake.resume(tx.id)
    assert resumed.oldest == since
    resumed.commit()
    assert ids(lake, "shop.a") == [1, 2]


def test_a_transaction_that_was_saved_right_at_the_fence_keeps_its_files(lake: Lake) -> None:
    lost(lake)
    at_once(lake)
    before = files(lake)
    tx = lake.transaction()
    assert tx.base == lake.state().root.min_base
    tx.append("shop.a", rows(1))
    tx.save()
    written = files(lake) - before
    assert written.isdisjoint(one.path for one in lake.gc(grace=0).unneeded)


def test_what_is_committed_between_the_look_and_the_fence_stays(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = lake.transaction()
    slow.append("shop.a", rows(1))
    slow.late.write()
    garbage = lost(lake)

    def late(*given: Any) -> Note:
        slow.commit()
        return leave_note(*given)

    monkeypatch.setattr(gc, "leave_note", late)
    assert [one.path for one in at_once(lake, window=0).moved] == [garbage]
    assert ids(open_lake(lake.store), "shop.a") == [1]


def test_a_row_in_a_file_of_its_own_stays_as_long_as_the_tree_names_it(lake: Lake) -> None:
    before = files(lake)
    lake.create_namespace("wide", {"note": "x" * 10_000})
    with lake.transaction() as tx:
        tx.set_properties("shop.a", {"note": "y" * 10_000})
    large = {path for path in files(lake) - before if lake.store.head(path).size > 10_000}
    assert len(large) == 2
    lake.table("shop.a").append(rows(1))
    lake.expire(older_than=0, keep=1)
    at_once(lake, window=0)
    anew = open_lake(lake.store)
    namespace = anew.state().namespace(("wide",))
    assert namespace is not None
    assert namespace.properties == {"note": "x" * 10_000}
    assert anew.table("shop.a").row.properties["note"] == "y" * 10_000


def deep(place: str) -> tuple[Lake, Root]:
    """A lake whose tree has nodes below nodes, none of them kept in memory; and an early root that shares most."""
    lake = seiche.create(place, settings={"order": 4, "root_buffer_max_size_bytes": 1000})
    with lake.transaction() as tx:
        for number in range(40):
            tx.create_namespace(f"n{number:02}")
    for number in range(12):
        lake.create_namespace(f"o{number:02}")
    early = lake.state().root
    for number in range(3):
        lake.create_namespace(f"p{number:02}")
    assert early.node.level == lake.state().root.node.level == 2
    lake.states.nodes = Nodes(lake.store, cache_bytes=0)
    lake.states.advance(lake.state().root)
    return lake, early


def clear_away(lake: Lake) -> None:
    """As another process would meanwhile."""
    other = open_lake(lake.store)
    other.expire(older_than=0, keep=1)
    assert at_once(other, window=0).moved


def test_of_a_version_that_is_cleared_away_while_one_looks_what_others_share_stays() -> None:
    lake, early = deep("memory://looking")
    clear_away(lake)
    found = Reachable(lake.states)
    found.add_roots([early, lake.state().root])
    assert found.versions == 1
    assert all(target(one)[0] in found.needed for one in lake.state().tree.walk())


def test_a_version_that_is_cleared_away_before_the_next_is_compared_with_it_stops_nothing() -> None:
    lake, early = deep("memory://comparing")

    def roots() -> Iterator[Root]:
        yield early
        clear_away(lake)
        yield lake.states.latest().root

    found = Reachable(lake.states)
    found.add_roots(roots())
    assert found.versions == 2
    assert all(target(one)[0] in found.needed for one in lake.state().tree.walk())


def test_who_commits_on_a_version_that_was_cleared_away_meets_the_fence_of_that() -> None:
    """Not its missing files: the newest version is looked for only if the last one seen does not do."""
    lake, _ = deep("memory://stale")
    tx = lake.transaction()
    tx.create_namespace("q-late")
    for number in range(9):
        open_lake(lake.store).create_namespace(f"q{number}")
    clear_away(lake)
    with pytest.raises(RetryableConflict, match="given up by an expiry"):
        tx.commit()


def test_what_another_clean_up_took_rightly_meanwhile_is_not_put_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*given: Any) -> Note:
        monkeypatch.undo()
        other = open_lake(lake.store)
        other.expire(older_than=0, keep=1)
        assert at_once(other).moved
        return leave_note(*given)

    lake.table("shop.a").append(rows(1))
    lake.table("shop.a").overwrite(rows(2))
    monkeypatch.setattr(gc, "leave_note", late)
    done = at_once(lake, window=0)
    assert (done.removed, done.restored) == (0, ())
    assert len(lake.trash()) == 1, "the next clean-up will know"


def test_an_index_in_the_folder_of_another_table_is_found_there(lake: Lake) -> None:
    made = UUID(int=7)
    found = Reachable(lake.states)
    brought = Transaction(create_index=CreateIndex(new_indices=[IndexMetadata(uuid=wire.UUID(uuid=made.bytes))]))
    NeededNames(found.needed, location(lake, "shop.b")).add_transaction(brought)
    home = location(lake, "shop.a")
    assert found.leads_to(place(f"{home}/_indices/{made}/part/page.lance", {home}))


def test_manifests_are_taken_first_and_the_oldest_first(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """So at any moment those that stand leave no gap, and name only what stands."""
    for number in range(4):
        lake.table("shop.a").append(rows(number))
    lake.table("shop.a").overwrite(rows(9))
    lake.expire(older_than=0, keep=1)
    rename = LocalStore.rename_if_absent
    taken: list[Place] = []

    def note(store: LocalStore, source: str, target: str) -> None:
        taken.append(place(source))
        rename(store, source, target)

    monkeypatch.setattr(LocalStore, "rename_if_absent", note)
    at_once(lake)
    manifests = [one for one in taken if one.sort is Sort.MANIFEST and one.location == location(lake, "shop.a")]
    assert [one.version for one in manifests] == sorted(one.version for one in manifests)
    assert len(manifests) > 3
    sorts = [one.sort is Sort.MANIFEST for one in taken]
    assert sorts == sorted(sorts, reverse=True)
    assert any(one.sort is Sort.DATA for one in taken)


def test_a_counter_that_falls_from_one_version_to_the_next_is_found(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("shop.stable", SCHEMA, stable_row_ids=True)
    table.append(rows(1, 2))
    apply = Append.apply

    def forgetful(operation: Append, manifest: Manifest, build: Build) -> Manifest:
        made = apply(operation, manifest, build)
        made.header.next_row_id = 1
        return made

    monkeypatch.setattr(Append, "apply", forgetful)
    monkeypatch.setattr(invariants, "check", lambda *_, **__: None)
    lake.table("shop.stable").append(rows(3))
    monkeypatch.undo()
    found = lake.fsck()
    assert not found.ok
    assert "row ids would fall" in " ".join(one.message for one in found.problems)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [(Unavailable("no space", remedy="Free some."), "Free some."), (CommitUnknown("gone"), Unavailable.advice)],
)
def test_who_insists_in_vain_is_told_what_helps(error: SeicheError, remedy: str) -> None:
    def act() -> None:
        raise error

    with pytest.raises(Unavailable, match=error.message) as told:
        insist(act, Runtime.seeded(0))
    assert told.value.remedy == remedy
