"""What a serializable transaction has looked at beside rows: columns and properties of tables."""

from collections.abc import Callable

import lance_namespace as ln
import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Lake, RetryableConflict
from seiche.lake.objects.keys import KeyRange
from seiche.lake.transaction import Transaction
from seiche.testing import CountingStore, DictStore
from tests.unit.lake.conftest import SCHEMA, rows


def add_column(lake: Lake, table: str) -> None:
    if lake.table(table).row.format == "lance":
        lake.table(table).add_columns({"more": "1"})
    else:
        from pyiceberg.types import LongType

        with lake.table(table).to_iceberg().update_schema() as update:
            update.add_column("more", LongType())


@pytest.mark.parametrize("format", ["lance", "iceberg"])
@pytest.mark.parametrize("saved", [False, True])
def test_columns_that_others_change_fail_whoever_has_looked_at_them(lake: Lake, format: str, saved: bool) -> None:
    lake.create_table("shop.seen", SCHEMA, format=format)
    tx = lake.transaction("serializable")
    tx.append("shop.b", rows(len(tx.table("shop.seen").schema)))
    if saved:
        tx.save()
    add_column(lake, "shop.seen")
    with pytest.raises(RetryableConflict, match=r"shop\.seen was read by this transaction"):
        (lake.resume(tx.id) if saved else tx).commit()


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_rows_that_others_add_do_not_fail_whoever_looked_at_the_columns_only(lake: Lake, format: str) -> None:
    lake.create_table("shop.seen", SCHEMA, format=format)
    tx = lake.transaction("serializable")
    tx.append("shop.seen", rows(1).cast(tx.table("shop.seen").schema))
    tx.append("shop.b", rows(1))
    lake.table("shop.seen").append(rows(2))
    lake.table("shop.b").append(rows(2))
    tx.commit()
    assert sorted(lake.table("shop.seen").to_arrow()["id"].to_pylist()) == [1, 2]


def drop_more(tx: Transaction) -> None:
    tx.table("shop.seen").drop_columns(["more"])


def append_more(tx: Transaction) -> None:
    tx.append("shop.seen", pa.table({"id": [1], "n": [1], "more": [1]}))


@pytest.mark.parametrize(
    ("format", "statement"), [("lance", drop_more), ("lance", append_more), ("iceberg", append_more)]
)
def test_a_refusal_that_others_would_not_get_any_more_fails_whoever_went_on(
    lake: Lake, format: str, statement: Callable[[Transaction], None]
) -> None:
    lake.create_table("shop.seen", SCHEMA, format=format)
    tx = lake.transaction("serializable")
    with pytest.raises(InvalidInput, match="more"):
        statement(tx)
    tx.append("shop.b", rows(1))
    add_column(lake, "shop.seen")
    with pytest.raises(RetryableConflict, match=r"shop\.seen was read by this transaction"):
        tx.commit()


def test_an_append_of_no_rows_was_checked_by_the_columns(lake: Lake) -> None:
    tx = lake.transaction("serializable")
    assert not tx.table("shop.a").append(rows()).changed
    tx.append("shop.b", rows(1))
    add_column(lake, "shop.a")
    with pytest.raises(RetryableConflict, match=r"shop\.a was read by this transaction"):
        tx.commit()


def test_members_of_a_group_see_the_columns_that_earlier_ones_leave(lake: Lake) -> None:
    first, second = lake.transaction("serializable"), lake.transaction("serializable")
    first.table("shop.a").add_columns({"more": "1"})
    second.append("shop.b", rows(len(second.table("shop.a").schema)))
    intents = [intent for tx in (first, second) if (intent := tx.intent()) is not None]
    made, refused = lake.decide_group(intents)
    assert made.error is None
    assert isinstance(refused.error, RetryableConflict)


def properties(tx: Transaction, *name: str) -> dict[str, str]:
    return tx.namespace().describe_table(ln.DescribeTableRequest(id=list(name))).properties or {}


def test_properties_are_those_that_the_transaction_has_set(lake: Lake) -> None:
    lake.run(lambda tx: tx.set_properties("shop.a", {"owner": "me", "old": "1"}))
    tx = lake.transaction()
    tx.set_properties("shop.a", {"owner": "you", "old": None, "new": "2"})
    assert properties(tx, "shop", "a") == {"owner": "you", "new": "2"}
    tx.commit()
    assert properties(lake.transaction(), "shop", "a") == {"owner": "you", "new": "2"}


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        (lambda tx: tx.set_properties("shop.a", {"owner": "you"}), True),
        (lambda tx: tx.table("shop.a").update_config({"x": "1"}), False),
    ],
    ids=["properties", "settings"],
)
def test_properties_that_others_change_fail_whoever_has_looked_at_them(
    lake: Lake, change: Callable[[Transaction], object], fails: bool
) -> None:
    tx = lake.transaction("serializable")
    tx.append("shop.b", pa.table({"id": [len(properties(tx, "shop", "a"))], "n": [0]}, schema=SCHEMA))
    seiche.open(lake.store).run(change)
    if fails:
        with pytest.raises(RetryableConflict, match=r"shop\.a was read by this transaction"):
            tx.commit()
    else:
        tx.commit()


def snapshots(tx: Transaction) -> int:
    return len(tx.table("shop.seen").to_iceberg().snapshots())


def total_rows(tx: Transaction) -> int:
    found = tx.iceberg_catalog().load_table("shop.seen").current_snapshot()
    return 0 if found is None or found.summary is None else int(found.summary["total-records"] or 0)


def fields(tx: Transaction) -> int:
    return len(tx.table("shop.seen").to_iceberg().schema().fields)


def owner(tx: Transaction) -> int:
    return len(tx.table("shop.seen").to_iceberg().properties.get("owner", ""))


def set_owner(lake: Lake) -> None:
    with lake.table("shop.seen").to_iceberg().transaction() as change:
        change.set_properties({"owner": "you"})


# Which changes by others matter to each: rows are not the same under other columns.
LOOKS: dict[str, tuple[Callable[[Transaction], int], set[str]]] = {
    "snapshots": (snapshots, {"rows", "columns"}),
    "current snapshot": (total_rows, {"rows", "columns"}),
    "schema": (fields, {"columns"}),
    "properties": (owner, {"properties"}),
}
CHANGES: dict[str, Callable[[Lake], object]] = {
    "rows": lambda lake: lake.table("shop.seen").append(rows(2)),
    "columns": lambda lake: add_column(lake, "shop.seen"),
    "properties": set_owner,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("look", LOOKS)
def test_what_a_pyiceberg_table_shows_was_read(lake: Lake, look: str, change: str) -> None:
    """Two transactions that each decide by the snapshots of what the other appends to must not both commit."""
    lake.create_table("shop.seen", SCHEMA, format="iceberg").append(rows(1))
    looked, matters = LOOKS[look]
    tx = lake.transaction("serializable")
    tx.append("shop.b", rows(looked(tx)))
    CHANGES[change](seiche.open(lake.store))
    if change in matters:
        with pytest.raises(RetryableConflict, match=r"shop\.seen was read by this transaction"):
            tx.commit()
    else:
        tx.commit()


def test_rows_that_are_only_added_by_pyiceberg_read_nothing(lake: Lake) -> None:
    lake.create_table("shop.seen", SCHEMA, format="iceberg").append(rows(1))
    tx = lake.transaction("serializable")
    tx.table("shop.seen").to_iceberg().append(rows(3))
    for change in CHANGES.values():
        change(seiche.open(lake.store))
    tx.commit()
    assert sorted(lake.table("shop.seen").to_arrow()["id"].to_pylist()) == [1, 2, 3]


# The row of such a view is in a file of its own.
LARGE = f"SELECT '{'x' * 5000}'"


def test_a_listing_reads_no_rows_that_are_in_files_of_their_own() -> None:
    store = CountingStore(DictStore())
    lake = seiche.create(store)
    lake.create_namespace("shop")
    with lake.transaction() as tx:
        for number in range(20):
            tx.create_view(f"shop.v{number}", LARGE)
    store.reset()
    assert len(lake.tables("shop")) == len(lake.tables()) == 20
    assert store.requests == 2, "whether there is a newer version"


def test_who_has_listed_large_rows_minds_other_objects_and_not_other_values() -> None:
    lake = seiche.create(DictStore())
    lake.create_namespace("shop")
    lake.create_namespace("shop.deep", {"about": LARGE})
    first, second = (lake.transaction("serializable") for _ in range(2))
    for number, tx in enumerate((first, second)):
        assert tx.namespaces("shop") == [("shop", "deep")]
        tx.create_namespace(f"n{number}")
    lake.run(lambda tx: tx.alter_namespace("shop.deep", {"about": LARGE + " AS more"}))
    first.commit()
    lake.drop_namespace("shop.deep")
    lake.create_namespace("shop.deep", {"about": LARGE})
    with pytest.raises(RetryableConflict, match="what there is in namespace shop was read"):
        second.commit()


def test_all_tables_are_one_listing_whatever_the_transaction_has_made(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = seiche.create(DictStore())
    lake.create_namespace("old")
    lake.run(lambda tx: tx.create_view("old.v", "SELECT 1"))
    tx = lake.transaction("serializable")
    for number in range(20):
        tx.create_namespace(f"n{number:02}")
        tx.create_view(f"n{number:02}.v", "SELECT 1")
    looked = []
    inside = KeyRange.__contains__

    def counted(span: KeyRange, key: object) -> bool:
        looked.append(key)
        return inside(span, key)

    monkeypatch.setattr(KeyRange, "__contains__", counted)
    assert tx.tables() == [*((f"n{number:02}", "v") for number in range(20)), ("old", "v")]
    assert len(looked) == len(tx.rows) == 40
    lake.create_namespace("new")
    lake.run(lambda tx: tx.create_view("new.v", "SELECT 1"))
    with pytest.raises(RetryableConflict, match="what there is in the lake was read"):
        tx.commit()
