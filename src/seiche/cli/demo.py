"""`seiche demo`: what Seiche does, shown on a lake in a temporary folder."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.output import print_line, print_table, row_text
from seiche.cli.quiet import quiet_start
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche import Lake
    from seiche.spark.pipeline.run import Run

__all__ = ["demo"]

ROWS = "rows in version"
TABLES = ("shop.orders", "shop.customers", "shop.products", "shop.sales")


def demo(
    keep: Annotated[Path | None, typer.Option(help="Make the lake in this folder and leave it there.")] = None,
) -> None:
    """See what Seiche does, in about a minute. Leaves nothing behind unless told to.

    ```sh
    seiche demo
    seiche demo --keep shop-demo
    ```
    """
    from seiche.spark.settings import require_pyspark

    require_pyspark()
    if keep is not None and keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        raise InvalidInput(f"{keep} is there already, and not an empty folder", remedy="Name a new folder, or none.")
    with ExitStack() as stack:
        Story(keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seiche-demo-")))).tell()
    _what_next(keep)


def _what_next(kept: Path | None) -> None:
    """Three commands that work as they stand there."""
    seiche_, folder = _command(), kept or Path("shop-demo")
    query = "SELECT city, sum(revenue) FROM shop.sales GROUP BY city"
    commands = [
        f"demo --keep {shlex.quote(str(folder))}",
        f"log {shlex.quote(f'{folder}/lake')}",
        f'sql {shlex.quote(f"{folder}/lake")} -e "{query}"',
        f"run {shlex.quote(f'{folder}/shop.yaml')} --dry-run",
    ]
    if kept is None:
        print_line("\nThis lake is gone again. Try next, to keep one and look around:", style="bold")
    else:
        print_line(f"\nThe lake is in {kept}. Try next:", style="bold")
    for command in commands[:3] if kept is None else commands[1:]:
        print_line(f"  {seiche_} {command}")
    if shutil.which("java") is None and os.environ.get("JAVA_HOME"):
        print_line(f"Spark needs Java: export JAVA_HOME={os.environ['JAVA_HOME']}")


def _command() -> str:
    """How this command was called, so that it can be called again."""
    called = sys.argv[0]
    return "seiche" if shutil.which("seiche") == os.path.abspath(called) or Path(called).name != "seiche" else called


class Story:
    """The shop by the lake, told step by step on a folder of its own."""

    def __init__(self, folder: Path) -> None:
        from seiche.spark.demo import spark

        self._folder = folder
        self._number = 0
        print_line("A lake in a folder, and Spark on this machine, which takes some seconds to start.\n")
        with quiet_start():
            self._spark = spark()

    def tell(self) -> None:
        """The whole story."""
        self._first_day()
        first = self._lake.version
        self._broken_till()
        self._meanwhile()
        self._search()
        self._time_travel(first)
        self._rollback(first)

    @property
    def _lake(self) -> "Lake":
        return seiche.open(str(self._folder / "lake"))

    def _heading(self, text: str) -> None:
        self._number += 1
        print_line(f"{'' if self._number == 1 else chr(10)}{self._number}. {text}", style="bold")

    def _first_day(self) -> None:
        from seiche.spark.demo import files, pipeline_text

        self._heading("A pipeline makes four tables of the shop's files, on Spark, and publishes them at once:")
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "shop.yaml").write_text(pipeline_text(), "utf-8")
        files.customers(self._folder)
        files.catalogue(self._folder)
        files.day(self._folder, 1)
        done = self._run()
        record = done.record
        if record is not None:
            rows = [(step.table, step.mode, ", ".join(step.reads), step.rows) for step in record.steps]
            print_table(("table", "mode", "from", "rows"), rows)
            print_line("The last one is an Iceberg table, the others are Lance tables.")
            print_line(f"{len(record.checks)} checks passed on what was about to be published.")
            print_line(f"All of it became version {done.version} of the lake, in one step.")

    def _broken_till(self) -> None:
        from seiche.spark.demo import files

        self._heading("The till was broken on the second day. The checks find it, and nothing of the day is published:")
        files.bad_day(self._folder, 2)
        done = self._run()
        for check in done.failed_checks:
            print_line(f"  failed: {check.name} (found {check.found}, expected {check.expected})", style="red")
            for row in check.rows:
                print_line(f"    {row_text(row)}")
        print_line(f"All tables are as they were; version {self._lake.version} only notes that the run was rejected.")
        self._state(self._lake)

    def _meanwhile(self) -> None:
        from seiche.spark.demo import files

        self._heading("The file is corrected and run again. While it runs, somebody else adds to the same table:")
        files.day(self._folder, 2)

        def order_by_telephone() -> None:
            late = {"id": 1, "customer": 1, "product": 1, "amount": 480.0, "day": None}
            self._lake.table("shop.orders").append([late])
            print_line(f"  an order by telephone became version {self._lake.version}")

        done = self._run(_once("shop.sales", order_by_telephone))
        print_line(
            f"  the pipeline saw that its summary was out of date, built it again and became version {done.version}"
            f" (attempt {done.attempts})"
        )
        print_line("Nobody's rows are lost: 2000 orders of each day, and the one by telephone.")
        self._state(self._lake)

    def _search(self) -> None:
        self._heading("The products have vectors and an index. What is most like a lake chart?")
        products = self._lake.table("shop.products").to_lance()
        chart = products.to_table(filter="name = 'lake chart'")["likeness"][0].as_py()
        found = products.to_table(
            nearest={"column": "likeness", "q": chart, "k": 4}, columns=["name", "price", "_distance"]
        )
        print_table(("product", "price"), [(row["name"], row["price"]) for row in found.to_pylist()[1:]])

    def _time_travel(self, first: int) -> None:
        self._heading("Every version can still be read, all tables as they were together:")
        versions = [first, *range(first + 1, self._lake.version + 1)]
        print_table((ROWS, *TABLES), [self._counts(seiche.open(self._lake.store, version=one)) for one in versions])

    def _rollback(self, first: int) -> None:
        self._heading(f"All of it back to version {first}, in one step:")
        last = self._lake.version
        self._lake.rollback(to=first, expected_version=last)
        print_line(f"Version {self._lake.version} is like version {first}; those up to {last} can still be read.")
        self._state(self._lake)

    def _run(self, progress: Callable[[str, str], None] | None = None) -> "Run":
        from seiche.spark.pipeline.progress import unheard
        from seiche.spark.pipeline.run import run
        from seiche.spark.pipeline.yaml_file import load

        return run(load(self._folder / "shop.yaml"), self._spark, progress=progress or unheard)

    def _state(self, lake: "Lake") -> None:
        print_table((ROWS, *TABLES), [self._counts(lake)])

    def _counts(self, lake: "Lake") -> Sequence[object]:
        return [lake.version, *(lake.table(name).count_rows() for name in TABLES)]


def _once(table: str, meddle: Callable[[], None]) -> Callable[[str, str], None]:
    """Progress that lets something happen the first time that this table is built."""
    todo = [meddle]

    def progress(what: str, state: str) -> None:
        if what == table and state.endswith("rows") and todo:
            todo.pop()()

    return progress
