"""Which way of updating writes less: found out on a sample, because looking at everything would cost as much."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from lance import LanceDataset

from seiche.table.data.native import open_staged
from seiche.table.data.scanning import ADDRESS, WIDE_BATCH_ROWS, batches, scanner
from seiche.table.data.write import fields_of
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

__all__ = ["Estimate", "estimate"]

_SAMPLE = 3
# Columns must be this many times as cheap: rows can be rebased over each other's deletions, columns cannot.
_ADVANTAGE = 2
# A file of its own for each fragment is not worth it for less than this.
_SMALLEST_FILE = 1 << 18
_FEW = 0.01


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an update would write in the sampled fragments: whole rows, or the columns of all rows."""

    share: float
    rows_bytes: float
    columns_bytes: float
    fragments: int

    @property
    def mode(self) -> Literal["rows", "columns"]:
        """The cheaper way."""
        if self.rows_bytes < self.fragments * _SMALLEST_FILE:
            return "rows"
        return "columns" if self.columns_bytes * _ADVANTAGE < self.rows_bytes else "rows"

    @property
    def few(self) -> bool:
        """Whether so few rows match that their other columns are better fetched one by one."""
        return self.share < _FEW


def estimate(snapshot: Snapshot, columns: Sequence[str], where: str | None) -> Estimate:
    """Look at three fragments. A wrong guess costs time, never rows."""
    fragments = snapshot.manifest.fragments
    picked = _picked(fragments)
    if not picked:
        return Estimate(0, 0, 0, 0)
    sample = open_staged(snapshot.store, Manifest(snapshot.manifest.copy_header(), Fragments(picked)))
    matched, touched = _matches(sample, picked, where)
    rows = sum(matched.values())
    total = max(1, sum(map(_rows, picked)))
    sizes = {one.id: one.bytes_on_disk for one in _sizes(sample)}
    ours = {field.id for field in fields_of(snapshot.manifest.header, columns)}
    return Estimate(
        share=rows / total,
        rows_bytes=sum(sizes.values()) * rows / total,
        columns_bytes=sum(size for one, size in sizes.items() if one in ours) * touched / total,
        fragments=len(matched),
    )


def _sizes(sample: LanceDataset) -> Sequence[Any]:
    found: Any = sample.stats.data_stats().fields  # annotated as a single one, but a list
    return list(found)


def _picked(fragments: Fragments) -> list[DataFragment]:
    """The first, the one in the middle and the last."""
    count = len(fragments)
    return [fragments[at] for at in sorted({0, count // 2, count - 1})] if count else []


def _matches(sample: LanceDataset, picked: Sequence[DataFragment], where: str | None) -> tuple[dict[int, int], int]:
    """By fragment how many rows match, and how many rows those fragments have."""
    if where is None:
        everything = {fragment.id: _rows(fragment) for fragment in picked}
        return everything, sum(everything.values())
    what = f"the condition {where!r}"
    scan = scanner(sample, columns=[], where=where, what=what, with_row_address=True, batch_size=WIDE_BATCH_ROWS)
    matched: dict[int, int] = {}
    for batch in batches(scan, what=what):
        found, counts = np.unique(batch.column(ADDRESS).to_numpy() >> np.uint64(32), return_counts=True)
        for fragment_id, count in zip(found.tolist(), counts.tolist(), strict=True):
            matched[fragment_id] = matched.get(fragment_id, 0) + count
    return matched, sum(_rows(fragment) for fragment in picked if fragment.id in matched)


def _rows(fragment: DataFragment) -> int:
    deleted = fragment.deletion_file.num_deleted_rows if fragment.HasField("deletion_file") else 0
    return max(1, int(fragment.physical_rows) - int(deleted))
