"""Changes of another database, brought into several tables of a lake in the order and the groups they were made in.

    python examples/cdc.py

Each transaction of the source changes several tables. It arrives as one batch, and becomes one version of the lake: a
reader never sees an order without its payment. Batches carry a number; one that arrives twice is applied once.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

import seiche

SCHEMAS = {
    "shop.orders": pa.schema([("id", pa.int64()), ("product", pa.string())]),
    "shop.payments": pa.schema([("id", pa.int64()), ("order_id", pa.int64()), ("amount", pa.float64())]),
}


@dataclass(frozen=True)
class Change:
    """One row that was written or removed at the source."""

    table: str
    kind: Literal["upsert", "delete"]
    row: dict[str, Any]


def apply(lake: seiche.Lake, number: int, changes: list[Change]) -> int:
    """Apply one transaction of the source; the version of the lake that has it."""
    with lake.transaction(stream="shop-database", epoch=number, owner="replica-1") as tx:
        for table, schema in SCHEMAS.items():
            mine = [change for change in changes if change.table == table]
            written = [change.row for change in mine if change.kind == "upsert"]
            removed = [change.row["id"] for change in mine if change.kind == "delete"]
            if written:
                merge = tx.merge(table, pa.Table.from_pylist(written, schema=schema), on="id")
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
            if removed:
                tx.delete(table, f"id IN ({', '.join(map(str, removed))})")
    return tx.version or 0


def main(folder: Path) -> None:
    lake = seiche.create(str(folder / "lake"))
    lake.create_namespace("shop")
    for table, schema in SCHEMAS.items():
        lake.create_table(table, schema)
    order = Change("shop.orders", "upsert", {"id": 1, "product": "oar"})
    payment = Change("shop.payments", "upsert", {"id": 7, "order_id": 1, "amount": 45.0})
    print("version", apply(lake, 1, [order, payment]))
    print("version", apply(lake, 1, [order, payment]), "again: the batch came twice")
    cancelled = [Change("shop.orders", "delete", {"id": 1}), Change("shop.payments", "delete", {"id": 7})]
    print("version", apply(lake, 2, cancelled))
    for version in range(lake.version - 1, lake.version + 1):
        then = seiche.open(lake.store, version=version)
        print(version, {table: then.table(table).count_rows() for table in SCHEMAS})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
