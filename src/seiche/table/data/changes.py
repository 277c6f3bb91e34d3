"""The rows that were inserted, updated and deleted between two versions, read when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from seiche.core import given
from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, NotFound, SeicheError
from seiche.table.bases import deletion_files
from seiche.table.build import empty
from seiche.table.data.columns.past import PastColumns, ids_before
from seiche.table.data.removal import by_fragment
from seiche.table.data.scanning import ADDRESS, scan_rows, scanner
from seiche.table.data.values import spelled
from seiche.table.format.file import ManifestFile
from seiche.table.format.manifest_pb2 import Field
from seiche.table.operations import Merge, Overwrite, Project, Restore
from seiche.table.row_changes import Rows, VersionChanges, changes_of
from seiche.table.transaction import Transaction
from seiche.table.versions.base import Versions

if TYPE_CHECKING:
    import lance

__all__ = ["CHANGE_TYPE", "COMMIT_VERSION", "Changes", "Kind", "find_changes", "kinds_of"]

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"

Kind: TypeAlias = Literal["insert", "update", "delete"]

_WHAT = "the read of changes"

# Manifests that are read side by side: those of large tables are many megabytes each.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Step:
    """One version: which rows changed, and which column of it, and of the one before, is which of those asked for."""

    changes: VersionChanges
    before: PastColumns
    after: PastColumns


class Changes:
    """What happened to the rows of a table after version `from_version`, up to and with `to_version`.

    Iterating gives record batches, version by version: first what was deleted, then what was updated, then what was
    inserted. Each row has its values, as they were before it was deleted or as the version made them, and two columns
    more: `_change_type` (`delete`, `update` or `insert`) and `_commit_version`. Columns are those of `to_version`; one
    that a row did not have yet is null. Memory does not grow with the number of rows. Can be read more than once.
    """

    def __init__(
        self, from_version: int, to_version: int, steps: Sequence[_Step], schema: pa.Schema, open_: "_Open"
    ) -> None:
        """Use `changes` of a table."""
        self.from_version = from_version
        self.to_version = to_version
        self._steps = steps
        self._columns = schema
        self._open = open_

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        fields = [*self._columns, pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_VERSION, pa.uint64())]
        return pa.schema(fields, self._columns.metadata)

    @property
    def counts(self) -> dict[int, dict[str, int]]:
        """By version how many rows were deleted, updated and inserted, without reading any; versions without are left
        out.
        """
        found: dict[int, dict[str, int]] = {}
        for step in self._steps:
            kinds: dict[str, int] = {kind: len(rows) for kind, rows in kinds_of(step.changes) if rows}
            if kinds:
                found[step.changes.version] = kinds
        return found

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for step in self._steps:
            version = step.changes.version
            for kind, rows in kinds_of(step.changes):
                if rows:
                    at, columns = (version - 1, step.before) if kind == "delete" else (version, step.after)
                    for batch in self._read(at, columns.names, rows):
                        shown = [self._column(batch, field, columns, at) for field in self._columns]
                        yield self._marked(shown, batch.num_rows, kind, version)

    def to_reader(self) -> pa.RecordBatchReader:
        """All batches, for whoever takes a reader."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """All changes at once."""
        return pa.Table.from_batches(list(self), self.schema)

    def __repr__(self) -> str:
        totals: dict[str, int] = {}
        for kinds in self.counts.values():
            for kind, rows in kinds.items():
                totals[kind] = totals.get(kind, 0) + rows
        parts = ", ".join(f"{kind} {rows}" for kind, rows in totals.items()) or "none"
        return f"<changes after version {self.from_version} up to {self.to_version}: {parts}>"

    def _read(self, version: int, names: Mapping[str, str], rows: Rows) -> Iterator[pa.RecordBatch]:
        # At least one column, even if none of those asked for existed yet.
        columns = list(names.values()) or {ADDRESS: ADDRESS}
        numbers = rows.offsets if rows.row_ids is None else by_fragment(rows.row_ids)
        return scan_rows(self._opened(version), numbers, columns, what=_WHAT, fragments=rows.offsets)

    def _opened(self, version: int) -> Any:
        try:
            return self._open(version)
        except SeicheError as error:
            raise NotFound(
                f"version {version} cannot be opened any more: {error.message}",
                remedy="It was cleaned up meanwhile; `versions()` lists those that are kept.",
                version=version,
            ) from error

    def _marked(self, columns: list[pa.Array], rows: int, kind: str, version: int) -> pa.RecordBatch:
        marks = pa.scalar(kind, pa.string()), pa.scalar(version, pa.uint64())
        return pa.RecordBatch.from_arrays([*columns, *(pa.repeat(one, rows) for one in marks)], schema=self.schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, past: PastColumns, version: int) -> pa.Array:
        name = past.names.get(field.name)
        if name is None:
            return pa.nulls(batch.num_rows, field.type)
        column = past.shown(batch.column(name), name)
        if column.type == field.type:
            return column
        try:
            return spelled(column, field.type).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidInput(
                f"column {field.name!r} was {column.type} in version {version} and is {field.type} in version"
                f" {self.to_version}; a value cannot be shown as that: {error}",
                remedy="Ask for the changes before and after that version one by one, or without the column.",
                column=field.name,
            ) from error


_Open = Callable[[int], "lance.LanceDataset"]


def find_changes(
    versions: Versions,
    open_version: _Open,
    from_version: int,
    to_version: int,
    columns: Sequence[str] | None,
    runtime: Runtime,
) -> Changes:
    """Find which rows changed; they are read when the result is iterated over.

    Every version in between must be kept: `NotFound` if one is not. `from_version` 0 is before the table was made.
    """
    if from_version > to_version:
        raise InvalidInput(
            f"version {from_version} comes after version {to_version}",
            remedy="Give the earlier version first.",
        )
    history = _History(versions, from_version, to_version, runtime)
    found = list(history.changes())
    dataset: Any = open_version(to_version)
    wanted = _checked(columns, history.names)
    past = history.columns(wanted)
    steps = [_Step(one, past[one.version - 1], past[one.version]) for one in found]
    return Changes(from_version, to_version, steps, _schema(dataset, wanted), open_version)


class _History:
    """The manifests of a range of versions, some at a time, and what is left of them: schemas and operations."""

    def __init__(self, versions: Versions, first: int, last: int, runtime: Runtime) -> None:
        self._versions = versions
        self._runtime = runtime
        self._first, self._last = first, last
        # The earliest version whose columns are known.
        self._earliest = first
        if not versions.store.exists(versions.path(last)):
            raise self._gone(last)
        self._manifest = empty() if first == 0 else self._read(first).manifest
        self._fields: dict[int, tuple[Field, ...]] = {first: tuple(self._manifest.header.fields)}
        self._anew: set[int] = set()
        self._restored: dict[int, int] = {}

    def changes(self) -> Iterator[VersionChanges]:
        """What each version did to the rows of the one before."""
        for first in range(self._first + 1, self._last + 1, _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, self._last + 1))
            for version, read in zip(some, self._versions.store.in_parallel(self._read, some), strict=True):
                yield self._changes(version, read)

    def _changes(self, version: int, read: ManifestFile) -> VersionChanges:
        before, after = self._manifest, read.manifest
        transaction = self._transaction(version, read)
        self._note(version, transaction)
        self._manifest = after
        self._fields[version] = tuple(after.header.fields)
        store = self._versions.store
        return changes_of(
            before,
            after,
            transaction,
            deletion_files(before, store, self._runtime),
            deletion_files(after, store, self._runtime),
            lambda some: store.in_parallel(self._versions.transaction, some),
        )

    def _note(self, version: int, transaction: Transaction) -> None:
        if isinstance(transaction.operation, Overwrite | Restore):
            self._anew.add(version)
        if isinstance(transaction.operation, Restore):
            self._restored[version] = transaction.operation.version

    @property
    def names(self) -> list[str]:
        """What the last version calls its columns."""
        return [one.name for one in self._fields[self._last] if one.parent_id == -1]

    def columns(self, wanted: Sequence[str]) -> dict[int, PastColumns]:
        """For each version its columns, as far as they are called `wanted` in the last, and all that is inside them.

        A column keeps its id when it is renamed. An Overwrite gives ids anew, and a Restore takes old ones back, so
        across those only the name tells. The columns of a version that was restored are those that came back with it,
        also where some were gone in between.
        """
        self._look_back()
        last = self._fields[self._last]
        named = {one.id: one.name for one in last if one.parent_id != -1 or one.name in wanted}
        # The id that a field of the last version has in the one that is looked at.
        now = {one: one for one in named}
        back: dict[int, dict[int, int]] = {}
        found = {self._last: now}
        for version in range(self._last, self._earliest, -1):
            if version in self._restored:
                source = self._restored[version]
                back[source] = {**now, **back.get(source, {})}
            earlier = ids_before(self._fields[version], self._fields[version - 1], anew=version in self._anew)
            now = {one: earlier[then] for one, then in now.items() if then in earlier}
            now |= back.get(version - 1, {})
            found[version - 1] = now
        if self._restored:
            self._lead_on(found)
        return {
            version: PastColumns(self._fields[version], {then: named[one] for one, then in ids.items()})
            for version, ids in found.items()
            if version >= self._first
        }

    def _look_back(self) -> None:
        """Find out what became of the columns of earlier versions that were restored, up to the first one: some may
        have had other names by then.
        """
        while (source := min(self._unknown_sources(), default=0)) and self._knows_since(source):
            pass

    def _unknown_sources(self) -> Iterator[int]:
        """Earlier versions whose columns came back under other names than those before had, or came back at all."""
        for version, source in self._restored.items():
            if source < self._earliest < version:
                before, after = self._fields[version - 1], self._fields[version]
                if _called(before) != _called(after):
                    yield source

    def _knows_since(self, source: int) -> bool:
        """Learn the columns of all versions since one that was restored.

        What made a version says so, without the version itself. If that has been cleaned up, names have to do.
        """
        between = range(source + 1, self._earliest + 1)
        known = {source: next(self._fields[one] for one, from_ in self._restored.items() if from_ == source)}
        try:
            made = dict(
                zip(between, self._versions.store.in_parallel(self._versions.transaction, between), strict=True)
            )
            for version in between[:-1]:
                known[version] = self._schema_after(version, made[version], known)
        except NotFound:
            return False
        for version, transaction in made.items():
            self._note(version, transaction)
        self._fields |= known
        self._earliest = source
        return True

    def _schema_after(
        self, version: int, transaction: Transaction, known: Mapping[int, tuple[Field, ...]]
    ) -> tuple[Field, ...]:
        """The fields of a version, by what made it and the versions before it."""
        operation = transaction.operation
        if isinstance(operation, Overwrite | Merge | Project):
            return operation.schema
        if not isinstance(operation, Restore):
            return known[version - 1]
        restored = known.get(operation.version)
        return tuple(self._read(version).manifest.header.fields) if restored is None else restored

    def _lead_on(self, found: dict[int, dict[int, int]]) -> None:
        """Follow fields that came back with a version also through those between it and the one that did without them:
        what they are called there is found in the order of time only.
        """
        for version in range(self._earliest + 1, self._last):
            earlier = ids_before(self._fields[version], self._fields[version - 1], anew=version in self._anew)
            later = {then: one for one, then in earlier.items()}
            led = {one: later[then] for one, then in found[version - 1].items() if then in later}
            led |= found.get(self._restored.get(version, -1), {})
            known = found[version]
            taken = set(known.values())
            known |= {one: then for one, then in led.items() if one not in known and then not in taken}

    def _read(self, version: int) -> ManifestFile:
        try:
            return self._versions.read(version)
        except NotFound as error:
            raise self._gone(version) from error

    def _transaction(self, version: int, read: ManifestFile) -> Transaction:
        if read.transaction is not None:
            return Transaction.from_proto(read.transaction)
        try:
            return self._versions.transaction(version)
        except NotFound as error:
            raise self._gone(version) from error

    def _gone(self, version: int) -> NotFound:
        return NotFound(
            f"{self._versions.store.uri} has no version {version}, so the changes after {self._first} are not known",
            remedy="It never existed or was cleaned up; `versions()` lists those that are kept.",
            table=self._versions.store.uri,
            version=version,
        )


def _called(fields: Sequence[Field]) -> set[tuple[int, int, str]]:
    return {(one.id, one.parent_id, one.name) for one in fields}


def _checked(columns: Sequence[str] | None, existing: Sequence[str]) -> list[str]:
    if columns is None:
        return list(existing)
    columns = given.names(columns, "columns", f"The columns are {', '.join(existing)}.")
    unknown = [name for name in columns if name not in existing]
    if unknown or len(set(columns)) != len(columns):
        raise InvalidInput(
            f"there is no column {unknown[0]!r}" if unknown else "a column is asked for twice",
            remedy=f"The columns are {', '.join(existing)}.",
            columns=columns,
        )
    return columns


def _schema(dataset: Any, columns: list[str]) -> pa.Schema:
    """As a scan gives them; every one may be null, for rows from before it existed."""
    planned = scanner(dataset, columns=columns, what=_WHAT, blob_handling="all_binary").projected_schema
    return pa.schema([field.with_nullable(True) for field in planned], planned.metadata)


def kinds_of(changes: VersionChanges) -> Sequence[tuple[Kind, Rows]]:
    """What happened in a version, in the order in which to show it."""
    return ("delete", changes.deleted), ("update", changes.updated), ("insert", changes.inserted)
