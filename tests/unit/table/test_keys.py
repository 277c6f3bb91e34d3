"""Key filters: a common key is never overlooked, and filters without one do not stand in each other's way."""

import random

import pytest

from seiche.table.format.transaction_pb2 import KeyExistenceFilter
from seiche.table.keys import shared_keys

_BYTES = 16384
_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)


def exact(*hashes: int, fields: tuple[int, ...] = (0,)) -> KeyExistenceFilter:
    made = KeyExistenceFilter(field_ids=fields)
    made.exact.key_hashes.extend(hashes)
    made.exact.SetInParent()
    return made


def bloom(*hashes: int, fields: tuple[int, ...] = (0,), size: int = _BYTES, items: int = 8192) -> KeyExistenceFilter:
    """A split-block filter, written down from its definition: one bit in each of the eight words of one block."""
    bitmap = bytearray(size)
    for one in hashes:
        block = ((one >> 32) * (size // 32)) >> 32
        for word, salt in enumerate(_SALTS):
            bit = ((one & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27
            at = block * 32 + word * 4 + bit // 8
            bitmap[at] |= 1 << bit % 8
    made = KeyExistenceFilter(field_ids=fields)
    made.bloom.bitmap = bytes(bitmap)
    made.bloom.num_bits = size * 8
    made.bloom.number_of_items = items
    made.bloom.probability = 0.00057
    return made


def hashes(seed: int, count: int) -> list[int]:
    drawn = random.Random(seed)
    return [drawn.getrandbits(64) for _ in range(count)]


def test_exact_sets_share_the_keys_they_have_in_common() -> None:
    assert shared_keys(exact(1, 2, 3), exact(4, 5)) is None
    shared = shared_keys(exact(1, 2, 3), exact(3, 2, 9))
    assert shared is not None
    assert shared.hashes == (2, 3)


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_bloom_filters_with_a_key_in_common_meet(count: int) -> None:
    common = hashes(1, 1)
    assert shared_keys(bloom(*hashes(2, count), *common), bloom(*common, *hashes(3, count))) is not None


def test_bloom_filters_without_a_key_in_common_do_not_meet_though_they_share_bits() -> None:
    ours, theirs = bloom(*hashes(2, 300)), bloom(*hashes(3, 300))
    assert any(one & other for one, other in zip(ours.bloom.bitmap, theirs.bloom.bitmap, strict=True))
    assert shared_keys(ours, theirs) is None


def test_bloom_filters_without_parameters_have_the_usual_ones() -> None:
    plain = bloom(5)
    plain.bloom.ClearField("number_of_items")
    plain.bloom.ClearField("probability")
    plain.bloom.ClearField("num_bits")
    assert shared_keys(plain, bloom(*hashes(7, 3))) is None
    assert shared_keys(plain, bloom(5)) is not None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(exact(1), bloom(*hashes(1, 2)), id="exact against Bloom: the hash function is not known"),
        pytest.param(bloom(*hashes(1, 2)), exact(1), id="Bloom against exact"),
        pytest.param(exact(1, fields=(0,)), exact(2, fields=(1,)), id="keys on other fields"),
        pytest.param(bloom(1, size=32), bloom(2), id="Bloom filters of other sizes"),
        pytest.param(bloom(1, items=8192), bloom(2, items=100), id="Bloom filters made for other numbers of keys"),
        pytest.param(bloom(1, size=40), bloom(1, size=40), id="not a whole number of blocks"),
        pytest.param(exact(1), KeyExistenceFilter(field_ids=[0]), id="a kind that we do not know"),
        pytest.param(KeyExistenceFilter(field_ids=[0]), bloom(1), id="the other way round"),
    ],
)
def test_what_cannot_be_compared_counts_as_shared(ours: KeyExistenceFilter, theirs: KeyExistenceFilter) -> None:
    assert shared_keys(ours, theirs) is not None


def test_who_inserted_nothing_shares_no_key() -> None:
    assert shared_keys(exact(), bloom(*hashes(1, 5))) is None
    assert shared_keys(bloom(), exact(1)) is None
    assert shared_keys(exact(), exact()) is None
