"""Which rows one version has, or has not, that the version before it had not, or had; told without reading any row."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from pyroaring import BitMap

from seiche.errors import InvalidInput, NotFound
from seiche.table.format import roaring
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.format.segments import Numbers
from seiche.table.operations import Merge, Opaque, Overwrite, Project, Restore, Rewrite, Update
from seiche.table.operations.files import speaking
from seiche.table.transaction import Transaction

__all__ = ["MadeBy", "Rows", "VersionChanges", "changes_of"]

_Pair: TypeAlias = tuple[DataFragment | None, DataFragment | None]
# The transactions that made some versions, in their order; `NotFound` if one is not kept.
MadeBy: TypeAlias = Callable[[range], Iterable[Transaction]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one version: by fragment their offsets, and in a table with stable row ids their ids."""

    offsets: Mapping[int, BitMap] = field(default_factory=dict)
    row_ids: Numbers | None = None

    def __len__(self) -> int:
        return sum(map(len, self.offsets.values()))


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What happened to rows in one version.

    `deleted` are rows of the version before; `updated` and `inserted` are rows of this one. Updated rows have other
    values than before: those that stayed in their place, and with stable row ids also those that moved.
    """

    version: int
    deleted: Rows = field(default_factory=Rows)
    updated: Rows = field(default_factory=Rows)
    inserted: Rows = field(default_factory=Rows)


def changes_of(
    before: Manifest,
    after: Manifest,
    transaction: Transaction,
    old_deletions: DeletionFiles,
    new_deletions: DeletionFiles,
    made: MadeBy,
) -> VersionChanges:
    """What `transaction` did to the rows of `before`, `after` being what it made; `made` gives the transactions that
    made earlier versions.

    A Rewrite puts rows elsewhere and changes none. Without stable row ids, rows that an update wrote anew cannot be
    told from others that were deleted and inserted, and are shown as that. When a Restore brings a column back, all
    rows are updated: who has the rows of `before` does not have it, or has other values than it comes back with.
    """
    operation = transaction.operation
    if isinstance(operation, Opaque):
        raise InvalidInput(
            f"version {after.version} was made by an operation that is not understood here",
            remedy="A newer writer made it: ask that for the changes.",
            version=after.version,
        )
    wider = isinstance(operation, Restore) and not _field_ids(after) <= _field_ids(before)
    if isinstance(operation, Rewrite) or (not wider and before.fragments.pieces == after.fragments.pieces):
        return VersionChanges(after.version)
    update = operation if isinstance(operation, Update) else None
    difference = _Difference(before, after, update, old_deletions, new_deletions, wider=wider)
    difference.compare(_all(before, after) if wider else before.fragments.differing(after.fragments))
    if not after.has_stable_row_ids:
        return difference.changes()
    return difference.by_identity(lambda: isinstance(operation, Restore) and _reborn(operation.version, after, made))


def _reborn(source: int, after: Manifest, made: MadeBy) -> bool:
    """Whether a column that came back with version `source` was gone in between, though `before` has its id: another
    column may have got that, once no file had the first one any more.
    """
    needed = _field_ids(after)
    try:
        for transaction in made(range(source + 1, after.version)):
            match transaction.operation:
                case Overwrite():
                    return True
                case Merge() | Project() as operation if not needed <= {one.id for one in operation.schema}:
                    return True
                case Restore() as operation if operation.version < source:  # which columns that had is not known here
                    return True
    except NotFound:  # cleaned up, so nobody can say
        return True
    return False


def _all(before: Manifest, after: Manifest) -> Iterator[_Pair]:
    for fragment_id in sorted({*before.fragments.ids(), *after.fragments.ids()}):
        yield before.fragments.get(fragment_id), after.fragments.get(fragment_id)


class _Difference:
    """Collects what differs, fragment by fragment."""

    def __init__(
        self,
        before: Manifest,
        after: Manifest,
        update: Update | None,
        old_deletions: DeletionFiles,
        new_deletions: DeletionFiles,
        *,
        wider: bool,
    ) -> None:
        self._previous, self._version = before.version, after.version
        self._schema = _field_ids(after)
        self._wider = wider
        self._rewritten = {} if update is None else update.updated_offsets
        self._old, self._new = old_deletions, new_deletions
        self._deleted: dict[int, BitMap] = {}
        self._updated: dict[int, BitMap] = {}
        self._inserted: dict[int, BitMap] = {}
        # The fragments that were compared, as they were and as they are.
        self._before: dict[int, DataFragment] = {}
        self._after: dict[int, DataFragment] = {}

    def compare(self, pairs: Iterable[_Pair]) -> None:
        """Each fragment as it was and as it is; `None` where there is none."""
        changed = [(was, now) for was, now in pairs if self._wider or was != now]
        # Each is a request: all are asked for first, side by side.
        old = self._old.read_all(was for was, now in changed if was is not None and _masks_differ(was, now))
        new = self._new.read_all(now for was, now in changed if now is not None and self._needs_mask(was, now))
        for was, now in changed:
            if was is not None:
                self._before[was.id] = was
            if now is not None:
                self._after[now.id] = now
            if was is not None and now is not None:
                self._compare(was, now, old, new)
            elif was is not None:
                _put(self._deleted, was.id, _all_rows(was, self._version) - old[was.id])
            elif now is not None:
                _put(self._inserted, now.id, _all_rows(now, self._version) - new[now.id])

    def _compare(
        self, before: DataFragment, after: DataFragment, old: Mapping[int, BitMap], new: Mapping[int, BitMap]
    ) -> None:
        came_back = BitMap()
        if _masks_differ(before, after):
            came_back = old[after.id] - new[after.id]
            _put(self._deleted, after.id, new[after.id] - old[after.id])
            _put(self._inserted, after.id, came_back)
        if self._is_rewritten(before, after):
            _put(self._updated, after.id, self._rows_rewritten(after) - new[after.id] - came_back)

    def _needs_mask(self, before: DataFragment | None, after: DataFragment) -> bool:
        return before is None or _masks_differ(before, after) or self._is_rewritten(before, after)

    def _is_rewritten(self, before: DataFragment, after: DataFragment) -> bool:
        return self._wider or self._places(before) != self._places(after)

    def changes(self) -> VersionChanges:
        return VersionChanges(self._version, Rows(self._deleted), Rows(self._updated), Rows(self._inserted))

    def by_identity(self, reborn: Callable[[], bool]) -> VersionChanges:
        """Changes told by row ids: a row that went from one place to another was not deleted and inserted, but updated.

        Unless it was last updated in the same version as before, and has no column that came back: then it only moved,
        as a Restore moves rows back that were compacted meanwhile. Whether one was `reborn` is asked only then.
        """
        gone = _Identified.of(self._deleted, self._before, self._previous)
        came = _Identified.of(self._inserted, self._after, self._version)
        stayed = _Identified.of(self._updated, self._after, self._version)
        moved_from = np.isin(gone.ids, came.ids)
        moved_to = np.isin(came.ids, gone.ids)
        left, arrived = gone.where(moved_from).in_order(), came.where(moved_to).in_order()
        other = (left.updated != arrived.updated) | (arrived.updated == _UNKNOWN) | self._wider
        if not other.all() and reborn():
            other[:] = True
        return VersionChanges(
            self._version,
            gone.where(~moved_from).rows(),
            stayed.joined(arrived.where(other)).rows(),
            came.where(~moved_to).rows(),
        )

    def _places(self, fragment: DataFragment) -> dict[int, tuple[str, int]]:
        """Where the fragment has the values of each column, of those that the schema still has."""
        return {one: place for one, place in speaking(fragment).items() if one in self._schema}

    def _rows_rewritten(self, fragment: DataFragment) -> BitMap:
        """The rows whose columns were written anew: all of the fragment, unless the operation says which."""
        offsets = self._rewritten.get(fragment.id)
        if offsets is None:
            return _all_rows(fragment, self._version)
        return roaring.decode(offsets, what=f"the updated rows of fragment {fragment.id} in version {self._version}")


@dataclass(frozen=True, slots=True)
class _Identified:
    """Rows one by one: fragment, offset, id, and the version in which each was last updated."""

    fragments: Numbers
    offsets: Numbers
    ids: Numbers
    updated: Numbers

    @classmethod
    def of(cls, chosen: Mapping[int, BitMap], compared: Mapping[int, DataFragment], version: int) -> "_Identified":
        """Rows at the chosen offsets of fragments, as these are in a version."""
        fragments, offsets, ids, updated = [_NONE], [_NONE], [_NONE], [_NONE]
        for fragment_id, some in chosen.items():
            positions = np.frombuffer(some.to_array(), dtype=np.uint32).astype(np.int64)
            known_ids, known_updates = _sequences(compared[fragment_id], version)
            fragments.append(np.full(len(positions), fragment_id, np.uint64))
            offsets.append(positions.astype(np.uint64))
            ids.append(known_ids[positions])
            updated.append(known_updates[positions])
        return cls(*map(np.concatenate, (fragments, offsets, ids, updated)))

    def where(self, mask: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> "_Identified":
        return _Identified(self.fragments[mask], self.offsets[mask], self.ids[mask], self.updated[mask])

    def in_order(self) -> "_Identified":
        """By ascending id."""
        order = np.argsort(self.ids)
        return _Identified(self.fragments[order], self.offsets[order], self.ids[order], self.updated[order])

    def joined(self, other: "_Identified") -> "_Identified":
        return _Identified(
            np.concatenate((self.fragments, other.fragments)),
            np.concatenate((self.offsets, other.offsets)),
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.updated, other.updated)),
        )

    def rows(self) -> Rows:
        found: dict[int, BitMap] = {}
        for fragment_id in np.unique(self.fragments).tolist():
            found[fragment_id] = BitMap(self.offsets[self.fragments == fragment_id].astype(np.uint32))
        return Rows(found, self.ids)


_NONE: Numbers = np.empty(0, np.uint64)
_UNKNOWN = np.uint64(0)


def _sequences(fragment: DataFragment, version: int) -> tuple[Numbers, Numbers]:
    """The row ids of a fragment, and the versions in which its rows were last updated, 0 where it does not say."""
    if not fragment.HasField("inline_row_ids"):
        raise InvalidInput(
            f"fragment {fragment.id} of version {version} keeps its row ids outside of the manifest",
            remedy="Compact the table with the writer that made it.",
            version=version,
        )
    ids = RowIds.decode(fragment.inline_row_ids, rows=fragment.physical_rows).to_array()
    if not fragment.HasField("inline_last_updated"):
        return ids, np.zeros(len(ids), np.uint64)
    return ids, RowVersions.decode(fragment.inline_last_updated, rows=len(ids)).to_array()


def _all_rows(fragment: DataFragment, version: int) -> BitMap:
    if not fragment.physical_rows:
        raise InvalidInput(
            f"fragment {fragment.id} of version {version} does not say how many rows it has",
            remedy="An old writer left it out. `table.overwrite(table.to_arrow())` writes it; changes are known from"
            " there on.",
            version=version,
        )
    return BitMap(range(fragment.physical_rows))


def _masks_differ(before: DataFragment, after: DataFragment | None) -> bool:
    return after is None or before.deletion_file != after.deletion_file


def _field_ids(manifest: Manifest) -> set[int]:
    return {one.id for one in manifest.header.fields}


def _put(rows: dict[int, BitMap], fragment_id: int, offsets: BitMap) -> None:
    if offsets:
        rows[fragment_id] = offsets
