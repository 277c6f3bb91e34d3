"""Finding rows by key: which row of the data, if any, has the key of a row of the table."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KeyIndex", "key_values"]

# Of the bits in the table of hashes, at most this part is set: so many rows without a match are not looked up at all.
_LOAD = 16
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def key_values(column: pa.Array, name: str) -> pa.Array:
    """The values of a key column in a form in which equal means equal: without encodings, and with one zero."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if kinds.is_nested(kind) or kinds.is_null(kind):
        raise InvalidInput(
            f"column {name!r} of type {kind} cannot be a key", remedy="Merge on columns of single values.", column=name
        )
    if kinds.is_float16(kind):
        column = column.cast(pa.float32())
    if kinds.is_floating(kind):
        return pc.add(column, pa.scalar(0.0, column.type))
    return column


class KeyIndex:
    """The keys of the data, each with the number of its row. A key with a null in it is never found."""

    def __init__(self, columns: Sequence[pa.Array], names: Sequence[str]) -> None:
        """`columns` are those of the key, as `key_values` gives them; two equal keys are `InvalidInput`."""
        self._steps: list[tuple[_Lookup, _Lookup | None]] = []
        codes: NDArray[np.int64] | None = None
        for column in columns:
            step = _Lookup(pc.unique(column.drop_null()))
            own = step.find(column)
            dense = None
            if codes is None:
                codes = own
            else:
                pairs = _paired(codes, own, step.size)
                dense = _Lookup(pa.array(np.unique(pairs[pairs >= 0])))
                codes = dense.find(pa.array(pairs))
            self._steps.append((step, dense))
        assert codes is not None  # noqa: S101 - there is a key column
        self.size = len(codes)
        present = np.flatnonzero(codes >= 0)
        self._row_of = np.full(len(present), -1, np.int64)
        if len(present):
            _refuse_twins(codes[present], present, columns, names)
            self._row_of[codes[present]] = present

    def find(self, columns: Sequence[pa.Array]) -> "NDArray[np.int64]":
        """For each key the row of the data that has it, -1 where there is none."""
        codes: NDArray[np.int64] | None = None
        for column, (step, dense) in zip(columns, self._steps, strict=True):
            own = step.find(column)
            if codes is not None and dense is not None:
                own = dense.find(pa.array(_paired(codes, own, step.size)))
            codes = own
        assert codes is not None  # noqa: S101 - there is a key column
        if not len(self._row_of):
            return codes
        return np.where(codes >= 0, self._row_of[codes], -1)


class _Lookup:
    """Distinct values, each with its number."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values
        self.size = len(values)
        self._bits = max(10, int(self.size * _LOAD).bit_length())
        self._hashes: NDArray[np.bool_] | None = None
        if kinds.is_integer(values.type) and self.size:
            self._hashes = np.zeros(1 << self._bits, np.bool_)
            self._hashes[self._hash(values)] = True

    def find(self, column: pa.Array) -> "NDArray[np.int64]":
        """The numbers of these values, -1 for what is null or not among them."""
        if self._hashes is None or column.null_count:
            return _numbers(column, self._values)
        # The hash table of Arrow costs about as much for a miss as for a hit, and most rows of the table are misses.
        found = np.full(len(column), -1, np.int64)
        candidates = np.flatnonzero(self._hashes[self._hash(column)])
        found[candidates] = _numbers(column.take(pa.array(candidates)), self._values)
        return found

    def _hash(self, column: pa.Array) -> "NDArray[np.uint64]":
        numbers = column.to_numpy(zero_copy_only=False).astype(np.int64 if _is_signed(column) else np.uint64)
        hashes: NDArray[np.uint64] = (numbers.view(np.uint64) * _MULTIPLIER) >> np.uint64(64 - self._bits)
        return hashes


def _is_signed(column: pa.Array) -> bool:
    return bool(kinds.is_signed_integer(column.type))


def _numbers(column: pa.Array, values: pa.Array) -> "NDArray[np.int64]":
    found = pc.fill_null(pc.index_in(column, value_set=values, skip_nulls=True), -1)
    numbers: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _paired(codes: "NDArray[np.int64]", own: "NDArray[np.int64]", size: int) -> "NDArray[np.int64]":
    """One number for each pair of numbers. Both are below the number of rows, so the product does not overflow."""
    return np.where((codes >= 0) & (own >= 0), codes * max(1, size) + own, -1)


def _refuse_twins(
    codes: "NDArray[np.int64]", rows: "NDArray[np.int64]", columns: Sequence[pa.Array], names: Sequence[str]
) -> None:
    counts = np.bincount(codes)
    twins = np.flatnonzero(counts > 1)
    if not len(twins):
        return
    where = rows[codes == twins[0]]
    key = ", ".join(_shown(columns, names, int(where[0])))
    raise InvalidInput(
        f"{len(where)} rows of the data have the key {key}, and {len(twins)} keys in all come more than once",
        remedy="Give each key once, for example the last row of each.",
        rows=where[:10].tolist(),
    )


def _shown(columns: Sequence[pa.Array], names: Sequence[str], row: int) -> Iterator[str]:
    return (f"{name}={column[row].as_py()!r}" for name, column in zip(names, columns, strict=True))
