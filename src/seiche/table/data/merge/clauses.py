"""What a merge shall do, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Action", "Clause", "Side"]

# Which rows a clause is about: those of the table whose key is in the data, those of the data whose key is not in the
# table, and those of the table whose key is not in the data.
Side: TypeAlias = Literal["matched", "not matched", "not matched by source"]
Action: TypeAlias = Literal["update", "delete", "insert"]


@dataclass(frozen=True, slots=True)
class Clause:
    """One `when ... then ...`. Of the clauses about a row, the first whose condition is true is applied."""

    side: Side
    action: Action
    # Columns and the SQL that they are set to; `None` sets all columns that the data has.
    assignments: Mapping[str, str] | None = None
    condition: str | None = None

    @property
    def takes_all(self) -> bool:
        """Whether it takes over the rows of the data as they are."""
        return self.action != "delete" and self.assignments is None

    def __str__(self) -> str:
        return f"when {self.side} {self.action}"
