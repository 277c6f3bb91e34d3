"""A small lake with a service on it, and operations as a client would send them."""

import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import seiche
from seiche import Lake
from seiche.core.clock import SystemClock
from seiche.core.runtime import Runtime
from seiche.service import common_pb2, definitions
from seiche.service.changes import Change, TableDefinition
from seiche.service.core import Service, Settings
from seiche.service.running import Running
from seiche.service.state.database import Database
from seiche.service.state.opening import open_database
from seiche.store.prefix import below
from seiche.table.data.write import Limits, write_rows
from seiche.table.operations import Append, Operation
from seiche.table.operations.overwrite import Overwrite
from seiche.table.transaction import Transaction

SCHEMA = pa.schema([("writer", pa.int64()), ("number", pa.int64())])
TABLES = ("shop.orders", "shop.stock", "shop.carts")


class ShiftedClock(SystemClock):
    """The clock of this machine, as late as a test wants it to be."""

    def __init__(self) -> None:
        self.later = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.later


def shifted() -> tuple[Runtime, ShiftedClock]:
    clock = ShiftedClock()
    return Runtime(clock, random.SystemRandom()), clock


def make_lake(folder: Path, tables: Sequence[str] = TABLES) -> Lake:
    lake = seiche.create(str(folder / "lake"), durability="os")
    lake.create_namespace("shop")
    with lake.transaction() as tx:
        for name in tables:
            tx.create_table(name, SCHEMA)
    return lake


def reopened(lake: Lake) -> Lake:
    """The same lake, as another process has it."""
    return seiche.open(lake.uri, durability="os")


def make_service(
    lake: Lake,
    folder: Path,
    *,
    database: Database | None = None,
    settings: Settings | None = None,
    runtime: Runtime | None = None,
) -> Service:
    found = database or open_database(f"sqlite://{folder}/state.db")
    if runtime is None:
        return Service(lake, found, settings=settings)
    return Service(lake, found, settings=settings, runtime=runtime)


def payload(lake: Lake, table: str, operation: Operation, read_version: int | None = None) -> bytes:
    """The bytes of a Lance transaction."""
    version = lake.table(table).row.table_version if read_version is None else read_version
    return Transaction(version, str(uuid.uuid4()), operation).encode()


def rows(lake: Lake, table: str, writer: int, numbers: Sequence[int]) -> Append:
    """An append of rows that are written now."""
    row = lake.table(table).row
    header = lake.transaction().table(table)._work().base.header
    data = pa.table({"writer": [writer] * len(numbers), "number": list(numbers)}, schema=SCHEMA)
    store = below(lake.store, row.location)
    return Append(write_rows(store, header, SCHEMA, iter(data.to_batches()), Limits.of()).fragments)


def appending(lake: Lake, table: str, writer: int = 0, numbers: Sequence[int] = (0,), **options: object) -> Change:
    """A change that appends rows."""
    data = payload(lake, table, rows(lake, table, writer, numbers))
    return Change(table_name=f"lake.{table}", payload=data, **options)  # type: ignore[arg-type]


def overwriting(lake: Lake, table: str) -> Change:
    """A change that leaves nothing of the table's rows, and that no concurrent append survives."""
    header = lake.transaction().table(table)._work().base.header
    operation = Overwrite(fragments=(), schema=tuple(header.fields))
    return Change(table_name=f"lake.{table}", payload=payload(lake, table, operation))


def defining(lake: Lake, table: str, name: str, namespace: str = "", **properties: str) -> Change:
    """A change that gives a table another name, or another place."""
    table_id = lake.table(table).row.id
    return Change(table_id=table_id, table=definition(table_id, name, namespace, **properties))


def definition(
    table_id: str, name: str, namespace: str = "", schema_json: str = "", **properties: str
) -> TableDefinition:
    message = common_pb2.Table(display_name=name, properties=properties, schema_json=schema_json)
    message.resource_id.account_id, message.resource_id.id = "default", table_id
    message.namespace_id.id = namespace
    return definitions.read(message.SerializeToString(deterministic=True))


def numbers_in(lake: Lake, table: str = "shop.orders", writer: int | None = None) -> list[int]:
    found = lake.table(table).to_arrow(filter=None if writer is None else f"writer = {writer}")
    return sorted(found["number"].to_pylist())


@contextmanager
def held(server: Running) -> Iterator[None]:
    """Nothing is decided in the block."""
    (service,) = server.server.host.services.values()
    go = threading.Event()
    decide = service.group._decider.decide

    def wait(group: Any) -> None:
        go.wait(30)
        decide(group)

    service.group._decider.decide = wait  # type: ignore[method-assign]
    try:
        yield
    finally:
        go.set()
