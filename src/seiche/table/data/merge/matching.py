"""Finding rows by key: which row of the data, if any, has the key of a row of the table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KeyIndex", "key_values", "shown_key"]

# At most one of so many bits in the table of hashes is set, so that few rows without a match are looked up in vain.
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
        # Each column numbers its values. A pair of numbers, that of the columns before and its own, is made one, which
        # is numbered again: so they stay below the number of rows, and nothing overflows.
        self._steps: list[tuple[_Lookup, _Lookup | None]] = []
        codes: NDArray[np.int64] = np.empty(0, np.int64)
        for column in columns:
            step, own = _numbered(column)
            pairs = None
            if self._steps:
                both = pa.array(codes * max(1, step.size) + own, mask=(codes < 0) | (own < 0))
                pairs, own = _numbered(both)
            codes = own
            self._steps.append((step, pairs))
        present = np.flatnonzero(codes >= 0)
        self._row_of = np.full(len(present), -1, np.int64)
        if len(present):
            _refuse_twins(codes[present], present, columns, names)
            self._row_of[codes[present]] = present

    @property
    def dear(self) -> bool:
        """Whether looking up a few keys costs nearly as much as looking up many."""
        return any(isinstance(step, _Values) for step, _ in self._steps)

    def find(self, columns: Sequence[pa.Array]) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        """Which of the keys the data has, by position, and the numbers of the rows that have them."""
        (step, _), *others = self._steps
        at, codes = step.find(columns[0])
        for column, (step, pairs) in zip(columns[1:], others, strict=True):
            assert pairs is not None  # noqa: S101 - only the first column has no others before it
            own_at, own = step.find(column.take(pa.array(at)))
            pair_at, codes = pairs.find(pa.array(codes[own_at] * max(1, step.size) + own))
            at = at[own_at][pair_at]
        return at, self._row_of[codes]


class _Lookup(Protocol):
    """Distinct values, numbered from 0 on."""

    size: int

    def find(self, column: pa.Array) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        """The positions of values that are among them, ascending, and their numbers. Nulls are not."""


def _numbered(column: pa.Array) -> tuple[_Lookup, "NDArray[np.int64]"]:
    """The distinct values of a column, and the number of each of its rows, -1 for a null."""
    codes = np.full(len(column), -1, np.int64)
    if not kinds.is_integer(column.type) or column.null_count == len(column):
        lookup = _Values(pc.unique(column.drop_null()))
        at, numbers = lookup.find(column)
        codes[at] = numbers
        return lookup, codes
    present = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    values = _integers(column.drop_null())
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    first = np.concatenate(([True], ascending[1:] != ascending[:-1]))
    codes[present[order]] = np.cumsum(first) - 1
    return _WholeNumbers(ascending[first]), codes


class _Values:
    """Values of any kind."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values
        self.size = len(values)

    def find(self, column: pa.Array) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        found = pc.index_in(column, value_set=self._values, skip_nulls=True)
        at = np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False))
        return at, found.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)


class _WholeNumbers:
    """Integers.

    Arrow makes a hash table for each call, which for many values takes longer than the look-ups. Here it is a table of
    bits, made once, that tells nearly all misses, and the sorted values for the rest.
    """

    def __init__(self, ascending: "NDArray[np.int64]") -> None:
        self._sorted = ascending
        self.size = len(ascending)
        bits = max(10, int(self.size * _LOAD).bit_length())
        self._shift = np.uint64(64 - bits)
        self._seen = np.zeros(1 << bits, np.bool_)
        self._seen[self._hash(ascending)] = True

    def find(self, column: pa.Array) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        if column.null_count:
            present = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
            at, numbers = self.find(column.drop_null())
            return present[at], numbers
        values = _integers(column)
        candidates = np.flatnonzero(self._seen[self._hash(values)])
        wanted = values[candidates]
        place = np.minimum(np.searchsorted(self._sorted, wanted), self.size - 1)
        hit = self._sorted[place] == wanted
        return candidates[hit], place[hit]

    def _hash(self, values: "NDArray[np.int64]") -> "NDArray[np.uint64]":
        hashes: NDArray[np.uint64] = (values.view(np.uint64) * _MULTIPLIER) >> self._shift
        return hashes


def _integers(column: pa.Array) -> "NDArray[np.int64]":
    """The values in 64 bits; unsigned ones by their bits, so that different ones stay different."""
    numbers = column.to_numpy(zero_copy_only=False)
    wide: NDArray[np.int64] = numbers.astype(np.uint64).view(np.int64) if numbers.dtype.kind == "u" else numbers
    return wide.astype(np.int64, copy=False)


def _refuse_twins(
    codes: "NDArray[np.int64]", rows: "NDArray[np.int64]", columns: Sequence[pa.Array], names: Sequence[str]
) -> None:
    counts = np.bincount(codes)
    twins = np.flatnonzero(counts > 1)
    if not len(twins):
        return
    where = rows[codes == twins[0]]
    key = shown_key(columns, names, int(where[0]))
    others = f", and {len(twins)} keys in all come more than once" if len(twins) > 1 else ""
    raise InvalidInput(
        f"{len(where)} rows of the data have the key {key}{others}",
        remedy="Give each key once, for example the last row of each.",
        rows=where[:10].tolist(),
    )


def shown_key(columns: Sequence[pa.Array], names: Sequence[str], row: int) -> str:
    """The key of a row, for people."""
    return ", ".join(f"{name}={_shown(column[row])}" for name, column in zip(names, columns, strict=True))


def _shown(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError):
        return str(value.cast(pa.string()))  # a time that Python has not
