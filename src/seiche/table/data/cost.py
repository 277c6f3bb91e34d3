"""Which way of updating writes less: found out on a sample, because looking at everything would cost as much."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from lance import LanceDataset

from seiche.table.blob_files import large_bytes
from seiche.table.data.native import looks_at_published, open_staged
from seiche.table.data.native_errors import trouble, without_panics
from seiche.table.data.scanning import ADDRESS, BATCH_BYTES, batches, names, rows_at_once, scanner
from seiche.table.data.write import fields_of
from seiche.table.format.fields import has_blobs
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

__all__ = ["Estimate", "estimate"]

# Columns must be this many times as cheap: rows can be rebased over each other's deletions, columns cannot.
_ADVANTAGE = 2
# A file of its own for each fragment is not worth it for less than this.
_SMALLEST_FILE = 1 << 18
_FEW = 0.01
# To read so many bytes in a row takes less time than to fetch one row by itself.
_CHEAP = 4096


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an update would write in the sampled fragments: whole rows, or the columns of all rows."""

    share: float
    rows_bytes: float
    columns_bytes: float
    fragments: int
    row_bytes: float = 0

    @property
    def mode(self) -> Literal["rows", "columns"]:
        """The cheaper way."""
        if self.rows_bytes < self.fragments * _SMALLEST_FILE:
            return "rows"
        return "columns" if self.columns_bytes * _ADVANTAGE < self.rows_bytes else "rows"

    @property
    def late(self) -> bool | None:
        """Whether the other columns are better fetched only for the rows that match; `None` leaves it to the scan."""
        if self.share < _FEW:
            return True
        return False if self.row_bytes / self.share < _CHEAP else None


def estimate(snapshot: Snapshot, columns: Sequence[str], where: str | None) -> Estimate:
    """Look at three fragments, or at all if an index says where the rows are. A wrong guess costs time, never rows."""
    fragments = snapshot.manifest.fragments
    picked = _picked(fragments)
    if not picked:
        return Estimate(0, 0, 0, 0)
    header = snapshot.manifest.copy_header()
    if looks_at_published(snapshot.manifest):
        header.version = snapshot.published_version or header.version
    sample = open_staged(snapshot.store, Manifest(header, Fragments(picked)))
    indexed = where is not None and _is_indexed(snapshot.manifest, where)
    looked_at = list(fragments) if indexed else picked
    matched = _matches(snapshot, snapshot.dataset if indexed else sample, looked_at, where)
    rows, total = sum(matched.values()), sum(map(_rows, looked_at))
    if rows < total * _FEW:
        return Estimate(rows / max(1, total), 0, 0, 0)
    touched = sum(_rows(fragment) for fragment in looked_at if fragment.id in matched)
    sizes = {one.id: one.bytes_on_disk for one in _sizes(sample)}
    scale = len(looked_at) / len(picked) / total
    ours = fields_of(snapshot.manifest.header, columns)
    # Of large values only storage knows how large they are. They would be written again with their rows.
    large = large_bytes(snapshot.store, picked, snapshot.manifest.header.fields)
    whole = sum(sizes.values()) + large
    part = sum(sizes.get(field.id, 0) for field in ours) + (large if has_blobs(ours) else 0)
    return Estimate(
        share=rows / total,
        rows_bytes=whole * scale * rows,
        columns_bytes=part * scale * touched,
        fragments=len(matched),
        row_bytes=whole / max(1, sum(map(_rows, picked))),
    )


def _is_indexed(manifest: Manifest, where: str) -> bool:
    """Whether the condition seems to be about an indexed column."""
    fields = {one for index in manifest.indices for one in index.fields}
    return any(names(where, field.name) for field in manifest.header.fields if field.id in fields)


def _sizes(sample: LanceDataset) -> Sequence[Any]:
    try:
        with without_panics():
            found: Any = sample.stats.data_stats().fields  # annotated as a single one, but a list
    except (OSError, ValueError) as error:
        raise trouble("the sizes of columns could not be read", error) from error
    return list(found)


def _picked(fragments: Fragments) -> list[DataFragment]:
    """The first, the one in the middle and the last."""
    count = len(fragments)
    return [fragments[at] for at in sorted({0, count // 2, count - 1})] if count else []


def _matches(
    snapshot: Snapshot, dataset: LanceDataset, fragments: Sequence[DataFragment], where: str | None
) -> dict[int, int]:
    """By fragment how many of its rows match, where any does."""
    if where is None:
        return {fragment.id: _rows(fragment) for fragment in fragments}
    what = f"the condition {where!r}"
    scan = scanner(
        dataset,
        columns=[],
        where=where,
        what=what,
        with_row_address=True,
        batch_size=rows_at_once(snapshot.schema, fragments, where),
        batch_size_bytes=BATCH_BYTES,
    )
    matched: dict[int, int] = {}
    for batch in batches(scan, what=what):
        found, counts = np.unique(batch.column(ADDRESS).to_numpy() >> np.uint64(32), return_counts=True)
        for fragment_id, count in zip(found.tolist(), counts.tolist(), strict=True):
            matched[fragment_id] = matched.get(fragment_id, 0) + count
    return matched


def _rows(fragment: DataFragment) -> int:
    deleted = fragment.deletion_file.num_deleted_rows if fragment.HasField("deletion_file") else 0
    return max(1, int(fragment.physical_rows) - int(deleted))
