"""Merging rows into an Iceberg table: as much of it as PyIceberg's upsert does."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self

from seiche.errors import InvalidInput
from seiche.table.change import Result

__all__ = ["IcebergMerge"]


class IcebergMerge:
    """Says what an upsert shall do; `execute` does it."""

    def __init__(self, table: str, upsert: Callable[..., Result]) -> None:
        """Use `merge` of a table."""
        self._table = table
        self._upsert = upsert
        self._update = self._insert = False

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Rows of the table whose key is in the data take over all columns."""
        if condition is not None:
            self._refuse("a condition")
        self._update = True
        return self

    def when_not_matched_insert_all(self) -> Self:
        """Rows of the data whose key is not in the table are added."""
        self._insert = True
        return self

    def when_matched_update(self, set: Mapping[str, str], condition: str | None = None) -> Self:  # noqa: A002
        """Refused."""
        self._refuse(f"an update of {', '.join(set)}" + (f" where {condition}" if condition else ""))

    def when_matched_delete(self, condition: str | None = None) -> Self:
        """Refused."""
        self._refuse("a delete" + (f" where {condition}" if condition else ""))

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> Self:
        """Refused."""
        self._refuse("a delete by source" + (f" where {expr}" if expr else ""))

    def execute(self, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Do it; outside of a transaction again and again, as `attempts` and `timeout` allow."""
        return self.chosen(self._update, self._insert, attempts=attempts, timeout=timeout)

    def chosen(self, update: bool, insert: bool, **bounds: Any) -> Result:
        """Do what was chosen elsewhere."""
        if not update and not insert:
            raise InvalidInput(
                "the merge does nothing", remedy="Say `when_matched_update_all` or `when_not_matched_insert_all`."
            )
        return self._upsert(update, insert, **bounds)

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidInput(
            f"{self._table} is an Iceberg table: a merge into it cannot have {what}",
            remedy="Read the rows, change them, and `overwrite(..., where=)` them.",
            table=self._table,
        )
