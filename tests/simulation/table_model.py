"""One table of fragments without data, its writers, and a model of it in dictionaries.

Everything that is decided happens, nothing is scanned. A row is known by the data file it was written to and its place
there; a change says in plain words what it does to the rows, and the model does that to a dictionary. So whatever the
schedule and the faults, every version must be what the model makes of the one before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import pyarrow as pa
from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, ConflictError, SeicheError, Unavailable
from seiche.store.base import Store
from seiche.table.format import roaring
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment
from seiche.table.format.row_ids import RowIds
from seiche.table.operations import Append, Delete, Operation
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions, StoredVersions
from seiche.testing import Call, DictStore, Fault, Faults, SimulatedStore, Stopped

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
ID, VALUE = 0, 1
LABEL = "label"
INDEX_PREFIX = b"index-"

Row: TypeAlias = int
Status: TypeAlias = Literal["running", "done", "failed", "unknown"]


class Nearby(DictStore):
    """A store where a listing is cheap, as on local disk: hints are used."""

    @property
    def lists_in_one_request(self) -> bool:
        return True


@dataclass(frozen=True)
class State:
    """What one version holds: for each row the file that its value is read from, and what the columns are called."""

    values: Mapping[Row, str] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=lambda: {ID: "id", VALUE: "value"})
    config: Mapping[str, str] = field(default_factory=dict)


# What a change makes of the version before it; fails if it should not have been committed over that.
Effect: TypeAlias = Callable[[State], State]


@dataclass
class Attempt:
    """Something that a writer wants to commit, what it was told, and the version that it became."""

    label: str
    operation: Operation
    read: Manifest
    effect: Effect
    affected_rows: Mapping[int, Iterable[int]] | None = None
    status: Status = "running"
    version: int | None = None
    error: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.label} ({self.operation.name} of version {self.read.version}, {self.status})"


class Process(SimulatedStore):
    """The storage as one process sees it, with faults and a death that can be set when the process is at work."""

    def expect(self, faults: Faults) -> None:
        """From now on these."""
        self._faults = faults

    def die_at(self, call: int, fault: Fault | None) -> None:
        """Stop at the call that comes so many after this; not at all without a fault."""
        self._plan.clear()
        if fault is not None:
            self._plan[len(self.calls) + call] = fault


@dataclass
class Writer:
    """A process: its view of the storage, its handle, and the version that it prepares its changes from."""

    store: Process
    table: Table
    seen: Manifest


class World:
    """The table, everybody who ever wrote to it, and what it must hold."""

    def __init__(
        self,
        *,
        kind: type[StoredVersions] = PutVersions,
        naming: Naming = Naming.V2,
        store: DictStore | None = None,
        stable_row_ids: bool = False,
    ) -> None:
        self.kind = kind
        self.store = DictStore() if store is None else store
        self.rows: dict[str, tuple[Row, ...]] = {}
        self.attempts: dict[str, Attempt] = {}
        self.states: list[State] = [State()]
        self.history: list[Attempt | None] = [None]
        self.outcomes: Counter[str] = Counter()
        # For each index the file that it was built from, by fragment; for each row that moved, which one it was.
        self.indexed: dict[bytes, dict[int, str]] = {}
        self.moved: dict[Row, Row] = {}
        self._stable: dict[Row, int] = {}
        self._seen: dict[str, bytes] = {}
        self._numbers = 0
        Table.create(
            self.store,
            SCHEMA,
            naming=naming.name,
            stable_row_ids=stable_row_ids,
            runtime=Runtime.seeded(99),
        )
        self.states.append(State())
        self.history.append(None)

    @property
    def version(self) -> int:
        return len(self.states) - 1

    def number(self) -> int:
        """One that was never used before: for names and rows."""
        self._numbers += 1
        return self._numbers

    def opened(self, store: Store, seed: int) -> Table:
        """The table, as another process opens it. Its ids are its own, whatever the seed."""
        runtime = Runtime.seeded(seed * 100_000 + self.number())
        versions = self.kind(store, runtime=runtime)
        return Table(versions, versions.read(versions.newest()).manifest, runtime=runtime)

    def writer(self, seed: int, *, on_call: Callable[[Call], None] | None = None) -> "Writer":
        """A process of its own that has opened the table."""
        store = Process(self.store, seed=seed, on_call=on_call)
        table = self.opened(store, seed)
        return Writer(store, table, self.manifest(PutVersions(self.store).newest()))

    def manifest(self, version: int | None = None) -> Manifest:
        """A version as somebody reads it who has no part in any of this."""
        return PutVersions(self.store).read(self.version if version is None else version).manifest

    def fragment(self, rows: int) -> DataFragment:
        """A new fragment of new rows."""
        return self.fragment_of([self.number() for _ in range(rows)])

    def fragment_of(self, rows: Sequence[Row]) -> DataFragment:
        """A new fragment that holds these rows in this order."""
        path = f"{self.number()}.lance"
        self.rows[path] = tuple(rows)
        return DataFragment(files=[data_file(path, (ID, VALUE))], physical_rows=len(rows))

    def attempt(
        self,
        read: Manifest,
        operation: Operation,
        effect: Effect,
        affected_rows: Mapping[int, Iterable[int]] | None = None,
    ) -> Attempt:
        """Note what is about to be committed, prepared from the version `read`; nothing happens yet."""
        made = Attempt(f"{operation.name} {self.number()}", operation, read, effect, affected_rows)
        self.attempts[made.label] = made
        return made

    def commit(self, table: Table, attempt: Attempt, *, attempts: int | None = None) -> Attempt:
        """Commit, and note what the writer was told."""
        try:
            table.commit(
                attempt.operation,
                read_version=attempt.read.version,
                affected_rows=attempt.affected_rows,
                properties={LABEL: attempt.label},
                attempts=attempts,
            )
        except (ConflictError, Unavailable) as error:
            attempt.status, attempt.error = "failed", error
        except CommitUnknown as error:
            attempt.status, attempt.error = "unknown", error
        except Stopped as error:
            attempt.status, attempt.error = "unknown", error
            self.outcomes["died"] += 1
        else:
            attempt.status = "done"
        self.outcomes[attempt.status] += 1
        if isinstance(attempt.error, SeicheError):
            self.outcomes[attempt.error.kind] += 1
        return attempt

    def contents(self, manifest: Manifest) -> State:
        """What a version holds, seen by a reader that knows nothing but the format."""
        deletions = DeletionFiles(self.store)
        values: dict[Row, str] = {}
        for fragment in manifest.fragments:
            files = speaking(fragment)
            rows = self.rows[files[ID]]
            assert len(rows) == fragment.physical_rows
            gone = deletions.read(fragment)
            for offset, row in enumerate(rows):
                if offset not in gone:
                    assert row not in values, f"row {row} is there twice"
                    values[row] = files[VALUE]
        header = manifest.header
        names = {one.id: one.name for one in header.fields}
        return State(values, names, dict(header.config))

    def check(self) -> None:
        """Every version is there, readable, unchanged since it was made, and what the model makes of the one before;
        nothing that was acknowledged is missing, nothing that failed is there.
        """
        versions = PutVersions(self.store)
        numbers = versions.all()
        assert numbers == list(range(1, len(numbers) + 1)), f"the versions have gaps: {numbers}"
        for number in numbers:
            path = versions.path(number)
            data = self.store.get(path)
            assert self._seen.setdefault(path, data) == data, f"version {number} was overwritten"
        for number in range(self.version + 1, len(numbers) + 1):
            self._follow(number, versions.read(number).manifest, versions.transaction(number))
        for attempt in self.attempts.values():
            assert attempt.status != "done" or attempt.version, f"{attempt} was acknowledged and is lost"
        self.outcomes["versions"] = self.version

    def _follow(self, number: int, manifest: Manifest, transaction: Transaction) -> None:
        attempt = self.attempts[transaction.properties[LABEL]]
        assert attempt.version is None, f"{attempt} is both version {attempt.version} and version {number}"
        assert attempt.status != "failed", f"{attempt} was told that it failed, and is version {number}"
        found, expected = self.contents(manifest), attempt.effect(self.states[-1])
        assert found == expected, f"version {number}, {attempt}: {found}, expected {expected}"
        self._check_row_ids(manifest)
        self._check_indices(manifest)
        attempt.version = number
        self.states.append(expected)
        self.history.append(attempt)
        self.outcomes[attempt.operation.name] += 1
        self.outcomes["rebased"] += attempt.read.version < number - 1

    def _check_row_ids(self, manifest: Manifest) -> None:
        """A row keeps its id for ever, also when it moves, and no two rows have the same."""
        if not manifest.has_stable_row_ids:
            return
        taken: set[int] = set()
        deletions = DeletionFiles(self.store)
        for fragment in manifest.fragments:
            ids = RowIds.decode(fragment.inline_row_ids, rows=fragment.physical_rows).to_array().tolist()
            gone = deletions.read(fragment)
            for offset, (row, row_id) in enumerate(zip(self.rows[speaking(fragment)[ID]], ids, strict=True)):
                if offset not in gone:
                    origin = self.moved.get(row, row)
                    assert self._stable.setdefault(origin, row_id) == row_id, f"row {row} has another id"
                    assert row_id < manifest.header.next_row_id
                    assert row_id not in taken, f"two rows have the id {row_id}"
                    taken.add(row_id)

    def _check_indices(self, manifest: Manifest) -> None:
        """An index never answers for values that it was not built from."""
        values = {fragment.id: speaking(fragment)[VALUE] for fragment in manifest.fragments}
        for index in manifest.indices:
            for fragment_id in roaring.decode(index.fragment_bitmap):
                if fragment_id in values:
                    built = self.indexed[index.uuid.uuid].get(fragment_id)
                    assert built == values[fragment_id], f"index {index.name} covers values that it does not know"

    def committed_since(self, read: Manifest) -> list[Attempt]:
        """What others committed between that version and the newest."""
        return [one for one in self.history[read.version + 1 :] if one is not None]


def data_file(path: str, fields: Iterable[int]) -> DataFile:
    ids = list(fields)
    return DataFile(path=path, fields=ids, column_indices=range(len(ids)), file_major_version=2, file_minor_version=2)


def speaking(fragment: DataFragment) -> dict[int, str]:
    """For each field the file that its values are read from: the last that has it."""
    return {one: file.path for file in fragment.files for one in file.fields if one >= 0}


def appending(world: World, fragment: DataFragment, read: Manifest) -> Effect:
    """The fragment's rows come; their columns must still mean what they meant."""
    path = speaking(fragment)[ID]
    then = {one.id: one.name for one in read.header.fields}

    def effect(before: State) -> State:
        for one in (ID, VALUE):
            assert before.names.get(one, then[one]) == then[one], "values were put into a column of another name"
        return replace(before, values={**before.values, **dict.fromkeys(world.rows[path], path)})

    return effect


def deleting(rows: Iterable[Row]) -> Effect:
    """The rows go; all of them must be there, or somebody else has taken them out and was not noticed."""
    gone = frozenset(rows)

    def effect(before: State) -> State:
        assert gone <= before.values.keys(), f"rows {sorted(gone - before.values.keys())} were gone already"
        return replace(before, values={row: path for row, path in before.values.items() if row not in gone})

    return effect


def without(world: World, manifest: Manifest, rows: Iterable[Row], store: Store, runtime: Runtime) -> "Removal":
    """What a Delete or Update says when it takes these rows out of their fragments."""
    wanted = set(rows)
    deletions = DeletionFiles(store, runtime)
    updated, removed, affected = [], [], {}
    for fragment in manifest.fragments:
        offsets = BitMap(n for n, row in enumerate(world.rows[speaking(fragment)[ID]]) if row in wanted)
        before = deletions.read(fragment)
        offsets -= before
        if not offsets:
            continue
        if len(offsets | before) == fragment.physical_rows:
            removed.append(fragment.id)
            continue
        changed = DataFragment()
        changed.CopyFrom(fragment)
        changed.deletion_file.CopyFrom(deletions.write(fragment.id, manifest.version, offsets | before))
        updated.append(changed)
        affected[fragment.id] = offsets
    return Removal(tuple(updated), tuple(removed), affected)


def append(world: World, read: Manifest, rows: int = 1) -> Attempt:
    """An attempt to append a fragment of new rows."""
    fragment = world.fragment(rows)
    return world.attempt(read, Append((fragment,)), appending(world, fragment, read))


def delete(world: World, read: Manifest, rows: Iterable[Row], store: Store, *, rows_given: bool = False) -> Attempt:
    """An attempt to delete rows; its deletion files are written now."""
    gone = list(rows)
    removal = without(world, read, gone, store, Runtime.seeded(world.number()))
    operation = Delete(removal.updated, removal.removed, "true")
    return world.attempt(read, operation, deleting(gone), removal.affected if rows_given else None)


@dataclass(frozen=True)
class Removal:
    """Fragments with new deletion files, fragments of which nothing is left, and the rows taken out of the former."""

    updated: tuple[DataFragment, ...]
    removed: tuple[int, ...]
    affected: Mapping[int, BitMap]
