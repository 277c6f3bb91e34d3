"""Handles that are given to other processes: workers of multiprocessing, Ray, Dask, a data loader."""

import copy
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche.errors import InvalidInput, NotFound
from tests.processes import CONTEXT
from tests.servers import S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def ids(table: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


def elsewhere(work: Callable[..., object], *given: object) -> Any:
    """What a worker makes of it, which gets everything as a pickle."""
    answers: SimpleQueue[Any] = CONTEXT.SimpleQueue()
    worker = CONTEXT.Process(target=_answer, args=(answers, work, pickle.dumps(given)))
    worker.start()
    answer = answers.get()
    worker.join()
    return answer


def _answer(answers: "SimpleQueue[Any]", work: Callable[..., object], given: bytes) -> None:
    try:
        answers.put(work(*pickle.loads(given)))
    except Exception as error:
        answers.put(error)


def add(table: Any, number: int) -> list[int]:
    table.append([{"id": number, "name": "worker"}])
    return ids(table)


def lake_of(place: Path | str, **options: Any) -> seiche.Lake:
    lake = seiche.create(place, **options)
    lake.create_namespace("shop")
    lake.create_table("shop.orders", SCHEMA).append([{"id": 1, "name": "a"}])
    return lake


@pytest.mark.parametrize("manifest_store", [None, "sqlite"])
def test_a_table_is_the_same_table_in_a_worker(tmp_path: Path, manifest_store: str | None) -> None:
    decides = None if manifest_store is None else f"sqlite://{tmp_path}/manifests.db"
    table = seiche.Table.create(tmp_path / "table", SCHEMA, manifest_store=decides)
    table.append([{"id": 1, "name": "a"}])
    old = table.checkout(1)
    trial = table.branch("trial")
    assert elsewhere(add, table, 2) == [1, 2]
    assert elsewhere(add, trial, 3) == [1, 3]
    assert ids(table) == [1, 2]
    assert ids(trial) == [1, 3]
    assert elsewhere(ids, old) == []
    refused = elsewhere(add, old, 4)
    assert isinstance(refused, InvalidInput)
    assert "read-only" in str(refused)


def test_what_a_worker_commits_was_built_on_the_version_of_the_handle_that_it_was_given(tmp_path: Path) -> None:
    table = seiche.Table.create(tmp_path / "table", SCHEMA)
    table.append([{"id": 1, "name": "a"}])
    sent = pickle.dumps(table)
    table.overwrite(pa.table({"other": [1.0]}))
    drop = table.transactions()[1][1].operation
    with pytest.raises(seiche.ConflictError, match="read version 2"):
        pickle.loads(sent).commit(drop)


def test_a_lake_and_its_tables_are_the_same_in_a_worker(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake")
    orders = lake.table("shop.orders")
    before = seiche.open(tmp_path / "lake", version=lake.version)
    assert elsewhere(add, orders, 2) == [1, 2]
    assert elsewhere(committed, lake, 3) == lake.version
    assert ids(orders) == [1, 2, 3]
    assert elsewhere(read, before) == (before.version, [1])
    assert isinstance(elsewhere(committed, before, 4), InvalidInput)


def committed(lake: seiche.Lake, number: int) -> int | None:
    with lake.transaction() as tx:
        tx.append("shop.orders", [{"id": number, "name": "worker"}])
    return tx.version


def read(lake: seiche.Lake) -> tuple[int, list[int]]:
    return lake.version, ids(lake.table("shop.orders"))


def test_a_copy_of_a_handle_that_holds_a_version_holds_it_too(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake")
    with seiche.open(tmp_path / "lake", version=lake.version, lease="1h") as held:
        sent = pickle.dumps(held)
        copied = pickle.loads(sent)
    lake.table("shop.orders").append([{"id": 2, "name": "b"}])
    lake.expire(older_than=0, keep=1)
    assert read(copied) == (held.version, [1])
    copied.close()
    lake.table("shop.orders").append([{"id": 3, "name": "c"}])
    lake.expire(older_than=0, keep=1)
    with pytest.raises(NotFound, match="expired"):
        pickle.loads(sent)


def test_handles_on_object_storage_take_their_options_along(moto: S3Server) -> None:
    table = seiche.Table.create(moto.uri(), SCHEMA, **moto.options)
    assert elsewhere(add, table, 1) == [1]
    lake = lake_of(moto.uri(), **moto.options)
    assert elsewhere(add, lake.table("shop.orders"), 2) == [1, 2]


def test_copies_are_handles_of_their_own(tmp_path: Path) -> None:
    table = seiche.Table.create(tmp_path / "table", SCHEMA)
    lake = lake_of(tmp_path / "lake")
    for handle in (table, lake.table("shop.orders"), seiche.Table.create("memory://copies/table", SCHEMA)):
        copied = copy.deepcopy(handle)
        add(copied, 7)
        assert 7 in ids(handle)


def test_what_lives_in_one_process_says_so() -> None:
    table = seiche.Table.create("memory://here/table", SCHEMA)
    told = elsewhere(ids, pickle.loads(pickle.dumps(table)))
    assert isinstance(told, InvalidInput), told
    assert "memory://here/table" in str(told)


def test_a_transaction_stays_in_its_process(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake")
    with lake.transaction() as tx:
        for inside in (tx, tx.table("shop.orders")):
            with pytest.raises(InvalidInput, match=r"tx\.save\(\)"):
                pickle.dumps(inside)


def test_a_forked_child_of_a_process_that_has_used_native_code_is_told_instead_of_crashing(tmp_path: Path) -> None:
    script = f"""
        import os, signal, warnings
        import pyarrow as pa
        import seiche

        warnings.simplefilter("ignore")  # pylance warns of forks

        def in_child(work):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                try:
                    print(work(), flush=True)
                except seiche.InvalidInput as error:
                    print(error.message[:5], error.remedy[:13], flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0

        rows = pa.table({{"id": range(100_000)}})
        table = seiche.Table.create({str(tmp_path / "table")!r}, rows.schema)
        lake = seiche.create({str(tmp_path / "lake")!r})
        lake.create_namespace("shop")
        orders = lake.create_table("shop.orders", rows.schema)
        in_child(lambda: table.append(rows).rows)
        in_child(lambda: table.to_arrow().num_rows)
        print(table.to_arrow().num_rows, flush=True)
        for work in (table.to_arrow, lambda: table.append(rows), lambda: table.delete("id = 1"), orders.to_lance):
            in_child(work)
        in_child(lambda: table.version)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=100
    )
    expected = ["100000", "100000", "100000", *["Lance Start workers"] * 4, "2"]
    assert ran.stdout.splitlines() == expected, ran.stderr
