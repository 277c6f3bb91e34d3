"""Rebase: carry a transaction over what others committed since it read the table, or say why that cannot be done.

For each newer version, `TransactionRebase.against` goes through the steps of the specification:

1. compare what both modify: the conditions of the matrix, and fragments that both delete rows of;
2. for a Delete or Update, compare the affected rows. Those of the others are in their deletion vectors, so this waits
   for `finish`, where all of them are read at once;
3. merge the deletion vectors of both, and write them anew: also in `finish`;
4. collect fragment-reuse indices that others wrote;
5. adapt the transaction, or raise a retryable or incompatible conflict.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pyroaring import BitMap

from seiche.errors import InvalidInput, NotFound
from seiche.table import affected, footprint, index_rebase
from seiche.table.affected import AffectedRows
from seiche.table.conditions import CONDITIONS
from seiche.table.conflicts import Committed, Dispute, conflict, forgotten, rules, taken, vanished
from seiche.table.encounter import Encounter, listed
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.index_details import FRAGMENT_REUSE, MEM_WAL, SINGLETONS, ReuseContent, ReuseIndexFiles, find
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, DeletionFile, Field, IndexMetadata
from seiche.table.index_conditions import reuse_written
from seiche.table.operations import (
    Clone,
    CreateIndex,
    Delete,
    Merge,
    Project,
    Rewrite,
    Update,
    UpdateConfig,
    UpdateMemWalState,
)
from seiche.table.transaction import Transaction

__all__ = ["Committed", "Tracked", "TransactionRebase"]


@dataclass(frozen=True, slots=True)
class Tracked:
    """A fragment as it was at the read version, and who has changed its deletion vector since."""

    fragment: DataFragment
    changed_by: tuple[Committed, ...] = ()

    @property
    def needs_rewrite(self) -> bool:
        """Whether our deletion vector must be merged with another and written anew."""
        return bool(self.changed_by)


@dataclass(frozen=True, slots=True)
class TransactionRebase:
    """A transaction on its way over newer versions. Immutable: each step gives a new one.

    `against` is called for every newer version, oldest first, and reads nothing but manifests that it needs; `finish`
    then writes what must be written and returns the transaction to apply to the latest version.
    """

    transaction: Transaction
    read_manifest: Callable[[], Manifest]
    table: str
    # Of the fragments that the transaction changes, those that others changed too.
    fragments: Mapping[int, Tracked]
    # The existing fragments that the transaction modifies or deletes.
    modified: frozenset[int]
    # The rows that it takes out of their place, if the caller knows them; else they are found out when needed.
    affected_rows: AffectedRows
    # Fragment-reuse indices that others wrote, and whose content ours must hold too.
    reuse: tuple[tuple[Committed, IndexMetadata], ...] = ()
    # Merged deletion files by what they were merged with: a `finish` after a lost race does not write them again.
    _written: dict[tuple[int, bytes], DeletionFile] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def begin(
        cls,
        transaction: Transaction,
        read_manifest: Callable[[], Manifest],
        affected_rows: AffectedRows | None = None,
        *,
        table: str = "table",
    ) -> Self:
        """`read_manifest` loads the version that the transaction read, `table` is what messages call the table.

        Without `affected_rows`, those stored in the transaction's properties are taken.
        """
        operation = transaction.operation
        modified = footprint.fragments(operation)
        if transaction.properties:
            if affected_rows is None:
                affected_rows = affected.unpack(transaction.properties)
            transaction = affected.without_rows(transaction)
        if affected_rows and (strangers := sorted(affected_rows.keys() - modified)):
            raise InvalidInput(
                f"{table}: rows of {listed('fragment', strangers)} are given as affected by the {operation.name},"
                " which does not change them",
                remedy="Give the rows that the operation deletes or moves, by fragment.",
                fragments=strangers,
            )
        return cls(transaction, read_manifest, table, {}, modified, affected_rows or {})

    def against(self, other: Committed) -> "TransactionRebase":
        """The transaction after one more commit by others.

        Does nothing at all where the matrix says so. Raises `RetryableConflict` or `IncompatibleConflict`; what the
        deletion vectors have to say about it is only known in `finish`.
        """
        rebase = self
        for rule in rules(self.transaction.operation, other.transaction.operation):
            if rule.outcome == "rebase":
                rebase = _STEPS[rule.condition](rebase, other)
            elif dispute := CONDITIONS[rule.condition](rebase._encounter(other)):
                raise conflict(rule.outcome, dispute, self.transaction, other, self.table)
        return rebase

    def finish(self, latest: Manifest, deletions: DeletionFiles) -> Transaction:
        """The transaction to build on `latest`, which must be the version last given to `against`.

        Merged deletion vectors and reuse indices are on disk when this returns. Raises `RetryableConflict` if both
        sides took out the same rows.
        """
        if isinstance(self.transaction.operation, Clone):
            raise taken(latest.version, self.table)
        if latest.version == self.transaction.read_version:
            return self.transaction
        match self.transaction.operation:
            case Delete() | Update() as operation:
                return self._finish_rows(operation, latest, deletions)
            case CreateIndex() as operation:
                return replace(self.transaction, operation=self._finish_indices(operation, latest, deletions))
            case Rewrite(frag_reuse_index=entry) as operation if entry is not None and self.reuse:
                merged = self._merged_reuse(entry, latest, deletions)
                return replace(self.transaction, operation=replace(operation, frag_reuse_index=merged))
        return self.transaction

    def _encounter(self, other: Committed) -> Encounter:
        return Encounter(self.transaction.operation, other, self._read)

    def _read(self) -> Manifest:
        try:
            return self.read_manifest()
        except NotFound as error:
            raise forgotten(self.transaction, self.table) from error

    def _retry(self, other: Committed, what: str, fragments: tuple[int, ...]) -> Exception:
        return conflict("retry", Dispute(what, fragments), self.transaction, other, self.table)

    def _rows(self, other: Committed) -> "TransactionRebase":
        """Both delete or move rows: keep track of the fragments where their deletion vectors must be merged.

        That is possible only where neither side did more than that. A fragment that one of them removed, or gave other
        data files, cannot be put together from both.
        """
        theirs = other.transaction.operation
        shared = sorted(self.modified & footprint.fragments(theirs))
        if not shared:
            return self
        mine, others = footprint.updated_fragments(self.transaction.operation), footprint.updated_fragments(theirs)
        tracked = dict(self.fragments)
        for fragment_id in shared:
            self._check_not_removed(fragment_id, other)
            before = self._tracked(fragment_id)
            self._check_same_files(before.fragment, mine.get(fragment_id), others.get(fragment_id), other)
            tracked[fragment_id] = replace(before, changed_by=(*before.changed_by, other))
        return replace(self, fragments=tracked)

    def _check_not_removed(self, fragment_id: int, other: Committed) -> None:
        if fragment_id in footprint.removed_fragments(other.transaction.operation):
            raise self._retry(other, f"removed fragment {fragment_id}", (fragment_id,))
        if fragment_id in footprint.removed_fragments(self.transaction.operation):
            raise self._retry(other, f"changed rows of fragment {fragment_id}, which we remove", (fragment_id,))

    def _check_same_files(
        self, before: DataFragment, ours: DataFragment | None, theirs: DataFragment | None, other: Committed
    ) -> None:
        files = _files(before)
        if any(one is not None and _files(one) != files for one in (ours, theirs)):
            what = f"changed fragment {before.id}, of which one side wrote new data files"
            raise self._retry(other, what, (before.id,))

    def _tracked(self, fragment_id: int) -> Tracked:
        if fragment_id in self.fragments:
            return self.fragments[fragment_id]
        fragment = self._read().fragments.get(fragment_id)
        if fragment is None:
            raise InvalidInput(
                f"{self.table}: the {self.transaction.operation.name} changes fragment {fragment_id}, which version"
                f" {self.transaction.read_version} does not have",
                remedy="Give the version that the operation was built from as its read version.",
                fragments=[fragment_id],
            )
        return Tracked(fragment)

    def _indices(self, other: Committed) -> "TransactionRebase":
        """Both write indices: ours replaces theirs of the same name, the singletons come to hold both sides."""
        ours, theirs = self.transaction.operation, other.transaction.operation
        if not (isinstance(ours, CreateIndex) and isinstance(theirs, CreateIndex)):
            return self
        return self._with(index_rebase.replacing(ours, theirs))._reuse(other)

    def _trim(self, other: Committed) -> "TransactionRebase":
        """Values changed under our new index: it no longer covers the fragments where they did."""
        ours, theirs = self.transaction.operation, other.transaction.operation
        if not isinstance(ours, CreateIndex):
            return self
        if isinstance(theirs, Merge):
            return self._with(index_rebase.trimmed_to(ours, self._read(), other, theirs.fragments))
        changed, schema = footprint.data_fields(theirs), self._read().header.fields
        return self._with(index_rebase.trimmed(ours, schema, changed, footprint.fragments(theirs), other))

    def _moved(self, other: Committed) -> "TransactionRebase":
        """Rows moved under our new index, and something leads to their new places."""
        ours = self.transaction.operation
        if not isinstance(ours, CreateIndex):
            return self
        stable = self._read().has_stable_row_ids
        return self._with(index_rebase.followed(ours, other, stable_row_ids=stable))._reuse(other)

    def _reuse(self, other: Committed) -> "TransactionRebase":
        """Both write the fragment-reuse index: ours must hold what theirs does."""
        dropped = footprint.drops(self.transaction.operation, FRAGMENT_REUSE)
        if not dropped and footprint.of_name(self.transaction.operation, FRAGMENT_REUSE) is None:
            return self
        entry = reuse_written(other)
        if dropped and entry is not None:
            raise self._retry(other, "wrote the fragment-reuse index, which we drop", ())
        return self if entry is None else replace(self, reuse=(*self.reuse, (other, entry)))

    def _generations(self, other: Committed) -> "TransactionRebase":
        """They merged generations of the write-ahead log: a MemWAL index that we write must know."""
        ours, theirs = self.transaction.operation, other.transaction.operation
        if not (isinstance(ours, CreateIndex) and isinstance(theirs, Update | UpdateMemWalState)):
            return self
        return self._with(index_rebase.marked(ours, theirs.merged_generations)) if theirs.merged_generations else self

    def _metadata(self, other: Committed) -> "TransactionRebase":
        """They changed metadata of fields, and our projection carries all fields: it takes over what they changed."""
        ours, theirs = self.transaction.operation, other.transaction.operation
        if not (isinstance(ours, Project) and isinstance(theirs, UpdateConfig) and theirs.field_metadata_updates):
            return self
        before = {one.id: one for one in self._read().header.fields}
        after = {one.id: one for one in other.load().header.fields}
        fields: list[Field] = []
        for one in ours.schema:
            made = one
            if one.id in theirs.field_metadata_updates and one.id in after:
                if one.id not in before or one.metadata != before[one.id].metadata:
                    raise self._retry(other, f"changed metadata of field {one.id}, as we do", ())
                made = Field()
                made.CopyFrom(after[one.id])
                made.name, made.nullable = one.name, one.nullable
            fields.append(made)
        return self._with(replace(ours, schema=tuple(fields)))

    def _with(self, operation: CreateIndex | Project) -> "TransactionRebase":
        if operation is self.transaction.operation:
            return self
        return replace(self, transaction=replace(self.transaction, operation=operation))

    def _finish_rows(self, operation: Delete | Update, latest: Manifest, deletions: DeletionFiles) -> Transaction:
        """Apply to the fragments as they are now: theirs, with the deletions of both."""
        updated = footprint.updated_fragments(operation)
        emptied: list[int] = []
        for fragment_id in sorted(self.modified):
            current = latest.fragments.get(fragment_id)
            if current is None:
                raise vanished(fragment_id, self.transaction, latest.version, self.table)
            tracked = self.fragments.get(fragment_id)
            if tracked is None:
                continue
            merged = self._merged(tracked, updated[fragment_id], current, latest.version, deletions)
            if merged is None:
                emptied.append(fragment_id)
                del updated[fragment_id]
            else:
                updated[fragment_id] = merged
        kept = tuple(updated.values())
        gone = (*sorted(footprint.removed_fragments(operation)), *emptied)
        rebased: Delete | Update
        if isinstance(operation, Delete):
            rebased = replace(operation, updated_fragments=kept, deleted_fragment_ids=gone)
        else:
            rebased = replace(operation, updated_fragments=kept, removed_fragment_ids=gone)
        return _rebased_on(self.transaction, rebased, latest.version)

    def _merged(
        self, tracked: Tracked, ours: DataFragment, current: DataFragment, version: int, deletions: DeletionFiles
    ) -> DataFragment | None:
        """The fragment as it is now, without the rows that we take out; `None` if that leaves none."""
        mine = self._rows_of(tracked, ours, deletions)
        theirs = deletions.read(current)
        self._check_other_rows(tracked, mine & theirs, deletions)
        merged = mine | theirs
        if _is_emptied(current, merged):
            return None
        key = current.id, current.deletion_file.SerializeToString()
        if key not in self._written:
            self._written[key] = deletions.write(current.id, version, merged, bitmap=True)
        made = DataFragment()
        made.CopyFrom(current)
        made.deletion_file.CopyFrom(self._written[key])
        return made

    def _rows_of(self, tracked: Tracked, ours: DataFragment, deletions: DeletionFiles) -> BitMap:
        """The rows that we take out of a fragment: as given, or the difference that our deletion vector makes."""
        given = self.affected_rows.get(ours.id)
        if given is not None:
            self._check_given(given, tracked.fragment, ours)
            return given
        try:
            return affected.newly_deleted(tracked.fragment, ours, deletions)
        except NotFound as error:
            what = f"changed fragment {ours.id}, and which of its rows we change cannot be found out: {error.message}"
            raise self._retry(tracked.changed_by[0], what, (ours.id,)) from error

    def _check_given(self, given: BitMap, before: DataFragment, ours: DataFragment) -> None:
        """Rows that were given wrongly would be deleted now, though the operation does not delete them."""
        had, has = before.deletion_file.num_deleted_rows, ours.deletion_file.num_deleted_rows
        known = has and (had or not before.HasField("deletion_file"))
        if known and has != had + len(given):
            raise InvalidInput(
                f"{self.table}: {len(given)} rows of fragment {ours.id} are given as affected, but the deletion file of"
                f" the {self.transaction.operation.name} has {has - had} more than before",
                remedy="Give exactly the rows that the operation deletes or moves, or none: then they are found out.",
                fragments=[ours.id],
            )

    def _check_other_rows(self, tracked: Tracked, both: BitMap, deletions: DeletionFiles) -> None:
        if not both:
            return
        fragment_id = tracked.fragment.id
        for other in tracked.changed_by:  # deletion vectors are cumulative: the first that has the rows took them
            theirs = footprint.updated_fragments(other.transaction.operation)[fragment_id]
            if both & deletions.read(theirs):
                what = f"took out the same {listed('row', both)} of fragment {fragment_id}"
                raise self._retry(other, what, (fragment_id,))
        raise self._retry(tracked.changed_by[-1], f"took out rows of fragment {fragment_id}", (fragment_id,))

    def _finish_indices(self, operation: CreateIndex, latest: Manifest, deletions: DeletionFiles) -> CreateIndex:
        """The singletons that we write hold what others wrote, and stand alone under their names.

        A MemWAL index that we drop is dropped also if others marked something in it, which gives it a new id.
        """
        entry = footprint.of_name(operation, FRAGMENT_REUSE)
        if entry is not None and self.reuse:
            merged = self._merged_reuse(entry, latest, deletions)
            new = tuple(merged if one is entry else one for one in operation.new_indices)
            operation = replace(operation, new_indices=new)
        names = {one.name for one in operation.new_indices} & SINGLETONS
        if footprint.drops(operation, MEM_WAL):
            names.add(MEM_WAL)
        return index_rebase.without(operation, (one for one in latest.indices if one.name in names))

    def _merged_reuse(self, entry: IndexMetadata, latest: Manifest, deletions: DeletionFiles) -> IndexMetadata:
        files = ReuseIndexFiles(deletions.store, deletions.runtime, bases=deletions.bases)
        known = find(self._read().indices, FRAGMENT_REUSE)
        before = files.read(known) if known is not None else ReuseContent()
        content = files.read(entry)
        for other, theirs in self.reuse:
            try:
                content = index_rebase.merged_reuse(before, content, files.read(theirs))
            except InvalidInput as error:
                raise self._retry(other, f"wrote a fragment-reuse index, and {error.message}", ()) from error
        runtime = deletions.runtime
        created_at = int(runtime.clock.now().timestamp() * 1000)
        return files.write(content, uuid=runtime.uuid(), dataset_version=latest.version, created_at=created_at)


_STEPS: Mapping[str, Callable[[TransactionRebase, Committed], TransactionRebase]] = {
    "generations": TransactionRebase._generations,
    "indices": TransactionRebase._indices,
    "metadata": TransactionRebase._metadata,
    "moved": TransactionRebase._moved,
    "reuse": TransactionRebase._reuse,
    "rows": TransactionRebase._rows,
    "trim": TransactionRebase._trim,
}


def _rebased_on(transaction: Transaction, operation: Delete | Update, version: int) -> Transaction:
    """A rebased Delete or Update counts as made from the version it was rebased on, as pylance has it."""
    return replace(transaction, operation=operation, read_version=version)


def _is_emptied(fragment: DataFragment, deleted: BitMap) -> bool:
    """Whether no row is left; unknown if the fragment does not say how many it has, and then it stays."""
    return 0 < fragment.physical_rows <= len(deleted)


def _files(fragment: DataFragment) -> list[bytes]:
    return [one.SerializeToString(deterministic=True) for one in fragment.files]
