"""Files that others wrote, and that become part of an Iceberg table of a lake as they are."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seiche import Lake

TEXTS = pa.dictionary(pa.int32(), pa.string())


def add(table: Any, rows: pa.Table, **options: Any) -> None:
    """Write a file beside those of the table, and make it one of them."""
    target = table.to_iceberg()
    where = f"{table.metadata.location}/data/{rows.num_rows}-{table.metadata.last_sequence_number}.parquet"
    with target.io.new_output(where).create() as stream:
        pq.write_table(rows, stream, **options)
    target.add_files([where])


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("x = 'a'", [1]),
        ("x NOT IN ('a')", [0, 2]),
        ("x LIKE 'a%'", [1]),
        ("x NOT LIKE 'a%'", [0, 2]),
        ("x IS NULL OR s.q = 'b'", [2, 3]),
    ],
)
def test_values_in_dictionaries_are_read_and_changed_as_all_others(
    lake: Lake, condition: str, wanted: list[int]
) -> None:
    """As pandas and Polars write categories. Rows of several files were Arrow's own error, and could not be read."""
    inside = pa.struct([("q", pa.string())])
    columns = pa.schema([("id", pa.int64()), ("x", pa.string()), ("s", inside), ("l", pa.list_(pa.string()))])
    table: Any = lake.create_table("shop.i", columns, format="iceberg")
    rows = [{"id": number, "x": one, "s": {"q": one}, "l": [one]} for number, one in enumerate(("q", "a", "b", None))]
    table.append(rows[:1])
    kept = pa.schema([("id", pa.int64()), ("x", TEXTS), ("s", pa.struct([("q", TEXTS)])), ("l", pa.list_(TEXTS))])
    add(table, pa.Table.from_pylist(rows[1:], schema=kept))
    assert table.to_arrow().sort_by("id").to_pylist() == rows
    assert sorted(table.to_arrow(filter=condition)["id"].to_pylist()) == wanted
    assert table.update({"id": "id + 10"}, condition).rows == len(wanted)
    assert table.delete(condition).rows == len(wanted)
    assert table.to_arrow().sort_by("id").to_pylist() == [one for one in rows if one["id"] not in wanted]
