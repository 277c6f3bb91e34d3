"""Two who take rows out of the same fragments: both stand, if they are other rows.

Who meets whom is known from the transactions alone (`tracked`). Which rows they took is only in deletion vectors, which
are read, compared and merged once for each fragment, when it is known what all the others did (`RowMerge`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap

from seiche.errors import InvalidInput, NotFound
from seiche.table import affected, footprint
from seiche.table.affected import AffectedRows
from seiche.table.conflicts import vanished
from seiche.table.encounter import Encounter, listed
from seiche.table.format.deletions import DeletionFiles, path
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, DeletionFile
from seiche.table.operations import Delete, Operation, Update
from seiche.table.transaction import Transaction

__all__ = ["MergedFiles", "RowMerge", "Tracked", "tracked"]

# Merged deletion files, by the fragment and the deletion file that ours was merged with.
MergedFiles = dict[tuple[int, bytes], DeletionFile]


@dataclass(frozen=True, slots=True)
class Tracked:
    """A fragment as it was at the read version, and who has changed its deletion vector since."""

    fragment: DataFragment
    changed_by: tuple[Encounter, ...] = ()


def tracked(meeting: Encounter, modified: frozenset[int], known: Mapping[int, Tracked]) -> Mapping[int, Tracked]:
    """`known`, and those of the fragments that we modify that the other side deletes or moves rows of too.

    They can be merged only where neither side did more than that. A fragment that one of them removed, or gave other
    data files, cannot be put together from both: a retryable conflict.
    """
    shared = sorted(modified & footprint.fragments(meeting.theirs))
    if not shared:
        return known
    ours, theirs = footprint.updated_fragments(meeting.ours), footprint.updated_fragments(meeting.theirs)
    made = dict(known)
    for fragment_id in shared:
        _check_not_removed(meeting, fragment_id)
        before = known.get(fragment_id) or Tracked(_as_read(meeting, fragment_id))
        _check_same_files(meeting, before.fragment, ours.get(fragment_id), theirs.get(fragment_id))
        made[fragment_id] = replace(before, changed_by=(*before.changed_by, meeting))
    return made


def _check_not_removed(meeting: Encounter, fragment_id: int) -> None:
    if fragment_id in footprint.removed_fragments(meeting.theirs):
        raise meeting.retry(f"removed fragment {fragment_id}", fragment_id)
    if fragment_id in footprint.removed_fragments(meeting.ours):
        raise meeting.retry(f"changed rows of fragment {fragment_id}, which we remove", fragment_id)


def _check_same_files(meeting: Encounter, before: DataFragment, *after: DataFragment | None) -> None:
    files = _files(before)
    if any(one is not None and _files(one) != files for one in after):
        raise meeting.retry(f"changed fragment {before.id}, of which one side wrote new data files", before.id)


def _as_read(meeting: Encounter, fragment_id: int) -> DataFragment:
    fragment = meeting.read().fragments.get(fragment_id)
    if fragment is None:
        raise InvalidInput(
            f"{meeting.table}: the {meeting.ours.name} changes fragment {fragment_id}, which version"
            f" {meeting.transaction.read_version} does not have",
            remedy="Give the version that the operation was built from as its read version.",
            fragments=[fragment_id],
        )
    return fragment


@dataclass(frozen=True, slots=True)
class RowMerge:
    """A Delete or Update, and the fragments of it that others changed too."""

    transaction: Transaction
    fragments: Mapping[int, Tracked]
    modified: frozenset[int]
    # The rows that it takes out, where the caller knows them.
    affected_rows: AffectedRows
    deletions: DeletionFiles
    # What was written for an attempt that lost a race, and is not written again.
    written: MergedFiles
    table: str

    def onto(self, latest: Manifest) -> Transaction:
        """The transaction on the fragments as they are now: those of the others, with the deletions of both.

        The merged deletion vectors are on disk when this returns. Fragments that they empty are removed. Raises
        `RetryableConflict` if both sides took out the same rows.
        """
        operation = self.transaction.operation
        updated = footprint.updated_fragments(operation)
        shared: list[DataFragment] = []
        for fragment_id in sorted(self.modified):
            current = latest.fragments.get(fragment_id)
            if current is None:
                raise vanished(fragment_id, self.transaction, latest.version, self.table)
            if fragment_id in self.fragments:
                shared.append(current)
        # Side by side: each is a request or two, and whoever is slow here loses to the next one who commits.
        gone = self.deletions.store.in_parallel(lambda current: self._gone(current, updated[current.id]), shared)
        emptied = {current.id for current, rows in zip(shared, gone, strict=True) if _is_emptied(current, rows)}
        merged = [(current, rows) for current, rows in zip(shared, gone, strict=True) if current.id not in emptied]
        updated |= self._stored(merged, latest.version)
        kept = tuple(one for one in updated.values() if one.id not in emptied)
        removed = (*sorted(footprint.removed_fragments(operation)), *sorted(emptied))
        match operation:
            case Delete():
                operation = replace(operation, updated_fragments=kept, deleted_fragment_ids=removed)
            case Update():
                operation = replace(operation, updated_fragments=kept, removed_fragment_ids=removed)
        return _rebased_on(self.transaction, operation, latest.version)

    def _gone(self, current: DataFragment, ours: DataFragment) -> BitMap:
        """All rows of a fragment that either side took out, or somebody before."""
        known = self.fragments[current.id]
        mine = self._rows_of(known, ours)
        theirs = self.deletions.read(current)
        self._check_other_rows(known, mine & theirs)
        return mine | theirs

    def _stored(self, merged: Sequence[tuple[DataFragment, BitMap]], version: int) -> dict[int, DataFragment]:
        """The fragments as they are now, with other deletion vectors, which are on disk."""
        keys = [(current.id, current.deletion_file.SerializeToString()) for current, _ in merged]
        new = {key: rows for key, (_, rows) in zip(keys, merged, strict=True) if key not in self.written}

        def write(key: tuple[int, bytes]) -> DeletionFile:
            return self.deletions.write(key[0], version, new[key], bitmap=True, durable=False)

        store = self.deletions.store
        files = dict(zip(new, store.in_parallel(write, new), strict=True))
        store.flush(path(key[0], file) for key, file in files.items())
        self.written.update(files)
        made = {}
        for key, (current, _) in zip(keys, merged, strict=True):
            made[current.id] = DataFragment()
            made[current.id].CopyFrom(current)
            made[current.id].deletion_file.CopyFrom(self.written[key])
        return made

    def _rows_of(self, known: Tracked, ours: DataFragment) -> BitMap:
        """The rows that we take out of a fragment: as given, or the difference that our deletion vector makes."""
        given = self.affected_rows.get(ours.id)
        if given is not None:
            self._check_given(given, known.fragment, ours)
            return given
        try:
            return affected.newly_deleted(known.fragment, ours, self.deletions)
        except NotFound as error:
            what = f"changed fragment {ours.id}, and which of its rows we change cannot be found out: {error.message}"
            raise known.changed_by[0].retry(what, ours.id) from error

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

    def _check_other_rows(self, known: Tracked, both: BitMap) -> None:
        if not both:
            return
        fragment_id = known.fragment.id
        for meeting in known.changed_by:  # deletion vectors are cumulative: the first that has the rows took them
            theirs = footprint.updated_fragments(meeting.theirs)[fragment_id]
            if both & self.deletions.read(theirs):
                raise meeting.retry(f"took out the same {listed('row', both)} of fragment {fragment_id}", fragment_id)
        raise known.changed_by[-1].retry(f"took out rows of fragment {fragment_id}", fragment_id)


def _rebased_on(transaction: Transaction, operation: Operation, version: int) -> Transaction:
    """A rebased Delete or Update counts as made from the version it was rebased on, as pylance has it."""
    return replace(transaction, operation=operation, read_version=version)


def _is_emptied(fragment: DataFragment, deleted: BitMap) -> bool:
    """Whether no row is left; unknown if the fragment does not say how many it has, and then it stays."""
    return 0 < fragment.physical_rows <= len(deleted)


def _files(fragment: DataFragment) -> list[bytes]:
    return [one.SerializeToString(deterministic=True) for one in fragment.files]
