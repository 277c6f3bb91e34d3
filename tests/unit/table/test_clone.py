"""Clones of tables without rows: which files are copied or referred to, and what is there when something fails."""

from collections.abc import Callable
from typing import Any

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, Corrupt, InvalidInput, NotFound, RetryableConflict, Unavailable
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.clone import CLONE_PROPERTY, Progress
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.format.manifest_pb2 import BasePath
from seiche.table.operations import Append, Clone
from seiche.table.table import Table
from seiche.table.versions.external import MemoryManifestStore
from seiche.table.versions.naming import Naming
from seiche.testing import Call, CountingStore, DictStore, SimulatedStore, crash_points
from seiche.testing.scheduling import Process, explore
from tests.made_up_table import SCHEMA, MadeUpTable, missing_files, needed_by, paths_below, simulated

ROOTS = ["table", "copy"]


@pytest.fixture
def made() -> MadeUpTable:
    """Versions: 1 empty, 2 and 3 appends with large values beside, 4 a deletion, 5 an index, 6 everything anew."""
    store, clock = simulated()
    table = MadeUpTable(store, clock=clock)
    table.append(blobs=2)
    table.append(blobs=1)
    table.delete()
    table.index()
    table.overwrite()
    return table


class TestDeep:
    def test_a_clone_has_all_files_of_one_version_and_no_others(self, made: MadeUpTable) -> None:
        copy = made.table.clone(below(made.store, "copy"), version=5)
        assert copy.version == 5
        assert not copy.manifest.header.base_paths
        assert not missing_files(made.store, ROOTS)
        kinds = [path.split("/")[1] for path in paths_below(made.store, "copy")]
        counts = {kind: kinds.count(kind) for kind in kinds}
        assert counts == {"data": 5, "_deletions": 1, "_indices": 1, "_transactions": 1, "_versions": 1}
        for path in paths_below(made.store, "copy/data"):
            assert made.store.get(path) == made.store.get(path.replace("copy", "table", 1))
        assert made.append(copy) == 6
        assert made.table.version == 6

    def test_the_first_version_says_what_it_is_a_clone_of(self, made: MadeUpTable) -> None:
        copy = made.table.clone(below(made.store, "copy"), version=2)
        ((version, transaction),) = copy.transactions()
        assert (version, transaction.read_version) == (2, 2)
        assert transaction.operation == Clone(
            is_shallow=False, ref_version=2, ref_path=made.root.native_uri(), unknown=b""
        )

    def test_from_a_tag_a_branch_and_a_pinned_table(self, made: MadeUpTable) -> None:
        made.table.tag("two", 2)
        branch = made.table.branch("dev", 4)
        made.append(branch)
        branch.tag("on-dev")

        def clone(**options: Any) -> Table:
            target = below(made.store, f"copy{len(list(made.store.list('')))}")
            return made.table.clone(target, **options)

        assert clone().version == 6
        assert clone(tag="two").version == 2
        assert len(clone(branch="dev").manifest.fragments) == 3
        assert clone(branch="dev", version=4).version == 4
        assert clone(tag="on-dev").version == 5
        assert made.table.checkout(3).clone(below(made.store, "pinned")).version == 3
        assert len(branch.clone(below(made.store, "of-branch")).manifest.fragments) == 3
        operation = branch.clone(below(made.store, "named")).transactions()[0][1].operation
        assert isinstance(operation, Clone)
        assert (operation.ref_name, operation.ref_path) == ("dev", branch.store.native_uri())

    def test_files_under_base_paths_come_home(self, made: MadeUpTable) -> None:
        branch = made.table.branch("dev", 5)
        made.append(branch)
        made.delete(branch)
        copy = branch.clone(below(made.store, "copy"))
        assert not copy.manifest.header.base_paths
        assert not missing_files(made.store, ["copy"])
        assert made.append(copy) == 8

    def test_files_of_a_base_that_is_no_table(self) -> None:
        store, clock = simulated()
        made = MadeUpTable(store, clock=clock)
        made.table.add_bases({"path": "dict://test/elsewhere", "id": 7})
        fragment = made.fragment()
        name = fragment.files[0].path
        fragment.files[0].base_id = 7
        store.put(f"elsewhere/{name}", b"rows")
        store.put(f"elsewhere/{name.removesuffix('.lance')}/1.blob", b"large")
        store.delete(f"table/data/{name}")
        made.table.commit(Append((fragment,)))
        made.table.clone(below(store, "copy"))
        assert {path.removeprefix("copy/data/") for path in paths_below(store, "copy/data")} == {
            name,
            f"{name.removesuffix('.lance')}/1.blob",
        }

    def test_within_one_store_nothing_passes_through_this_process(self, made: MadeUpTable) -> None:
        store = CountingStore(made.store)
        table = _opened(store)
        store.reset()
        table.clone(below(store, "copy"), version=5)
        assert store.counts["copy"] == 7
        assert store.counts["put_if_absent"] == 2
        assert store.counts["put"] == 0

    def test_between_stores(self, made: MadeUpTable) -> None:
        other = DictStore("other")
        copy = made.table.clone(other, version=5)
        assert copy.version == 5
        assert {path for path in paths_below(other) if path.startswith("data")} <= {
            path.removeprefix("table/") for path in paths_below(made.store)
        }
        assert {info.size for info in other.list("data")} == {4, 5}

    def test_progress(self, made: MadeUpTable) -> None:
        told: list[Progress] = []
        made.table.clone(below(made.store, "copy"), version=5, progress=told.append)
        assert told[0] == Progress(0, 7, 0, told[0].bytes)
        assert [one.files_done for one in told] == list(range(8))
        assert (
            told[-1].bytes_done
            == told[-1].bytes
            == sum(one.size for one in made.store.list("copy") if _copied(one.path))
        )

    def test_a_table_of_a_lake_is_released(self, made: MadeUpTable) -> None:
        made.fence()
        table = Table.open(made.root, runtime=made.runtime)
        copy = table.clone(below(made.store, "copy"))
        assert not copy.manifest.header.writer_feature_flags & SEICHE_FENCE
        assert made.append(copy) == 7
        with pytest.raises(InvalidInput, match="managed by a lake"):
            table.clone(below(made.store, "other"), shallow=True)
        assert not paths_below(made.store, "other")

    def test_missing_and_damaged_files_are_named_before_anything_is_copied(self, made: MadeUpTable) -> None:
        missing = sorted(needed_by(made.table.checkout(5).manifest, "table", made.store))
        victims = [path for path in missing if not path.endswith(".blob")]
        assert len(victims) == 4
        for path in victims:
            data = made.store.get(path)
            made.store.delete(path)
            with pytest.raises(NotFound, match=path.removeprefix("table/")):
                made.table.clone(below(made.store, "copy"), version=5)
            made.store.put(path, data)
        victim = next(path for path in victims if path.endswith(".lance") and "/data/" in path)
        made.store.put(victim, b"more than there were")
        with pytest.raises(Corrupt, match="has 20 bytes, the manifest says 4"):
            made.table.clone(below(made.store, "copy"), version=5)
        assert not paths_below(made.store, "copy")

    @pytest.mark.parametrize("stored", [b"", b"more"])
    def test_a_copy_that_lost_bytes_or_has_more_is_no_clone(self, made: MadeUpTable, stored: bytes) -> None:
        class Lossy(DictStore):
            def put(self, path: str, data: Any, *, durable: bool = True) -> None:
                super().put(path, stored and stored * 9 if path.endswith(".lance") else data, durable=durable)

        target = Lossy("other")
        with pytest.raises(Corrupt, match=f"has {9 * len(stored)} bytes"):
            made.table.clone(target)
        assert not paths_below(target, "_versions")

    def test_two_files_that_would_become_one_are_refused(self) -> None:
        store, clock = simulated()
        made = MadeUpTable(store, clock=clock)
        made.append()
        made.table.add_bases({"path": "dict://test/else", "id": 3, "is_dataset_root": True})
        twin = made.fragment()
        twin.files[0].path = made.table.manifest.fragments[0].files[0].path
        twin.files[0].base_id = 3
        store.put(f"else/data/{twin.files[0].path}", b"rows")
        made.table.commit(Append((twin,)))
        with pytest.raises(InvalidInput, match="would both become"):
            made.table.clone(below(store, "copy"))
        assert not paths_below(store, "copy")


class TestShallow:
    def test_nothing_but_metadata_is_written(self, made: MadeUpTable) -> None:
        before = paths_below(made.store)
        copy = made.table.clone(below(made.store, "copy"), shallow=True, version=5)
        new = paths_below(made.store) - before
        assert sorted({path.split("/")[1] for path in new}) == ["_refs", "_transactions", "_versions"]
        assert not missing_files(made.store, ROOTS)
        assert [base.path for base in copy.manifest.header.base_paths] == [made.root.native_uri()]
        made.append(copy)
        made.delete(copy)
        assert copy.version == 7
        assert not missing_files(made.store, ROOTS)

    def test_the_source_keeps_what_the_clone_needs(self, made: MadeUpTable) -> None:
        made.table.clone(below(made.store, "copy"), shallow=True, version=5)
        ((name, tag),) = made.table.tags().items()
        assert name.startswith("clone-")
        assert (tag.version, tag.metadata) == (5, {CLONE_PROPERTY: "dict://test/copy"})
        branch = made.table.branch("dev", 4)
        branch.clone(below(made.store, "other"), shallow=True)
        assert {one.branch for one in made.table.tags().values()} == {None, "dev"}
        made.table.clone(below(made.store, "third"), shallow=True, protect=False)
        assert len(made.table.tags()) == 2

    def test_a_clone_of_a_clone(self, made: MadeUpTable) -> None:
        copy = made.table.clone(below(made.store, "copy"), shallow=True, version=5)
        made.append(copy)
        again = copy.clone(below(made.store, "again"), shallow=True)
        made.delete(again)
        assert [base.id for base in again.manifest.header.base_paths] == [0, 1]
        deep = again.clone(below(made.store, "deep"))
        assert not missing_files(made.store, ["copy", "again", "deep"])
        assert len(deep.manifest.fragments) == 3

    @pytest.mark.parametrize("branch", [None, "dev"])
    def test_the_first_table_keeps_what_a_clone_of_its_clone_needs(self, made: MadeUpTable, branch: str | None) -> None:
        source = made.table if branch is None else made.table.branch(branch, 4)
        copy = source.clone(below(made.store, "copy"), shallow=True)
        (first,) = made.table.tags()
        copy.clone(below(made.store, "again"), shallow=True)
        made.table.untag(first)
        ((_, tag),) = made.table.tags().items()
        assert (tag.branch, tag.version) == (branch, source.version)
        assert tag.metadata == {CLONE_PROPERTY: "dict://test/again"}

    def test_a_version_that_goes_meanwhile_takes_the_clone_with_it(self, made: MadeUpTable) -> None:
        def clean_up(call: Call) -> None:
            if "_refs" in call.path and call.verb == "put_if_absent":
                made.root.delete(Naming.V2.path(5))

        with pytest.raises(NotFound, match="no version 5"):
            _opened(SimulatedStore(made.store, on_call=clean_up)).clone(
                below(made.store, "copy"), shallow=True, version=5
            )
        assert made.table.tags() == {}
        assert not paths_below(made.store, "copy")


class TestRefused:
    @pytest.mark.parametrize("shallow", [True, False])
    def test_an_existing_table_is_left_alone(self, made: MadeUpTable, shallow: bool) -> None:
        other = Table.create(below(made.store, "copy"), SCHEMA)
        before = {path: made.store.get(path) for path in paths_below(made.store)}
        for target in (other.store, made.root):
            with pytest.raises(AlreadyExists, match="there is a table at"):
                made.table.clone(target, shallow=shallow)
        assert {path: made.store.get(path) for path in paths_below(made.store)} == before

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"version": 99}, NotFound),
            ({"version": -1}, InvalidInput),
            ({"tag": "nothing"}, NotFound),
            ({"tag": "a/b"}, InvalidInput),
            ({"branch": "nothing"}, NotFound),
            ({"tag": "one", "version": 1}, InvalidInput),
            ({"branch": "a//b"}, InvalidInput),
        ],
    )
    def test_what_does_not_exist(self, made: MadeUpTable, options: dict[str, Any], error: type[Exception]) -> None:
        before = paths_below(made.store)
        with pytest.raises(error):
            made.table.clone(below(made.store, "copy"), **options)
        assert paths_below(made.store) == before

    def test_a_target_inside_the_table_or_around_it(self, made: MadeUpTable) -> None:
        for inside in ("table/data/copy", "table/tree/copy"):
            with pytest.raises(InvalidInput, match="lies inside"):
                made.table.clone(below(made.store, inside))
        with pytest.raises(InvalidInput, match="lies inside"):
            made.table.clone(made.store)
        assert made.table.clone(below(made.store, "table2")).version == 6


class TestCrashes:
    @pytest.mark.parametrize("shallow", [True, False])
    def test_the_target_is_absent_or_complete_and_can_be_made_again(self, made: MadeUpTable, shallow: bool) -> None:
        fresh = made.copier()
        seen = {"absent": 0, "complete": 0}

        def clone(store: SimulatedStore) -> Table:
            return _opened(store).clone(below(store, "copy"), shallow=shallow, version=5)

        for after in crash_points(fresh, clone):
            try:
                copy = Table.open(below(after.store, "copy"))
            except NotFound:
                seen["absent"] += 1
                copy = _opened(after.store, 6).clone(below(after.store, "copy"), shallow=shallow, version=4)
                assert copy.version == 4, after
            else:
                seen["complete"] += 1
                assert copy.version == 5, after
            assert not missing_files(after.store, ROOTS), after
        assert seen["complete"] >= 1
        assert seen["absent"] >= (10 if shallow else 40)

    @pytest.mark.parametrize("shallow", [True, False])
    def test_every_lost_answer_is_settled(self, made: MadeUpTable, shallow: bool) -> None:
        def clone(store: SimulatedStore) -> Table:
            return _opened(store).clone(below(store, "copy"), shallow=shallow, version=5)

        done = 0
        for after in crash_points(made.copier(), clone, faults=["lost", "after", "late", "before"]):
            if after.error is None:
                assert Table.open(below(after.store, "copy")).version == 5
                assert not missing_files(after.store, ROOTS), after
                done += 1
            else:
                assert isinstance(after.error, Unavailable), after
        assert done >= 10

    @pytest.mark.soak
    def test_two_clones_to_one_place(self, made: MadeUpTable, effort: Callable[[int, int], int]) -> None:
        """Of the same version one is made; of different ones at most one, and nobody is told of success in vain."""
        fresh = made.copier()
        shared: list[Store] = []

        def process(version: int) -> Process[int]:
            def clone(pause: Callable[[Call], None]) -> int:
                store = SimulatedStore(shared[-1], on_call=pause, seed=version)
                table = Table.open(below(store, "table"), runtime=Runtime.seeded(len(shared) + version))
                return table.clone(below(store, "copy"), shallow=True, version=version).version

            return clone

        for versions in ((5, 5), (5, 6), (6, 4)):
            runs = 0

            def processes(versions: tuple[int, int] = versions) -> list[Process[int]]:
                shared.append(fresh())
                return [process(version) for version in versions]

            for run in explore(processes, switches=effort(1, 2)):
                won = [result for result in run.results if result is not None]
                for error in run.errors:
                    assert error is None or isinstance(error, AlreadyExists | RetryableConflict), run
                store = shared.pop()
                assert len(won) <= 1
                there = paths_below(store, "copy/_versions")
                assert there == {f"copy/{Naming.V2.path(version)}" for version in won}, run
                assert [tag.version for tag in _opened(store).tags().values()] == won, run
                runs += 1
            assert runs > 20

    def test_where_a_manifest_store_decides(self, made: MadeUpTable) -> None:
        records = MemoryManifestStore()
        copy = made.table.clone(below(made.store, "copy"), version=5, manifest_store=records)
        made.append(copy)
        assert Table.open(below(made.store, "copy"), manifest_store=records).version == 6
        with pytest.raises(AlreadyExists):
            made.table.clone(below(made.store, "copy"), version=6, manifest_store=records)


def test_base_paths_are_bytes_of_the_format(made: MadeUpTable) -> None:
    """As pylance writes them: the first base has the id 0, and one of a branch its name."""
    branch = made.table.branch("dev", 4)
    made.append(branch)
    copy = branch.clone(below(made.store, "copy"), shallow=True)
    assert list(copy.manifest.header.base_paths) == [
        BasePath(id=0, is_dataset_root=True, path="dict://test/table"),
        BasePath(id=1, name="dev", is_dataset_root=True, path="dict://test/table/tree/dev"),
    ]


def _opened(store: Store, seed: int = 5) -> Table:
    return Table.open(below(store, "table"), runtime=Runtime.seeded(seed))


def _copied(path: str) -> bool:
    return path.split("/")[1] in ("data", "_deletions", "_indices")


def _remove(store: Store, folder: str) -> None:
    for path in paths_below(store, folder):
        store.delete(path)
