"""The keys that a merge inserts, as a filter by which two merges find out whether they inserted the same.

The filter holds hashes of keys: SipHash with one round per block and three at the end, under a zero key, over the
length of the key's bytes and the bytes themselves. That is what the exact filters of the reference implementation hold,
for the types of keys that it knows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from seiche.table.operations import KeyExistenceFilter

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_EXACT", "inserted_keys", "key_bytes", "key_filter", "siphash"]

# Everybody who checks for conflicts reads the filter. Beyond this number of keys one of the other kind is written, with
# every bit set: it stands for any key, so that of two merges that insert that much one is always run again.
MOST_EXACT = 1 << 14
_BLOOM_BYTES = 1 << 15
_BLOOM_ITEMS = 8192
_BLOOM_PROBABILITY = 0.00057


def inserted_keys(field_ids: Sequence[int], columns: Sequence[pa.Array]) -> KeyExistenceFilter:
    """The filter for these keys, given as columns in the order of their field ids. Keys with a null are no keys."""
    few = len(columns[0]) <= MOST_EXACT
    return key_filter(field_ids, siphash(key_bytes(columns)).tolist() if few else None)


def key_filter(field_ids: Sequence[int], hashes: Sequence[int] | None) -> KeyExistenceFilter:
    """The filter for keys with these hashes; for `None`, or more than `MOST_EXACT`, one that stands for any key."""
    made = KeyExistenceFilter(field_ids=field_ids)
    if hashes is None or len(hashes) > MOST_EXACT:
        made.bloom.bitmap = b"\xff" * _BLOOM_BYTES
        made.bloom.num_bits = 8 * _BLOOM_BYTES
        made.bloom.number_of_items = _BLOOM_ITEMS
        made.bloom.probability = _BLOOM_PROBABILITY
        return made
    made.exact.SetInParent()
    made.exact.key_hashes.extend(sorted(set(hashes)))
    return made


def key_bytes(columns: Sequence[pa.Array]) -> list[bytes]:
    """The bytes of each key that has no null: of its only column, or of each column and a zero."""
    present = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        present &= pc.is_valid(column).to_numpy(zero_copy_only=False)
    kept = [column.take(pa.array(np.flatnonzero(present))) for column in columns]
    parts = [_column_bytes(column) for column in kept]
    if len(parts) == 1:
        return parts[0]
    return [b"".join(part + b"\x00" for part in key) for key in zip(*parts, strict=True)]


def _column_bytes(column: pa.Array) -> list[bytes]:
    kind = column.type
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return [value.encode() for value in column.to_pylist()]
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        return list(column.to_pylist())
    if kinds.is_boolean(kind):
        return [b"\x01" if value else b"\x00" for value in column.to_pylist()]
    if kinds.is_decimal(kind):
        return [str(value).encode() for value in column.to_pylist()]
    if kinds.is_floating(kind):
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return _eight_bytes(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    if kinds.is_unsigned_integer(kind):
        return _eight_bytes(column.to_numpy(zero_copy_only=False).astype(np.uint64))
    whole = column if kinds.is_integer(kind) else column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return _eight_bytes(whole.to_numpy(zero_copy_only=False).astype(np.int64))


def _eight_bytes(numbers: "NDArray[np.int64] | NDArray[np.uint64]") -> list[bytes]:
    data = numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
    return [data[start : start + 8] for start in range(0, len(data), 8)]


def siphash(keys: Sequence[bytes]) -> "NDArray[np.uint64]":
    """The hash of each key; those of equal length are hashed together."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    hashes = np.zeros(len(keys), np.uint64)
    for length in np.unique(lengths).tolist():
        same = np.flatnonzero(lengths == length)
        prefix = length.to_bytes(8, "little")
        size = length + 8
        # The last block ends in the length of the whole message, in one byte.
        tail = b"\x00" * (7 - size % 8) + bytes([size & 0xFF])
        blocks = np.frombuffer(b"".join(prefix + keys[at] + tail for at in same.tolist()), "<u8")
        with np.errstate(over="ignore"):
            hashes[same] = _siphash_blocks(blocks.reshape(len(same), -1).astype(np.uint64))
    return hashes


def _siphash_blocks(blocks: "NDArray[np.uint64]") -> "NDArray[np.uint64]":
    initial = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    state = [np.full(len(blocks), value, np.uint64) for value in initial]
    for column in range(blocks.shape[1]):
        state[3] ^= blocks[:, column]
        _round(state)
        state[0] ^= blocks[:, column]
    state[2] ^= np.uint64(0xFF)
    for _ in range(3):
        _round(state)
    return np.bitwise_xor.reduce(state)  # type: ignore[no-any-return]


def _round(state: list["NDArray[np.uint64]"]) -> None:
    one, two, three, four = state
    one = one + two
    two = _rotated(two, 13) ^ one
    one = _rotated(one, 32)
    three = three + four
    four = _rotated(four, 16) ^ three
    one = one + four
    four = _rotated(four, 21) ^ one
    three = three + two
    two = _rotated(two, 17) ^ three
    three = _rotated(three, 32)
    state[:] = one, two, three, four


def _rotated(words: "NDArray[np.uint64]", bits: int) -> "NDArray[np.uint64]":
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
