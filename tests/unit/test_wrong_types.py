"""Arguments of the wrong type: an error that names the argument and what was expected, not one from inside."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche.errors import InvalidInput
from seiche.table.operations import ReserveFragments, Restore

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROW = [{"id": 1, "name": "a"}]
NEW = [{"id": 1, "n": 1}]
THING = object()
NO_TEXT = "\ud800"  # half of a pair: it cannot be written as UTF-8
RESERVE = ReserveFragments(1)


@pytest.fixture(scope="module")
def lake() -> Any:
    made = seiche.create("memory://wrong-types")
    made.create_namespace("s")
    made.create_table("s.t", SCHEMA).append(ROW)
    return made


@pytest.fixture(scope="module")
def table() -> Any:
    made = seiche.Table.create("memory://wrong-types-of/table", SCHEMA)
    made.append(ROW)
    return made


def open_(*arguments: Any, **options: Any) -> Any:
    return seiche.open(*arguments, **options)


class Later:
    async def __call__(self, tx: Any) -> None:
        tx.create_namespace("later")


async def later(tx: Any) -> None:
    tx.append("s.t", ROW)


def one_by_one(tx: Any) -> Iterator[object]:
    yield tx.append("s.t", ROW)


Call = Callable[[Any], object]

# What is said, by the call: every one of them begins to be true somewhere else than where the mistake is.
OPENING: dict[str, tuple[Call, str]] = {
    "connect(None)": (lambda _: seiche.connect(None), "address of a server"),  # type: ignore[arg-type]
    "connect(5)": (lambda _: seiche.connect(5), "address of a server"),  # type: ignore[arg-type]
    "open(None)": (lambda _: open_(None), "an address cannot be None"),
    "open(5)": (lambda _: open_(5), "an address cannot be 5, which is of type int"),
    "open(version=object)": (lambda lake: open_(lake.store, version=THING), "a version"),
    "open(version=1.5)": (lambda lake: open_(lake.store, version=1.5), "a version cannot be 1.5"),
    "open(version=True)": (lambda lake: open_(lake.store, version=True), "not a version"),
    "open(as_of=text)": (lambda lake: open_(lake.store, as_of="yesterday"), "not a time"),
    "open(as_of=naive)": (lambda lake: open_(lake.store, as_of=datetime(2030, 1, 1)), "time zone"),  # noqa: DTZ001
    "create(None)": (lambda _: seiche.create(None), "an address cannot be None"),  # type: ignore[arg-type]
    "create(settings=5)": (lambda _: seiche.create("memory://x1", settings=5), "settings"),  # type: ignore[arg-type]
    "create(settings=unknown)": (lambda _: seiche.create("memory://x2", settings={"ordr": 1}), "'ordr'"),
    "create(settings=negative)": (
        lambda _: seiche.create("memory://x4", settings={"maximum_version_age_millis": -1}),
        "these settings",
    ),
    "create(settings=text)": (lambda _: seiche.create("memory://x3", settings={"order": "many"}), "setting order"),
    "Table.create(None)": (lambda _: seiche.Table.create(None, SCHEMA), "an address cannot be None"),  # type: ignore[arg-type]
    "Table.create(config=5)": (lambda _: seiche.Table.create("memory://x/1", SCHEMA, config=5), "config"),  # type: ignore[arg-type]
    "Table.create(bases=5)": (lambda _: seiche.Table.create("memory://x/2", SCHEMA, bases=5), "bases"),  # type: ignore[arg-type]
    "Table.open(None)": (lambda _: seiche.Table.open(None), "an address cannot be None"),  # type: ignore[arg-type]
    "Table.create(manifest_store=5)": (
        lambda _: seiche.Table.create("memory://x/4", SCHEMA, manifest_store=5),  # type: ignore[arg-type]
        "a manifest store",
    ),
    "Table.create(bases=[5])": (lambda _: seiche.Table.create("memory://x/3", SCHEMA, bases=[5]), "a base"),
    "Table.create(naming=[])": (
        lambda _: seiche.Table.create("memory://x/7", SCHEMA, naming=[]),  # type: ignore[arg-type]
        "naming scheme",
    ),
    "Table.open(5)": (lambda _: seiche.Table.open(5), "an address cannot be 5"),  # type: ignore[arg-type]
    "open_store(None)": (lambda _: seiche.store.open_store(None), "an address cannot be None"),  # type: ignore[arg-type]
    "probe(text)": (lambda _: seiche.store.probe("memory://x"), "open_store"),  # type: ignore[arg-type]
}
OF_LAKE: dict[str, tuple[Call, str]] = {
    "spark(None)": (lambda lake: lake.spark(None), "a session of Spark cannot be None"),
    "spark(5)": (lambda lake: lake.spark(5), "a session of Spark"),
    "transaction(spark=5)": (lambda lake: lake.transaction(spark=5), "a session of Spark"),
    "transaction(isolation=5)": (lambda lake: lake.transaction(isolation=5), "isolation"),
    "transaction(key=5)": (lambda lake: lake.transaction(key=5), "the key of a transaction cannot be 5"),
    "transaction(key=no UTF-8)": (lambda lake: lake.transaction(key="\udcff"), "the key of a transaction cannot be"),
    "transaction(epoch=2**63)": (lambda lake: lake.transaction(stream="s", epoch=1 << 63), "epochs count"),
    "changes(columns=5)": (lambda lake: lake.table("s.t").changes(0, columns=5), "columns cannot be 5"),
    "transaction(lifetime=text)": (lambda lake: lake.transaction(lifetime="1h"), "lifetime cannot be '1h'"),
    "transaction(lifetime=-1)": (lambda lake: lake.transaction(lifetime=-1), "lifetime cannot be -1"),
    "transaction(lifetime=inf)": (lambda lake: lake.transaction(lifetime=float("inf")), "lifetime cannot be inf"),
    "transaction(epoch=text)": (lambda lake: lake.transaction(stream="s", epoch="1"), "an epoch cannot be '1'"),
    "transaction(stream=5)": (lambda lake: lake.transaction(stream=5, epoch=1), "name of a stream cannot be 5"),
    "transaction(owner=None)": (lambda lake: lake.transaction(stream="s", epoch=1, owner=None), "owner of a stream"),
    "transaction(properties=5)": (lambda lake: lake.transaction(properties=5), "properties cannot be 5"),
    "transaction(property=5)": (lambda lake: lake.transaction(properties={"a": 5}), "'a' in properties"),
    "table(None)": (lambda lake: lake.table(None), "name of a table"),
    "table((s, 5))": (lambda lake: lake.table(("s", 5)), "name of a table"),
    "table(bytes)": (lambda lake: lake.table(b"s.t"), "name of a table"),
    "create_namespace(None)": (lambda lake: lake.create_namespace(None), "name of a namespace"),
    "create_namespace(properties=5)": (lambda lake: lake.create_namespace("q", 5), "properties cannot be 5"),
    "create_namespace(property=5)": (lambda lake: lake.create_namespace("q", {"a": 5}), "'a' in properties"),
    "create_namespace(5=property)": (lambda lake: lake.create_namespace("q", {5: "a"}), "a name in properties"),
    "create_table(properties=list)": (lambda lake: lake.create_table("s.u", SCHEMA, properties=[1]), "properties"),
    "create_table(None)": (lambda lake: lake.create_table("s.u", None), "schema"),
    "create_table(no rows)": (lambda lake: lake.create_table("s.u", []), "no rows that tell which columns"),
    "create_table(nothing to read)": (lambda lake: lake.create_table("s.u", iter(())), "no rows that tell"),
    "create_table(empty text)": (lambda lake: lake.create_table("s.u", ""), "str"),
    "create_table(iceberg, location=5)": (
        lambda lake: lake.create_table("s.u", SCHEMA, format="iceberg", location=5),
        "an address cannot be 5",
    ),
    "create_table(iceberg, unknown)": (
        lambda lake: lake.create_table("s.u", SCHEMA, format="iceberg", partitions=["id"]),
        "cannot be made with partitions",
    ),
    "register_iceberg(5)": (lambda lake: lake.transaction().register_iceberg("s.u", 5), "an address cannot be 5"),
    "create_view(5)": (lambda lake: lake.create_view("s.v", 5), "the query of a view cannot be 5"),
    "create_view(nothing)": (lambda lake: lake.create_view("s.v", " "), "the query of a view cannot be empty"),
    "create_view(dialect=5)": (lambda lake: lake.create_view("s.v", "SELECT 1", dialect=5), "the dialect of a view"),
    "create_view(property=5)": (lambda lake: lake.create_view("s.v", "SELECT 1", properties={"a": 5}), "'a' in prop"),
    "set_properties(5)": (lambda lake: lake.transaction().set_properties("s.t", 5), "properties cannot be 5"),
    "set_properties(property=5)": (
        lambda lake: lake.transaction().set_properties("s.t", {"a": 5}),
        "'a' in properties",
    ),
    "alter_namespace(property=5)": (
        lambda lake: lake.transaction().alter_namespace("s", {"a": 5}),
        "'a' in properties",
    ),
    "rename_tables(5)": (lambda lake: lake.transaction().rename_tables(5), "names cannot be 5"),
    "rename_tables([name])": (lambda lake: lake.transaction().rename_tables(["s.t"]), "one of names cannot be 's.t'"),
    "register_table(5)": (lambda lake: lake.register_table("s.v", 5), "an address cannot be 5"),
    "register_table(catalog=5)": (
        lambda lake: lake.register_table("s.v", "a.b", format="iceberg", catalog=5),
        "the catalog cannot be 5",
    ),
    "register_table(property=5)": (lambda lake: lake.register_table("s.v", "x", properties={"a": 5}), "'a' in prop"),
    "run(None)": (lambda lake: lake.run(None), "run in a transaction"),
    "run(async function)": (lambda lake: lake.run(later), "run in a transaction"),
    "run(async object)": (lambda lake: lake.run(Later()), "run in a transaction"),
    "run(generator function)": (lambda lake: lake.run(one_by_one), "run in a transaction"),
    "run(attempts=text)": (lambda lake: lake.run(print, attempts="x"), "attempts"),
    "run(timeout=text)": (lambda lake: lake.run(print, timeout="x"), "timeout"),
    "run(timeout=-1)": (lambda lake: lake.run(print, timeout=-1), "timeout cannot be -1"),
    "append(timeout=nan)": (lambda lake: lake.table("s.t").append(ROW, timeout=nan), "timeout cannot be nan"),
    "append(timeout=text)": (lambda lake: lake.table("s.t").append(ROW, timeout="x"), "timeout"),
    "append(attempts=text)": (lambda lake: lake.table("s.t").append(ROW, attempts="many"), "attempts"),
    "log(text)": (lambda lake: lake.log("x"), "limit"),
    "diff(None)": (lambda lake: lake.diff(None), "a version cannot be None"),
    "status(None)": (lambda lake: lake.status(None), "id of a transaction"),
    "tag(None)": (lambda lake: lake.tag(None), "tag"),
    "tag(version=object)": (lambda lake: lake.tag("a", THING), "a version"),
    "untag(None)": (lambda lake: lake.untag(None), "tag"),
    "rollback(None)": (lambda lake: lake.rollback(None), "a version cannot be None"),
    "rollback(tables=5)": (lambda lake: lake.rollback(1, tables=5), "tables"),
    "export(target=5)": (lambda lake: lake.export("e", 5), "an address cannot be 5"),
    "export(tables=5)": (lambda lake: lake.export("e", "memory://e", tables=5), "tables"),
    "export(address=5)": (lambda lake: lake.export("e", "memory://e", address=5), "the address of a copy cannot be 5"),
    "unexport(None)": (lambda lake: lake.unexport(None), "name of an export"),
    "unexport(no UTF-8)": (lambda lake: lake.unexport("\udcff"), "name of an export cannot be '.udcff'"),
    "rollback(no UTF-8)": (lambda lake: lake.rollback("\udcff"), "a version cannot be '.udcff'"),
    "expire(older_than=object)": (lambda lake: lake.expire(older_than=THING), "older_than"),
    "expire(keep=text)": (lambda lake: lake.expire(keep="x"), "keep"),
    "expire(dry_run=text)": (lambda lake: lake.expire(dry_run="false"), "dry_run cannot be 'false'"),
    "gc(dry_run=None)": (lambda lake: lake.gc(dry_run=None), "dry_run cannot be None"),
    "rollback(dry_run=text)": (lambda lake: lake.rollback(1, dry_run=""), "dry_run cannot be ''"),
    "release(drop=text)": (lambda lake: lake.release("s.t", drop="false"), "drop cannot be 'false'"),
    "adopt(None)": (lambda lake: lake.adopt(None), "name of a table"),
}
# Of a table of a lake, of one in a transaction, and of a plain one.
OF_TABLES: dict[str, tuple[Call, str]] = {
    "append(None)": (lambda table: table.append(None), "NoneType"),
    "append(text)": (lambda table: table.append("x"), "str"),
    "append(empty text)": (lambda table: table.append(""), "str"),
    "overwrite(empty text)": (lambda table: table.overwrite(""), "str"),
    "append([None, row])": (lambda table: table.append([None, *ROW]), "NoneType"),
    "append([5])": (lambda table: table.append([5]), "int"),
    "delete(None)": (lambda table: table.delete(None), "condition"),
    "update(None)": (lambda table: table.update(None), "what is set|nothing to set|no column"),
    "update(list)": (lambda table: table.update(["name"]), "what is set"),
    "update(where=5)": (lambda table: table.update({"name": "'x'"}, where=5), "condition"),
    "update(value=5)": (lambda table: table.update({"name": 5}), "'name' in what is set"),
    "merge(on=None)": (lambda table: table.merge(ROW, on=None), "key of a merge"),
    "merge(on=5)": (lambda table: table.merge(ROW, on=5), "key of a merge"),
    "merge(update=5)": (lambda table: table.merge(ROW, on="id").when_matched_update(5), "what is set"),
    "merge(others=5)": (lambda table: table.merge(ROW, on="id").when_not_matched_by_source_update(5), "what is set"),
    "append(max_rows_per_file=text)": (lambda table: table.append(ROW, max_rows_per_file="5"), "max_rows_per_file"),
    "to_arrow(columns=text)": (lambda table: table.to_arrow(columns="id"), "columns"),
    "to_arrow(filter=5)": (lambda table: table.to_arrow(filter=5), "the filter cannot be 5"),
}
OF_PLAIN: dict[str, tuple[Call, str]] = {
    "cleanup(dry_run=None)": (lambda table: table.cleanup(dry_run=None), "dry_run cannot be None"),
    "cleanup(gaps=text)": (lambda table: table.cleanup(gaps="no"), "gaps cannot be 'no'"),
    "to_arrow(version=type)": (lambda table: table.to_arrow(version=int), "not a version number"),
    "drop_columns(5)": (lambda table: table.drop_columns(5), "columns"),
    "append(number as name)": (lambda table: table.append([{1: 2}]), "name of a column cannot be 1"),
    "append(columns by number)": (lambda table: table.append({1: [2]}), "name of a column cannot be 1"),
    "append(rows by nothing)": (lambda table: table.append(iter([{None: 2}])), "name of a column cannot be None"),
    "append(no text as name)": (lambda table: table.append([{NO_TEXT: 2}]), "name of a column"),
    "rename_columns(no text)": (lambda table: table.rename_columns({"name": NO_TEXT}), "name of a column"),
    "update_metadata(no text)": (lambda table: table.update_metadata({"a": NO_TEXT}), "value of 'a'"),
    "update_config(no text)": (lambda table: table.update_config({NO_TEXT: "a"}), "name of a setting"),
    "add_bases(no text)": (lambda table: table.add_bases(NO_TEXT), "path of a base"),
    "add_bases(name=no text)": (lambda table: table.add_bases({"path": "/x", "name": NO_TEXT}), "name of a base"),
    "reorder(5)": (lambda table: table.reorder(5), "sorted by 5"),
    "append(attempts=text)": (lambda table: table.append(ROW, attempts="many"), "attempts"),
    "append(timeout=text)": (lambda table: table.append(ROW, timeout="1 s"), "timeout"),
    "append(timeout=-1)": (lambda table: table.append(ROW, timeout=-1), "timeout cannot be -1"),
    "commit(timeout=-0.5)": (lambda table: table.commit(RESERVE, timeout=-0.5), "timeout cannot be -0.5"),
    "compact(parallel=0)": (lambda table: table.compact(parallel=0), "0 tasks"),
    "compact(parallel=text)": (lambda table: table.compact(parallel="2"), "parallel"),
    "index_build(workers=text)": (lambda table: table.index_build("id").plan("2"), "number of workers"),
    "compaction.execute(tasks)": (lambda table: table.compaction().execute(table.compaction().plan()), "a task"),
    "compaction.commit(None)": (lambda table: table.compaction().commit(None), "results"),
    "compaction.commit(text)": (lambda table: table.compaction().commit(["x"]), "a result cannot be 'x'"),
    "index_build.execute(tasks)": (lambda table: table.index_build("id").execute([]), "a task"),
    "index_build.commit(None)": (lambda table: table.index_build("id").commit(None), "segments"),
    "index_build.commit(text)": (lambda table: table.index_build("id").commit(["x"]), "a segment cannot be 'x'"),
    "tag(None)": (lambda table: table.tag(None), "name of a tag"),
    "branch(None)": (lambda table: table.branch(None), "name of a branch"),
    "clone(None)": (lambda table: table.clone(None), "an address cannot be None"),
    "restore(object)": (lambda table: table.restore(THING), "version"),
    "commit(5)": (lambda table: table.commit(5), "int cannot be committed"),
    "commit(properties=5)": (lambda table: table.commit(RESERVE, properties=5), "properties"),
    "commit(property=5)": (lambda table: table.commit(RESERVE, properties={"a": 5}), "'a' in properties"),
    "commit(tag=5)": (lambda table: table.commit(RESERVE, tag=5), "the tag of a transaction"),
    "commit(message=5)": (lambda table: table.commit(RESERVE, message=5), "the message of a commit"),
    "commit(Reserve(-1))": (lambda table: table.commit(ReserveFragments(-1)), "ReserveFragments cannot be written"),
    "commit(Restore(-1))": (lambda table: table.commit(Restore(-1)), "version"),
    "checkout(True)": (lambda table: table.checkout(True), "True is not a version number"),
    "checkout(1.0)": (lambda table: table.checkout(1.0), "1.0 is not a version number"),
    "checkout(as_of=text)": (lambda table: table.checkout(as_of="yesterday"), "as_of cannot be 'yesterday'"),
    "checkout(as_of=date)": (lambda table: table.checkout(as_of=date(2030, 1, 1)), "as_of cannot be"),
    "checkout(both)": (lambda table: table.checkout(1, as_of=datetime.now(UTC)), "either"),
    "transactions(text)": (lambda table: table.transactions(since="1"), "since"),
    "overwrite(config=5)": (lambda table: table.overwrite(ROW, config=5), "config cannot be 5"),
    "overwrite(config={a: 5})": (lambda table: table.overwrite(ROW, config={"a": 5}), "'a' in config"),
    "overwrite(schema=5)": (lambda table: table.overwrite(ROW, schema=5), "schema of a table cannot be 5"),
    "create_index(None)": (lambda table: table.create_index(None, "BTREE"), "column"),
    "create_index(name=[])": (lambda table: table.create_index("id", name=[5]), "name of an index"),
    "optimize_indices(5)": (lambda table: table.optimize_indices(5), "names of indices"),
    "add_columns(on=5)": (lambda table: table.add_columns(NEW, on=5), "key of a join"),
    "add_columns(on=[])": (lambda table: table.add_columns(NEW, on=[]), "one or more different columns"),
    "add_columns(on=twice)": (lambda table: table.add_columns(NEW, on=["id", "id"]), "one or more different columns"),
    "add_columns(on=text)": (lambda table: table.add_columns([{"id": "x", "n": 1}], on="id"), "'id'"),
    "add_columns(on=large)": (lambda table: table.add_columns([{"id": 1 << 63, "n": 1}], on="id"), "'id'"),
    "add_columns(on=list)": (lambda table: table.add_columns([{"id": [1], "n": 1}], on="id"), "'id'"),
    "replace_column([])": (lambda table: table.replace_column(["name"], ["x"]), "name of a column"),
    "replace_column(fragments=5)": (lambda table: table.replace_column("name", ["x"], fragments=5), "fragments"),
    "replace_column(fragments=text)": (lambda table: table.replace_column("name", ["x"], fragments="0"), "fragments"),
    "replace_column(fragments=[None])": (lambda table: table.replace_column("name", ["x"], [None]), "fragments"),
    "compact(materialize=bytes)": (lambda table: table.compact(materialize_deletions=b"x"), "materialize_deletions"),
    "compact(threshold=text)": (lambda table: table.compact(materialize_deletions_threshold="x"), "share from 0 to 1"),
    "compact(progress=5)": (lambda table: table.compact(progress=5), "progress cannot be 5"),
    "clone(progress=5)": (lambda table: table.clone("memory://x/5", progress=5), "progress cannot be 5"),
    "clone(carry=5)": (lambda table: table.clone("memory://x/6", carry=5), "carry cannot be 5"),
    "merge(condition=5)": (lambda table: table.merge(ROW, on="id").when_matched_delete(5), "condition"),
    "merge(others=condition 5)": (
        lambda table: table.merge(ROW, on="id").when_not_matched_by_source_delete(5),
        "condition",
    ),
    "mark_generations(5)": (lambda table: table.mark_generations(5), "generations cannot be 5"),
    "changes(columns=5)": (lambda table: table.changes(1, columns=5), "columns cannot be 5"),
    "cleanup(protect=5)": (lambda table: table.cleanup(protect=5), "protect cannot be 5"),
    "pack(affected_rows=5)": (lambda table: table.pack(RESERVE, affected_rows=5), "affected rows"),
    "pack(affected_rows={a: []})": (lambda table: table.pack(RESERVE, affected_rows={"a": []}), "id of a fragment"),
    "add_bases(id=-1)": (lambda table: table.add_bases({"path": "/more", "id": -1}), "a base cannot be made of"),
    "tag(metadata=5)": (lambda table: table.tag("x", metadata=5), "metadata of a reference cannot be 5"),
    "tag(metadata=text)": (lambda table: table.tag("x", metadata="x"), "metadata of a reference"),
}


def refused(call: Call, given: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call(given)
    assert re.search(said, str(caught.value)), caught.value
    assert caught.value.remedy


@pytest.mark.parametrize("name", OPENING)
def test_opening(name: str, lake: Any) -> None:
    refused(OPENING[name][0], lake, OPENING[name][1])


@pytest.mark.parametrize("name", OF_LAKE)
def test_a_lake(name: str, lake: Any) -> None:
    before = lake.version
    refused(OF_LAKE[name][0], lake, OF_LAKE[name][1])
    assert lake.version == before


@pytest.mark.parametrize("name", OF_TABLES)
def test_tables(name: str, lake: Any, table: Any) -> None:
    call, said = OF_TABLES[name]
    refused(call, lake.table("s.t"), said)
    refused(call, table, said)
    with lake.transaction() as tx:
        refused(call, tx.table("s.t"), said)
    assert lake.table("s.t").to_arrow().to_pylist() == table.to_arrow().to_pylist() == ROW


@pytest.mark.parametrize("name", OF_PLAIN)
def test_a_plain_table(name: str, table: Any) -> None:
    refused(OF_PLAIN[name][0], table, OF_PLAIN[name][1])
    assert table.version == 2


def test_paths_are_addresses(tmp_path: Path) -> None:
    seiche.create(tmp_path / "lake")
    assert seiche.open(tmp_path / "lake").version == 0
    seiche.Table.create(tmp_path / "table", SCHEMA)
    assert seiche.Table.open(tmp_path / "table").version == 1


def test_nothing_between_batches_is_left_out_in_silence(table: Any) -> None:
    batch = pa.RecordBatch.from_pylist(ROW, SCHEMA)
    with pytest.raises(InvalidInput, match="NoneType"):
        table.append(iter([batch, None, batch]))
    assert table.version == 2
