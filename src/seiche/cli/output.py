"""What commands print: lines and tables for people, JSON for programs. Colours only on a terminal."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from typing import Annotated, TypeAlias

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["TIME", "AsJson", "as_text", "print_json", "print_line", "print_table", "row_text"]

# How times are shown; they are in UTC.
TIME = "%Y-%m-%d %H:%M:%S"
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

# Without a terminal there is nobody to wrap lines for: a program that reads them wants each row whole.
_WIDTH_WITHOUT_TERMINAL = 10_000
# Between two cells.
_GAP = "   "
_BROKEN = re.compile(r"[\t\n]")
# What drives a terminal, besides the ends of lines. It may stand in a row that somebody else has written.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _console() -> Console:
    # Made at each use, so that it prints to whatever stdout is at that time. Texts are printed as they are: what looks
    # like markup or an emoji code in a name is part of the name.
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDTH_WITHOUT_TERMINAL
    return console


def print_line(text: str = "", *, style: str = "") -> None:
    """One line of text."""
    _console().print(_text(text, style))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, styles: dict[str, str] | None = None
) -> None:
    """Rows under a heading; a cell whose text is a key of `styles` is shown in that style."""
    cells = [[_plain(str(cell)) for cell in row] for row in rows]
    console = _console()
    lines = _laid_out([list(columns), *cells], console)
    if lines is None:
        _print_wrapped(console, columns, cells, styles or {})
        return
    print_line(lines[0], style="bold")
    print_line("─" * cell_len(lines[0]))
    if styles and console.is_terminal:
        for line, row in zip(lines[1:], cells, strict=True):
            console.print(_styled(line, row, styles))
    elif cells:
        print("\n".join(lines[1:]))


def _laid_out(rows: list[list[str]], console: Console) -> list[str] | None:
    """Each row in a line, cells below one another; `None` if one does not fit into a line of the console.

    As rich does it, which takes a minute for 100,000 rows: it looks at every cell several times.
    """
    even = len(set(map(len, rows))) == 1
    if (
        not rows[0]
        or not even
        or console.options.ascii_only
        or any(_BROKEN.search(cell) for row in rows for cell in row)
    ):
        return None
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + len(_GAP) * (len(widths) - 1) > console.width:
        return None
    return [
        _GAP.join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _styled(line: str, row: list[str], styles: Mapping[str, str]) -> Text:
    text, at = Text(line), 0
    for cell in row:
        at = line.index(cell, at)
        if cell in styles:
            text.stylize(styles[cell], at, at + len(cell))
        at += len(cell)
    return text


def _print_wrapped(console: Console, columns: Sequence[str], rows: list[list[str]], styles: Mapping[str, str]) -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    console.print(table, soft_wrap=False)


def _text(text: str, style: str) -> Text:
    return Text(_plain(text), style=style)


def _plain(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def row_text(row: Mapping[str, object]) -> str:
    """A row in one line."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


def print_json(value: object) -> None:
    """A value for a program to read. What JSON does not know is text: times as in ISO 8601, bytes in hex, and numbers
    that are none.
    """
    try:
        text = json.dumps(value, indent=2, default=as_text, allow_nan=False)
    except ValueError:  # an infinite number, or none
        text = json.dumps(_finite(value), indent=2, default=as_text)
    print(text)


def as_text(value: object) -> str:
    """What JSON has no way to say: times as in ISO 8601, bytes in hex, everything else as it is."""
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
