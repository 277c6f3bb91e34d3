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

from seiche.errors import InvalidInput
from seiche.table import affected, footprint, index_rebase, projection_rebase
from seiche.table.affected import AffectedRows
from seiche.table.conditions import CONDITIONS
from seiche.table.conflicts import Committed, rules, taken
from seiche.table.encounter import Encounter, listed
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Clone, CreateIndex, Delete, Merge, Operation, Rewrite, Update, UpdateMemWalState
from seiche.table.reuse_merge import ReuseMerge, Written, written
from seiche.table.row_merge import MergedFiles, RowMerge, Tracked, tracked
from seiche.table.transaction import Transaction

__all__ = ["Committed", "TransactionRebase"]


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
    reuse: tuple[Written, ...] = ()
    # Merged deletion files: a `finish` after a lost race does not write them again.
    _written: MergedFiles = field(default_factory=dict, compare=False, repr=False)

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
            meeting = rebase._meeting(other)
            if rule.outcome == "rebase":
                rebase = _STEPS[rule.condition](rebase, meeting)
            elif dispute := CONDITIONS[rule.condition](meeting):
                raise meeting.conflict(rule.outcome, dispute)
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
        reuse = ReuseMerge(self.reuse, deletions)
        match self.transaction.operation:
            case Delete() | Update():
                return self._row_merge(deletions).onto(latest)
            case CreateIndex() as operation:
                return self._with(index_rebase.alone(reuse.of_indices(operation, latest), latest)).transaction
            case Rewrite() as operation:
                return self._with(reuse.of_rewrite(operation, latest)).transaction
        return self.transaction

    def _meeting(self, other: Committed) -> Encounter:
        return Encounter(self.transaction, other, self.read_manifest, self.table)

    def _row_merge(self, deletions: DeletionFiles) -> RowMerge:
        return RowMerge(
            self.transaction, self.fragments, self.modified, self.affected_rows, deletions, self._written, self.table
        )

    def _rows(self, meeting: Encounter) -> "TransactionRebase":
        """Both delete or move rows: keep track of the fragments where their deletion vectors must be merged."""
        return replace(self, fragments=tracked(meeting, self.modified, self.fragments))

    def _indices(self, meeting: Encounter) -> "TransactionRebase":
        """Both write indices: ours replaces theirs of the same name, the singletons come to hold both sides."""
        ours, theirs = meeting.ours, meeting.theirs
        if not (isinstance(ours, CreateIndex) and isinstance(theirs, CreateIndex)):
            return self
        return self._with(index_rebase.replacing(ours, theirs))._reuse(meeting)

    def _trim(self, meeting: Encounter) -> "TransactionRebase":
        """Values changed under our new index: it no longer covers the fragments where they did."""
        ours, theirs = meeting.ours, meeting.theirs
        if not isinstance(ours, CreateIndex):
            return self
        if isinstance(theirs, Merge):
            return self._with(index_rebase.trimmed_to(ours, meeting.read(), meeting.other, theirs.fragments))
        read = meeting.read()
        changed, touched = footprint.rewritten_fields(theirs, read), footprint.fragments(theirs)
        return self._with(index_rebase.trimmed(ours, read.header.fields, changed, touched, meeting.other))

    def _moved(self, meeting: Encounter) -> "TransactionRebase":
        """Rows moved under our new index, and something leads to their new places."""
        ours = meeting.ours
        if not isinstance(ours, CreateIndex):
            return self
        stable = meeting.read().has_stable_row_ids
        return self._with(index_rebase.followed(ours, meeting.other, stable_row_ids=stable))._reuse(meeting)

    def _reuse(self, meeting: Encounter) -> "TransactionRebase":
        """Both write the fragment-reuse index: ours must hold what theirs does."""
        found = written(meeting)
        return self if found is None else replace(self, reuse=(*self.reuse, found))

    def _generations(self, meeting: Encounter) -> "TransactionRebase":
        """They merged generations of the write-ahead log: a MemWAL index that we write must know."""
        ours, theirs = meeting.ours, meeting.theirs
        if not (isinstance(ours, CreateIndex) and isinstance(theirs, Update | UpdateMemWalState)):
            return self
        return self._with(index_rebase.marked(ours, theirs.merged_generations)) if theirs.merged_generations else self

    def _metadata(self, meeting: Encounter) -> "TransactionRebase":
        """They changed metadata of fields, and our projection carries all fields: it takes over what they changed."""
        return self._with(projection_rebase.with_metadata(meeting))

    def _with(self, operation: Operation) -> "TransactionRebase":
        if operation is self.transaction.operation:
            return self
        return replace(self, transaction=replace(self.transaction, operation=operation))


_STEPS: Mapping[str, Callable[[TransactionRebase, Encounter], TransactionRebase]] = {
    "generations": TransactionRebase._generations,
    "indices": TransactionRebase._indices,
    "metadata": TransactionRebase._metadata,
    "moved": TransactionRebase._moved,
    "reuse": TransactionRebase._reuse,
    "rows": TransactionRebase._rows,
    "trim": TransactionRebase._trim,
}
