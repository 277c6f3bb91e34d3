"""Run benchmarks and print their tables.

    python -m bench              all of them
    python -m bench store ...    only these
    python -m bench lake --part committers      a part of one that takes long

A benchmark is a module of this folder with a function `run() -> Iterable[bench.report.Table]`; helpers have names that
begin with an underscore. One that takes long has `PARTS`, functions like `run` by name. With `--json` the tables are
printed for a program, or for keeping.
"""

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

import bench
from bench.report import Table

NOT_BENCHMARKS = {"__main__", "report"}


def find() -> list[str]:
    """The names of the benchmarks in this folder."""
    names = {module.name for module in pkgutil.iter_modules(bench.__path__)} - NOT_BENCHMARKS
    return sorted(name for name in names if not name.startswith("_"))


def tables(name: str, part: str | None) -> Iterable[Table]:
    """Run one benchmark, or a part. Imported only now, so that one measures without the libraries of the others."""
    module = importlib.import_module(f"bench.{name}")
    parts: Mapping[str, Callable[[], Iterable[Table]]] = getattr(module, "PARTS", {})
    if part is not None and part not in parts:
        raise SystemExit(f"the benchmark {name!r} has no part {part!r}, but: {', '.join(parts) or 'none'}")
    found: Iterable[Table] = module.run() if part is None else parts[part]()
    return found


@cache
def machine() -> str:
    """What the figures were measured on."""
    return (
        f"Python {platform.python_version()} (pace {pace():.0f} ms), {platform.system()} {platform.machine()},"
        f" {os.cpu_count()} cores"
    )


def pace() -> float:
    """Milliseconds that this Python takes for a fixed piece of work, at best.

    Most of a commit is work of the interpreter, and one that was built without optimisation by profiles, as pyenv does
    unless told otherwise, takes a quarter longer than that of a distribution on the same machine.
    """

    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        fibonacci(20)
        found = {str(number): (number, [number]) for number in range(20_000)}
        sorted(found)
        taken.append(time.perf_counter() - begin)
    return min(taken) * 1000


def show(console: Console, measured: Iterable[Table]) -> None:
    """Print each table as soon as it is there."""
    for table in measured:
        shown = RichTable(title=Text(table.title, style="bold"), title_justify="left")
        shown.caption, shown.caption_justify = Text(table.note) if table.note else None, "left"
        for position, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if position == 0 else "right")
        for row in table.rows:
            shown.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row))
        console.print(shown)


def main(arguments: list[str] | None = None) -> int:
    names = find()
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run benchmarks and print their tables.")
    parser.add_argument("names", nargs="*", help="which ones (default: all): " + ", ".join(names))
    parser.add_argument("--part", help="only this part of each")
    parser.add_argument("--json", action="store_true", help="print JSON, one line for each benchmark")
    wanted = parser.parse_args(arguments)
    for name in wanted.names:
        if name not in names:
            parser.error(f"there is no benchmark {name!r}, but: {', '.join(names)}")
    console = Console(markup=False, emoji=False, highlight=False, width=None if sys.stdout.isatty() else 140)
    if not wanted.json:
        console.print(machine())
    for name in wanted.names or names:
        if wanted.json:
            measured = [asdict(table) for table in tables(name, wanted.part)]
            print(json.dumps({"benchmark": name, "machine": machine(), "tables": measured}, default=str), flush=True)
        else:
            show(console, tables(name, wanted.part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
