"""Creating an index as a change of the table."""

from collections.abc import Iterator, Sequence

from pyroaring import BitMap

from seiche.errors import SPENT, InvalidInput, RetryableConflict
from seiche.table.change import Change
from seiche.table.data.index.build import NEEDING_ALL, VECTOR, Segment, build_segment, joined
from seiche.table.data.index.overlap import apart, knows
from seiche.table.data.index.plan import IndexPlan
from seiche.table.data.index.standing import Standing
from seiche.table.data.portion import Portion
from seiche.table.format.deletions import rows_left
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.operations import CreateIndex
from seiche.table.operations.coverage import covered, with_coverage
from seiche.table.snapshot import Snapshot

__all__ = ["Indexing"]


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
        held = apart(standing.left_of(self._segments), snapshot)
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
        # must one that speaks for nothing any more.
        manifest, standing = snapshot.manifest, Standing(snapshot)
        self._segments = [one for one in standing.left_of(self._segments) if not standing.changed(one)]
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
