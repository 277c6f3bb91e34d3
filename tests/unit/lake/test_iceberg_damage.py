"""Files of an Iceberg table whose bytes are others by now: rows are read as ever, or an error of the lake says so."""

import random
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.encoder import BinaryEncoder

import seiche
from seiche.errors import Corrupt, SeicheError
from seiche.lake.iceberg.avro_decoder import BoundedDecoder

ROWS = pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]})


@pytest.fixture
def lake(tmp_path: Path) -> seiche.Lake:
    lake = seiche.create(str(tmp_path / "lake"), durability="os")
    lake.create_namespace("shop")
    lake.create_table("shop.orders", ROWS, format="iceberg")
    return lake


def damaged(path: Path, times: int) -> Iterator[None]:
    """One bit of the file at a time is another."""
    chance, whole = random.Random(3), path.read_bytes()
    for _ in range(times):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        yield
    path.write_bytes(whole)


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"], ids=["the list of manifests", "a manifest"])
def test_a_damaged_bit_is_told_as_what_it_is(lake: seiche.Lake, tmp_path: Path, kind: str) -> None:
    (path,) = (tmp_path / "lake").rglob(kind)
    told: list[SeicheError] = []
    for _ in damaged(path, 60):
        try:
            assert lake.table("shop.orders").to_arrow().to_pylist() == ROWS.to_pylist()
        except SeicheError as error:
            told.append(error)
        try:
            lake.transaction().delete("shop.orders", "id = 3")
        except SeicheError as error:
            told.append(error)
        try:
            lake.diff(1, 2)
        except SeicheError as error:
            told.append(error)
        lake.fsck()
    assert any(isinstance(one, Corrupt) for one in told)
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"], ids=["the list of manifests", "a manifest"])
def test_a_file_that_was_cut_off_has_not_fewer_rows(lake: seiche.Lake, tmp_path: Path, kind: str) -> None:
    (path,) = (tmp_path / "lake").rglob(kind)
    whole = path.read_bytes()
    for size in range(len(whole) - 1, len(whole) - 30, -1):
        path.write_bytes(whole[:size])
        with pytest.raises(Corrupt):
            lake.table("shop.orders").to_arrow()


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"], ids=["the list of manifests", "a manifest"])
def test_a_file_that_ends_behind_its_header_is_not_an_empty_one(lake: seiche.Lake, tmp_path: Path, kind: str) -> None:
    """Rows were missing in silence, for good after an append, and a clean-up would have taken their files."""
    (path,) = (tmp_path / "lake").rglob(kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(whole[-16:]) + 16])  # behind the mark that also ends each block
    table: Any = lake.table("shop.orders")
    asks: list[Callable[[], object]] = [
        table.to_arrow,
        lambda: table.to_iceberg().scan().to_arrow(),
        lambda: table.delete("id = 1"),
        lambda: lake.diff(1, 2),
        lambda: lake.export("x", str(tmp_path / "copy")),
    ]
    for ask in asks:
        with pytest.raises(Corrupt, match=r"it has (no manifest, of 1 data files|0 of 1 entries)"):
            ask()
    assert [path.name in one for one in lake.gc().closed.values()] == [True]
    path.write_bytes(whole)
    assert table.to_arrow().num_rows == 3


@pytest.mark.parametrize("left", [0, 100], ids=["nothing", "a part"])
def test_an_append_to_a_damaged_list_of_manifests_is_told_as_what_it_is(
    lake: seiche.Lake, tmp_path: Path, left: int
) -> None:
    """It was an error of Python, or the new list would have had only the new rows."""
    (path,) = (tmp_path / "lake").rglob("snap-*.avro")
    path.write_bytes(path.read_bytes()[:left])
    table: Any = lake.table("shop.orders")
    for append in (table.append, table.to_iceberg().append):
        with pytest.raises(Corrupt, match=path.name):
            append(ROWS)


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"], ids=["the list of manifests", "a manifest"])
def test_no_length_in_a_file_leads_out_of_it(lake: seiche.Lake, tmp_path: Path, kind: str) -> None:
    """PyIceberg's own decoder believes it, and the process ends."""
    (path,) = (tmp_path / "lake").rglob(kind)
    whole = path.read_bytes()
    length = whole.index(b"avro.schema") - 1  # of the first key in the header, or of another
    path.write_bytes(whole[:length] + bytes.fromhex("80d0dbc34a") + whole[length + 1 :])  # ten billion
    for ask in (
        lambda: lake.table("shop.orders").to_arrow(),
        lambda: lake.transaction().delete("shop.orders", "id = 3"),
        lambda: lake.diff(1, 2),
        lambda: lake.export("x", str(tmp_path / "copy")),
    ):
        with pytest.raises(Corrupt):
            ask()
    (problem,) = lake.fsck().problems
    assert path.name in problem.path


def test_numbers_are_decoded_as_by_pyiceberg_itself() -> None:
    values = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
    stream = BytesIO()
    encoder = BinaryEncoder(stream)
    for value in values:
        encoder.write_int(value)
    encoder.write_utf8("end")
    bounded = BoundedDecoder(stream.getvalue())
    assert [bounded.read_int() for _ in values] == values
    assert bounded.read_utf8() == "end"
    positive = [value for value in values if value >= 0]
    stream = BytesIO()
    for value in positive:
        BinaryEncoder(stream).write_int(value)
    bounded, streaming = BoundedDecoder(stream.getvalue()), StreamingBinaryDecoder(stream.getvalue())
    assert list(bounded.read_ints(len(positive))) == list(streaming.read_ints(len(positive))) == positive
    assert bounded.tell() == streaming.tell()


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 9, b"\xff" * 40], ids=["none", "cut", "cut later", "endless"])
@pytest.mark.parametrize("read", ["read_int", "read_ints", "read_bytes", "skip_utf8"])
def test_what_is_not_there_is_not_read(data: bytes, read: str) -> None:
    with pytest.raises(LookupError):
        getattr(BoundedDecoder(data), read)(*([3] if read == "read_ints" else []))
