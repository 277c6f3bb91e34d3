"""Tables to try the verbs about rows on: every kind of column, written by pylance, and others who interfere."""

import datetime
import decimal
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from seiche.core.runtime import SYSTEM
from seiche.store.local import LocalStore
from seiche.table.change import Change, Prepare, Result
from seiche.table.snapshot import Snapshot
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.table.verbs.rows import RowVerbs
from seiche.table.versions.stored import PutVersions


class RowTable(RowVerbs):
    """A table whose verbs can be interrupted between preparing a change and committing it, by whoever is faster."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = LocalStore(path, durability="os")
        self.table = Table.open(self.store)
        # Run one after the other, each after a change was prepared and before it is committed.
        self.meanwhile: list[Callable[[], object]] = []
        self.prepared: list[Change | None] = []

    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        def interrupted(snapshot: Snapshot) -> Change | None:
            self.prepared.append(prepare(snapshot))
            if self.meanwhile:
                self.meanwhile.pop(0)()
            return self.prepared[-1]

        return self.table._run(verb, interrupted, attempts=attempts, timeout=timeout)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.store, self.table.manifest, SYSTEM)

    def transaction(self) -> Transaction:
        """The one that made the newest version."""
        versions = PutVersions(self.store)
        return versions.transaction(versions.newest())

    def lance(self) -> Any:
        return lance.dataset(str(self.path))

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        """All rows by ascending id, as pylance reads them, after it has looked for damage."""
        self.lance().validate()
        return in_order(self.lance().to_table(**options))

    def files(self) -> list[str]:
        """What lies under `data` and `_deletions`."""
        return sorted(info.path for folder in ("data", "_deletions") for info in self.store.list(folder))


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda one: (one["id"] is None, one["id"]))


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("long", pa.large_string()),
        pa.field("small", pa.int32()),
        pa.field("ratio", pa.float64()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("day", pa.date32()),
        pa.field("flag", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("kind", pa.dictionary(pa.int32(), pa.string())),
        pa.field("place", pa.struct([pa.field("x", pa.int32()), pa.field("label", pa.string())])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("deep", pa.list_(pa.struct([pa.field("p", pa.float64()), pa.field("q", pa.large_string())]))),
        pa.field("vector", pa.list_(pa.float32(), 4)),
    ]
)


def row(number: int) -> dict[str, Any]:
    """Values of every column that follow from the number, nulls among them."""

    def unless(divisor: int, value: object) -> object:
        return None if number % divisor == 1 else value

    return {
        "id": number,
        "name": unless(5, f"name {number % 17}"),
        "long": unless(7, "long " * (number % 3) + str(number)),
        "small": unless(4, number % 1000),
        "ratio": unless(6, number / 8),
        "price": unless(9, decimal.Decimal(number * 25) / 100),
        "at": unless(8, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=number)),
        "day": unless(11, datetime.date(2024, 1, 1) + datetime.timedelta(days=number % 300)),
        "flag": unless(3, number % 2 == 0),
        "raw": unless(10, bytes([number % 256, 1])),
        "kind": unless(13, f"kind {number % 4}"),
        "place": unless(12, {"x": unless(5, number), "label": f"at {number}"}),
        "tags": unless(6, [f"t{number % 3}"] * (number % 4)),
        "deep": unless(14, [{"p": number / 2, "q": unless(2, "q")}] * (number % 3)),
        "vector": unless(15, [float(number), 0.5, -1.0, 2.0]),
    }


def rows_of(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([row(number) for number in numbers], schema=SCHEMA)


def some_rows(count: int, start: int = 0) -> pa.Table:
    return rows_of(*range(start, start + count))


def pylance_table(path: Path, data: pa.Table, *, rows_per_file: int = 10, **options: Any) -> Any:
    shutil.rmtree(path, ignore_errors=True)
    return lance.write_dataset(data, str(path), max_rows_per_file=rows_per_file, **options)
