"""Names that a transaction gives and takes: what stands behind them at its end is what its statements say."""

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import seiche
from seiche import AlreadyExists, InvalidInput, Lake, NotFound, RetryableConflict
from seiche.lake import creating
from seiche.lake.transaction import Transaction
from seiche.store import open_store
from seiche.testing import DictStore
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.mark.parametrize("through", ["at once", "saved"])
def test_a_table_comes_back_to_its_name_after_a_view_that_had_it_for_a_moment(lake: Lake, through: str) -> None:
    lake.table("shop.a").append(rows(1))
    tx = lake.transaction()
    tx.rename_table("shop.a", "shop.c")
    tx.create_view("shop.a", "SELECT 1")
    if through == "saved":
        tx = lake.resume(tx.save())
    tx.drop_view("shop.a")
    with pytest.raises(NotFound):
        tx.drop_view("shop.a")
    assert tx.tables("shop") == [("shop", "b"), ("shop", "c")]
    tx.rename_table("shop.c", "shop.a")
    tx.append("shop.b", rows(2))
    tx.commit()
    assert lake.tables("shop") == [("shop", "a"), ("shop", "b")]
    assert ids(lake, "shop.a") == [1]
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("engine", [{}, {"format": "iceberg"}], ids=["lance", "iceberg"])
def test_a_handle_of_a_table_that_the_transaction_dropped_takes_no_statements(
    lake: Lake, engine: dict[str, Any]
) -> None:
    lake.create_table("shop.t", SCHEMA, **engine).append(rows(1))
    with lake.transaction() as tx:
        table, dataset = tx.table("shop.t"), None if engine else tx.table("shop.t").to_lance()
        tx.drop_table("shop.t")
        tx.create_table("shop.t", SCHEMA)
        for said in (lambda: table.append(rows(2)), lambda: table.delete("true"), table.to_arrow):
            with pytest.raises(NotFound, match=re.escape("shop.t was dropped by this transaction")):
                said()
        if dataset is not None:
            with pytest.raises(Exception, match=re.escape("shop.t was dropped by this transaction")):
                dataset.insert(rows(2))
        assert "shop.t" in repr(table)
    assert ids(lake, "shop.t") == []


@pytest.mark.parametrize("engine", [{}, {"format": "iceberg"}], ids=["lance", "iceberg"])
def test_a_transaction_that_changed_and_dropped_a_table_can_be_saved(lake: Lake, engine: dict[str, Any]) -> None:
    lake.create_table("shop.t", SCHEMA, **engine)
    tx = lake.transaction()
    tx.create_table("shop.new", SCHEMA, **engine)
    for name in ("shop.t", "shop.new"):
        tx.append(name, rows(1))
        tx.append(name, rows(2))
        tx.drop_table(name)
    lake.resume(tx.save()).commit()
    assert lake.tables("shop") == [("shop", "a"), ("shop", "b")]
    assert lake.fsck().problems == ()


def test_a_table_that_could_not_be_replaced_stays(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("shop.i", SCHEMA, format="iceberg").append(rows(1))
    with lake.transaction() as tx:
        with pytest.raises(NotFound, match="no Iceberg metadata"):
            tx.register_iceberg("shop.i", f"file://{tmp_path}/x.metadata.json", overwrite=True)
        tx.append("shop.a", rows(2))
    assert ids(lake, "shop.i") == [1]


def test_a_name_may_be_longer_than_rows_that_stand_in_the_tree(tmp_path: Path) -> None:
    lake = seiche.create(open_store(str(tmp_path), durability="os"), settings={"row_max_size_bytes": 50})
    name = f"shop.{'a' * 90}"
    lake.create_namespace("shop")
    lake.create_table(name, SCHEMA)
    lake.table(name).append(rows(1))
    lake.rename_table(name, f"{name}b")
    lake.table(f"{name}b").append(rows(2))
    assert ids(lake, f"{name}b") == [1, 2]
    assert lake.fsck().problems == ()


def test_properties_that_are_set_to_nothing_are_gone(lake: Lake) -> None:
    lake.run(lambda tx: tx.set_properties("shop.a", {"owner": "me", "kept": "yes"}))
    lake.run(lambda tx: tx.set_properties("shop.a", {"owner": None, "never there": None}))
    assert lake.table("shop.a").row.properties == {"kept": "yes"}


@pytest.mark.parametrize("engine", [{}, {"format": "iceberg"}], ids=["lance", "iceberg"])
def test_properties_that_are_so_already_make_no_version(lake: Lake, engine: dict[str, Any]) -> None:
    lake.create_table("shop.t", SCHEMA, **engine)
    lake.run(lambda tx: tx.set_properties("shop.t", {"owner": "me"}))
    before = lake.version
    for same in ({"owner": "me"}, {"never there": None}, {}):
        lake.run(lambda tx, same=same: tx.set_properties("shop.t", same))  # type: ignore[misc]
    assert lake.version == before
    tx = lake.transaction("serializable")
    tx.set_properties("shop.t", {"owner": "me"})
    tx.append("shop.a", rows(1))
    seiche.open(lake.store).run(lambda other: other.set_properties("shop.t", {"owner": "you"}))
    with pytest.raises(RetryableConflict, match=r"shop\.t was read by this transaction"):
        tx.commit()


def test_properties_of_a_namespace_that_are_so_already_make_no_version(lake: Lake) -> None:
    lake.run(lambda tx: tx.alter_namespace("shop", {"owner": "me"}))
    before = lake.version
    for same in ({"owner": "me"}, {"never there": None}, {}):
        lake.run(lambda tx, same=same: tx.alter_namespace("shop", same))  # type: ignore[misc]
    assert lake.version == before
    tx = lake.transaction("serializable")
    tx.alter_namespace("shop", {"owner": "me"})
    tx.append("shop.a", rows(1))
    seiche.open(lake.store).run(lambda other: other.alter_namespace("shop", {"owner": "you"}))
    with pytest.raises(RetryableConflict, match="shop was read by this transaction"):
        tx.commit()


def refused_table(tx: Transaction) -> None:
    with pytest.raises(AlreadyExists):
        tx.create_table("shop.a", SCHEMA)


def refused_rename(tx: Transaction) -> None:
    with pytest.raises(AlreadyExists):
        tx.rename_table("shop.b", "shop.a")


def refused_namespace(tx: Transaction) -> None:
    with pytest.raises(AlreadyExists):
        tx.create_namespace("empty")


def missed_namespace(tx: Transaction) -> None:
    with pytest.raises(NotFound):
        tx.create_table("new.t", SCHEMA)


def missed_table(tx: Transaction) -> None:
    with pytest.raises(NotFound):
        tx.table("shop.new")


def missed_view(tx: Transaction) -> None:
    with pytest.raises(NotFound):
        tx.drop_view("shop.v")


def properties(tx: Transaction) -> None:
    assert tx.iceberg_catalog().load_namespace_properties("empty") == {}


@pytest.mark.parametrize(
    ("look", "change"),
    [
        (refused_table, lambda tx: tx.drop_table("shop.a")),
        (refused_rename, lambda tx: tx.drop_table("shop.a")),
        (refused_namespace, lambda tx: tx.drop_namespace("empty")),
        (missed_namespace, lambda tx: tx.create_namespace("new")),
        (missed_table, lambda tx: tx.create_table("shop.new", SCHEMA)),
        (lambda tx: tx.table("shop.a"), lambda tx: tx.drop_table("shop.a")),
        (missed_view, lambda tx: tx.create_view("shop.v", "SELECT 1")),
        (properties, lambda tx: tx.alter_namespace("empty", {"owner": "me"})),
    ],
)
def test_what_is_there_or_is_not_was_read_also_if_it_was_an_error(
    lake: Lake, look: Callable[[Transaction], None], change: Callable[[Transaction], None]
) -> None:
    lake.create_namespace("empty")
    for isolation in ("snapshot", "serializable"):
        one, other = lake.transaction(isolation), lake.transaction()
        look(one)
        one.append("shop.b", rows(1))
        change(other)
        if isolation == "snapshot":
            one.commit()
            continue
        other.commit()
        with pytest.raises(RetryableConflict, match="was read by this transaction"):
            one.commit()


INSIDE: dict[str, Callable[[Transaction], object]] = {
    "a table": lambda tx: tx.create_table("empty.t", SCHEMA),
    "a renamed table": lambda tx: tx.rename_table("shop.a", "empty.a"),
    "a view": lambda tx: tx.create_view("empty.v", "SELECT 1"),
    "a namespace": lambda tx: tx.create_namespace("empty.inner"),
}


@pytest.mark.parametrize("first", ["what is inside", "the end of it"])
@pytest.mark.parametrize("what", INSIDE)
def test_nothing_is_in_a_namespace_that_is_dropped(lake: Lake, what: str, first: str) -> None:
    lake.create_namespace("empty")
    one, other = lake.transaction(), lake.transaction()
    INSIDE[what](one)
    other.drop_namespace("empty")
    quick, slow = (one, other) if first == "what is inside" else (other, one)
    quick.commit()
    with pytest.raises(RetryableConflict):
        slow.commit()
    assert lake.fsck().problems == ()
    assert (("empty",) in lake.namespaces()) == (quick is one)


def test_making_a_table_reads_nothing_of_its_namespace_but_that_it_is_there(lake: Lake) -> None:
    tx = lake.transaction("serializable")
    tx.create_table("shop.c", SCHEMA)
    lake.run(lambda other: other.alter_namespace("shop", {"owner": "me"}))
    lake.table("shop.a").append(rows(1))
    tx.commit()
    assert lake.tables("shop") == [("shop", "a"), ("shop", "b"), ("shop", "c")]


def test_a_name_that_was_taken_while_a_table_was_made_for_it_stays_with_the_first(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = creating.creation

    def slow(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(creating, "creation", usual)
        tx.create_table("shop.c", SCHEMA).append(rows(1))
        return usual(*arguments, **options)

    monkeypatch.setattr(creating, "creation", slow)
    with lake.transaction() as tx, pytest.raises(AlreadyExists, match=re.escape("shop.c")):
        tx.create_table("shop.c", SCHEMA)
    assert ids(lake, "shop.c") == [1]
    assert lake.fsck().problems == ()


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns all the time, so that what can come in between does."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


ROUNDS = 20


@pytest.mark.usefixtures("restless")
def test_definitions_and_rows_of_several_threads_do_not_undo_each_other(lake: Lake) -> None:
    for number in range(ROUNDS):
        name = lake.create_table(f"shop.t{number}", SCHEMA).name
        tx = lake.transaction()
        table = tx.table(name)

        def append(table: Any = table) -> None:
            for one in range(6):
                table.append(rows(one))

        def define(tx: Transaction = tx, name: str = name) -> None:
            for one in range(100):
                tx.set_properties(name, {"turn": str(one)})
                tx.rename_table(name, "shop.for-a-moment")
                tx.rename_table("shop.for-a-moment", name)

        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(append), threads.submit(define)]:
                done.result()
        tx.commit()
        assert ids(lake, name) == list(range(6))


@pytest.mark.usefixtures("restless")
def test_a_definition_that_comes_too_late_for_the_commit_is_told_so() -> None:
    lake = seiche.create(DictStore())
    for number in range(ROUNDS):
        lake.create_namespace(f"shop{number}")
        tx = lake.transaction()
        tx.create_view(f"shop{number}.first", "SELECT 1")

        def define(one: int, tx: Transaction = tx, number: int = number) -> str | None:
            try:
                tx.create_view(f"shop{number}.v{one}", "SELECT 1")
            except InvalidInput:
                return None
            return f"v{one}"

        with ThreadPoolExecutor(3) as threads:
            defined = [threads.submit(define, one) for one in range(12)]
            threads.submit(tx.commit).result()
            told = {done.result() for done in defined} - {None}
        assert {name[-1] for name in lake.tables(f"shop{number}")} == {"first", *told}
