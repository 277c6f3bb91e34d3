"""Jobs that care for tables, and tasks that die when their work is done."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

import seiche
from seiche.errors import Corrupt, InvalidInput, RetryableConflict, Unavailable
from seiche.lake.care.gc import collect
from seiche.lake.care.path_set import PathSet
from seiche.lake.export.copying import Hashed
from seiche.spark import jobs, maintenance, narrow
from seiche.spark.address import Address
from seiche.spark.copying import Carriers
from seiche.spark.jobs import Batches, run_each
from seiche.spark.listing import Listers
from seiche.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def table(lake: Any) -> Any:
    """A table of twenty fragments with ten rows each, of which some are deleted."""
    lake.create_table("shop.t", SCHEMA)
    with lake.transaction() as tx:
        for start in range(0, 200, 10):
            tx.append("shop.t", [{"id": one, "n": one % 7} for one in range(start, start + 10)])
    lake.table("shop.t").delete("n = 3")
    return lake.table("shop.t")


WANTED = [one for one in range(200) if one % 7 != 3]


def ids(table: Any, **options: Any) -> list[int]:
    return sorted(table.to_arrow(**options)["id"].to_pylist())


def test_compaction_in_tasks(spark: "SparkSession", lake: Any, table: Any) -> None:
    told: list[tuple[int, int]] = []
    with_spark = lake.spark(spark)
    result = with_spark.compact("shop.t", target_rows_per_fragment=50, progress=lambda *now: told.append(now))
    assert result.notes["fragments_removed"] == 20
    assert 3 <= int(result.notes["fragments_added"]) <= 4
    assert told[-1] == (int(result.notes["fragments_added"]),) * 2
    assert ids(table) == WANTED
    assert not with_spark.compact("shop.t", target_rows_per_fragment=50).changed


def others_first(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Tasks are done here, without Spark; when those of a round are done and not committed, others change the table."""
    waiting = list(changes)

    def done(_session: Any, work: Callable[[Any], Any], tasks: list[Any], _progress: Any) -> list[Any]:
        results = [work(one) for one in tasks]
        if waiting:
            waiting.pop(0)()
        return results

    monkeypatch.setattr(maintenance, "run_each", done)


def test_what_others_change_while_it_is_compacted_is_done_again(
    monkeypatch: pytest.MonkeyPatch, lake: Any, table: Any
) -> None:
    session: Any = None
    others_first(monkeypatch, *[partial(table.delete, f"id % 10 = {last}") for last in range(2)])  # in all fragments
    result = maintenance.compact(session, table, target_rows_per_fragment=50)
    assert ids(table) == [one for one in WANTED if one % 10 > 1]
    assert result.rows == len(ids(table))
    assert len(table.to_lance().get_fragments()) <= 4


def test_what_several_rounds_of_a_compaction_did_is_told_together(
    monkeypatch: pytest.MonkeyPatch, lake: Any, table: Any
) -> None:
    session: Any = None
    others_first(monkeypatch, lambda: table.delete("id = 0"))
    result = maintenance.compact(session, table, target_rows_per_fragment=50)
    assert (result.rows, result.notes["fragments_removed"]) == (len(WANTED) - 1, 20)
    assert "left_out" not in result.notes
    assert ids(table) == WANTED[1:]


def test_a_table_that_others_change_all_the_time_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch, lake: Any, table: Any
) -> None:
    session: Any = None
    others_first(monkeypatch, *[partial(table.delete, f"id % 10 = {last}") for last in range(5)])
    with pytest.raises(RetryableConflict, match="have been changed by others"):
        maintenance.compact(session, table, target_rows_per_fragment=50)
    assert ids(table) == [one for one in WANTED if one % 10 > 4]


def test_compaction_inside_a_transaction(spark: "SparkSession", lake: Any, table: Any) -> None:
    with lake.transaction(spark=spark) as tx:
        tx.delete("shop.t", "id >= 100")
        maintenance.compact(spark, tx.table("shop.t"))
        assert tx.count("shop.t") == len([one for one in WANTED if one < 100])
    assert ids(table) == [one for one in WANTED if one < 100]


def test_an_index_of_segments(spark: "SparkSession", lake: Any, table: Any) -> None:
    result = lake.spark(spark).create_index("shop.t", "n", workers=3)
    assert result.rows == len(WANTED)
    assert ids(table, filter="n = 5") == [one for one in WANTED if one % 7 == 5]
    plan = table.to_lance().scanner(filter="n = 5").explain_plan()
    assert "ScalarIndexQuery" in plan


def test_an_export_by_workers(spark: "SparkSession", lake: Any, table: Any, tmp_path: Path) -> None:
    """It is what an export is; and going on with one that stopped copies only what is missing."""
    lake.create_table("shop.other", SCHEMA)
    told: list[tuple[int, int]] = []
    with_spark = lake.spark(spark)
    made = with_spark.export("copy", f"file://{tmp_path}/copy", progress=lambda *now: told.append(now))
    assert made.done
    assert told[-1][0] == told[-1][1] > 0
    copy = seiche.open(made.location)
    assert ids(copy.table("shop.t")) == WANTED
    assert copy.fsck(deep=True).problems == ()
    assert ids(table) == WANTED
    (row,) = with_spark.sql(f"CALL seiche.export('again', 'file://{tmp_path}/again')").collect()
    assert ids(seiche.open(row["location"]).table("shop.t")) == WANTED


def test_a_file_that_arrives_damaged_is_found(
    spark: "SparkSession", lake: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry = Carriers.copy

    def damaging(self: Carriers, items: Any, target: Any, runtime: Any) -> Any:
        done = carry(self, items, target, runtime)
        target.put(next(one.path for one in done if one.path.endswith(".lance")), b"something else")
        # As if it had been damaged on the way, when nobody had looked at it yet.
        return [Hashed(one.path, one.size, one.sha256) for one in done]

    with monkeypatch.context() as patch:
        patch.setattr(Carriers, "copy", damaging)
        with pytest.raises(Corrupt, match="arrived at"):
            lake.spark(spark).export("copy", f"file://{tmp_path}/copy")
    made = lake.spark(spark).export("copy", f"file://{tmp_path}/copy")
    assert ids(seiche.open(made.location).table("shop.t")) == WANTED


def test_a_deep_clone_by_workers(spark: "SparkSession", lake: Any, table: Any, tmp_path: Path) -> None:
    version = lake.version
    lake.table("shop.t").delete("id < 100")
    told: list[tuple[int, int]] = []
    made = lake.spark(spark).clone(
        "shop.t", f"file://{tmp_path}/clone", version=version, progress=lambda *now: told.append(now)
    )
    assert told[-1][0] == told[-1][1] > 0
    assert ids(made) == WANTED
    # It belongs to nobody: whoever comes may write to it.
    made.append([{"id": 1000, "n": 0}])
    assert ids(made) == [*WANTED, 1000]
    again = maintenance.clone(spark, made, f"file://{tmp_path}/second")
    assert ids(again) == [*WANTED, 1000]
    assert ids(table) == [one for one in WANTED if one >= 100]
    lake.create_table("shop.facts", SCHEMA, format="iceberg")
    with pytest.raises(InvalidInput, match="cannot be cloned"):
        lake.spark(spark).clone("shop.facts", f"file://{tmp_path}/third")


def test_a_clean_up_that_workers_list_the_files_for(spark: "SparkSession", lake: Any, table: Any) -> None:
    """It finds the same files as one that lists them by itself, wherever they are, and takes the same away."""
    lake.create_table("shop.gone", SCHEMA)
    lake.table("shop.gone").append([{"id": 1, "n": 1}])
    lake.drop_table("shop.gone")
    lake.table("shop.t").compact(target_rows_per_fragment=1000)
    lake.expire(older_than=0, keep=1)
    here = lake.gc(grace=0)
    assert here.unneeded
    listers = Listers(spark)
    there = collect(lake, grace=0, listing=listers)
    assert (there.unneeded, there.files, there.bytes) == (here.unneeded, here.files, here.bytes)
    assert listers.executors
    files = listers(lake.store, (every := PathSet()))
    assert (files.left_out, len(list(files.listed))) == (0, here.files)
    for info in lake.store.list():
        every.add(info.path)
    less = listers(lake.store, every)
    # What the driver saw itself while it planned is not left out.
    assert (less.left_out + len(list(less.listed)), less.left_out > 20) == (here.files, True)
    told: list[tuple[int, int]] = []
    with_spark = lake.spark(spark)
    done = with_spark.gc(dry_run=False, grace=0, window=0, progress=lambda *now: told.append(now))
    assert {one.path for one in done.moved} == {one.path for one in here.unneeded}
    assert told[-1][0] == told[-1][1] > 0
    assert ids(table) == WANTED
    assert lake.fsck().problems == ()
    assert with_spark.sql("CALL seiche.gc()").collect()[0]["unneeded"] == 0


def dying(folder: str, work: Any, batches: Batches) -> Iterator[Any]:
    """Do the work, and die at the first attempt when everything is written."""
    done = list(work(batches))
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        Path(folder, f"died {context.partitionId()}").touch()
        raise RuntimeError("planted")
    yield from done


def test_a_task_that_dies_when_it_has_written_counts_once(
    spark: "SparkSession", lake: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files stay, named by nobody, until the clean-up finds them."""

    def planted(frame: Any, work: Any) -> list[Any]:
        return jobs.collected(frame, partial(dying, str(tmp_path), work))

    monkeypatch.setattr(narrow, "collected", planted)
    before = len(list(lake.store.list()))
    with lake.transaction(spark=spark) as tx:
        result = tx.append("shop.t", spark.range(1000, 1020, 1, 2).selectExpr("id", "0L as n"))
    assert result.rows == 20
    assert sorted(one.name for one in tmp_path.glob("died*")) == ["died 0", "died 1"]
    assert ids(table) == [*WANTED, *range(1000, 1020)]
    data = [one for one in lake.store.list() if one.path.endswith(".lance")]
    assert len(data) == 20 + 4
    assert len(list(lake.store.list())) > before


def refuse(kind: type[Exception], number: int) -> int:
    if number == 1:
        raise kind("planted")
    return number


def test_errors_come_back_as_what_they_are(spark: "SparkSession") -> None:
    assert run_each(spark, partial(refuse, InvalidInput), [0, 2, 3]) == [0, 2, 3]
    with pytest.raises(InvalidInput, match="planted"):
        run_each(spark, partial(refuse, InvalidInput), [0, 1, 2])
    with pytest.raises(Unavailable, match="planted"):
        run_each(spark, partial(refuse, Unavailable), [0, 1, 2])


def test_addresses_open_the_same_store_elsewhere(tmp_path: Path) -> None:
    local = open_store(f"file://{tmp_path}", durability="os")
    assert Address.of(local) == Address(f"file://{tmp_path}", (), "os")
    bucket = open_store("s3://b/p", aws_access_key_id="k", aws_secret_access_key="s", aws_region="r")
    address = Address.of(bucket)
    assert address.store_options == {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "r"}
    assert address.open().uri == "s3://b/p"
    memory = open_store("memory://spark-address")
    memory.put("x", b"1")
    assert Address.of(memory).open().get("x") == b"1"
