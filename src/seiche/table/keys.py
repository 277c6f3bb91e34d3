"""Key filters: did two merges insert a row with the same key?"""

from dataclasses import dataclass

from seiche.table.format.transaction_pb2 import KeyExistenceFilter

__all__ = ["SharedKeys", "is_empty", "shared_keys"]

# What a Bloom filter without parameters was made with.
_ITEMS = 8192
_PROBABILITY = 0.00057
# A split-block filter puts one bit into each of the eight 32-bit words of one block, for each key.
_BLOCK_WORDS = 8
_BLOCK_BYTES = 4 * _BLOCK_WORDS


@dataclass(frozen=True, slots=True)
class SharedKeys:
    """Why a common key cannot be ruled out: a phrase for the error, and the hashes where they are known."""

    why: str
    hashes: tuple[int, ...] = ()


def shared_keys(ours: KeyExistenceFilter, theirs: KeyExistenceFilter) -> SharedKeys | None:
    """`None` only if no key can be in both filters.

    Never wrong in that direction: filters that cannot be compared count as sharing a key. An exact set and a Bloom
    filter cannot: nothing says which hash function made the numbers of the set, and to look them up by the wrong one
    would find nothing and let a key in twice.
    """
    if list(ours.field_ids) != list(theirs.field_ids):
        return SharedKeys(
            f"inserted rows under a key on fields {list(theirs.field_ids)}, ours is on {list(ours.field_ids)}"
        )
    kinds = ours.WhichOneof("data"), theirs.WhichOneof("data")
    if None in kinds:
        return SharedKeys("inserted rows whose keys are in a filter of an unknown kind")
    if is_empty(ours) or is_empty(theirs):
        return None
    if kinds == ("exact", "exact"):
        both = sorted(set(ours.exact.key_hashes) & set(theirs.exact.key_hashes))
        return SharedKeys(f"inserted rows with {len(both)} of the same keys", tuple(both)) if both else None
    if kinds == ("bloom", "bloom"):
        return _shared_in_bloom(ours.bloom, theirs.bloom)
    return SharedKeys("inserted rows whose keys cannot be compared: an exact set against a Bloom filter")


def is_empty(keys: KeyExistenceFilter) -> bool:
    """Whether it is certain that no key is in the filter."""
    match keys.WhichOneof("data"):
        case "exact":
            return not keys.exact.key_hashes
        case "bloom":
            return not any(keys.bloom.bitmap)
    return False


def _shared_in_bloom(ours: KeyExistenceFilter.BloomFilter, theirs: KeyExistenceFilter.BloomFilter) -> SharedKeys | None:
    import numpy as np

    if _parameters(ours) != _parameters(theirs) or len(ours.bitmap) % _BLOCK_BYTES:
        return SharedKeys("inserted rows whose keys are in a Bloom filter of other parameters")
    one, other = (np.frombuffer(bloom.bitmap, "<u4").reshape(-1, _BLOCK_WORDS) for bloom in (ours, theirs))
    # A key of both has set the same bit in each word of its block. A bit in common is not enough to suspect one:
    # filters of a few hundred keys nearly always have some.
    if bool(((one & other) != 0).all(axis=1).any()):
        return SharedKeys("probably inserted a row with the same key (their Bloom filters meet)")
    return None


def _parameters(bloom: KeyExistenceFilter.BloomFilter) -> tuple[int, int, int, float]:
    return (
        len(bloom.bitmap),
        bloom.num_bits or 8 * len(bloom.bitmap),
        bloom.number_of_items or _ITEMS,
        bloom.probability or _PROBABILITY,
    )
