"""Clean-up of tables without rows: what goes, what stays and why, and what is refused."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound, Unavailable
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.cleanup import Cleaner
from seiche.table.cleanup_plan import Cleanup
from seiche.table.cleanup_survey import Names
from seiche.table.format import file
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.refs import Branch, branch_path, tag_path
from seiche.table.operations import Append, Delete, Rewrite, RewrittenIndex
from seiche.table.reachable import Reach, index_folder
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.table.versions.external import MemoryManifestStore
from seiche.table.versions.naming import Naming
from seiche.testing import Call, CountingStore, DictStore, SimulatedStore
from tests.made_up_table import MadeUpTable, missing_files, needed_by, paths_below, simulated, unfinished

DAY = 86400.0


class Looked(dict[str, Branch]):
    """Branches, and how many of them were looked at."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self.times += 1
            yield name

    def __contains__(self, name: object) -> bool:
        self.times += 1
        return super().__contains__(name)


class Aged(MadeUpTable):
    """A table on which time can pass."""

    def __init__(self) -> None:
        store, self.clock = simulated()
        super().__init__(store, clock=self.clock)

    def later(self, days: float) -> None:
        self.clock.advance(days * DAY)

    def run(self, *arguments: Any, table: Table | None = None, **options: Any) -> Cleanup:
        done = (table or self.table).cleanup(*arguments, dry_run=False, **options)
        assert done.done
        return done

    def history(self) -> None:
        """Versions 1 to 6, a day apart: empty, two appends, a deletion, an index, everything anew; then 30 days."""
        steps: list[Callable[[], int]] = [lambda: self.append(blobs=2), self.append, self.delete, self.index]
        for step in [*steps, self.overwrite]:
            self.later(1)
            step()
        self.later(30)

    def everything(self) -> set[str]:
        return {path.removeprefix("table/") for path in paths_below(self.store, "table")}


@pytest.fixture
def made() -> Aged:
    table = Aged()
    table.history()
    return table


class TestWhatGoes:
    def test_old_versions_and_their_files(self, made: Aged) -> None:
        newest = set(needed_by(made.table.manifest, "table", made.store))
        done = made.run()
        assert done.dropped == (1, 2, 3, 4, 5)
        assert done.kept == (6,)
        assert [one.version for one in made.table.versions()] == [6]
        assert {f"table/{path}" for path in made.everything() if path.startswith(("data", "_de", "_in"))} == newest
        assert len([path for path in made.everything() if path.startswith("_transactions")]) == 1
        kinds = [removal.kind for removal in done.removals]
        assert {kind: kinds.count(kind) for kind in kinds} == {
            "manifest": 5,
            "data file": 4,
            "deletion file": 1,
            "index file": 1,
            "transaction": 5,
        }
        assert not missing_files(made.store, ["table"])
        assert made.run().files == 0

    def test_a_plan_first_and_nothing_is_written_for_it(self, made: Aged) -> None:
        store = CountingStore(made.store)
        table = Table.open(below(store, "table"), runtime=made.runtime)
        store.reset()
        planned = table.cleanup()
        assert store.writes == 0
        assert not planned.done
        done = made.run()
        assert (planned.dropped, planned.removals) == (done.dropped, done.removals)
        assert planned.bytes == done.bytes == sum(removal.size for removal in done.removals) > 0
        assert planned.removals[0].reason == "version 1 was followed by 2 at 2030-01-02 00:00:00"
        assert planned.removals[-1].reason == "no version needs it"

    def test_files_that_a_kept_version_needs_stay(self, made: Aged) -> None:
        done = made.run(retain=2)
        assert done.kept == (5, 6)
        assert not missing_files(made.store, ["table"])
        # The data of 5 came with 2 and 3, its deletions with 4, its index with 5.
        assert len([path for path in made.everything() if path.startswith("data/")]) == 5
        assert len([removal for removal in done.removals if removal.kind == "data file"]) == 0

    def test_a_reader_of_a_version_that_was_the_latest_lately(self, made: Aged) -> None:
        made.append()
        made.later(6)
        assert made.run("7d").kept == (6, 7)
        made.later(2)
        assert made.run("7d").kept == (7,)

    def test_who_lists_versions_meanwhile(self, made: Aged) -> None:
        store = SimulatedStore(made.store)
        table = Table.open(below(store, "table"), runtime=made.runtime)
        cleaned: list[Cleanup] = []

        def clean_up(call: Call) -> None:
            if call.verb == "get" and not cleaned:
                cleaned.append(made.run())

        store.on_call = clean_up
        assert [one.version for one in table.versions()] == [6]

    def test_young_files_of_versions_that_go(self) -> None:
        made = Aged()
        made.append()
        made.overwrite()
        made.later(1)
        done = made.run("1h")
        assert done.dropped == (1, 2)
        reasons = {removal.reason for removal in done.removals if removal.kind == "data file"}
        assert reasons == {"only versions that go need it"}
        assert not missing_files(made.store, ["table"])

    def test_the_hint_is_right_afterwards(self, made: Aged) -> None:
        class Nearby(DictStore):
            @property
            def lists_in_one_request(self) -> bool:
                return True

        made.root.put("_versions/latest_version_hint.json", b'{"version":2}')
        made.run()
        assert made.root.get("_versions/latest_version_hint.json") == b'{"version":2}'  # nobody reads it there
        near = MadeUpTable(Nearby(runtime=made.runtime), clock=made.clock)
        near.append()
        near.root.delete("_versions/latest_version_hint.json")
        near.table.cleanup(dry_run=False)
        assert near.root.get("_versions/latest_version_hint.json").rstrip() == b'{"version":2}'


class TestLeftovers:
    def crashed_writer(self, made: Aged) -> set[str]:
        """Leaves what a writer may leave that dies before its commit."""
        before = made.everything()
        made.fragment(blobs=2)
        made.root.put("_deletions/1-5-77.arrow", b"x")
        made.root.put("_indices/0b8e44bd-4f2e-4a5c-8e4e-f4a1a4a1a001/page.lance", b"x")
        made.root.put("_transactions/6-dead.txn", Transaction(6, "dead", Append(())).encode())
        made.root.put("_transactions/dead.rows", b"x")
        made.root.put("_shadow/0b8e44bd-4f2e-4a5c-8e4e-f4a1a4a1a002/_versions/1.manifest", b"x")
        made.root.put("_shadow/0b8e44bd-4f2e-4a5c-8e4e-f4a1a4a1a002/_indices/a/page.lance", b"x")
        made.root.put(f"{Naming.V2.path(3)}-{made.runtime.uuid()}", b"staged")
        made.root.put(f"{Naming.V2.path(6)}#1", b"temporary")
        return made.everything() - before

    def test_they_go_when_they_are_old_and_not_before(self, made: Aged) -> None:
        garbage = self.crashed_writer(made)
        assert len(garbage) == 11
        made.later(6.9)
        young = made.run()
        assert garbage <= made.everything()
        assert young.young == 9
        made.later(0.2)
        done = made.run()
        assert not garbage & made.everything()
        assert {removal.path for removal in done.removals} == garbage

    def test_with_no_grace_they_go_at_once(self, made: Aged) -> None:
        garbage = self.crashed_writer(made)
        made.run(grace=0)
        assert not garbage & made.everything()

    def test_what_is_not_known_is_left_alone(self, made: Aged) -> None:
        strange = ["_fri/map", "_bt/node", "_mem_wal/log", "README", "_staged/1.manifest", "other/data/x.lance"]
        strange += ["_versions/notes.txt", "_versions/x.tmp", "_refs/other/x.json"]
        for path in strange:
            made.root.put(path, b"x")
        made.later(100)
        made.run(grace=0)
        assert set(strange) <= made.everything()

    def test_a_staged_manifest_that_may_yet_be_claimed_stays(self, made: Aged) -> None:
        path = f"{Naming.V2.path(7)}-{made.runtime.uuid()}"
        made.root.put(path, b"staged")
        made.later(100)
        made.run(grace=0)
        assert path in made.everything()
        made.append()
        made.run(grace=0)
        assert path not in made.everything()

    def test_branches_that_never_were_or_no_longer_are(self, made: Aged) -> None:
        kept = made.table.branch("kept/inner")
        for name in ("kept", "half"):
            made.append(made.table.branch(name))
            made.root.delete(branch_path(name))
        made.later(6)
        made.run()
        assert any(path.startswith("tree/half") for path in made.everything())
        made.later(2)
        made.run()
        trees = {path for path in made.everything() if path.startswith("tree/")}
        assert trees
        assert all(path.startswith("tree/kept/inner/") for path in trees)
        assert kept.version == 6

    def test_a_branch_inside_another_that_exists(self, made: Aged) -> None:
        outer = made.table.branch("outer")
        made.append(outer)
        made.append(made.table.branch("outer/inner"))
        made.root.delete(branch_path("outer/inner"))
        made.root.put("tree/outer/_new/of a newer writer", b"x")
        made.later(8)
        made.run()
        trees = {path for path in made.everything() if path.startswith("tree/")}
        assert "tree/outer/_new/of a newer writer" in trees
        assert not [path for path in trees if path.startswith("tree/outer/inner")]
        assert not missing_files(made.store, ["table/tree/outer"])

    def test_whose_file_it_is_is_looked_up_and_not_searched_for_in_all_branches(self) -> None:
        looked = Looked({f"b{number}/c": Branch(parent_version=1, identifier=()) for number in range(1000)})
        names = Names({}, looked, {})
        assert names.own("tree/b999/c/data/x.lance")
        assert names.own("tree/b7/c/_indices/1/x")
        assert not names.own("tree/b7/data/x.lance")
        assert not names.own("tree/b7/c/d/_versions/1.manifest")
        assert looked.times < 10

    def test_leases_of_the_dead(self, made: Aged) -> None:
        with suppress(ZeroDivisionError), made.table._references.held(2, "test"):
            assert made.run().kept == (2, 3, 4, 5, 6)
            raise ZeroDivisionError
        assert made.table.tags() == {}
        with made.table._references.held(2, "test"):
            (path,) = paths_below(made.root, "_refs/tags")
            data = made.root.get(path)
        made.root.put(path, data)
        made.later(6)
        assert made.run().kept == (2, 3, 4, 5, 6)
        made.later(2)
        done = made.run()
        assert done.kept == (6,)
        assert made.table.tags() == {}
        assert "lease" in {removal.kind for removal in done.removals}


class TestWhatIsReferredTo:
    def test_a_tagged_version_and_everything_after_it(self, made: Aged) -> None:
        made.table.tag("good", 3)
        done = made.run()
        assert done.dropped == (1, 2)
        assert done.held == {3: "tag 'good'", 4: "follows version 3, tag 'good'", 5: "follows version 3, tag 'good'"}
        made.table.untag("good")
        assert made.run().dropped == (3, 4, 5)

    def test_with_gaps_the_tagged_version_alone(self, made: Aged) -> None:
        made.table.tag("good", 3)
        done = made.run(gaps=True)
        assert done.kept == (3, 6)
        assert not missing_files(made.store, ["table"])
        assert made.table.checkout("good").version == 3

    def test_a_branch_keeps_files_but_not_versions(self, made: Aged) -> None:
        branch = made.table.branch("dev", 5)
        made.later(30)
        done = made.run()
        assert done.kept == (6,)
        assert not missing_files(made.store, ["table", "table/tree/dev"])
        made.delete(branch)
        made.append(branch)
        made.later(30)
        made.run()
        assert not missing_files(made.store, ["table", "table/tree/dev"])
        made.table.delete_branch("dev")
        made.later(30)
        made.run()
        assert len(paths_below(made.store, "table/data")) == 1

    def test_a_branch_is_cleaned_up_by_itself(self, made: Aged) -> None:
        branch = made.table.branch("dev", 5)
        made.append(branch)
        branch.branch("child")
        made.overwrite(branch)
        branch.tag("here")
        made.overwrite(branch)
        made.later(30)
        done = made.run(table=branch)
        assert done.kept == (7, 8)
        assert not missing_files(made.store, ["table", "table/tree/dev", "table/tree/child"])
        made.table.delete_branch("child")
        made.table.untag("here")
        done = made.run(table=branch)
        assert done.kept == (8,)
        assert len(paths_below(made.store, "table/tree/dev/data")) == 1
        assert made.table.versions()[0].version == 1

    def test_a_branch_that_is_about_to_begin(self, made: Aged) -> None:
        """Its reference is there, its first version not yet: what it needs is known only by the version it names."""
        made.table.branch("dev", 3)
        for path in paths_below(made.root, "tree"):
            made.root.delete(path)
        assert made.run().kept == (3, 4, 5, 6)
        assert made.table.checkout(branch="dev").version == 3
        assert made.run().kept == (6,)
        assert not missing_files(made.store, ["table", "table/tree/dev"])

    def test_our_shallow_clones_are_known(self, made: Aged) -> None:
        made.table.clone(below(made.store, "copy"), shallow=True, version=4)
        done = made.run()
        assert done.kept == (4, 5, 6)
        assert done.held[4].startswith("needed by the clone at dict://test/copy (tag 'clone-")
        assert not missing_files(made.store, ["table", "copy"])

    def test_shallow_clones_of_others_can_be_named(self, made: Aged) -> None:
        copy = made.table.clone(below(made.store, "copy"), shallow=True, version=5, protect=False)
        made.append(copy)
        for way in ("dict://test/copy", copy, copy.store):
            done = made.run(protect=[way])
            assert done.kept == (6,)
            assert not missing_files(made.store, ["table", "copy"])
        made.run()
        assert missing_files(made.store, ["copy"])
        with pytest.raises(NotFound, match="no table at dict://test/nowhere"):
            made.run(protect="dict://test/nowhere")

    def test_versions_that_are_asked_for(self, made: Aged) -> None:
        done = made.run(protect=[4])
        assert done.kept == (4, 5, 6)
        assert done.held[4] == "asked for"
        with pytest.raises(NotFound, match="no version 2"):
            made.run(protect=[2])

    def test_a_transaction_that_waits(self, made: Aged) -> None:
        fragment = made.fragment(blobs=1)
        waiting = Transaction(6, "waiting", Append((fragment,)))
        made.later(30)
        for way in (waiting, waiting.encode()):
            made.run(protect=[way])
        made.table.commit(waiting.encode())
        assert not missing_files(made.store, ["table"])

    def test_a_transaction_that_waits_with_the_rows_that_it_touches_in_a_file(self, made: Aged) -> None:
        """Without it nobody could commit the transaction any more."""
        made.append()
        fragment = DataFragment()
        fragment.CopyFrom(made.table.manifest.fragments[0])
        # As many, and as scattered, as do not fit into the transaction itself.
        waiting = made.table.pack(
            Delete((fragment,), (), "true"), affected_rows={fragment.id: range(0, 2_000_000, 2), 77: range(5)}
        )
        (rows,) = [path for path in made.everything() if path.endswith(".rows")]
        made.later(30)
        made.run(protect=[waiting])
        assert rows in made.everything()
        made.run()
        assert rows not in made.everything()

    def test_a_writer_that_is_slow_but_about_to_commit(self, made: Aged) -> None:
        """Its data files are old, its transaction is not: that comes just before the claim."""
        fragment = made.fragment(blobs=1)
        made.later(30)
        waiting = Transaction(6, "waiting", Append((fragment,)))
        made.root.put(f"_transactions/{waiting.file_name}", waiting.encode())
        made.run()
        made.table.commit(waiting.encode())
        assert not missing_files(made.store, ["table"])

    def test_a_writer_whose_transaction_storage_sends_in_part(
        self, made: Aged, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without its end it can be read still, and names no files."""
        fragment = made.fragment()
        made.later(30)
        waiting = Transaction(6, "waiting", Append((fragment,)))
        made.root.put(f"_transactions/{waiting.file_name}", waiting.encode())
        whole = DictStore.get
        monkeypatch.setattr(DictStore, "get", lambda self, path: whole(self, path)[: 0 if ".txn" in path else None])
        with pytest.raises(Unavailable):
            made.run()
        monkeypatch.undo()
        made.table.commit(waiting.encode())
        assert not missing_files(made.store, ["table"])

    def test_detached_versions(self, made: Aged) -> None:
        number = made.detached()
        made.later(6)
        made.run()
        assert not missing_files(made.store, ["table"])
        assert f"_versions/d{number}.manifest" in made.everything()
        made.later(2)
        data = len(paths_below(made.store, "table/data"))
        done = made.run()
        assert f"_versions/d{number}.manifest" not in made.everything()
        assert len(paths_below(made.store, "table/data")) == data - 1
        assert f"detached version {number}" in done.removals[0].reason
        number = made.detached()
        made.later(30)
        made.run(protect=[number])
        assert f"_versions/d{number}.manifest" in made.everything()
        assert not missing_files(made.store, ["table"])

    def test_a_branch_that_is_made_meanwhile(self, made: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
        meanwhile(monkeypatch, lambda: made.table.branch("late", 3))
        done = made.run()
        assert done.kept == (6,)
        assert [info.path for info in made.root.list("tree/late/_versions")]
        assert not missing_files(made.store, ["table", "table/tree/late"])

    def test_a_branch_that_is_made_again_where_one_was_left_behind(
        self, made: Aged, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made.append(made.table.branch("again"))
        reference = made.root.get(branch_path("again"))
        made.root.delete(branch_path("again"))
        made.later(30)
        meanwhile(monkeypatch, lambda: made.root.put(branch_path("again"), reference))
        assert "branch left behind" in {removal.kind for removal in made.table.cleanup().removals}
        made.run()
        assert made.table.checkout(branch="again").version == 7
        assert not missing_files(made.store, ["table", "table/tree/again"])

    def test_a_tag_of_another_line_holds_nothing_of_this_one(self, made: Aged) -> None:
        branch = made.table.branch("dev", 2)
        branch.tag("theirs", 2)
        assert made.run().kept == (6,)
        assert not missing_files(made.store, ["table", "table/tree/dev"])

    def test_an_index_that_a_waiting_rewrite_has_built_anew(self) -> None:
        old, new = pb.UUID(uuid=bytes(16)), pb.UUID(uuid=bytes(range(16)))
        rewrite = Rewrite(rewritten_indices=(RewrittenIndex(old_id=old, new_id=new),))
        reach = Reach()
        reach.add_transaction(Transaction(1, "waiting", rewrite).to_proto())
        assert reach.holds(f"{index_folder(new.uuid)}/part")
        assert not reach.holds(f"{index_folder(old.uuid)}/part")

    def test_a_transaction_that_is_written_meanwhile(self, made: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
        waiting = Transaction(6, "waiting", Append((made.fragment(blobs=1),)))
        made.later(30)
        path = f"_transactions/{waiting.file_name}"
        meanwhile(monkeypatch, lambda: made.root.put(path, waiting.encode()))
        made.run()
        made.table.commit(waiting.encode())
        assert not missing_files(made.store, ["table"])

    @pytest.mark.parametrize("there", [0, 12, -1], ids=["nothing", "no operation", "half of it"])
    def test_a_transaction_that_is_half_written_at_first(
        self, made: Aged, monkeypatch: pytest.MonkeyPatch, there: int
    ) -> None:
        """Writers fill such a file in sight of others."""
        waiting = Transaction(6, "waiting", Append((made.fragment(blobs=1),)))
        made.later(30)
        path, encoded = f"_transactions/{waiting.file_name}", waiting.encode()
        made.root.put(path, encoded[:there])
        meanwhile(monkeypatch, lambda: made.root.put(path, encoded))
        made.run()
        made.table.commit(encoded)
        assert not missing_files(made.store, ["table"])


class TestRefused:
    def test_a_table_of_a_lake(self, made: Aged) -> None:
        _change(made, 6, lambda manifest: _flag(manifest, SEICHE_FENCE))
        _refused(made, InvalidInput, r"lake\.gc")

    def test_features_that_are_not_understood(self, made: Aged) -> None:
        """In the latest version and in any that stays: one of them may name files in a way that we do not see."""
        for version in (6, 5):
            _change(made, version, lambda manifest: _flag(manifest, 1 << 13))
            _refused(made, InvalidInput, "unknown feature flags", retain=2)
            _change(made, version, lambda manifest: _flag(manifest, -(1 << 13)))
        _change(made, 5, _with_overlay)
        _refused(made, InvalidInput, "fragment 0 of version 5 has parts that are not understood", retain=2)

    def test_unknown_fields(self, made: Aged) -> None:
        unknown = b"\xfa\x01\x01x"  # field 31
        _change(made, 6, lambda manifest: manifest.header.MergeFromString(unknown))
        _refused(made, InvalidInput, "version 6 has parts that are not understood")

    def test_unknown_fields_of_a_branch(self, made: Aged) -> None:
        branch = made.table.branch("dev", 5)
        _change(made, 5, lambda manifest: manifest.header.MergeFromString(b"\xfa\x01\x01x"), root=branch.store)
        _refused(made, InvalidInput, "version 5 has parts that are not understood")

    def test_damage(self, made: Aged) -> None:
        _replace(made, made.root, Naming.V2.path(5), b"damaged")
        _refused(made, Corrupt, "bytes", retain=2)
        assert made.run().dropped == (1, 2, 3, 4, 5)
        made.root.put(tag_path("bad"), b"{")
        _refused(made, Corrupt, r"bad\.json")
        made.root.delete(tag_path("bad"))
        made.root.put(branch_path("bad"), b"{")
        _refused(made, Corrupt, r"bad\.json")

    def test_a_tag_whose_version_is_lost(self, made: Aged) -> None:
        """Its manifest may come back from a copy, and then needs files that no other version names."""
        made.table.tag("release", 4)
        whole = made.root.get(Naming.V2.path(4))
        made.root.delete(Naming.V2.path(4))
        _refused(made, Corrupt, r"_refs/tags/release\.json: the manifest of version 4, .* is missing")
        made.root.put(Naming.V2.path(4), whole)
        made.later(30)
        assert made.run().dropped == (1, 2, 3)
        assert not missing_files(made.store, ["table"])
        made.root.delete(Naming.V2.path(4))
        made.table.untag("release")
        assert made.run().dropped == (5,)

    def test_a_tag_on_another_line_whose_version_is_lost(self, made: Aged) -> None:
        branch = made.table.branch("dev", 4)
        branch.tag("release")
        branch.update_config({"a": "b"})
        lost = Naming.V2.path(branch.tags()["release"].version)
        whole = branch.store.get(lost)
        branch.store.delete(lost)
        _refused(made, Corrupt, r"_refs/tags/release\.json")
        branch.store.put(lost, whole)
        made.run()
        assert not missing_files(made.store, ["table", "table/tree/dev"])

    def test_a_pinned_table(self, made: Aged) -> None:
        with pytest.raises(InvalidInput, match="read-only"):
            made.table.checkout(3).cleanup()

    @pytest.mark.parametrize("bad", [{"protect": [2.5]}, {"protect": [None]}, {"protect": [True]}, {"retain": 0}])
    def test_bad_input(self, made: Aged, bad: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            made.table.cleanup(**bad)
        with pytest.raises(Corrupt):
            made.table.cleanup(protect=[b"\xff"])


class TestConnections:
    def test_one_that_is_cut_while_files_go_does_not_end_it(self, made: Aged) -> None:
        """Of each file first comes a reset, which says nothing on whether the file is gone."""
        expected = made.table.cleanup()
        cut: set[str] = set()

        def reset(call: Call) -> None:
            if call.verb == "delete" and call.path not in cut:
                cut.add(call.path)
                raise Unavailable(f"{call.path}: connection reset")

        table = Table.open(below(SimulatedStore(made.store, on_call=reset), "table"), runtime=made.runtime)
        done = made.run(table=table)
        assert (done.dropped, set(done.removals)) == (expected.dropped, set(expected.removals))
        assert len(cut) > done.files
        assert not missing_files(made.store, ["table"])

    def test_a_version_that_gets_a_tag_meanwhile_is_written_back_through_a_cut_connection(self, made: Aged) -> None:
        cut: list[str] = []

        def tag(call: Call) -> None:
            if call.verb == "delete" and call.path.endswith(".manifest") and not cut:
                made.table.tag("held", 3)
                cut.append("tagged")
            if call.verb == "put_if_absent" and cut == ["tagged"]:
                cut.append(call.path)
                raise Unavailable(f"{call.path}: connection reset")

        table = Table.open(below(SimulatedStore(made.store, on_call=tag), "table"), runtime=made.runtime)
        made.run(table=table)
        assert len(cut) == 2
        assert Table.open(made.root, "held").version == 3
        assert not missing_files(made.store, ["table"])

    def test_one_that_stays_cut_is_told(self, made: Aged) -> None:
        def reset(call: Call) -> None:
            if call.verb == "delete":
                raise Unavailable(f"{call.path}: connection reset")

        table = Table.open(below(SimulatedStore(made.store, on_call=reset), "table"), runtime=made.runtime)
        with pytest.raises(Unavailable):
            made.run(table=table)
        assert not missing_files(made.store, ["table"])


class TestClocks:
    def test_ages_are_told_by_the_clock_of_the_storage(self) -> None:
        """This machine believes it is a year later: nothing young goes."""
        made = Aged()
        made.append()
        made.overwrite()
        garbage = made.fragment().files[0].path
        made.later(1)
        ahead = SimulatedClock(made.clock.now() + timedelta(days=365))
        table = Table.open(made.root, runtime=Runtime(ahead, made.runtime.random))
        assert table.cleanup().files > 0
        before = made.everything()
        done = table.cleanup(dry_run=False)
        assert done.files == 0
        assert made.everything() == before
        assert f"data/{garbage}" in before


class TestManifestStore:
    def test_records_go_with_the_versions(self) -> None:
        store, clock = simulated()
        records = MemoryManifestStore()
        made = MadeUpTable(store, clock=clock)
        table = Table.open(made.root, manifest_store=records, runtime=made.runtime)
        for _ in range(3):
            made.append(table)
        made.overwrite(table)
        staged = f"{Naming.V2.path(3)}-{made.runtime.uuid()}"
        made.root.put(staged, b"of a loser")
        clock.advance(30 * DAY)
        done = table.cleanup(dry_run=False)
        assert done.kept == (5,)
        base = records.base_uri(made.root)
        assert [records.get(base, version) is not None for version in range(1, 6)] == [False, False, False, False, True]
        assert staged not in paths_below(made.root)
        assert not missing_files(store, ["table"])
        assert made.append(table) == 6

    def test_a_version_that_is_claimed_and_not_finished_keeps_its_files(self) -> None:
        """Its files are old, and nothing in the directory names them: only the manifest store knows."""
        made, table, records = self._made()
        staged = unfinished(made.root, records, made.overwrite(table))
        made.later(30)
        plan = table.cleanup(grace=0)
        assert plan.versions[-1] == 4
        unfinished(made.root, records, 4)
        made.run(grace=0, table=table)
        assert made.everything() >= {Naming.V2.path(4)}
        assert staged not in made.everything()
        assert not missing_files(made.store, ["table"])
        assert Table.open(made.root, manifest_store=records).version == 4

    def test_a_version_that_is_claimed_while_old_ones_go_keeps_its_files(self) -> None:
        """The writer was so slow that its files count as left behind, and dies before it can finish."""
        made, _, records = self._made()
        fragment = made.fragment()
        made.later(30)
        late: list[int] = []

        def claim(call: Call) -> None:
            if call.verb == "delete" and call.path.endswith(".manifest") and not late:
                other = Table.open(made.root, manifest_store=records, runtime=made.runtime)
                other.commit(Append((fragment,)), read_version=other.version)
                late.append(other.version)
                unfinished(made.root, records, other.version)

        store = SimulatedStore(made.store, on_call=claim)
        watched = Table.open(below(store, "table"), manifest_store=records, runtime=made.runtime)
        made.run(grace=0, table=watched)
        assert late == [4]
        assert f"data/{fragment.files[0].path}" in made.everything()
        assert Table.open(made.root, manifest_store=records).version == 4
        assert not missing_files(made.store, ["table"])

    def test_no_record_stays_of_a_version_whose_file_is_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who dies between the two leaves the file: the next clean-up sees that, and would see no record alone."""
        made, table, records = self._made()
        made.overwrite(table)
        made.later(30)

        def refuse(base_uri: str, version: int) -> None:
            raise Unavailable(f"not now: {base_uri}, {version}")

        monkeypatch.setattr(records, "delete", refuse)
        with pytest.raises(Unavailable, match="not now"):
            made.run(table=table)
        monkeypatch.undo()
        made.run(table=table)
        base = records.base_uri(made.root)
        assert [version for version in range(1, 5) if records.get(base, version) is not None] == [4]

    @pytest.mark.parametrize("branch", [None, "dev"])
    def test_a_latest_version_whose_file_is_lost_keeps_its_files(self, branch: str | None) -> None:
        """The directory ends before it, and looks whole: only the manifest store knows."""
        made, table, _ = self._made()
        line = table if branch is None else table.branch(branch)
        made.overwrite(line)
        lost = Naming.V2.path(line.version)
        made.later(30)
        before, whole = made.everything(), line.store.get(lost)
        line.store.delete(lost)
        with pytest.raises(Corrupt, match="the manifest store says that the latest version is 4"):
            made.run(grace=0, table=table)
        line.store.put(lost, whole)
        assert made.everything() == before

    def _made(self) -> tuple[Aged, Table, MemoryManifestStore]:
        """Three versions, the last of them an append."""
        made, records = Aged(), MemoryManifestStore()
        table = Table.open(made.root, manifest_store=records, runtime=made.runtime)
        made.append(table)
        made.append(table)
        return made, table, records


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody else act when a clean-up has decided what goes, and has not removed anything yet."""
    remove = Cleaner._remove_versions

    def removing(cleaner: Cleaner, survey: Any) -> frozenset[int]:
        act()
        return remove(cleaner, survey)

    monkeypatch.setattr(Cleaner, "_remove_versions", removing)


def _refused(made: Aged, error: type[Exception], match: str, **options: Any) -> None:
    before = made.everything()
    with pytest.raises(error, match=match):
        made.table.cleanup(**options)
    with pytest.raises(error, match=match):
        made.run(**options)
    assert made.everything() == before


def _change(made: Aged, version: int, act: Callable[[Manifest], object], root: Store | None = None) -> None:
    """Let a newer writer have made that version."""
    store = root or made.root
    path = Naming.V2.path(version)
    read = file.decode(store.get(path), path=path)
    changed = act(read.manifest)
    manifest = changed if isinstance(changed, Manifest) else read.manifest
    assert read.transaction is not None
    _replace(made, store, path, b"".join(file.encode(manifest, read.transaction.SerializeToString())))


def _replace(made: Aged, store: Store, path: str, data: bytes) -> None:
    """Other bytes in a file that is as old as before."""
    inner, full = store.origin(path)
    assert isinstance(inner, DictStore)
    _, info = inner._files[full]
    inner._files[full] = (data, replace(info, size=len(data)))


def _flag(manifest: Manifest, bit: int) -> None:
    header = manifest.header
    if bit == SEICHE_FENCE:
        header.writer_feature_flags |= bit
        return
    header.reader_feature_flags += bit
    header.writer_feature_flags += bit


def _with_overlay(manifest: Manifest) -> Manifest:
    fragments: list[DataFragment] = []
    for fragment in manifest.fragments:
        copy = DataFragment()
        copy.CopyFrom(fragment)
        if not fragments:
            copy.overlays.append(b"\x0a\x00")
        fragments.append(copy)
    return Manifest(manifest.copy_header(), Fragments(fragments), manifest.index_section)
