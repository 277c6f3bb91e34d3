"""`seiche demo`: what Seiche does, shown on a store in a temporary folder."""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.output import print_line, print_table
from seiche.cli.store import show_report

if TYPE_CHECKING:
    from seiche.store import Store

__all__ = ["demo", "race"]


def demo(
    writers: Annotated[int, typer.Option(min=1, max=64, help="How many writers race for one name.")] = 8,
) -> None:
    """See what Seiche does. Leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="seiche-demo-") as folder:
        store = seiche.store.open_store(folder)
        print_line(f"{writers} writers create the same file at the same moment. Exactly one may win:", style="bold")
        outcomes = race(store, "roots/00001", writers)
        print_table(("writer", "outcome"), enumerate(outcomes, 1), styles={"won": "green"})
        print_line(f"\nThe file says: {store.get('roots/00001').decode()}\n")
        print_line("What else this store was seen to do:", style="bold")
        show_report(seiche.store.probe(store))


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
