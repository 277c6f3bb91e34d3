"""Merging rows by key, said clause by clause."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from seiche.core.given import names, text, texts
from seiche.table.change import Result
from seiche.table.data.merge.clauses import Clause
from seiche.table.engines import engine_for

__all__ = ["MergeBuilder"]


class MergeBuilder:
    """Says what a merge shall do; `execute` does it.

    Clauses about the same rows are tried in the order given, and the first whose condition is true is applied. In the
    conditions and expressions of matched rows, columns are written `source.x` and `target.x`; elsewhere plainly `x`.
    Keys are equal as in SQL: a null is never equal to anything.
    """

    def __init__(
        self,
        run: Callable[..., Result],
        data: Any,
        on: str | Sequence[str],
        limits: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """Use `merge` of a table."""
        self._run = run
        self._data = data
        self._on = tuple(names(on, "the key of a merge", 'Give columns: on="id", or on=["day", "id"].'))
        self._limits = limits
        self._clauses: list[Clause] = []

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Rows of the table whose key is in the data take over all columns that the data has."""
        return self._with(Clause("matched", "update", None, condition))

    def when_matched_update(self, set: Mapping[str, str], condition: str | None = None) -> Self:  # noqa: A002
        """Rows of the table whose key is in the data get these columns set, to SQL over `source.x` and `target.x`."""
        assignments = texts(set, "what is set", 'Give SQL by column: {"left": "source.left"}.')
        return self._with(Clause("matched", "update", assignments, condition))

    def when_matched_delete(self, condition: str | None = None) -> Self:
        """Rows of the table whose key is in the data are removed."""
        return self._with(Clause("matched", "delete", None, condition))

    def when_not_matched_insert_all(self) -> Self:
        """Rows of the data whose key is not in the table are added. Of two merges that add one key, one does."""
        return self._with(Clause("not matched", "insert"))

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> Self:
        """Rows of the table whose key is not in the data are removed, if the SQL condition is true for them."""
        return self._with(Clause("not matched by source", "delete", None, expr))

    def when_not_matched_by_source_update(self, set: Mapping[str, str], expr: str | None = None) -> Self:  # noqa: A002
        """Rows of the table whose key is not in the data get these columns set, if the condition is true for them."""
        assignments = texts(set, "what is set", 'Give SQL by column: {"left": "left - 1"}.')
        return self._with(Clause("not matched by source", "update", assignments, expr))

    def execute(self, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Do it. `notes` of the result say how many rows were inserted, updated and deleted.

        The data is kept in memory meanwhile. Two of its rows with the same key are `InvalidInput`: which of them counts
        could not be said.
        """
        from seiche.table.data.merge.merging import Merging
        from seiche.table.data.write import Limits

        make = Merging if (elsewhere := engine_for(self._data)) is None else elsewhere.merging
        prepare = make(self._data, self._on, self._clauses, Limits.of(*self._limits))
        return self._run("merge", prepare, attempts=attempts, timeout=timeout)

    def __repr__(self) -> str:
        clauses = ", ".join(f"{one}" for one in self._clauses)
        return f"<merge on {', '.join(self._on)}: {clauses or 'no clause yet'}; execute() does it>"

    def _with(self, clause: Clause) -> Self:
        if clause.condition is not None:
            text(clause.condition, f"the condition of '{clause}'", "Give SQL, or nothing for all such rows.")
        self._clauses.append(clause)
        return self
