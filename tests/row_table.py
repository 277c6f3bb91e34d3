"""A table with the verbs about rows, and tables to try them on: every kind of column, as we and as pylance write them."""

import datetime
import decimal
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM
from seiche.errors import RetryableConflict
from seiche.store.local import LocalStore
from seiche.table.change import Prepare, Result
from seiche.table.commit import Committer
from seiche.table.snapshot import Snapshot
from seiche.table.transaction import Transaction
from seiche.table.verbs.rows import RowVerbs
from seiche.table.versions.stored import PutVersions


class RowTable(RowVerbs):
    """Runs the verbs on the newest version and commits what they prepared: the loop of a table, and nothing else of it."""

    def __init__(self, path: Path, *, version: int | None = None) -> None:
        self.path = path
        self.store = LocalStore(path, durability="os")
        self.versions = PutVersions(self.store)
        # To run on an older version than the newest is how a slow writer looks to the others.
        self.read_version = version
        self.prepared: list[int] = []

    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        for attempt in range(1, (attempts or 10) + 1):
            snapshot = self.snapshot()
            self.read_version = None
            self.prepared.append(snapshot.version)
            change = prepare(snapshot)
            if change is None:
                return Result(verb, snapshot.version, changed=False, attempts=attempt)
            transaction = Transaction(snapshot.version, str(SYSTEM.uuid()), change.operation)
            committer = Committer(self.versions, SYSTEM, Patience())
            try:
                made = committer.commit(transaction, snapshot.manifest, affected_rows=change.affected_rows)
            except RetryableConflict:
                if attempt == (attempts or 10):
                    raise
                continue
            return Result(
                verb, made.version, True, change.rows, change.files, change.bytes, attempt, change.notes
            )
        raise AssertionError("unreachable")

    def snapshot(self) -> Snapshot:
        version = self.read_version or self.versions.newest()
        return Snapshot(self.store, self.versions.read(version).manifest, SYSTEM)

    def lance(self) -> lance.LanceDataset:
        return lance.dataset(str(self.path))

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        return list(self.lance().to_table(**options).to_pylist())


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


def pylance_table(path: Path, data: pa.Table, *, rows_per_file: int = 10, **options: Any) -> lance.LanceDataset:
    shutil.rmtree(path, ignore_errors=True)
    return lance.write_dataset(data, str(path), max_rows_per_file=rows_per_file, **options)
