"""A stream out of a table, asked as Spark asks it, while things happen to the table."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import seiche
from seiche import InvalidInput, Lake, NotFound
from seiche.spark.changes import changes_schema
from seiche.spark.options import Options
from seiche.spark.stream_source import ChangesReader
from seiche.spark.types import spark_schema

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(str(tmp_path / "lake"), durability="os")
    made.create_namespace("s")
    made.create_table("s.t", SCHEMA).append([{"id": 1, "v": "a"}])
    return made


class Stream:
    """One query: its reader, and how far it has come."""

    def __init__(self, lake: Lake, schema: Any = None, **options: str) -> None:
        shown = spark_schema(lake.table("s.t").schema) if schema is None else schema
        self._reader = ChangesReader(Options.of({"lake": lake.uri, "table": "s.t", **options}), shown)
        self.offset = self._reader.initialOffset()

    def drain(self) -> list[dict[str, Any]]:
        end = self._reader.latestOffset(self.offset, ReadAllAvailable())
        tasks = self._reader.partitions(self.offset, end)
        self.offset = end
        return [row for task in tasks for batch in self._reader.read(task) for row in batch.to_pylist()]


def test_a_column_that_is_renamed_meanwhile_is_still_the_same(lake: Lake) -> None:
    """Before this was so, its values came as nulls."""
    stream, table = Stream(lake), lake.table("s.t")
    assert stream.drain() == [{"id": 1, "v": "a"}]
    table.rename_columns({"v": "w"})
    table.append([{"id": 2, "w": "b"}])
    assert stream.drain() == [{"id": 2, "v": "b"}]


def test_one_that_was_renamed_before_is_found_under_its_old_name(lake: Lake) -> None:
    table, start = lake.table("s.t"), str(lake.version)
    table.append([{"id": 2, "v": "b"}])
    table.rename_columns({"v": "w"})
    table.add_columns({"later": "id * 2"})
    stream = Stream(lake, starting_version=start, on_change="skip")
    assert stream.drain() == [{"id": 2, "w": "b", "later": None}]


def test_one_that_is_dropped_ends_the_stream_and_a_new_query_goes_on(lake: Lake) -> None:
    stream, table = Stream(lake), lake.table("s.t")
    stream.drain()
    table.drop_columns("v")
    table.append([{"id": 2}])
    seen = stream.offset
    with pytest.raises(InvalidInput, match="version 4 of the table has no column 'v' any more"):
        stream.drain()
    again = Stream(lake)
    again.offset = seen
    assert again.drain() == [{"id": 2}]


@pytest.mark.parametrize("how", ["overwrite", "rollback"])
def test_ids_of_columns_say_nothing_once_they_were_counted_anew(lake: Lake, how: str) -> None:
    """`other` has the id now that `id` had: it is no other name for it."""
    table, start = lake.table("s.t"), str(lake.version)
    table.append([{"id": 2, "v": "b"}])
    table.overwrite(pa.table({"other": [7]}))
    if how == "rollback":
        back = lake.version
        table.overwrite(pa.table({"more": [8]}))
        lake.rollback(back)
    stream = Stream(lake, changes_schema(table.schema), starting_version=start, changes="true")
    first = stream.drain()[0]
    assert (first["other"], first["_change_type"], first["_commit_version"]) == (None, "insert", 3)


def test_what_was_cleaned_up_before_it_was_read_is_told(lake: Lake) -> None:
    stream, table = Stream(lake), lake.table("s.t")
    stream.drain()
    for number in (2, 3):
        table.append([{"id": number, "v": "b"}])
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    with pytest.raises(NotFound, match=r"after its version 2, up to which the stream has come, is not known") as told:
        stream.drain()
    assert "checkpoint of its own" in told.value.remedy
    limited = Stream(lake, max_rows_per_trigger="1")
    limited.offset = stream.offset | {"version": 2}
    with pytest.raises(NotFound, match="up to which the stream has come"):
        limited._reader.latestOffset(limited.offset, limited._reader.getDefaultReadLimit())


def test_a_rollback_is_a_change(lake: Lake) -> None:
    version, table = lake.version, lake.table("s.t")
    plain, all_changes = Stream(lake), Stream(lake, changes_schema(SCHEMA), changes="true")
    table.append([{"id": 2, "v": "b"}])
    plain.drain()
    all_changes.drain()
    lake.rollback(version)
    assert [(one["id"], one["_change_type"]) for one in all_changes.drain()] == [(2, "delete")]
    with pytest.raises(InvalidInput, match="removed or changed 1 row"):
        plain.drain()


def test_columns_that_there_are_not_and_tables_that_cannot_be_followed_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="has no column 'nope'"):
        Stream(lake, spark_schema(pa.schema([("nope", pa.int64())])))
    lake.drop_table("s.t")
    lake.create_table("s.t", SCHEMA, format="iceberg")
    with pytest.raises(InvalidInput, match="format iceberg, whose changes cannot be followed"):
        Stream(lake)
