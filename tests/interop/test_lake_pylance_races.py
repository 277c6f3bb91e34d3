"""Processes that commit to one table of a lake through pylance at once: nothing is lost, nothing is done twice."""

from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.store import open_store
from seiche.table.versions.naming import parse
from tests.processes import CONTEXT
from tests.servers import S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
TABLE = ["shop", "t"]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": [0] * len(ids)}, schema=SCHEMA)


def opened(path: str) -> Lake:
    return seiche.open(open_store(path, durability="os"))


def together(work: Callable[..., None], path: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Run `work` in as many processes as there are arguments, all starting at once; what each of them has to tell."""
    barrier, told = CONTEXT.Barrier(len(arguments)), CONTEXT.Queue()
    processes = [CONTEXT.Process(target=work, args=(path, barrier, told, *one)) for one in arguments]
    for process in processes:
        process.start()
    answers = [told.get(timeout=240) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return answers


def check(lake: Lake) -> lance.LanceDataset:
    """The table is sound, and a plain reader finds every version and the newest rows."""
    version = lake.table("shop.t").version
    folder = Path(lake.store.native_uri(lake.table("shop.t").row.location))
    found = (parse(path.name) for path in (folder / "_versions").iterdir())
    assert sorted(one[1] for one in found if one is not None) == list(range(1, version + 1))
    plain = lance.dataset(str(folder))
    plain.validate()  # type: ignore[no-untyped-call]
    assert plain.version == version
    assert plain.to_table().equals(lake.table("shop.t").to_arrow())
    return plain


@pytest.fixture
def path(tmp_path: Path) -> str:
    lake = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    lake.create_namespace("shop")
    lake.create_table("shop.t", SCHEMA).append(rows(*range(10)))
    return str(tmp_path / "lake")


def increments(path: str, barrier: Barrier, told: Any, count: int) -> None:
    dataset = opened(path).table("shop.t").to_lance()
    barrier.wait()
    for _ in range(count):
        assert dataset.update({"n": "n + 1"}, where="id = 3") == {"num_rows_updated": 1}
    told.put(count)


def test_two_processes_that_increment_one_row_fifty_times_each_make_a_hundred(path: str) -> None:
    together(increments, path, [(50,), (50,)])
    lake = opened(path)
    assert lake.table("shop.t").to_arrow(filter="id = 3")["n"].to_pylist() == [100]
    assert lake.table("shop.t").version == 2 + 100, "each is a version of the table"
    check(lake)


def increments_by_hand(path: str, barrier: Barrier, told: Any, count: int) -> None:
    """With datasets that are opened through the bare namespace: they cannot follow, so a loser opens a new one."""
    lake = opened(path)
    done, failures = 0, []
    barrier.wait()
    while done < count:
        dataset = lance.dataset(namespace_client=lake.namespace(), table_id=TABLE)
        try:
            dataset.update({"n": "n + 1"}, where="id = 3", conflict_retries=0)
        except OSError as error:
            failures.append(str(error))
        else:
            done += 1
    told.put(failures)


def test_two_processes_that_increment_through_the_bare_namespace_never_lose_or_doubt_a_commit(path: str) -> None:
    failures = together(increments_by_hand, path, [(25,), (25,)])
    lake = opened(path)
    assert lake.table("shop.t").to_arrow(filter="id = 3")["n"].to_pylist() == [50]
    assert lake.table("shop.t").version == 2 + 50
    for failure in (text for one in failures for text in one):
        assert "unknown" not in failure
    print(f"lost races: {[len(one) for one in failures]}")
    check(lake)


def mixed(path: str, barrier: Barrier, told: Any, kind: str, first: int, count: int) -> None:
    """Add rows and take some away again, in one of several ways."""
    lake = opened(path)
    table = lake.table("shop.t")
    dataset: Any = table.to_lance()
    barrier.wait()
    for number in range(first, first + count):
        if kind == "insert":
            dataset.insert(rows(number, -number))
            dataset.delete(f"id = {-number}")
        elif kind == "merge":
            dataset.merge_insert("id").when_not_matched_insert_all().execute(rows(number))
        elif kind == "transaction":

            def change(tx: Any, number: int = number) -> None:
                inside = tx.table("shop.t").to_lance()
                inside.insert(rows(number, -number))
                inside.delete(f"id = {-number}")

            lake.run(change, attempts=50)
        else:
            table.append(rows(number))
    if kind == "insert":
        dataset.create_scalar_index("id", "BTREE")
    told.put(count)


def test_all_ways_to_write_race_and_every_row_is_there_once(path: str) -> None:
    kinds = [("insert", 1000, 6), ("merge", 2000, 6), ("transaction", 3000, 6), ("verbs", 4000, 6)]
    together(mixed, path, kinds)
    plain = check(opened(path))
    expected = [*range(10), *(number for _, first, count in kinds for number in range(first, first + count))]
    assert sorted(plain.to_table()["id"].to_pylist()) == expected
    assert [index.name for index in plain.describe_indices()] == ["id_idx"]
    for number in expected:
        assert plain.to_table(filter=f"id = {number}").num_rows == 1


@pytest.mark.slow
def test_pylance_commits_through_a_lake_in_a_bucket(seaweedfs: S3Server) -> None:
    lake = seiche.create(f"{seaweedfs.uri()}/a lake", **seaweedfs.options)
    lake.create_namespace("shop")
    lake.create_table("shop.t", SCHEMA).append(rows(*range(10)))
    dataset = lake.table("shop.t").to_lance()
    with lake.transaction() as tx:
        inside = tx.table("shop.t").to_lance()
        inside.insert(rows(100))
        inside.create_scalar_index("id", "BTREE")
        inside.delete("id < 5")
        dataset.update({"n": "7"}, where="id = 9")
        lake.table("shop.t").append(rows(200))
        assert sorted(inside.to_table()["id"].to_pylist()) == [5, 6, 7, 8, 9, 100]
        assert inside.to_table(filter="id = 100").num_rows == 1
    expected = {5: 0, 6: 0, 7: 0, 8: 0, 9: 7, 100: 0, 200: 0}
    dataset.checkout_latest()  # type: ignore[no-untyped-call]
    plain = lance.dataset(lake.table("shop.t").uri, storage_options=dict(lake.store.native_options))
    for found in (dataset, plain):
        data = found.to_table()
        assert dict(zip(data["id"].to_pylist(), data["n"].to_pylist(), strict=True)) == expected
        assert found.to_table(filter="id = 200").num_rows == 1
    made = lance.write_dataset(rows(1), namespace_client=lake.namespace(), table_id=["shop", "new"], mode="create")
    made.insert(rows(2))
    assert sorted(lake.table("shop.new").to_arrow()["id"].to_pylist()) == [1, 2]
    with pytest.raises(OSError, match="cannot be written"):
        plain.delete("true")
