"""Run benchmarks and print their tables.

    python -m bench              all of them
    python -m bench store ...    only these

A benchmark is a module of this folder with a function `run() -> Iterable[bench.report.Table]`. With `--json` the tables
are printed for a program, or for keeping.
"""

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterable
from dataclasses import asdict
from types import ModuleType

from rich.console import Console
from rich.table import Table as RichTable

import bench
from bench.report import Table

NOT_BENCHMARKS = {"__main__", "report"}


def find() -> dict[str, ModuleType]:
    """The benchmarks of this folder by name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name not in NOT_BENCHMARKS)
    modules = {name: importlib.import_module(f"bench.{name}") for name in names if not name.startswith("_")}
    return {name: module for name, module in modules.items() if hasattr(module, "run")}


def show(console: Console, tables: Iterable[Table]) -> None:
    for table in tables:
        shown = RichTable(title=table.title, title_justify="left", caption=table.note or None, caption_justify="left")
        for position, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if position == 0 else "right")
        for row in table.rows:
            shown.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row))
        console.print(shown)


def main() -> int:
    benchmarks = find()
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run benchmarks and print their tables.")
    parser.add_argument("names", nargs="*", help="which ones (default: all): " + ", ".join(benchmarks))
    parser.add_argument("--json", action="store_true", help="print JSON")
    wanted = parser.parse_args()
    unknown = [name for name in wanted.names if name not in benchmarks]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are: " + ", ".join(benchmarks))
    console = Console(width=None if sys.stdout.isatty() else 140)
    for name in wanted.names or benchmarks:
        if wanted.json:
            tables = [asdict(table) for table in benchmarks[name].run()]
            print(json.dumps({"benchmark": name, "tables": tables}, default=str), flush=True)
        else:
            show(console, benchmarks[name].run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
