"""Deletion vectors: both encodings, the files, and damage that must not reach the native libraries."""

import struct
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, NotFound
from seiche.store.local import LocalStore
from seiche.table.format import deletions, roaring
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest_pb2 import DataFragment, DeletionFile

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lance"
ARROW, BITMAP = DeletionFile.ARROW, DeletionFile.BITMAP

OFFSETS = st.sets(st.integers(0, 2**32 - 1), max_size=50) | st.builds(
    lambda start, count, step: set(range(start, start + count * step, step)),
    st.integers(0, 200_000),
    st.integers(0, 5000),
    st.integers(1, 30),
)


@given(OFFSETS, st.booleans())
def test_both_encodings_round_trip(offsets: set[int], packed: bool) -> None:
    members = BitMap(offsets)
    if packed:
        members.run_optimize()
    assert set(deletions.decode(deletions.encode_arrow(members), ARROW)) == offsets
    assert set(deletions.decode(deletions.encode_bitmap(members), BITMAP)) == offsets


@given(st.sets(st.integers(0, 2**64 - 1), max_size=50))
def test_64_bit_bitmaps_round_trip(members: set[int]) -> None:
    assert set(roaring.decode64(roaring.encode64(BitMap64(members)))) == members


def test_uncompressed_arrow_in_any_order_is_read() -> None:
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([9, 2], pa.uint32())], schema=schema))
        writer.write_batch(pa.record_batch([pa.array([5], pa.uint32())], schema=schema))
    assert set(deletions.decode(sink.getvalue().to_pybytes(), ARROW)) == {2, 5, 9}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def fragment_with(file: DeletionFile, rows: int = 0) -> DataFragment:
    return DataFragment(id=7, deletion_file=file, physical_rows=rows)


def test_what_is_written_is_read(store: LocalStore) -> None:
    files = DeletionFiles(store, Runtime.seeded(1))
    small = files.write(7, 3, BitMap(range(5000)))
    assert (small.file_type, small.num_deleted_rows, small.read_version) == (ARROW, 5000, 3)
    assert store.exists(f"_deletions/7-3-{small.id}.arrow")
    large = files.write(7, 3, BitMap(range(5001)))
    assert large.file_type == BITMAP
    assert store.exists(f"_deletions/7-3-{large.id}.bin")
    merged = files.write(7, 3, BitMap([1, 2]), bitmap=True)
    assert merged.file_type == BITMAP
    for file, count in ((small, 5000), (large, 5001), (merged, 2)):
        assert len(files.read(fragment_with(file))) == count
    assert files.read(DataFragment(id=7)) == BitMap()


def test_a_file_under_another_base_is_read_there(store: LocalStore, tmp_path: Path) -> None:
    elsewhere = LocalStore(str(tmp_path / "elsewhere"))
    file = DeletionFiles(elsewhere, Runtime.seeded(1)).write(7, 3, BitMap([4]))
    file.base_id = 2
    assert DeletionFiles(store, bases={2: elsewhere}).read(fragment_with(file)) == BitMap([4])
    with pytest.raises(NotFound, match="base path 2"):
        DeletionFiles(store, bases={1: elsewhere}).read(fragment_with(file))


def test_a_missing_file_is_not_an_empty_one(store: LocalStore) -> None:
    with pytest.raises(NotFound):
        DeletionFiles(store).read(fragment_with(DeletionFile(id=1)))


def test_a_vector_that_contradicts_its_fragment_is_corrupt(store: LocalStore) -> None:
    files = DeletionFiles(store, Runtime.seeded(1))
    file = files.write(7, 3, BitMap([1, 9]))
    assert len(files.read(fragment_with(file, rows=10))) == 2
    with pytest.raises(Corrupt, match="deletes row 9"):
        files.read(fragment_with(file, rows=9))
    file.num_deleted_rows = 3
    with pytest.raises(Corrupt, match="manifest says 3"):
        files.read(fragment_with(file))
    file.num_deleted_rows = 0  # unknown
    assert len(files.read(fragment_with(file))) == 2


def arrow_file(column: pa.Array, name: str = "row_id") -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([column], names=[name])
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def roaring_array(*values: int, members: int | None = None, key: int = 0) -> bytes:
    count = len(values) if members is None else members
    return struct.pack(f"<IIHHI{len(values)}H", 12346, 1, key, count - 1, 16, *values)


def roaring_bitset(members: int, byte: bytes) -> bytes:
    return struct.pack("<IIHHI", 12346, 1, 0, members - 1, 16) + byte * 8192


def roaring_runs(members: int, *runs: int) -> bytes:
    return struct.pack(f"<HHBHHH{len(runs)}H", 12347, 0, 1, 0, members - 1, len(runs) // 2, *runs)


def test_the_hand_made_bitmaps_are_right_when_they_are() -> None:
    assert set(roaring.decode(roaring_array(1, 2))) == {1, 2}
    assert len(roaring.decode(roaring_bitset(65536, b"\xff"))) == 65536
    assert set(roaring.decode(roaring_runs(3, 5, 1, 9, 0))) == {5, 6, 9}


BAD_BITMAPS = {
    "empty": b"",
    "cut short": roaring_array(1, 2, 3)[:-1],
    "too long": roaring_array(1, 2, 3) + b"\0",
    "wrong cookie": b"\0" * 16,
    "not ascending": roaring_array(2, 1),
    "twice the same": roaring_array(1, 1),
    "counts fewer than it holds": roaring_bitset(5000, b"\xff"),
    "counts more than it holds": roaring_bitset(65536, b"\x01"),
    "containers without end": struct.pack("<II", 12346, 2**32 - 1),
    "runs overlap": roaring_runs(6, 5, 3, 7, 1),
    "runs touch": roaring_runs(4, 5, 1, 7, 1),
    "runs leave the container": roaring_runs(3, 65535, 2),
    "runs counted wrong": roaring_runs(9, 5, 1),
    "offset wrong": roaring_array(1, 2)[:12] + b"\x14\0\0\0" + roaring_array(1, 2)[16:],
    "keys in disorder": struct.pack("<IIHHHHIIHH", 12346, 2, 1, 0, 0, 0, 24, 26, 1, 1),
}
BAD_ARROW = {
    "empty": b"",
    "only magic": b"ARROW1ARROW1",
    "other column": arrow_file(pa.array([1], pa.uint32()), "other"),
    "other type": arrow_file(pa.array([1], pa.int64())),
    "nulls": arrow_file(pa.array([1, None], pa.uint32())),
    "two columns": b"ARROW1\0\0" + b"\0" * 50 + b"ARROW1",
}


@pytest.mark.parametrize("name", BAD_BITMAPS)
def test_bad_bitmaps_are_corrupt(name: str) -> None:
    with pytest.raises(Corrupt) as caught:
        deletions.decode(BAD_BITMAPS[name], BITMAP, what="_deletions/1.bin")
    assert caught.value.path == "_deletions/1.bin"
    assert caught.value.offset >= 0
    inside = struct.pack("<QI", 1, 0) + BAD_BITMAPS[name]
    with pytest.raises(Corrupt):
        roaring.decode64(inside)


@pytest.mark.parametrize("name", BAD_ARROW)
def test_bad_arrow_files_are_corrupt(name: str) -> None:
    with pytest.raises(Corrupt) as caught:
        deletions.decode(BAD_ARROW[name], ARROW, what="_deletions/1.arrow")
    assert caught.value.path == "_deletions/1.arrow"


def test_bad_64_bit_bitmaps_are_corrupt() -> None:
    one = roaring_array(1)
    for data in (
        b"",
        struct.pack("<Q", 2**63),
        struct.pack("<QI", 2, 5) + one + struct.pack("<I", 5) + one,
        struct.pack("<QI", 1, 0) + one + b"\0",
    ):
        with pytest.raises(Corrupt):
            roaring.decode64(data)


def test_an_unknown_type_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="unknown type 7"):
        deletions.decode(b"", 7)


def test_a_claim_to_unpack_to_much_takes_no_memory() -> None:
    data = bytearray(deletions.encode_arrow(BitMap(range(1000))))
    claim = data.find(struct.pack("<q", 4000))
    assert claim > 0
    data[claim : claim + 8] = struct.pack("<q", 2**40)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt, match="unpack"):
            deletions.decode(bytes(data), ARROW)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() <= before


@pytest.mark.parametrize("suffix", ["arrow", "bin"])
def test_damage_anywhere_is_corrupt_or_still_a_vector(suffix: str) -> None:
    if suffix == "arrow":
        smallest = min(FIXTURES.rglob("_deletions/*.arrow"), key=lambda path: path.stat().st_size)
        data, kind = smallest.read_bytes(), ARROW
    else:
        members = BitMap([*range(300), *range(70_000, 70_500, 7), *range(200_000, 300_000)])
        members.run_optimize()
        data, kind = deletions.encode_bitmap(members), BITMAP
    for end in range(len(data)):
        with pytest.raises(Corrupt):
            deletions.decode(data[:end], kind)
    decoded = 0
    for at in range(len(data)):
        for bit in range(8):
            try:
                offsets = deletions.decode(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], kind)
            except Corrupt:
                continue
            # Whatever came out is sound: the native code counts and copies the same number of members.
            assert len(offsets.to_array()) == len(offsets)
            decoded += 1
    assert decoded < 8 * len(data)
