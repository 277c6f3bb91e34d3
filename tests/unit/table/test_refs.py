"""Tags and branches of tables without rows: what is created, refused, finished and taken back."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound, Unavailable
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.format.refs import Tag, branch_path, tag_path
from seiche.table.refs import root_of
from seiche.table.table import Table
from seiche.table.versions.external import MemoryManifestStore
from seiche.table.versions.naming import Naming
from seiche.testing import Call, CountingStore, DictStore, SimulatedStore, crash_points
from seiche.testing.scheduling import Process, explore
from tests.made_up_table import MadeUpTable, missing_files, paths_below, simulated, unfinished


@pytest.fixture
def made() -> MadeUpTable:
    """Five versions: empty, three appends, and a deletion."""
    store, clock = simulated()
    table = MadeUpTable(store, clock=clock)
    for _ in range(3):
        table.append()
    table.delete()
    return table


class TestTags:
    def test_a_tag_names_a_version(self, made: MadeUpTable) -> None:
        table = made.table
        tag = table.tag("nightly", 2, metadata={"by": "me"})
        assert (tag.version, tag.branch, tag.metadata) == (2, None, {"by": "me"})
        assert tag.manifest_size == made.root.head(Naming.V2.path(2)).size
        assert table.tags() == {"nightly": tag}
        assert table.checkout("nightly").version == Table.open(made.root, "nightly").version == 2
        assert table.tag("now").version == 5
        assert table.checkout(3).tag("pinned").version == 3
        assert table.tag("same", "nightly").version == 2

    def test_a_tag_that_exists_is_left_alone_unless_it_may_move(self, made: MadeUpTable) -> None:
        first = made.table.tag("one", 1, metadata={"a": "b"})
        with pytest.raises(AlreadyExists, match="'one'"):
            made.table.tag("one", 2)
        assert made.table.tags() == {"one": first}
        made.runtime.clock.sleep(10)
        moved = made.table.tag("one", 2, replace=True)
        assert (moved.version, moved.created_at, moved.metadata) == (2, first.created_at, {"a": "b"})
        assert moved.updated_at is not None
        assert first.updated_at is not None
        assert (moved.updated_at - first.updated_at).total_seconds() == 10
        assert made.table.tag("new", 2, replace=True).version == 2

    def test_untag(self, made: MadeUpTable) -> None:
        made.table.tag("one", 1)
        made.table.untag("one")
        assert made.table.tags() == {}
        assert made.table.checkout(1).version == 1
        with pytest.raises(NotFound, match="'one'"):
            made.table.untag("one")
        with pytest.raises(NotFound, match="'one'"):
            made.table.checkout("one")

    @pytest.mark.parametrize(
        ("name", "version", "error"),
        [
            ("a/b", 1, InvalidInput),
            ("", 1, InvalidInput),
            ("..", 1, InvalidInput),
            ("fine", -1, InvalidInput),
            ("fine", 0, InvalidInput),
            ("fine", 99, NotFound),
            ("fine", "nothing", NotFound),
        ],
    )
    def test_what_cannot_be_is_refused_before_anything_is_written(
        self, made: MadeUpTable, name: str, version: int | str, error: type[Exception]
    ) -> None:
        before = paths_below(made.store)
        with pytest.raises(error):
            made.table.tag(name, version)
        with pytest.raises(InvalidInput):
            made.table.tag("fine", 1, metadata={"a": 1})  # type: ignore[dict-item]
        assert paths_below(made.store) == before

    def test_a_version_that_goes_meanwhile_takes_the_tag_with_it(self, made: MadeUpTable) -> None:
        """Clean-up removes the manifest after it looked at the tags, and before this one is there."""

        def clean_up(call: Call) -> None:
            if call.verb == "put_if_absent":
                made.root.delete(Naming.V2.path(2))

        store = SimulatedStore(made.store, on_call=clean_up)
        with pytest.raises(NotFound, match="no version 2"):
            _opened(store).tag("late", 2)
        assert made.table.tags() == {}
        made.table.tag("held", 3)
        store = SimulatedStore(made.store, on_call=lambda call: _on("put", call, made.root, Naming.V2.path(1)))
        with pytest.raises(NotFound, match="no version 1"):
            _opened(store).tag("held", 1, replace=True)
        assert made.table.tags()["held"].version == 3

    def test_every_lost_answer_is_settled(self, made: MadeUpTable) -> None:
        copy = made.copier()

        def tag(store: SimulatedStore) -> Tag:
            table = _opened(store)
            table.tag("one", 1)
            return table.tag("one", 2, replace=True)

        tried = 0
        for after in crash_points(copy, tag, faults=["lost", "after", "late"]):
            tried += 1
            if after.call.verb in ("put", "put_if_absent"):
                assert after.error is None, after
                assert _opened(after.store).tags()["one"].version == 2, after
            else:
                assert isinstance(after.error, Unavailable) or after.error is None
        assert tried >= 10

    def test_two_makers_of_one_tag(self, made: MadeUpTable) -> None:
        """The other is faster, and our own answer is lost: that is not ours."""
        other = Tag(version=1).encode()
        first = True

        def faster(call: Call) -> None:
            nonlocal first
            if call.verb == "put_if_absent" and first:
                first = False
                made.root.put_if_absent(tag_path("one"), other)

        calls = SimulatedStore(made.store)
        _opened(calls).tag("rehearsal", 2)
        number = next(at for at, call in enumerate(calls.calls, 1) if call.verb == "put_if_absent")
        for fault in ("lost", "after"):
            made.root.delete(tag_path("one"))
            first = True
            store = SimulatedStore(made.store, on_call=faster, plan={number: fault})
            with pytest.raises(AlreadyExists):
                _opened(store).tag("one", 2)
            assert store.injected
            assert made.root.get(tag_path("one")) == other

    def test_what_is_damaged_is_named(self, made: MadeUpTable) -> None:
        made.root.put(tag_path("bad"), b"{")
        with pytest.raises(Exception, match=r"_refs/tags/bad\.json"):
            made.table.tags()

    def test_a_table_of_a_lake_is_refused(self, made: MadeUpTable) -> None:
        made.fence()
        with pytest.raises(InvalidInput, match=r"lake\.tag"):
            Table.open(made.root).tag("one")
        with pytest.raises(InvalidInput, match="managed by a lake"):
            Table.open(made.root).branch("one")


class TestBranches:
    def test_a_branch_goes_its_own_way(self, made: MadeUpTable) -> None:
        branch = made.table.branch("dev/x", 3)
        assert (branch.version, branch.manifest.header.branch) == (3, "dev/x")
        assert branch.uri.endswith("/tree/dev/x")
        made.append(branch)
        made.delete(branch)
        assert (branch.version, made.table.version) == (5, 5)
        assert Table.open(made.root, branch="dev/x").version == 5
        assert Table.open(made.root, 4, branch="dev/x").version == 4
        assert made.table.checkout(branch="dev/x").version == 5
        assert branch.checkout(branch="main").uri == made.table.uri
        assert [one.operation for one in branch.versions()] == ["Clone", "Append", "Delete"]
        assert not missing_files(made.store, ["table", "table/tree/dev/x"])
        found = made.table.branches()["dev/x"]
        assert (found.parent_branch, found.parent_version) == (None, 3)
        assert found.manifest_size == made.root.head(Naming.V2.path(3)).size

    def test_a_branch_copies_no_data(self, made: MadeUpTable) -> None:
        before = paths_below(made.store)
        made.table.branch("dev")
        new = paths_below(made.store) - before
        assert sorted(path.split("/")[-2] for path in new) == ["_transactions", "_versions", "branches"]

    def test_a_branch_of_a_branch(self, made: MadeUpTable) -> None:
        branch = made.table.branch("dev", 2)
        made.append(branch)
        deep = branch.branch("deep")
        made.delete(deep)
        assert deep.uri.endswith("table/tree/deep")
        assert not missing_files(made.store, ["table/tree/deep"])
        found = made.table.branches()
        assert deep.branches() == found
        assert found["deep"].parent_branch == "dev"
        assert found["deep"].identifier[0] == found["dev"].identifier[0]
        assert [version for version, _ in found["deep"].identifier] == [2, 3]
        assert [base.name for base in deep.manifest.header.base_paths] == ["", "dev"]
        assert Table.open(made.root, branch="deep").branch("deeper").version == 4

    def test_tags_of_a_branch(self, made: MadeUpTable) -> None:
        branch = made.table.branch("dev", 2)
        made.append(branch)
        assert branch.tag("here").branch == "dev"
        assert branch.tags() == made.table.tags()
        assert made.table.checkout("here").uri == Table.open(made.root, "here").uri == branch.uri
        assert Table.open(made.root, "here", branch="dev").version == 3
        with pytest.raises(InvalidInput, match="'here' is for a version of the branch 'dev'"):
            Table.open(made.root, "here", branch="main")
        with pytest.raises(InvalidInput, match="'here' is for a version of the branch 'dev'"):
            branch.checkout("here", branch="main")
        assert made.table.branch("more", "here").version == 3
        assert made.table.branches()["more"].parent_branch == "dev"
        with pytest.raises(InvalidInput, match="the branch 'dev', not of the main line"):
            made.table.restore("here")
        made.append(branch)
        branch.restore("here")
        assert branch.version == 5

    def test_a_branch_opened_by_its_own_address_knows_its_table(self, made: MadeUpTable) -> None:
        made.table.branch("dev/x").tag("one")
        alone = Table.open(made.table.branch("other").store)
        assert alone.tags().keys() == {"one"}
        assert root_of(alone.store, "other").uri == made.table.uri
        with pytest.raises(InvalidInput, match="does not lie in the directory tree/else"):
            root_of(alone.store, "else")

    @pytest.mark.parametrize("name", ["main", "a//b", "", "a/.", "a b", "x/data", "x/_versions/y"])
    def test_bad_names_are_refused_before_anything_is_written(self, made: MadeUpTable, name: str) -> None:
        before = paths_below(made.store)
        with pytest.raises(InvalidInput, match="cannot be the name of a branch"):
            made.table.branch(name)
        with pytest.raises(NotFound):
            made.table.branch("fine", 99)
        with pytest.raises(InvalidInput):
            made.table.branch("fine", -1)
        assert paths_below(made.store) == before

    def test_a_branch_that_exists_is_left_alone(self, made: MadeUpTable) -> None:
        branch = made.table.branch("dev", 2)
        made.append(branch)
        before = {path: made.store.get(path) for path in paths_below(made.store)}
        with pytest.raises(AlreadyExists, match="'dev'"):
            made.table.branch("dev", 4)
        assert {path: made.store.get(path) for path in paths_below(made.store)} == before
        with pytest.raises(NotFound, match="no branch 'nothing'"):
            Table.open(made.root, branch="nothing")

    def test_files_of_a_branch_that_is_none_are_not_taken_over(self, made: MadeUpTable) -> None:
        """Somebody else writes the manifest first and the reference then, and may be just between the two."""
        made.table.branch("dev")
        made.root.delete(branch_path("dev"))
        with pytest.raises(AlreadyExists, match="delete_branch"):
            made.table.branch("dev")
        made.table.delete_branch("dev")
        assert made.table.branch("dev").version == 5

    def test_delete(self, made: MadeUpTable) -> None:
        before = paths_below(made.store)
        branch = made.table.branch("dev")
        inner = made.table.branch("dev/inner")
        made.append(branch)
        made.append(inner)
        made.table.delete_branch("dev")
        assert made.table.branches().keys() == {"dev/inner"}
        assert not missing_files(made.store, ["table/tree/dev/inner"])
        assert inner.version == 6
        assert not paths_below(made.store, "table/tree/dev") - paths_below(made.store, "table/tree/dev/inner")
        made.table.delete_branch("dev/inner")
        assert paths_below(made.store) == before
        with pytest.raises(NotFound):
            made.table.delete_branch("dev")

    def test_a_nested_branch_that_is_just_being_made_is_not_deleted(self, made: MadeUpTable) -> None:
        made.table.branch("dev")
        inner = made.table.branch("dev/inner")
        made.root.delete(branch_path("dev/inner"))
        made.table.delete_branch("dev")
        assert inner.version == 5
        assert not missing_files(made.store, ["table/tree/dev/inner"])

    def test_a_branch_in_use_is_not_deleted(self, made: MadeUpTable) -> None:
        branch = made.table.branch("dev")
        branch.tag("kept")
        with pytest.raises(InvalidInput, match=r"tags \['kept'\]"):
            made.table.delete_branch("dev")
        made.table.untag("kept")
        branch.branch("child").branch("grandchild")
        with pytest.raises(InvalidInput, match=r"branches \['child', 'grandchild'\]"):
            made.table.delete_branch("dev")
        for name in ("grandchild", "child", "dev"):
            made.table.delete_branch(name)
        assert made.table.branches() == {}

    @pytest.mark.parametrize("what", ["tag", "branch"])
    def test_who_refers_to_a_branch_while_it_is_deleted(self, made: MadeUpTable, what: str) -> None:
        """However the two interleave: the deletion is refused and all stays, or the other is told."""
        made.table.branch("dev", 3)
        fresh = made.copier()
        outcomes: Counter[tuple[bool, bool]] = Counter()
        shared: list[Store] = []

        def delete(pause: Callable[[Call], None]) -> None:
            _opened(SimulatedStore(shared[-1], on_call=pause)).delete_branch("dev")

        def refer(pause: Callable[[Call], None]) -> None:
            dev = Table.open(below(SimulatedStore(shared[-1], on_call=pause), "table/tree/dev"), runtime=made.runtime)
            if what == "tag":
                dev.tag("late")
            else:
                dev.branch("late")

        def processes() -> list[Process[None]]:
            shared.append(fresh())
            return [delete, refer]

        for run in explore(processes, switches=2):
            refused, told = run.errors
            assert refused is None or isinstance(refused, InvalidInput), run
            assert told is None or isinstance(told, NotFound), run
            table = _opened(shared.pop())
            names = table.tags().keys() | table.branches().keys()
            if refused is None:
                assert told is not None, run.schedule
                assert names == set()
            elif told is None:
                assert names == {"dev", "late"}
            assert not missing_files(table.store.origin("x")[0], ["table", "table/tree/late", "table/tree/dev"])
            outcomes[refused is None, told is None] += 1
        assert outcomes.keys() >= {(True, False), (False, True)}
        assert outcomes.total() > 100

    def test_a_crash_while_a_branch_is_made(self, made: MadeUpTable) -> None:
        """There is no branch, or a whole one; whoever opens one that is half made finishes it."""
        seen = set()
        for after in crash_points(made.copier(), lambda store: _opened(store).branch("dev", 3)):
            table = _opened(after.store)
            if "dev" in table.branches():
                branch = table.checkout(branch="dev")
                assert branch.version == 3, after
                assert not missing_files(after.store, ["table/tree/dev"])
                seen.add("there")
            else:
                assert table.branch("dev", 4).version == 4, after
                seen.add("absent")
        assert seen == {"there", "absent"}

    def test_a_crash_while_a_branch_is_deleted(self, made: MadeUpTable) -> None:
        branch = made.table.branch("dev", 3)
        made.append(branch)
        seen = set()
        for after in crash_points(made.copier(), lambda store: _opened(store).delete_branch("dev")):
            table = _opened(after.store)
            if "dev" in table.branches():
                assert not missing_files(after.store, ["table/tree/dev"])
                seen.add("there")
            elif paths_below(after.store, "table/tree"):
                with pytest.raises(NotFound):
                    table.checkout(branch="dev")
                seen.add("half")
            else:
                seen.add("gone")
                continue
            table.delete_branch("dev")
            assert not paths_below(after.store, "table/tree"), after
        assert seen == {"there", "half", "gone"}

    def test_every_lost_answer_is_settled(self, made: MadeUpTable) -> None:
        tried = 0
        for after in crash_points(
            made.copier(), lambda store: _opened(store).branch("dev", 3), faults=["lost", "after", "late", "before"]
        ):
            tried += 1
            if after.error is None:
                assert _opened(after.store).checkout(branch="dev").version == 3, after
            else:
                assert isinstance(after.error, Unavailable), after
        assert tried > 20

    def test_a_parent_that_goes_meanwhile_takes_the_branch_with_it(self, made: MadeUpTable) -> None:
        store = SimulatedStore(
            made.store, on_call=lambda call: _on("put_if_absent", call, made.root, Naming.V2.path(2))
        )
        with pytest.raises(NotFound, match="no version 2"):
            _opened(store).branch("dev", 2)
        assert made.table.branches() == {}
        assert not paths_below(made.store, "table/tree")

    def test_where_a_manifest_store_decides(self) -> None:
        store, records = DictStore(), MemoryManifestStore()
        made = MadeUpTable(store)
        using: dict[str, Any] = {"manifest_store": records, "runtime": made.runtime}
        table = Table.open(made.root, **using)
        branch = table.branch("dev")
        made.append(branch)
        assert records.get_latest(records.base_uri(branch.store)) is not None
        assert Table.open(made.root, branch="dev", manifest_store=records).version == 2
        branch.tag("here")
        assert Table.open(made.root, "here", manifest_store=records).version == 2
        assert table.checkout("here").version == 2
        assert table.checkout(branch="dev").version == 2
        made.append(branch)
        ways: list[Callable[[], Table]] = [
            lambda: table.checkout(branch="dev"),
            lambda: Table.open(made.root, branch="dev", **using),
        ]
        for reopened in ways:
            # Who checks a branch out asks the manifest store, too: what was claimed there is finished first.
            staged = unfinished(branch.store, records, 3)
            assert reopened().version == 3
            assert staged not in paths_below(branch.store)
        assert made.append(table.checkout(branch="dev")) == 4
        other = Table.open(made.root, **using)
        unfinished(made.root, records, made.append(table))
        other.tag("there", 2)
        assert other.checkout("there").version == 2
        assert Table.open(made.root, "there", **using).manifest.fragments.ids() == [0]
        table.untag("here")
        table.delete_branch("dev")
        assert records.get_latest(records.base_uri(branch.store)) is None
        assert table.branch("dev", 1).version == 1

    def test_requests(self, made: MadeUpTable) -> None:
        store = CountingStore(made.store)
        table = _opened(store)
        store.reset()
        table.tag("one", 2)
        assert store.writes == 1
        assert store.requests <= 5


def _opened(store: Store) -> Table:
    return Table.open(below(store, "table"), runtime=Runtime.seeded(5))


def _on(verb: str, call: Call, root: Store, path: str) -> None:
    if call.verb == verb:
        root.delete(path)
