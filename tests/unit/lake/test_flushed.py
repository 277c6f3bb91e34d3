"""What a commit names is on disk before its root is, on a disk that flushes, as it is by default."""

from pathlib import Path

import pyarrow as pa

import seiche


def test_a_full_text_index_finds_rows(tmp_path: Path) -> None:
    lake = seiche.create(tmp_path / "lake")
    lake.create_namespace("shop")
    table = lake.create_table("shop.a", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    table.append([{"id": one, "s": f"word{one}"} for one in range(10)])
    table.create_index("s", "FTS")
    found = lake.table("shop.a").to_lance().to_table(full_text_query="word7")
    assert found["id"].to_pylist() == [7]
