"""Manifest files: the layout to the byte, the transaction without the fragments, and every kind of damage."""

import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from seiche.errors import Corrupt, NotFound
from seiche.store.base import Store
from seiche.store.local import LocalStore
from seiche.table.format import file
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.transaction_pb2 import Append, Transaction
from seiche.testing.counting import CountingStore

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lance"
PATH = "_versions/x.manifest"
TRANSACTION = Transaction(read_version=2, uuid="u", append=Append())


def fragment(number: int, **more: object) -> pb.DataFragment:
    name = f"{number:050}.lance"
    return pb.DataFragment(id=number, files=[pb.DataFile(path=name, fields=[0])], physical_rows=10, **more)  # type: ignore[arg-type]


def manifest(fragments: int = 3, *, index_bytes: int = 0, **header: object) -> Manifest:
    indices = [pb.IndexMetadata(name="i" * index_bytes)] if index_bytes else []
    top = pb.Manifest(version=3, max_fragment_id=fragments, fields=[pb.Field(name="a")], **header)  # type: ignore[arg-type]
    return Manifest(top, Fragments(map(fragment, range(fragments))), indices)


def encoded(value: Manifest, transaction: Transaction = TRANSACTION) -> bytes:
    return b"".join(file.encode(value, transaction.SerializeToString()))


def framed(message: bytes, *, before: bytes = b"", offset: int | None = None) -> bytes:
    footer = struct.pack("<QHH4s", len(before) if offset is None else offset, 0, 2, b"LANC")
    return before + struct.pack("<I", len(message)) + message + footer


def everything_in(data: bytes) -> str:
    """Decode all that is decoded late, too."""
    read = file.decode(data, path=PATH)
    value = read.manifest
    assert value.max_fragment_id >= value.fragments.last_id
    return f"{value.header}{value.fragments.decoded()}{value.indices}{value.timestamp}{read.transaction}"


def test_the_layout_is_the_documented_one() -> None:
    data = encoded(manifest(index_bytes=5))
    (index_length,) = struct.unpack_from("<I", data, 0)
    assert pb.IndexSection.FromString(data[4 : 4 + index_length]).indices[0].name == "iiiii"
    at = 4 + index_length
    (length,) = struct.unpack_from("<I", data, at)
    assert data[at + 4 : at + 4 + length] == TRANSACTION.SerializeToString()
    at += 4 + length
    (length,) = struct.unpack_from("<I", data, at)
    header = pb.Manifest.FromString(data[at + 4 : at + 4 + length])
    assert (header.index_section, header.transaction_section) == (0, 4 + index_length)
    assert [pb.DataFragment.FromString(each).id for each in header.fragments] == [0, 1, 2]
    assert data[at + 4 + length :] == struct.pack("<QHH4s", at, 0, 2, b"LANC")


def test_without_indices_the_transaction_is_first() -> None:
    read = file.decode(encoded(manifest()), path=PATH)
    header = read.manifest.header
    assert not header.HasField("index_section")
    assert header.HasField("transaction_section")
    assert header.transaction_section == 0
    assert read.transaction == TRANSACTION


def test_a_round_trip_is_equal_and_fragments_keep_their_bytes() -> None:
    value = manifest(50, index_bytes=9)
    read = file.decode(encoded(value), path=PATH)
    assert b"".join(read.manifest.fragments.pieces) == b"".join(value.fragments.pieces)
    assert encoded(read.manifest) == encoded(value)
    later = read.manifest.fragments.extended([fragment(50)])
    assert b"".join(later.pieces).startswith(b"".join(value.fragments.pieces))


def test_the_older_pointer_to_the_transaction_is_read_and_not_written() -> None:
    message = pb.Manifest(version=3, old_transaction_section=0)
    stored = TRANSACTION.SerializeToString()
    data = framed(message.SerializeToString(), before=struct.pack("<I", len(stored)) + stored)
    read = file.decode(data, path=PATH)
    assert read.transaction == TRANSACTION
    assert not file.decode(encoded(read.manifest), path=PATH).manifest.header.HasField("old_transaction_section")


def test_a_manifest_without_a_transaction_says_so() -> None:
    assert file.decode(framed(pb.Manifest(version=3).SerializeToString()), path=PATH).transaction is None


def test_unknown_fields_of_the_manifest_survive() -> None:
    message = pb.Manifest(version=3).SerializeToString() + b"\xf8\x07\x05"
    again = encoded(file.decode(framed(message), path=PATH).manifest)
    assert b"\xf8\x07\x05" in again


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(LocalStore(str(tmp_path)))


def stored(store: Store, data: bytes) -> None:
    store.put(PATH, data)


@pytest.mark.parametrize(
    ("value", "most_requests", "most_bytes"),
    [
        (manifest(), 1, 64 * 1024),
        (manifest(index_bytes=50), 1, 64 * 1024),
        (manifest(20_000), 1, 4 * 1024),
        (manifest(20_000, index_bytes=50), 2, 5 * 1024),
        (manifest(20_000, index_bytes=500_000), 3, 5 * 1024),
    ],
    ids=["small", "small, indices", "large", "large, indices", "large, large indices"],
)
def test_the_transaction_is_read_without_the_fragments(
    store: CountingStore, value: Manifest, most_requests: int, most_bytes: int
) -> None:
    stored(store, encoded(value))
    store.reset()
    assert file.read_transaction(store, PATH) == TRANSACTION
    assert store.requests <= most_requests
    assert store.bytes_read <= most_bytes


def test_a_large_transaction_is_read_whole(store: CountingStore) -> None:
    large = Transaction(uuid="u", properties={"x": "y" * 200_000}, append=Append())
    stored(store, encoded(manifest(20_000, index_bytes=9), large))
    store.reset()
    assert file.read_transaction(store, PATH) == large
    assert store.requests == 3
    assert store.bytes_read < 300_000


def test_no_transaction_is_found_where_there_is_none(store: CountingStore) -> None:
    fragments = manifest(20_000).fragments.pieces
    bare = pb.Manifest(version=3).SerializeToString() + b"".join(fragments)
    stored(store, framed(bare))
    assert file.read_transaction(store, PATH) is None
    section = pb.IndexSection(indices=[pb.IndexMetadata(name="i")]).SerializeToString()
    indexed = pb.Manifest(version=3, index_section=0).SerializeToString() + b"".join(fragments)
    stored(store, framed(indexed, before=struct.pack("<I", len(section)) + section))
    assert file.read_transaction(store, PATH) is None


def test_an_unfamiliar_layout_is_read_by_its_pointers(store: CountingStore) -> None:
    message = TRANSACTION.SerializeToString()
    before = b"????" * 3 + struct.pack("<I", len(message)) + message + b"filler"
    header = pb.Manifest(version=3, transaction_section=12).SerializeToString()
    stored(store, framed(header + b"".join(manifest(20_000).fragments.pieces), before=before))
    assert file.read_transaction(store, PATH) == TRANSACTION


def test_reading_a_missing_or_damaged_transaction(store: CountingStore) -> None:
    with pytest.raises(NotFound):
        file.read_transaction(store, PATH)
    pieces = b"".join(manifest(20_000).fragments.pieces)
    for before, offset in [
        (struct.pack("<I", 3) + b"\xff\xff\xff", None),
        (b"", 2**63),
        (b"", 2**40),
        (b"", 2**31),
        (b"\0\0", None),
        (struct.pack("<I", 2**32 - 1), None),
    ]:
        stored(store, framed(pb.Manifest(version=3).SerializeToString() + pieces, before=before, offset=offset))
        if before in (b"\0\0", struct.pack("<I", 2**32 - 1)):
            assert file.read_transaction(store, PATH) is None
        else:
            with pytest.raises(Corrupt) as caught:
                file.read_transaction(store, PATH)
            assert caught.value.path == PATH


HOSTILE = {
    "nothing": b"",
    "one byte": b"\0",
    "only a footer": struct.pack("<QHH4s", 0, 0, 2, b"LANC"),
    "no magic": framed(b"")[:-1] + b"D",
    "zeroes": bytes(1000),
    "offset outside": framed(b"", offset=2**63),
    "offset at the end": framed(b"", offset=4),
    "length of 4 GiB": b"\xff\xff\xff\xff" + struct.pack("<QHH4s", 0, 0, 2, b"LANC"),
    "transaction outside": framed(pb.Manifest(transaction_section=2**64 - 1).SerializeToString()),
    "index section outside": framed(pb.Manifest(index_section=100).SerializeToString()),
    "not a message": framed(b"\xff" * 50),
    "string of 4 GiB": framed(b"\x42\xff\xff\xff\xff\x0f"),
    "packed list of 4 GiB": framed(
        pb.Manifest(fragments=[b"\x12\x08\x12\xff\xff\xff\xff\x0f\x01"]).SerializeToString()
    ),
    "groups without end": framed(b"\xfb\x07" * 5000),
    "fragment cut short": framed(pb.Manifest(fragments=[b"\x12\x05ab"]).SerializeToString()),
    "text that is not UTF-8": framed(b"\x42\x02\xff\xfe"),
    "the same fragment twice": framed(pb.Manifest(fragments=[fragment(1).SerializeToString()] * 2).SerializeToString()),
    "a time beyond all times": framed(pb.Manifest(timestamp={"seconds": 2**62}).SerializeToString()),
    "a million empty columns": framed(b"\x0a\0" * 1_000_000),
    "a million empty fragments": framed(b"\x12\0" * 1_000_000),
    "a million empty settings": framed(pb.Manifest(version=3).SerializeToString() + b"\x82\x01\0" * 1_000_000),
    "a million empty indices": framed(
        pb.Manifest(index_section=0).SerializeToString(), before=struct.pack("<I", 2_000_000) + b"\x0a\0" * 1_000_000
    ),
    "index section of rubbish": framed(
        pb.Manifest(index_section=0).SerializeToString(), before=struct.pack("<I", 2) + b"\xff\xff"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_corrupt_and_named(name: str) -> None:
    with pytest.raises(Corrupt) as caught:
        everything_in(HOSTILE[name])
    assert caught.value.path == PATH
    assert PATH in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_take_no_memory(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt):
            everything_in(HOSTILE[name])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000 + 2 * len(HOSTILE[name])
    finally:
        tracemalloc.stop()


def damaged(data: bytes) -> Iterator[bytes]:
    for end in range(len(data)):
        yield data[:end]
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.parametrize("name", ["appends", "compaction_with_deferred_remap", "stable_row_ids"])
def test_damage_anywhere_is_corrupt_or_still_a_manifest(name: str) -> None:
    smallest = min((FIXTURES / name / "_versions").glob("*.manifest"), key=lambda path: path.stat().st_size)
    refused = 0
    for data in damaged(smallest.read_bytes()):
        try:
            everything_in(data)
        except Corrupt:
            refused += 1
    assert refused > smallest.stat().st_size  # at least every truncation


def test_fragments_out_of_order_are_put_in_order() -> None:
    shuffled = pb.FragmentList(fragments=[fragment(5), fragment(2), fragment(9), fragment(3)]).SerializeToString()
    value = file.decode(framed(pb.Manifest(version=3).SerializeToString() + shuffled), path=PATH).manifest
    assert value.max_fragment_id == 9
    assert value.fragments.ids() == [2, 3, 5, 9]
    again = file.decode(encoded(value), path=PATH).manifest
    assert [each.id for each in pb.FragmentList.FromString(b"".join(again.fragments.pieces)).fragments] == [2, 3, 5, 9]
