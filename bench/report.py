"""What a benchmark hands back: a table, and in words what it was measured against."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A title, column names, rows of text or numbers, and a note on how to read them."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""
