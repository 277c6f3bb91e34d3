"""What tables with stable row ids keep for each row: its id, and the versions that made and last changed it."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import ArrayLike, NDArray
from pyroaring import BitMap

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import segments
from seiche.table.format.rowids_pb2 import RowDatasetVersionSequence, RowIdSequence, U64Segment
from seiche.table.format.segments import Numbers

__all__ = ["RowIds", "RowVersions", "encode_range", "encode_run"]

_REMEDY = "The manifest is damaged. Restore it from a copy, or open an older version."
# A row is addressed by 32 bits of fragment id and 32 bits of position.
_MOST_ROWS = 1 << 32

# Positions of rows inside a fragment.
Positions: TypeAlias = ArrayLike


def encode_range(start: int, count: int) -> bytes:
    """The stored form of `count` ids from `start` on, as freshly appended rows get them."""
    return RowIds.range(start, count).encode()


def encode_run(version: int, rows: int) -> bytes:
    """The stored form of one version for all rows."""
    return RowVersions.run(version, rows).encode()


class RowIds:
    """An immutable sequence of row ids, in the order of the rows. Stays compact until single ids are asked for."""

    __slots__ = ("_segments", "length")

    def __init__(self, numbers: Numbers | Iterable[int] = ()) -> None:
        ids = numbers if isinstance(numbers, np.ndarray) else np.fromiter(numbers, dtype=np.uint64)
        self._segments: tuple[U64Segment, ...] = tuple(segments.compact(ids))
        self.length = len(ids)

    @classmethod
    def _of(cls, parts: Iterable[U64Segment]) -> "RowIds":
        made = cls.__new__(cls)
        made._segments = tuple(parts)
        made.length = sum(map(segments.length, made._segments))
        return made

    @classmethod
    def range(cls, start: int, count: int) -> "RowIds":
        """`count` ids from `start` on."""
        if start + count >= 1 << 64:
            raise Corrupt(f"{count} row ids from {start} on do not fit into 64 bits", remedy=_REMEDY)
        return cls._of([segments.span(start, start + count)] if count else [])

    @classmethod
    def decode(cls, data: bytes, *, rows: int | None = None) -> "RowIds":
        """Read the stored form; `Corrupt` if it is damaged, or is not for exactly `rows` rows where that is known.

        Nothing is expanded: give `rows`, because a few stored bytes can claim billions of ids.
        """
        try:
            made = cls._of(RowIdSequence.FromString(data).segments)
        except DecodeError as error:
            raise _broken("row id", str(error)) from error
        _check_rows("row id", made.length, rows)
        return made

    def encode(self) -> bytes:
        """The stored form."""
        return RowIdSequence(segments=self._segments).SerializeToString()

    def concat(self, *others: "RowIds") -> "RowIds":
        """These, then the ids of the others in order."""
        joined: list[U64Segment] = []
        for segment in [part for ids in (self, *others) for part in ids._segments]:
            last = joined[-1] if joined else None
            if last is not None and _adjoin(last, segment):
                joined[-1] = segments.span(last.range.start, segment.range.end)
            else:
                joined.append(segment)
        return RowIds._of(joined)

    def take(self, positions: Positions) -> "RowIds":
        """The ids of the rows at these positions, in the order of the positions."""
        wanted = _checked_positions(positions, self.length)
        return RowIds(self.to_array()[wanted])

    def mask(self, deleted: BitMap) -> "RowIds":
        """The ids of the rows that are left when those at the deleted positions are gone."""
        if not deleted:
            return self
        return RowIds(self.to_array()[_kept(deleted, self.length)])

    def to_array(self) -> Numbers:
        """All ids as one array of 8 bytes each."""
        if not self._segments:
            return np.empty(0, dtype=np.uint64)
        return np.concatenate([segments.expand(part) for part in self._segments])

    def __len__(self) -> int:
        return self.length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowIds) or self.length != other.length:
            return False
        return self._segments == other._segments or bool(np.array_equal(self.to_array(), other.to_array()))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RowIds({self.length} in {len(self._segments)} segments)"


class RowVersions:
    """An immutable sequence of one version for each row, kept as runs: `counts[i]` rows of version `versions[i]`."""

    __slots__ = ("counts", "versions")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        """Take pairs of a version and its number of rows."""
        merged: list[tuple[int, int]] = []
        for version, count in runs:
            if merged and merged[-1][0] == version:
                merged[-1] = (version, merged[-1][1] + count)
            elif count:
                merged.append((version, count))
        self.versions: tuple[int, ...] = tuple(version for version, _ in merged)
        self.counts: tuple[int, ...] = tuple(count for _, count in merged)

    @classmethod
    def run(cls, version: int, rows: int) -> "RowVersions":
        """One version for all rows."""
        return cls([(version, rows)])

    @classmethod
    def of(cls, versions: Sequence[int] | NDArray[np.uint64]) -> "RowVersions":
        """One version for each row, row by row."""
        each = np.asarray(versions, dtype=np.uint64)
        starts = (
            np.concatenate(([0], np.flatnonzero(each[1:] != each[:-1]) + 1)) if len(each) else np.empty(0, np.int64)
        )
        counts = np.diff(np.append(starts, len(each)))
        return cls(zip(each[starts].tolist(), counts.tolist(), strict=True))

    @classmethod
    def decode(cls, data: bytes, *, rows: int | None = None) -> "RowVersions":
        """Read the stored form; `Corrupt` if it is damaged, or is not for exactly `rows` rows where that is known."""
        try:
            stored = RowDatasetVersionSequence.FromString(data)
        except DecodeError as error:
            raise _broken("version", str(error)) from error
        made = cls((run.version, segments.length(run.span)) for run in stored.runs)
        _check_rows("version", made.length, rows)
        return made

    def encode(self) -> bytes:
        """The stored form."""
        stored = RowDatasetVersionSequence()
        start = 0
        for version, count in self.runs:
            stored.runs.add(span=segments.span(start, start + count), version=version)
            start += count
        return stored.SerializeToString()

    @property
    def runs(self) -> Sequence[tuple[int, int]]:
        """Pairs of a version and its number of rows."""
        return tuple(zip(self.versions, self.counts, strict=True))

    @property
    def length(self) -> int:
        """How many rows there are."""
        return sum(self.counts)

    def concat(self, *others: "RowVersions") -> "RowVersions":
        """These, then the versions of the others in order."""
        return RowVersions(run for each in (self, *others) for run in each.runs)

    def take(self, positions: Positions) -> "RowVersions":
        """The versions of the rows at these positions, in the order of the positions."""
        wanted = _checked_positions(positions, self.length)
        if not len(wanted):
            return RowVersions()
        which = np.searchsorted(np.cumsum(self.counts), wanted, side="right")
        return RowVersions.of(np.asarray(self.versions, dtype=np.uint64)[which])

    def mask(self, deleted: BitMap) -> "RowVersions":
        """The versions of the rows that are left when those at the deleted positions are gone."""
        if not deleted:
            return self
        _check_deleted(deleted, self.length)
        bounds = np.concatenate(([0], np.cumsum(self.counts)))
        gone = [deleted.range_cardinality(start, stop) for start, stop in pairwise(bounds.tolist())]
        return RowVersions((version, count - lost) for (version, count), lost in zip(self.runs, gone, strict=True))

    def to_array(self) -> Numbers:
        """One version for each row."""
        return np.repeat(np.asarray(self.versions, dtype=np.uint64), self.counts)

    def __len__(self) -> int:
        return self.length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowVersions) and self.runs == other.runs

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        return f"RowVersions({self.length} in {len(self.runs)} runs)"


def _adjoin(one: U64Segment, other: U64Segment) -> bool:
    both_ranges = one.WhichOneof("segment") == other.WhichOneof("segment") == "range"
    return both_ranges and one.range.end == other.range.start


def _kept(deleted: BitMap, rows: int) -> NDArray[np.bool_]:
    _check_deleted(deleted, rows)
    kept = np.ones(rows, dtype=np.bool_)
    kept[np.frombuffer(deleted.to_array(), dtype=np.uint32)] = False
    return kept


def _check_deleted(deleted: BitMap, rows: int) -> None:
    if deleted and deleted.max() >= rows:
        raise Corrupt(f"row {deleted.max()} is deleted from a fragment of {rows} rows", remedy=_REMEDY)


def _checked_positions(positions: Positions, rows: int) -> NDArray[np.int64]:
    wanted = np.asarray(positions, dtype=np.int64)
    if len(wanted) and not (int(wanted.min()) >= 0 and int(wanted.max()) < rows):
        raise InvalidInput(
            f"positions {int(wanted.min())} to {int(wanted.max())} are not all within {rows} rows",
            remedy=f"Give offsets from 0 to {rows - 1}.",
        )
    return wanted


def _check_rows(what: str, length: int, rows: int | None) -> None:
    if length > _MOST_ROWS:
        raise _broken(what, f"it is for {length} rows, a fragment has at most {_MOST_ROWS}")
    if rows is not None and length != rows:
        raise _broken(what, f"it is for {length} rows, the fragment has {rows}")


def _broken(what: str, problem: str) -> Corrupt:
    return Corrupt(f"a {what} sequence cannot be right: {problem}", remedy=_REMEDY)
