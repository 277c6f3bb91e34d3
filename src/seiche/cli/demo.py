"""`seiche demo`: what Seiche does, shown on a lake in a temporary folder."""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Annotated, Any

import typer

import seiche
from seiche.cli.output import print_line, print_table

if TYPE_CHECKING:
    from seiche import Lake
    from seiche.lake.transaction import Transaction
    from seiche.store import Store

__all__ = ["demo", "race"]

ORDERS, STOCK = "shop.orders", "shop.stock"


def demo(
    writers: Annotated[int, typer.Option(min=1, max=64, help="How many writers race for one name.")] = 8,
    keep: Annotated[Path | None, typer.Option(help="Make the lake in this folder and leave it there.")] = None,
) -> None:
    """See what Seiche does. Leaves nothing behind unless told to."""
    if keep is not None:
        show(str(keep), writers)
        print_line(f"\nThe lake is in {keep}. Try next:", style="bold")
        print_line(f'  python -c "import seiche; print(seiche.open({str(keep)!r}).tables({"shop"!r}))"')
        print_line(f"  seiche store probe {keep}")
        print_line("  seiche --help")
        return
    with tempfile.TemporaryDirectory(prefix="seiche-demo-") as folder:
        show(f"{folder}/lake", writers)


def show(uri: str, writers: int) -> None:
    """The whole story, on a new lake at `uri`."""
    lake = _shop(uri)
    _race(lake.store, writers)
    _together(lake)
    _not_at_all(lake)
    _rebased(lake)
    _conflict(lake)
    _time_travel(lake)


def _shop(uri: str) -> "Lake":
    import pyarrow as pa

    lake = seiche.create(uri)
    with lake.transaction() as tx:
        tx.create_namespace("shop")
        tx.create_table(ORDERS, pa.schema([("id", pa.int64()), ("sku", pa.string())]))
        stock = tx.create_table(STOCK, pa.schema([("sku", pa.string()), ("left", pa.int64())]))
        stock.append([{"sku": "boat", "left": 3}, {"sku": "oar", "left": 8}])
    return lake


def _race(store: "Store", writers: int) -> None:
    print_line(f"1. {writers} writers create the same file at the same moment. Exactly one may win:", style="bold")
    outcomes = race(store, "demo/race", writers)
    print_table(("writer", "outcome"), enumerate(outcomes, 1), styles={"won": "green"})
    print_line(f"The file says: {store.get('demo/race').decode()}. A commit to a lake is just this, with a root file.")
    store.delete("demo/race")


def _together(lake: "Lake") -> None:
    print_line("\n2. An order and the stock change together, in one version of the lake:", style="bold")
    before = lake.version
    with lake.transaction() as tx:
        _sell(tx, 1, "boat")
    print_line(f"version {before} -> {lake.version}")
    _state(lake)


def _not_at_all(lake: "Lake") -> None:
    print_line("\n3. A check inside the transaction fails, so nothing of it is published:", style="bold")
    before = lake.version
    try:
        with lake.transaction() as tx:
            for number in range(2, 5):
                _sell(tx, number, "boat")
            left = tx.table(STOCK).to_arrow(filter="sku = 'boat'")["left"].to_pylist()
            print_line(f"inside the transaction: boats left {left}")
            if min(left) < 0:
                raise _SoldOut
    except _SoldOut:
        print_line(f"outside, nothing happened: still version {lake.version}" if lake.version == before else "?")
    _state(lake)


def _rebased(lake: "Lake") -> None:
    print_line(
        "\n4. Two writers add orders at the same time; the slower one is rebased, nothing is rewritten:", style="bold"
    )
    slow = lake.transaction()
    slow.append(ORDERS, [{"id": 10, "sku": "oar"}])
    lake.table(ORDERS).append([{"id": 11, "sku": "oar"}])
    print_line(f"the quick one made version {lake.version}, the slow one {slow.commit()}")
    _state(lake)


def _conflict(lake: "Lake") -> None:
    print_line("\n5. Two writers take the same boat. The error says who won and what to do:", style="bold")
    one, other = lake.transaction(), lake.transaction()
    _sell(one, 20, "boat")
    _sell(other, 21, "boat")
    one.commit()
    try:
        other.commit()
    except seiche.RetryableConflict as error:
        print_line(str(error), style="yellow")
    lake.run(lambda tx: _sell(tx, 21, "boat"))
    print_line("lake.run(...) ran it again on the newer version:")
    _state(lake)


def _time_travel(lake: "Lake") -> None:
    print_line("\n6. Every version is still there, all tables as they were together:", style="bold")
    first = lake.version - 5
    versions = [(version, *_counts(seiche.open(lake.store, version=version))) for version in range(first, lake.version)]
    print_table(("version", "orders", "boats left", "oars left"), [*versions, (lake.version, *_counts(lake))])


class _SoldOut(Exception):
    """The demo's own reason to stop."""


def _sell(tx: "Transaction", number: int, sku: str) -> None:
    tx.append(ORDERS, [{"id": number, "sku": sku}])
    tx.update(STOCK, {"left": "left - 1"}, where=f"sku = '{sku}'")


def _counts(lake: "Lake") -> tuple[Any, ...]:
    left = {row["sku"]: row["left"] for row in lake.table(STOCK).to_arrow().to_pylist()}
    return lake.table(ORDERS).to_arrow().num_rows, left["boat"], left["oar"]


def _state(lake: "Lake") -> None:
    print_table(("orders", "boats left", "oars left"), [_counts(lake)])


def race(store: "Store", path: str, writers: int) -> Sequence[str]:
    """Let `writers` threads create `path` at once; what became of each: `won`, or the kind of its error."""
    start = Barrier(writers)

    def write(writer: int) -> str:
        start.wait()
        try:
            store.put_if_absent(path, f"written by writer {writer}".encode())
        except seiche.AlreadyExists as error:
            return error.kind
        return "won"

    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(write, range(1, writers + 1)))
