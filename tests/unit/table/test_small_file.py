"""Data files of a few rows, against native code: it reads what is written here, and writes the same bytes itself."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import seiche
from seiche.table.data import single, small_file

Values = Callable[[random.Random], Any]


def _whole(bits: int, low: int = 0) -> Values:
    return lambda rng: rng.getrandbits(bits) - low


def _letters(rng: random.Random) -> str:
    return "".join(rng.choice("aäß€🌊 ") for _ in range(rng.randrange(8)))


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: list[tuple[pa.DataType, Values]] = [
    (pa.int8(), _whole(8, 1 << 7)),
    (pa.int16(), _whole(16, 1 << 15)),
    (pa.int32(), _whole(32, 1 << 31)),
    (pa.int64(), _whole(64, 1 << 63)),
    (pa.uint8(), _whole(8)),
    (pa.uint16(), _whole(16)),
    (pa.uint32(), _whole(32)),
    (pa.uint64(), _whole(64)),
    (pa.float32(), lambda rng: rng.randrange(1 << 20) / 8),
    (pa.float64(), lambda rng: rng.choice([rng.gauss(), float("inf"), -0.0])),
    (pa.date32(), lambda rng: date(2026, 1, 1) + timedelta(days=rng.randrange(9999))),
    (pa.date64(), lambda rng: date(2026, 1, 1) + timedelta(days=rng.randrange(9999))),
    (pa.time32("s"), lambda rng: time(rng.randrange(24), rng.randrange(60))),
    (pa.time64("us"), lambda rng: time(rng.randrange(24), 1, 2, rng.randrange(999))),
    (pa.timestamp("us"), lambda rng: MOMENT.replace(tzinfo=None) + timedelta(microseconds=rng.getrandbits(40))),
    (pa.timestamp("ms", "UTC"), lambda rng: MOMENT + timedelta(seconds=rng.getrandbits(20))),
    (pa.duration("us"), lambda rng: timedelta(microseconds=rng.getrandbits(40))),
    (pa.decimal128(20, 3), lambda rng: Decimal(rng.getrandbits(50)) / 8),
    (pa.string(), _letters),
    (pa.binary(), lambda rng: rng.randbytes(rng.randrange(9))),
]
SCHEMA = pa.schema([pa.field(f"c{number}", kind) for number, (kind, _) in enumerate(KINDS)])


def made(seed: int, rows: int, nulls: float) -> pa.RecordBatch:
    """Rows of all kinds, as a part of a larger batch: values do not begin where buffers do."""
    rng = random.Random(seed)
    before, after = rng.randrange(10), rng.randrange(3)
    columns = [
        pa.array([None if rng.random() < nulls else value(rng) for _ in range(before + rows + after)], kind)
        for kind, value in KINDS
    ]
    return pa.record_batch(columns, schema=SCHEMA).slice(before, rows)


def own(batch: pa.RecordBatch) -> bytes | None:
    kinds = small_file.kinds_of(batch.schema)
    assert kinds is not None
    described = small_file.described(single._natively(batch), batch.num_rows)
    assert described
    return small_file.encode(batch.columns, kinds, described, (2, 2))


@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_native_code_reads_what_is_written_here(tmp_path: Path, nulls: float) -> None:
    for seed, rows in enumerate([1, 2, 3, 7, 8, 9, 16, 100, 127, 128, 200]):
        batch = made(seed, rows, nulls)
        data = own(batch)
        assert data is not None
        path = tmp_path / f"{seed}.lance"
        path.write_bytes(data)
        reader = LanceFileReader(str(path))
        assert reader.read_all().to_table() == pa.table(batch)
        assert reader.read_range(rows // 2, 1).to_table() == pa.table(batch.slice(rows // 2, 1))
        assert reader.metadata().num_rows == rows


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=lambda number: str(KINDS[number][0]))
def test_where_there_is_nothing_to_compress_the_bytes_are_native_ones(kind: int) -> None:
    arrow, value = KINDS[kind]
    first, second = value(random.Random(1)), value(random.Random(2))
    for values in ([first, second], [first, None, second]):
        batch = pa.record_batch([pa.array(values, arrow)], names=["c"])
        assert own(batch) == single._natively(batch)


def test_what_is_large_or_of_another_kind_is_left_to_native_code() -> None:
    assert own(made(1, 512, 0.1).select([0])) is not None
    assert own(made(1, 513, 0.1).select([0])) is None
    long = pa.record_batch({"c": ["x" * 4080]})
    assert own(long) is not None
    assert own(pa.record_batch({"c": ["x" * 4081]})) is None
    for kind in (pa.bool_(), pa.large_string(), pa.list_(pa.int8()), pa.list_(pa.float32(), 2), pa.decimal256(1)):
        assert small_file.kinds_of(pa.schema([("a", pa.int8()), ("b", kind)])) is None
    marked = pa.field("a", pa.string(), metadata={"lance-encoding:compression": "zstd"})
    assert small_file.kinds_of(pa.schema([marked])) is None


def test_schemas_that_differ_in_their_metadata_are_not_mixed_up() -> None:
    plain = pa.record_batch([pa.array([1, 2])], schema=pa.schema([("a", pa.int64())]))
    marked = pa.field("a", pa.int64(), metadata={"lance-encoding:compression": "zstd"})
    for _ in range(2):
        assert single.encoded("2.2", plain) == single._natively(plain)
        assert single.encoded("2.2", plain.cast(pa.schema([marked]))) is None
        named = plain.replace_schema_metadata({"made by": "me"})
        assert single.encoded("2.2", named) == single._natively(named) != single._natively(plain)


def test_a_table_of_such_files_is_read_filtered_and_compacted(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), SCHEMA)
    batches = [made(seed, 5, 0.2) for seed in range(6)]
    for batch in batches:
        table.append(batch)
    whole = pa.Table.from_batches(batches).combine_chunks()
    assert table.to_arrow() == whole
    assert table.to_lance().take([0, 13, 29]) == whole.take([0, 13, 29])
    wanted = whole["c18"][7].as_py()
    assert table.to_arrow(filter=f"c18 = '{wanted}'")["c3"].to_pylist() == [
        row["c3"] for row in whole.to_pylist() if row["c18"] == wanted
    ]
    table.compact()
    assert table.to_arrow() == whole
