"""Optimising indices as a change of the table: afterwards they know all rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyroaring import BitMap

from seiche.core.given import names as given_names
from seiche.errors import InvalidInput
from seiche.table import footprint
from seiche.table.change import Change
from seiche.table.data.index.age import is_older
from seiche.table.data.index.build import configured
from seiche.table.data.index.dropping import unknown_index
from seiche.table.data.index.reach import Reach
from seiche.table.data.index.settings import settings_of
from seiche.table.data.native_errors import trouble, without_panics
from seiche.table.data.scanning import batches, quoted, scanner
from seiche.table.data.shadow import shadow
from seiche.table.format.fields import path_of
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations import CreateIndex
from seiche.table.operations.coverage import covered, is_system, kind_of, reads_addresses
from seiche.table.snapshot import Snapshot

__all__ = ["Optimizing"]

# Kinds that are created again where native code does not optimise them rightly, and what they are called then.
_KINDS = {
    "BTreeIndexDetails": "BTREE",
    "BitmapIndexDetails": "BITMAP",
    "LabelListIndexDetails": "LABEL_LIST",
    "NGramIndexDetails": "NGRAM",
    "ZoneMapIndexDetails": "ZONEMAP",
    "BloomFilterIndexDetails": "BLOOMFILTER",
}


class Optimizing:
    """Prepares indices that know all rows: native code adds the new ones in a shadow, and we commit what it made."""

    def __init__(self, names: Sequence[str] | None, merge: int | None, *, retrain: bool) -> None:
        given: object = merge
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
            raise InvalidInput(
                f"the number of segments to merge must be a whole number from 0 on, not {merge!r}",
                remedy="0 puts new rows into a segment of their own, 1 merges the last one into it, and so on.",
            )
        self._names = None if names is None else given_names(names, "the names of indices", "Give one or several.")
        self._merge = 1 if merge is None else merge
        self._retrain = retrain

    def __call__(self, snapshot: Snapshot) -> Change | None:
        ours = {one.uuid.uuid: one for one in snapshot.manifest.indices}
        existing = {one.name for one in ours.values() if not is_system(one)}
        names = sorted(existing) if self._names is None else self._names
        for name in names:
            if name not in existing:
                raise unknown_index(name, snapshot.manifest)
        reach = Reach.of(snapshot)
        names = [name for name in names if self._has_work(name, reach, snapshot)]
        if not names:
            return None
        with shadow(snapshot) as table:
            for name in names:
                self._optimize(name, table.dataset, reach, snapshot)
            after = table.newest()[0].indices
            in_vain = {name for name in names if not self._knows_more(name, reach, after, snapshot)}
            new = [one for one in after if one.uuid.uuid not in ours and one.name not in in_vain]
            files = len(table.take_over(new))
        kept = {one.uuid.uuid for one in after}
        removed = tuple(one for uuid, one in ours.items() if uuid not in kept and one.name not in in_vain)
        if not new and not removed:
            return None
        entries = tuple(map(_ours, new))
        sizes = sum(file.size_bytes for one in entries for file in one.files)
        notes = {"indices": sorted({one.name for one in entries})}
        return Change(CreateIndex(entries, removed), files=files, bytes=sizes, notes=notes)

    def _has_work(self, name: str, reach: Reach, snapshot: Snapshot) -> bool:
        """Whether there is anything to ask native code for.

        It finds out by itself, but for vectors: such an index it writes anew whenever it is asked, and where there is
        no vector to learn from it fails.
        """
        segments = [index for index, _ in reach.segments if index.name == name]
        if kind_of(segments[0]) != "VectorIndexDetails":
            return True
        if self._retrain or not reach.covered(name):
            return _has_values(segments[0].fields[0], snapshot)
        new = reach.unindexed(name, BitMap(snapshot.manifest.fragments.ids()))
        return bool(new) or reach.led_on or min(self._merge, len(segments)) > 1

    def _knows_more(self, name: str, reach: Reach, after: Sequence[IndexMetadata], snapshot: Snapshot) -> bool:
        """Whether the index knows rows that it did not know, or is in fewer pieces.

        Of too few vectors some kinds make one that knows none; that would be done again each time.
        """
        if self._retrain or reach.led_on:
            return True
        existing = BitMap(snapshot.manifest.fragments.ids())
        before = [own for index, own in reach.segments if index.name == name]
        now = [existing if (own := covered(one)) is None else own & existing for one in after if one.name == name]
        return len(now) != len(before) or not BitMap.union(BitMap(), *now) <= BitMap.union(BitMap(), *before)

    def _optimize(self, name: str, dataset: Any, reach: Reach, snapshot: Snapshot) -> None:
        segments = [index for index, _ in reach.segments if index.name == name]
        new = reach.unindexed(name, BitMap(snapshot.manifest.fragments.ids()))
        try:
            with without_panics():
                if new and self._is_beyond_native(segments, new, reach, snapshot):
                    column = path_of(snapshot.manifest.header.fields, segments[0].fields[0])
                    kind, _ = configured(_KINDS[kind_of(segments[0])], settings_of(segments[-1], snapshot))
                    dataset.create_scalar_index(column, kind, name=name, replace=True)
                else:
                    _optimize_natively(dataset, segments, self._options(segments, new, snapshot))
        except (OSError, ValueError) as error:
            uri = snapshot.store.uri
            raise trouble(f"{uri}: index {name!r} could not be optimised", error, table=uri, index=name) from error

    def _is_beyond_native(
        self, segments: Sequence[IndexMetadata], new: BitMap, reach: Reach, snapshot: Snapshot
    ) -> bool:
        """Whether the index has to be created again, because native code would do something else or nothing.

        It merges zone maps and Bloom filters with the nulls that they had, and when it builds from nothing it does not
        find a field that is inside of a struct.
        """
        if _is_inside(segments[0], snapshot.manifest) and not reach.covered(segments[0].name):
            return True
        return reads_addresses(segments[0]) and (self._retrain or not _are_older(segments, new, snapshot))

    def _options(self, segments: Sequence[IndexMetadata], new: BitMap, snapshot: Snapshot) -> dict[str, Any]:
        """How many segments are merged: as many as asked for, but all if one that is left could hold old values."""
        if self._retrain:
            return {"retrain": True}
        wanted = max(self._merge, _is_inside(segments[0], snapshot.manifest))
        few = wanted < len(segments) and _are_older(segments, new, snapshot)
        return {"num_indices_to_merge": wanted if few else len(segments)}


def _optimize_natively(dataset: Any, segments: Sequence[IndexMetadata], options: Mapping[str, Any]) -> None:
    names = [segments[0].name]
    try:
        dataset.optimize.optimize_indices(index_names=names, **options)
    except (OSError, ValueError):
        if kind_of(segments[0]) != "VectorIndexDetails" or options.get("num_indices_to_merge", 0) < 2:
            raise
        # Native code does not merge segments that several workers have trained, each for itself.
        dataset.optimize.optimize_indices(index_names=names, retrain=True)


def _are_older(segments: Sequence[IndexMetadata], new: BitMap, snapshot: Snapshot) -> bool:
    fragments = [one for one in snapshot.manifest.fragments if one.id in new]
    return all(is_older(one, fragments, snapshot) for one in segments)


def _has_values(field_id: int, snapshot: Snapshot) -> bool:
    """Whether any row has a value in the field."""
    fields = {one.id: one for one in snapshot.manifest.header.fields}
    column = ".".join(map(quoted, footprint.path_of(field_id, fields)))
    scan = scanner(
        snapshot.dataset, columns=[], where=f"{column} IS NOT NULL", what="the index", with_row_address=True, limit=1
    )
    return next(batches(scan, what="the index"), None) is not None


def _is_inside(segment: IndexMetadata, manifest: Manifest) -> bool:
    """Whether it is on a field inside of a struct, and of a kind for which that makes a difference."""
    inside = any(one.id == segment.fields[0] and one.parent_id >= 0 for one in manifest.header.fields)
    return inside and kind_of(segment) in _KINDS


def _ours(index: IndexMetadata) -> IndexMetadata:
    """An entry of the shadow as one of the table, which has its files now."""
    made = IndexMetadata()
    made.CopyFrom(index)
    made.ClearField("base_id")
    return made
