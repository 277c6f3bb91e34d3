"""Creating, dropping and optimising indices as changes of the table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyroaring import BitMap

from seiche.core.given import names as given_names
from seiche.core.given import text
from seiche.errors import SPENT, AlreadyExists, InvalidInput, NotFound, RetryableConflict
from seiche.table import footprint
from seiche.table.change import Change
from seiche.table.data.index_age import is_older
from seiche.table.data.index_build import NEEDING_ALL, SCALAR, VECTOR, IndexTask, Segment, build_segment, joined
from seiche.table.data.index_overlap import apart, knows
from seiche.table.data.index_standing import Standing, is_of
from seiche.table.data.native_errors import trouble, without_panics
from seiche.table.data.portion import Portion
from seiche.table.data.reach import Reach
from seiche.table.data.scanning import batches, quoted, scanner
from seiche.table.data.shadow import shadow
from seiche.table.format.deletions import rows_left
from seiche.table.format.fields import path_of
from seiche.table.format.index_details import SINGLETONS
from seiche.table.format.logical_types import is_dictionary
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.operations import CreateIndex
from seiche.table.operations.coverage import covered, is_system, kind_of, reads_addresses, with_coverage
from seiche.table.preparing.fields import named
from seiche.table.snapshot import Snapshot

__all__ = ["DroppingIndex", "IndexPlan", "Indexing", "Optimizing"]

_ALIASES = {"FTS": "INVERTED"}
# Kinds that are created again where native code does not optimise them rightly, and what they are called then.
_KINDS = {
    "BTreeIndexDetails": "BTREE",
    "BitmapIndexDetails": "BITMAP",
    "LabelListIndexDetails": "LABEL_LIST",
    "NGramIndexDetails": "NGRAM",
    "ZoneMapIndexDetails": "ZONEMAP",
    "BloomFilterIndexDetails": "BLOOMFILTER",
}


class IndexPlan:
    """What index is wanted: on which column, of which kind, under which name."""

    def __init__(
        self, column: str, index_type: str, name: str | None, options: Mapping[str, Any], *, replace: bool
    ) -> None:
        given: object = index_type
        kind = given.upper() if isinstance(given, str) else ""
        self.index_type = _ALIASES.get(kind, kind)
        if self.index_type not in (*SCALAR, *VECTOR):
            known = ", ".join((*SCALAR, *VECTOR))
            raise InvalidInput(f"there is no index of type {index_type!r}", remedy=f"Use one of {known}.")
        self.column = column
        self.name = f"{column}_idx" if name is None else text(name, "the name of an index")
        if not self.name or self.name in SINGLETONS:
            raise InvalidInput(
                f"an index cannot be named {self.name!r}",
                remedy=f"Without `name=` it is `{column}_idx`; {' and '.join(sorted(SINGLETONS))} are taken.",
                index=self.name,
            )
        self.options = dict(options)
        self.replace = replace

    def check(self, manifest: Manifest) -> tuple[IndexMetadata, ...]:
        """The segments that it takes the place of; `InvalidInput` or `AlreadyExists` if it cannot be made."""
        self._check_values(manifest)
        before = tuple(one for one in manifest.indices if one.name == self.name)
        if before and not self.replace:
            raise AlreadyExists(
                f"there is an index {self.name!r} already",
                remedy="Use `replace=True` to build it anew, or another name.",
                index=self.name,
            )
        return before

    def _check_values(self, manifest: Manifest) -> None:
        """`InvalidInput` for values from which native code builds what answers wrongly, or cannot be kept up."""
        column = named(manifest.header.fields, self.column)
        if column.logical_type == "null":
            raise InvalidInput(
                f"there is no index on column {self.column!r} of type null", remedy="Use another column."
            )
        inside = (column, *(one for one in manifest.header.fields if one.parent_id == column.id))
        if any(is_dictionary(one.logical_type) for one in inside):
            raise InvalidInput(
                f"there is no index on column {self.column!r}: its values are coded with a dictionary",
                remedy="Cast the column with `alter_columns`, or index another one.",
                column=self.column,
            )

    def task(self, snapshot: Snapshot, fragments: Sequence[DataFragment]) -> IndexTask:
        """The work of building the segment for these fragments."""
        portion = Portion.of(snapshot, fragments)
        return IndexTask(portion, self.column, self.index_type, self.name, self.options)


class Indexing:
    """Prepares a CreateIndex. Segments are kept: after a conflict only what they do not cover any more is built."""

    def __init__(self, plan: IndexPlan, segments: Sequence[Segment] | None = None) -> None:
        """With `segments`, these are what is committed, and nothing is built."""
        self._plan = plan
        self._segments = list(dict.fromkeys(segments or ()))
        self._complete = segments is not None
        for segment in self._segments:
            if segment.index.name != plan.name:
                raise InvalidInput(
                    f"{segment!r} is not one of index {plan.name!r}",
                    remedy="Commit a segment with the build whose `plan` gave its task.",
                    index=plan.name,
                )

    def forget(self) -> None:
        """Build all segments anew, unless they were built elsewhere."""
        if not self._complete:
            self._segments = []

    def __call__(self, snapshot: Snapshot) -> Change:
        before = self._plan.check(snapshot.manifest)
        if not self._complete:
            self._build(snapshot)
        standing = Standing(snapshot)
        held = [one for one in self._segments if is_of(one, snapshot.manifest)]
        held = [one for one in held if standing.over(one) or not one.portion.ids]
        held = apart(held, snapshot)
        if not held:
            raise self._stale()
        since = Portion.oldest((one.portion for one in held), snapshot)
        entries = [_without_changed(entry, made_of, standing) for entry, made_of in _joined(held, snapshot)]
        known = BitMap.union(BitMap(), *map(standing.over, held))
        rows = sum(rows_left(one) for one in snapshot.manifest.fragments if one.id in known)
        sizes = [file.size_bytes for entry in entries for file in entry.files]
        notes = {"name": self._plan.name, "segments": len(entries)}
        operation = CreateIndex(tuple(entries), before)
        return Change(operation, rows=rows, files=len(sizes), bytes=sum(sizes), notes=notes, since=since)

    def _build(self, snapshot: Snapshot) -> None:
        """One more segment for whatever the ones so far do not cover.

        Not for vectors: of few rows nothing can be learned, so they are left to be scanned until `optimize_indices`.
        """
        # One with old values in it must go: beside a segment that covers the same fragment it would be believed. So
        # must one of a column that is another by now, though it has the name.
        manifest, standing = snapshot.manifest, Standing(snapshot)
        self._segments = [one for one in self._segments if is_of(one, manifest) and not standing.changed(one)]
        if self._segments and self._plan.index_type in VECTOR:
            return
        missing = self._missing(manifest, standing)
        if any(knows(one, missing, snapshot) for one in self._segments):
            # Rows that it knows are elsewhere now, and would be in two segments.
            self._segments = []
            missing = self._missing(manifest, standing)
        if missing or not self._segments:
            task = self._plan.task(snapshot, missing)
            self._segments.append(build_segment(task, snapshot.store, snapshot.runtime))

    def _missing(self, manifest: Manifest, standing: Standing) -> list[DataFragment]:
        """The fragments that no segment so far speaks for."""
        known = BitMap.union(BitMap(), *map(standing.over, self._segments))
        return [one for one in manifest.fragments if one.id not in known]

    def _stale(self) -> RetryableConflict:
        return RetryableConflict(
            f"none of the rows that index {self._plan.name!r} was built over are as they were",
            remedy="Nothing was written. Build the segments again.",
            index=self._plan.name,
            reason=SPENT,
        )


class DroppingIndex:
    """Prepares the removal of an index."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, snapshot: Snapshot) -> Change:
        gone = tuple(one for one in snapshot.manifest.indices if one.name == self._name and not is_system(one))
        if not gone:
            raise _unknown(self._name, snapshot.manifest)
        return Change(CreateIndex(removed_indices=gone), notes={"segments": len(gone)})


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
                raise _unknown(name, snapshot.manifest)
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
            files = table.take_over(new)
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
                    dataset.create_scalar_index(column, _KINDS[kind_of(segments[0])], name=name, replace=True)
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


def _joined(segments: Sequence[Segment], snapshot: Snapshot) -> Iterator[tuple[IndexMetadata, Sequence[Segment]]]:
    """Entries, and the segments that each was made of.

    Segments are put together unless two of them know the same fragment, each in its own way, or native code does not.
    """
    known = [fragment_id for segment in segments for fragment_id in segment.portion.ids]
    gone = any(snapshot.manifest.fragments.get(one) is None for one in known)
    apart = len(set(known)) < len(known) or (gone and segments[0].index_type in NEEDING_ALL)
    for group in [[one] for one in segments] if apart else [segments]:
        entries = joined(group, snapshot.dataset, snapshot.store)
        if len(entries) == len(group):
            yield from ((entry, [one]) for entry, one in zip(entries, group, strict=True))
        else:
            yield from ((entry, group) for entry in entries)


def _without_changed(entry: IndexMetadata, segments: Sequence[Segment], standing: Standing) -> IndexMetadata:
    """The entry without the fragments that have got other values since, or rows that it does not know.

    Fragments that are gone stay in its coverage: that is how readers know which of its rows to pass over.
    """
    own = covered(entry) or BitMap()
    for segment in segments:
        own -= standing.changed(segment)
    return with_coverage(entry, own)


def _ours(index: IndexMetadata) -> IndexMetadata:
    """An entry of the shadow as one of the table, which has its files now."""
    made = IndexMetadata()
    made.CopyFrom(index)
    made.ClearField("base_id")
    return made


def _unknown(name: str, manifest: Manifest) -> NotFound:
    known = sorted({one.name for one in manifest.indices if not is_system(one)})
    return NotFound(
        f"there is no index {name!r}", remedy=f"The table has {', '.join(known) or 'none'}.", index=name, known=known
    )
