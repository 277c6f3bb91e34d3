"""A stream out of a table, asked as Spark asks it, while things happen to the table."""

from pathlib import Path
from shutil import copytree, rmtree
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


def test_a_name_that_another_column_has_taken_is_not_taken_for_the_column(lake: Lake) -> None:
    """Each came with the values of the other, in silence."""
    stream, table = Stream(lake, on_change="skip"), lake.table("s.t")
    stream.drain()
    table.rename_columns({"v": "w"})
    table.add_columns({"v": "'new'"})
    table.append([{"id": 2, "w": "b", "v": "x"}])
    assert stream.drain() == [{"id": 2, "v": "b"}]
    both = Stream(lake, on_change="skip")
    both.drain()
    for old, new in (("v", "spare"), ("w", "v"), ("spare", "w")):
        table.rename_columns({old: new})
    table.append([{"id": 3, "v": "was w", "w": "was v"}])
    assert both.drain() == [{"id": 3, "w": "was w", "v": "was v"}]
    assert stream.drain() == [{"id": 3, "v": "was w"}]


def test_the_past_of_a_name_is_that_of_its_column(lake: Lake) -> None:
    table, start = lake.table("s.t"), str(lake.version)
    table.append([{"id": 2, "v": "b"}])
    table.rename_columns({"v": "w"})
    table.add_columns({"v": "'new'"})
    stream = Stream(lake, starting_version=start, on_change="skip")
    assert stream.drain() == [{"id": 2, "w": "b", "v": None}]


def test_a_name_that_stands_for_another_column_by_now_ends_the_stream(lake: Lake) -> None:
    """`w` is what `v` was, and is gone itself. What is inside of a column has names of its own."""
    table = lake.table("s.t")
    table.add_columns(pa.table({"w": ["x"], "inner": [{"u": 1, "v": 2}]}))
    stream = Stream(lake)
    assert stream.drain() == [{"id": 1, "v": "a", "w": "x", "inner": {"u": 1, "v": 2}}]
    table.rename_columns({"v": "u"})
    table.append([{"id": 2, "u": "b", "w": "y", "inner": None}])
    assert stream.drain() == [{"id": 2, "v": "b", "w": "y", "inner": None}]
    table.drop_columns("w")
    table.rename_columns({"u": "w"})
    table.append([{"id": 3, "w": "c", "inner": None}])
    with pytest.raises(InvalidInput, match="has no column 'w' any more"):
        stream.drain()


def test_fields_inside_of_columns_are_followed_as_columns_are(lake: Lake) -> None:
    """Their values came as nulls, or as those of a field that had taken the name."""
    table = lake.table("s.t")
    table.add_columns(pa.table({"inner": [[{"u": 1, "v": 2, "w": 3}]]}))
    stream, start = Stream(lake), str(lake.version)
    stream.drain()
    table.append([{"id": 2, "v": "b", "inner": [{"u": 4, "v": 5, "w": 6}, None]}])
    table.rename_columns({"inner.item.u": "v", "inner.item.v": "u"})
    assert stream.drain() == [{"id": 2, "v": "b", "inner": [{"u": 4, "v": 5, "w": 6}, None]}]
    table.append([{"id": 3, "v": "c", "inner": [{"v": 7, "u": 8, "w": 9}]}])
    assert stream.drain() == [{"id": 3, "v": "c", "inner": [{"u": 7, "v": 8, "w": 9}]}]
    table.drop_columns("inner.item.w")
    later = Stream(lake, starting_version=start)
    told = [row["inner"] for row in later.drain()]
    assert told == [[{"v": 4, "u": 5}, None], [{"v": 7, "u": 8}]]
    table.append([{"id": 4, "v": "d", "inner": []}])
    with pytest.raises(InvalidInput, match=r"has no column 'inner\.item\.w' any more"):
        stream.drain()
    assert later.drain() == [{"id": 4, "v": "d", "inner": []}]


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


@pytest.mark.parametrize("back", [False, True])
def test_ids_of_columns_say_nothing_once_they_were_counted_anew(lake: Lake, back: bool) -> None:
    """`other` has the id that `id` had, and has again after a rollback: neither is another name for the other."""
    table, start = lake.table("s.t"), str(lake.version)
    table.append([{"id": 2, "v": "b"}])
    before = lake.version
    table.overwrite(pa.table({"other": [7]}))
    if back:
        lake.rollback(before)
    stream = Stream(lake, changes_schema(table.schema), starting_version=start, changes="true")
    inserted = [row for row in stream.drain() if row["_change_type"] == "insert"]
    if back:
        assert [(row["id"], row["v"]) for row in inserted if row["_commit_version"] == 4] == [(None, None)]
    else:
        assert [row["other"] for row in inserted] == [None, 7]


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


def test_an_update_in_place_is_a_change_that_can_be_passed_over(lake: Lake) -> None:
    table = lake.table("s.t")
    failing, passing = Stream(lake), Stream(lake, on_change="skip")
    failing.drain()
    passing.drain()
    table.update({"v": "'z'"}, where="id = 1", mode="columns")
    table.append([{"id": 2, "v": "b"}])
    with pytest.raises(InvalidInput, match="version 3 of the table removed or changed 1 rows"):
        failing.drain()
    assert passing.drain() == [{"id": 2, "v": "b"}]
    with pytest.raises(InvalidInput, match='"on_change" must be fail or skip'):
        Stream(lake, on_change="ignore")


def test_a_batch_is_bounded_but_has_at_least_one_version(lake: Lake) -> None:
    table = lake.table("s.t")
    for size in (1, 1, 3, 1):
        table.append([{"id": 9, "v": "x"}] * size)
    stream = Stream(lake, starting_version="2", max_rows_per_trigger="2")
    reader, ends = stream._reader, []
    while (end := reader.latestOffset(stream.offset, reader.getDefaultReadLimit())) != stream.offset:
        stream.offset = end
        ends.append(end["version"])
    assert ends == [3, 4, 5, 6]
    stream.offset = {"table": stream.offset["table"], "version": 2}
    reader.prepareForTriggerAvailableNow()
    table.append([{"id": 10, "v": "y"}])
    assert reader.latestOffset(stream.offset, ReadAllAvailable())["version"] == 6, "what came later is for later"
    by_file = Stream(lake, starting_version="2", max_files_per_trigger="2")
    limit = by_file._reader.getDefaultReadLimit()
    begun = {"table": stream.offset["table"], "version": 4}
    assert by_file._reader.latestOffset(begun, limit)["version"] == 6, "two files"


def test_a_table_of_the_same_name_is_another_one(lake: Lake) -> None:
    stream = Stream(lake)
    stream.drain()
    lake.drop_table("s.t")
    lake.create_table("s.t", SCHEMA)
    with pytest.raises(InvalidInput, match="dropped and made anew"):
        stream.drain()


def test_a_lake_that_was_put_back_from_a_copy_is_told(lake: Lake, tmp_path: Path) -> None:
    """The stream stood still, and passed over the rows of as many versions as the copy had not."""
    copytree(tmp_path / "lake", tmp_path / "copy")
    stream = Stream(lake)
    lake.table("s.t").append([{"id": 2, "v": "b"}])
    stream.drain()
    rmtree(tmp_path / "lake")
    (tmp_path / "copy").rename(tmp_path / "lake")
    again = Stream(seiche.open(lake.uri))
    again.offset = stream.offset
    with pytest.raises(InvalidInput, match="is at version 2, and the stream has come up to version 3"):
        again.drain()


@pytest.mark.parametrize("rows", [1, 2])
def test_a_lake_that_was_put_back_and_has_come_as_far_again_is_told(lake: Lake, tmp_path: Path, rows: int) -> None:
    """The rows of the versions that have the numbers of those that were read were passed over, in silence. A stream
    that ran all the time notices when there is a version that it does not know.
    """
    copytree(tmp_path / "lake", tmp_path / "copy")
    stream = Stream(lake)
    begun = stream._reader.latestOffset(stream.offset, ReadAllAvailable())
    lake.table("s.t").append([{"id": 2, "v": "b"}])
    stream.drain()
    rmtree(tmp_path / "lake")
    (tmp_path / "copy").rename(tmp_path / "lake")
    lake = seiche.open(lake.uri)
    again = Stream(lake)
    again.offset = begun
    assert again.drain() == [], "nothing has happened behind what both of them have"
    for number in range(rows):
        lake.table("s.t").append([{"id": 3 + number, "v": "c"}])
    planned, again.offset = stream.offset, stream.offset
    for one in (again, stream)[:rows]:
        with pytest.raises(InvalidInput, match=r"got another version of that number, and .* come up to version 3"):
            one.drain()
    with pytest.raises(InvalidInput, match="another version of that number"):
        again._reader.partitions(begun, planned)
    again.offset = begun
    assert [one["id"] for one in again.drain()] == [3, 4][:rows]
    noted_before = {"table": planned["table"], "version": planned["version"]}
    again.offset = noted_before
    assert len(again.drain()) == rows - 1, "checkpoints of older releases do not say it"


def test_what_is_not_known_any_more_is_not_taken_for_a_rename(lake: Lake) -> None:
    """Between the version whose names the stream has and this one there may have been an overwrite."""
    stream, table = Stream(lake), lake.table("s.t")
    table.append([{"id": 2, "v": "b"}])
    table.rename_columns({"v": "w"})
    stream.drain()
    table.append([{"id": 3, "w": "c"}])
    lake.expire(older_than=0, keep=2)
    lake.gc(dry_run=False, grace=0, window=0)
    with pytest.raises(InvalidInput, match="has no column 'v' any more"):
        stream.drain()


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
