"""What commands print: lines and tables for people, JSON for programs. Colours only on a terminal."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeAlias

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["AsJson", "print_json", "print_line", "print_table", "row_text"]

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

# Without a terminal there is nobody to wrap lines for: a program that reads them wants each row whole.
_WIDTH_WITHOUT_TERMINAL = 10_000


def _console() -> Console:
    # Made at each use, so that it prints to whatever stdout is at that time. Texts are printed as they are: what looks
    # like markup or an emoji code in a name is part of the name.
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDTH_WITHOUT_TERMINAL
    return console


def print_line(text: str = "", *, style: str = "") -> None:
    """One line of text."""
    _console().print(Text(text, style=style))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, styles: dict[str, str] | None = None
) -> None:
    """Rows under a heading; a cell whose text is a key of `styles` is shown in that style."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell), style=(styles or {}).get(str(cell), "")) for cell in row))
    _console().print(table, soft_wrap=False)


def row_text(row: Mapping[str, object]) -> str:
    """A row in one line."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


def print_json(value: object) -> None:
    """A value for a program to read; what JSON does not know, such as a time, as text."""
    print(json.dumps(value, indent=2, default=str))
