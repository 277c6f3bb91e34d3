"""What commands print: lines and tables for people, JSON for programs. Colours only on a terminal."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from typing import Annotated, TypeAlias

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["TIME", "AsJson", "as_text", "print_json", "print_line", "print_table", "row_text"]

# How times are shown; they are in UTC.
TIME = "%Y-%m-%d %H:%M:%S"
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

# Without a terminal there is nobody to wrap lines for: a program that reads them wants each row whole.
_WIDTH_WITHOUT_TERMINAL = 10_000
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
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_text(str(cell), (styles or {}).get(str(cell), "")) for cell in row))
    _console().print(table, soft_wrap=False)


def _text(text: str, style: str) -> Text:
    return Text(_CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text), style=style)


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
