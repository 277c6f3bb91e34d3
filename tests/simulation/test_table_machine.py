"""Random operations by three writers with old handles, on storage that fails and among processes that die.

After every step each version is what a model in dictionaries makes of the one before it: nothing acknowledged is lost,
nothing that failed is visible, and what nobody knows about is one or the other and stays so.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    IncompatibleConflict,
    NotFound,
    RetryableConflict,
    SeicheError,
    Unavailable,
)
from seiche.store.base import Data
from seiche.table.build import build
from seiche.table.commit import Committer
from seiche.table.format import roaring
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field, IndexMetadata
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.operations import (
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Merge,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateConfig,
    UpdateMap,
)
from seiche.table.pending import Pending
from seiche.table.rebase import TransactionRebase as Rebase
from seiche.table.row_merge import RowMerge
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions, RenameVersions
from seiche.testing import Call, DictStore, Faults
from tests.simulation.table_model import (
    ID,
    VALUE,
    Attempt,
    Nearby,
    State,
    World,
    Writer,
    append,
    appending,
    data_file,
    delete,
    deleting,
    speaking,
    without,
)

WRITERS = 3
FAULTS = Faults(before=0.01, lost=0.02, after=0.03, late=0.03, conflict=0.02)
# Reads are answered, so that it comes to a claim; of writes almost none is, or they arrive much later.
STORMS = [Faults(lost=0.96, late=0.03), Faults(lost=0.3, late=0.6)]
KEYS = ["a", "b"]
NAMES = ["value", "worth", "price"]

# What all runs of one test did together.
TOTAL: Counter[str] = Counter()


class Machine(RuleBasedStateMachine):
    """Rules prepare a change from what a writer has last seen, which may be old, and commit it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.writers: list[Writer] = []
        self.faulty = False

    @initialize(
        kind=st.sampled_from([PutVersions, RenameVersions]),
        naming=st.sampled_from(Naming),
        store=st.sampled_from([DictStore, Nearby]),
        stable=st.booleans(),
        faulty=st.booleans(),
        seed=st.integers(0, 1 << 16),
    )
    def start(self, kind: Any, naming: Naming, store: type[DictStore], stable: bool, faulty: bool, seed: int) -> None:
        self.world = World(kind=kind, naming=naming, store=store(), stable_row_ids=stable)
        self.faulty = faulty
        self.writers = [self._process(seed + number) for number in range(WRITERS)]

    def _process(self, seed: int) -> Writer:
        """A process; what it opens the table with does not fail, everything after that may."""
        writer = self.world.writer(seed)
        writer.store.expect(FAULTS if self.faulty else Faults())
        return writer

    @rule(number=st.integers(0, WRITERS - 1))
    def look(self, number: int) -> None:
        """A writer takes notice of the newest version."""
        self.writers[number].seen = self.world.manifest()

    @precondition(lambda self: self.faulty)
    @rule()
    def requests_arrive(self) -> None:
        for writer in self.writers:
            writer.store.deliver()

    @rule(number=st.integers(0, WRITERS - 1), data=st.data())
    def change(self, number: int, data: st.DataObject) -> None:
        """One change, all others standing still: without faults, only an old handle can make it fail."""
        writer = self.writers[number]
        attempt = self._prepared(writer, data)
        if attempt is None:
            return
        newest = self.world.version
        self.world.commit(writer.table, attempt, attempts=data.draw(st.sampled_from([1, 2, 100]), "attempts"))
        self._learn(writer, attempt)
        if not self.faulty:
            stale = attempt.read.version < newest
            assert attempt.status == "done" or (
                stale and isinstance(attempt.error, RetryableConflict | IncompatibleConflict)
            ), attempt

    @precondition(lambda self: self.faulty)
    @rule(number=st.integers(0, WRITERS - 1), storm=st.sampled_from(STORMS), data=st.data())
    def change_in_a_storm(self, number: int, storm: Faults, data: st.DataObject) -> None:
        """So much goes wrong that the writer may give up without knowing."""
        writer = self.writers[number]
        attempt = self._prepared(writer, data)
        if attempt is None:
            return
        writer.store.expect(storm)
        self.world.commit(writer.table, attempt)
        writer.store.expect(FAULTS)
        self._learn(writer, attempt)

    @rule(number=st.integers(0, WRITERS - 1), at=st.integers(1, 12), data=st.data())
    def change_amid_another(self, number: int, at: int, data: st.DataObject) -> None:
        """A change in the midst of which, before one of its storage calls, another writer makes one of its own."""
        writer, other = self.writers[number], self.writers[(number + 1) % WRITERS]
        attempt = self._prepared(writer, data)
        meanwhile = self._prepared(other, data)
        if attempt is None or meanwhile is None:
            return
        first = len(writer.store.calls)

        def interrupt(_: Call) -> None:
            if len(writer.store.calls) - first == at - 1:
                writer.store.on_call = None
                self.world.commit(other.table, meanwhile)

        writer.store.on_call = interrupt
        self.world.commit(writer.table, attempt)
        writer.store.on_call = None
        if meanwhile.status == "running":
            self.world.commit(other.table, meanwhile)
        self._learn(writer, attempt)
        self._learn(other, meanwhile)

    @rule(number=st.integers(0, WRITERS - 1), at=st.integers(1, 10), after=st.booleans(), data=st.data())
    def die(self, number: int, at: int, after: bool, data: st.DataObject) -> None:
        """A process dies at one of the storage calls of a commit; another one takes its place."""
        writer = self.writers[number]
        attempt = self._prepared(writer, data)
        if attempt is None:
            return
        writer.store.die_at(at, "stop_after" if after else "stop_before")
        self.world.commit(writer.table, attempt)
        if writer.store.stopped:
            writer.store.deliver()
            self.writers[number] = self._process(data.draw(st.integers(0, 1 << 16), "seed"))
        else:
            writer.store.die_at(0, None)
            self._learn(writer, attempt)

    @invariant()
    def every_version_is_what_the_model_says(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        for writer in self.writers:
            writer.store.deliver()
            self.world.outcomes["faults"] += len(writer.store.injected)
        self.world.check()
        TOTAL.update(self.world.outcomes)

    def preparations(self) -> "Sequence[Preparation]":
        """What writers do here."""
        return PREPARATIONS

    def _learn(self, writer: Writer, attempt: Attempt) -> None:
        """Who committed has seen its own version."""
        self.world.check()
        if attempt.status == "done":
            assert attempt.version is not None
            writer.seen = self.world.manifest(attempt.version)

    def _prepared(self, writer: Writer, data: st.DataObject) -> Attempt | None:
        prepare = data.draw(st.sampled_from(self.preparations()), "what")
        try:
            return prepare(self.world, writer, data)
        except Unavailable:
            return None  # a file that was needed could not be written: nothing to commit


def rows_seen(world: World, writer: Writer) -> State:
    return world.states[writer.seen.version]


def append_rows(world: World, writer: Writer, data: st.DataObject) -> Attempt:
    return append(world, writer.seen, data.draw(st.integers(1, 3), "rows"))


def some_rows(world: World, writer: Writer, data: st.DataObject) -> list[int]:
    rows = sorted(rows_seen(world, writer).values)
    return sorted(data.draw(st.sets(st.sampled_from(rows), min_size=1, max_size=3), "rows")) if rows else []


def delete_rows(world: World, writer: Writer, data: st.DataObject) -> Attempt | None:
    rows = some_rows(world, writer, data)
    if not rows:
        return None
    given = data.draw(st.booleans(), "rows given")
    return delete(world, writer.seen, rows, writer.store, rows_given=given)


def update(world: World, writer: Writer, data: st.DataObject) -> Attempt | None:
    """Rows get new values: they go from where they are, and come back in a new fragment."""
    rows = some_rows(world, writer, data)
    if not rows:
        return None
    removal = without(world, writer.seen, rows, writer.store, Runtime.seeded(world.number()))
    again = []
    for row in rows:
        again.append(world.number())
        world.moved[again[-1]] = world.moved.get(row, row)
    fragment = world.fragment_of(again)
    if writer.seen.has_stable_row_ids:
        fragment.inline_row_ids = RowIds([row_ids(world, writer.seen)[row] for row in rows]).encode()
    old = rows_seen(world, writer).values
    gone, come = deleting(rows), appending(world, fragment, writer.seen)

    def effect(before: State) -> State:
        for row in rows:
            assert before.values.get(row, old[row]) == old[row], "a value that was changed meanwhile is lost"
        return come(gone(before))

    operation = Update(removal.removed, removal.updated, (fragment,))
    given = data.draw(st.booleans(), "rows given")
    return world.attempt(writer.seen, operation, effect, removal.affected if given else None)


def row_ids(world: World, manifest: Manifest) -> dict[int, int]:
    found: dict[int, int] = {}
    for fragment in manifest.fragments:
        ids = RowIds.decode(fragment.inline_row_ids).to_array().tolist()
        found |= dict(zip(world.rows[speaking(fragment)[ID]], ids, strict=True))
    return found


def overwrite(world: World, writer: Writer, data: st.DataObject) -> Attempt:
    fragment = world.fragment(data.draw(st.integers(1, 3), "rows"))
    schema = tuple(one for one in world.manifest(1).header.fields)
    path = speaking(fragment)[ID]

    def effect(before: State) -> State:
        return State(dict.fromkeys(world.rows[path], path), config=before.config)

    return world.attempt(writer.seen, Overwrite((fragment,), schema), effect)


def restore(world: World, writer: Writer, data: st.DataObject) -> Attempt:
    version = data.draw(st.integers(1, writer.seen.version), "version")
    return world.attempt(writer.seen, Restore(version), lambda _: world.states[version])


def configure(world: World, writer: Writer, data: st.DataObject) -> Attempt:
    key, value, read = data.draw(st.sampled_from(KEYS), "key"), str(world.number()), writer.seen

    def effect(before: State) -> State:
        for other in world.committed_since(read):
            mine = other.operation
            assert not (
                isinstance(mine, UpdateConfig)
                and mine.config_updates is not None
                and key in mine.config_updates.entries
            ), "both set the same key"
        return replace(before, config={**before.config, key: value})

    return world.attempt(writer.seen, UpdateConfig(UpdateMap({key: value})), effect)


def rename(world: World, writer: Writer, data: st.DataObject) -> Attempt:
    """The column gets another name; columns that were added are dropped."""
    name, then = data.draw(st.sampled_from(NAMES), "name"), rows_seen(world, writer).names
    schema = tuple(named(one, name) if one.id == VALUE else one for one in writer.seen.header.fields if one.id <= VALUE)

    def effect(before: State) -> State:
        assert before.names == then, "a change of the schema is lost"
        return replace(before, names={ID: "id", VALUE: name})

    return world.attempt(writer.seen, Project(schema), effect)


def named(field: Field, name: str) -> Field:
    made = Field()
    made.CopyFrom(field)
    made.name = name
    return made


def add_column(world: World, writer: Writer, data: st.DataObject) -> Attempt | None:
    """Every fragment gets a file with one more column: all of them are replaced, so none may have changed."""
    then = rows_seen(world, writer)
    if not then.values:
        return None
    number, name = 10 + world.number(), f"column {world.number()}"
    fragments = []
    for fragment in writer.seen.fragments:
        made = DataFragment()
        made.CopyFrom(fragment)
        made.files.append(data_file(f"{world.number()}.lance", [number]))
        fragments.append(made)
    field = named(writer.seen.header.fields[1], name)
    field.id = number

    def effect(before: State) -> State:
        assert before.values == then.values, "rows that were changed meanwhile are lost"
        assert before.names == then.names, "a change of the schema is lost"
        return replace(before, names={**before.names, number: name})

    return world.attempt(writer.seen, Merge(tuple(fragments), (*writer.seen.header.fields, field)), effect)


def replace_column(world: World, writer: Writer, data: st.DataObject) -> Attempt | None:
    """One fragment gets other values."""
    fragments = list(writer.seen.fragments)
    if not fragments:
        return None
    fragment = data.draw(st.sampled_from(fragments), "fragment")
    file = data_file(f"{world.number()}.lance", [VALUE])
    rows, then = world.rows[speaking(fragment)[ID]], rows_seen(world, writer).values

    def effect(before: State) -> State:
        there = [row for row in rows if row in before.values]
        assert all(before.values[row] == then[row] for row in there), "a value that was changed meanwhile is lost"
        return replace(before, values={**before.values, **dict.fromkeys(there, file.path)})

    operation = DataReplacement((DataReplacementGroup(fragment_id=fragment.id, new_file=file),))
    return world.attempt(writer.seen, operation, effect)


def compact(world: World, writer: Writer, data: st.DataObject) -> Attempt | None:
    """What is left of some fragments goes into one. The id for it is reserved in a commit of its own."""
    fragments = list(writer.seen.fragments)
    if not fragments:
        return None
    chosen = data.draw(st.sets(st.sampled_from([one.id for one in fragments]), min_size=1, max_size=3), "fragments")
    reserved = world.commit(writer.table, world.attempt(writer.seen, ReserveFragments(1), lambda before: before))
    world.check()
    if reserved.version is None or reserved.status != "done":
        return None
    then = rows_seen(world, writer).values
    old = [one for one in fragments if one.id in chosen]
    new = rewritten(world, old, then)
    columns = {one.id for one in writer.seen.header.fields} & {one for each in old for one in speaking(each)}
    new.files[0].CopyFrom(data_file(new.files[0].path, sorted({ID, VALUE} | columns)))
    new.id = world.manifest(reserved.version).max_fragment_id
    rows, path = world.rows[speaking(new)[ID]], speaking(new)[VALUE]

    def effect(before: State) -> State:
        for row in rows:
            assert before.values.get(row) == then[row], f"row {row} was changed meanwhile, and comes back"
        return replace(before, values={**before.values, **dict.fromkeys(rows, path)})

    return world.attempt(writer.seen, Rewrite((RewriteGroup(old_fragments=old, new_fragments=[new]),)), effect)


def rewritten(world: World, old: list[DataFragment], then: Any) -> DataFragment:
    left = [[n for n, row in enumerate(world.rows[speaking(one)[ID]]) if row in then] for one in old]
    rows = [world.rows[speaking(one)[ID]][n] for one, kept in zip(old, left, strict=True) for n in kept]
    new = world.fragment_of(rows)
    if old[0].HasField("inline_row_ids"):
        new.inline_row_ids = RowIds(
            [
                row_id
                for one, kept in zip(old, left, strict=True)
                for row_id in RowIds.decode(one.inline_row_ids).to_array()[kept]
            ]
        ).encode()
        new.inline_created = new.inline_last_updated = RowVersions.run(1, len(rows)).encode()
    return new


def index(world: World, writer: Writer, data: st.DataObject) -> Attempt:
    """An index on the values, of all fragments that the writer has seen."""
    uuid = UUID(int=world.number()).bytes
    world.indexed[uuid] = {fragment.id: speaking(fragment)[VALUE] for fragment in writer.seen.fragments}
    entry = IndexMetadata(
        name=data.draw(st.sampled_from(["one", "two"]), "name"),
        fields=[VALUE],
        fragment_bitmap=roaring.encode(BitMap(world.indexed[uuid])),
        dataset_version=writer.seen.version,
    )
    entry.uuid.uuid = uuid
    return world.attempt(writer.seen, CreateIndex((entry,)), lambda before: before)


Preparation: TypeAlias = Callable[[World, Writer, st.DataObject], Attempt | None]

# The more often something is listed, the more often it happens.
PREPARATIONS: list[Preparation] = [
    *[append_rows] * 4,
    *[delete_rows] * 4,
    *[update] * 3,
    *[compact] * 2,
    *[replace_column] * 2,
    *[add_column] * 2,
    index,
    overwrite,
    restore,
    configure,
    rename,
]


def run(examples: int, machine: type[Machine] = Machine, *, shrink: bool = True) -> None:
    TOTAL.clear()
    usual = settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
        print_blob=False,
    )
    run_state_machine_as_test(machine, settings=usual if shrink else settings(usual, phases=[Phase.generate]))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_operations_of_three_writers_follow_the_model(effort: Callable[[int, int], int]) -> None:
    runs = effort(150, 5000)
    run(runs)
    print(f"{runs} runs: {dict(TOTAL)}")
    floors = {
        "done": 4,
        "rebased": 1,
        "conflict.retryable": 0.4,
        "conflict.incompatible": 0.3,
        "commit_unknown": 0.1,
        "died": 0.5,
        "faults": 10,
    }
    floors |= dict.fromkeys(["Append", "Delete", "ReserveFragments"], 0.2)
    floors |= dict.fromkeys(["CreateIndex", "Overwrite", "Restore", "Update", "UpdateConfig"], 0.1)
    floors |= dict.fromkeys(["DataReplacement", "Merge", "Project", "Rewrite"], 0.03)
    for outcome, least in floors.items():
        assert TOTAL[outcome] >= least * runs, (outcome, TOTAL)


class CheckThenPut(PutVersions):
    """Looks whether the version is free and then writes it, as storage without atomic creation would have it."""

    def claim(self, version: int, data: Data) -> None:
        if self.store.exists(self.path(version)):
            raise AlreadyExists("looked and found it")
        self.store.put(self.path(version), data)


class Racing(Machine):
    """On storage of that kind."""

    @initialize(seed=st.integers(0, 1 << 16))
    def start(self, seed: int) -> None:
        self.world = World(kind=CheckThenPut)
        self.writers = [self._process(seed + number) for number in range(WRITERS)]


def takes_absence_for_no(committer: Committer, version: int, transaction: Transaction) -> bool:
    try:
        return committer.versions.transaction(version).uuid == transaction.uuid
    except NotFound:
        return False


def takes_the_name_for_a_loss(
    committer: Committer, version: int, transaction: Transaction, data: Data, failure: SeicheError
) -> bool:
    for _ in range(50):
        try:
            committer.versions.claim(version, data)
            return True
        except AlreadyExists:
            return False
        except (CommitUnknown, Unavailable):
            continue
    raise committer._unknown(version, transaction)


def builds_on_what_it_read(pending: Pending, **_: object) -> tuple[Transaction, Manifest]:
    read = pending._held.at_read_version()
    header = read.copy_header()
    header.version = pending.checked
    return pending.transaction, build(Manifest(header, read.fragments), pending.transaction, load=pending._held.at)


def takes_out_only_its_own_rows(merge: RowMerge, current: DataFragment, ours: DataFragment) -> BitMap:
    return merge._rows_of(merge.fragments[current.id], ours)


class Deleting(Machine):
    """Writers who are after the same few rows: a fault in how deletions meet shows at once, not once in a hundred."""

    def preparations(self) -> Sequence[Preparation]:
        return [append_rows, delete_rows, delete_rows]


class Doubting(Machine):
    """Writers whose requests fail all the time, with changes that hardly ever conflict."""

    @initialize(kind=st.sampled_from([PutVersions, RenameVersions]), seed=st.integers(0, 1 << 16))
    def start(self, kind: Any, seed: int) -> None:
        self.world = World(kind=kind)
        self.faulty = True
        self.writers = [self._process(seed + number) for number in range(WRITERS)]

    def preparations(self) -> Sequence[Preparation]:
        return [append_rows]


# What is replaced, by what, among what writers, and what then must be noticed.
MUTANTS: dict[str, tuple[object, str, object, type[Machine], str]] = {
    "nothing is checked": (
        Rebase,
        "against",
        lambda rebasing, other: rebasing,
        Machine,
        "lost|gone|comes back|same key|expected",
    ),
    "rows are not compared": (RowMerge, "_check_other_rows", lambda *_: None, Deleting, "gone already"),
    "others' deletions are forgotten": (
        RowMerge,
        "_gone",
        takes_out_only_its_own_rows,
        Deleting,
        "gone already|expected",
    ),
    "absent counts as no": (Committer, "_settled", takes_absence_for_no, Doubting, "told that it failed"),
    "a taken name counts as a loss": (
        Committer,
        "_claim_again",
        takes_the_name_for_a_loss,
        Doubting,
        "told that it failed",
    ),
    "built on the version that was read": (Pending, "build", builds_on_what_it_read, Machine, "expected"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_planted_fault_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong, machine, noticed = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(AssertionError, match=noticed):
        run(500, machine, shrink=False)


def test_storage_without_atomic_creation_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"overwritten|acknowledged and is lost"):
        run(300, Racing, shrink=False)
