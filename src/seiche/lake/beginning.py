"""What a new table begins with: columns, or rows that have columns."""

from typing import Any

import pyarrow as pa

from seiche.errors import InvalidInput
from seiche.table.data.source import Rows, Source
from seiche.table.engines import engine_for

__all__ = ["Beginning"]

_COLUMNS = 'Give its columns, pa.schema([("id", pa.int64()), ...]), or its first rows.'


class Beginning:
    """A schema, or the first rows; it can be asked again when a transaction is tried again."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self._rows = None if _is_schema(given) else Source(given)

    @staticmethod
    def of(given: Any) -> "Beginning":
        return given if isinstance(given, Beginning) else Beginning(given)

    def take(self) -> tuple[Any, Rows | None]:
        """The columns of the table, and its rows, if it was rows that were given."""
        if self._rows is None:
            return self._given, None
        if (engine := engine_for(self._given)) is not None:
            return _with_types(engine.columns(self._given)), self._given
        if not hasattr(self._given, "__iter__") and not hasattr(self._given, "__arrow_c_stream__"):
            raise InvalidInput(
                f"a table cannot be made of {self._given!r}",
                remedy=_COLUMNS,
            )
        opened = self._rows.open()
        if not opened.schema.names:
            raise InvalidInput("there are no rows that tell which columns the table has", remedy=_COLUMNS)
        return _with_types(opened.schema), pa.RecordBatchReader.from_batches(opened.schema, opened.batches)


def _is_schema(given: Any) -> bool:
    return isinstance(given, pa.Schema) or type(given).__module__.partition(".")[0] == "pyiceberg"


def _with_types(schema: pa.Schema) -> pa.Schema:
    """The columns of rows, as those of a table. What is null today would bind what comes later."""
    for field in schema:
        if pa.types.is_null(field.type):
            raise InvalidInput(
                f"it is not known of which type column {field.name!r} shall be: all its values are null",
                remedy="Make the table of `pa.schema([...])`, which says the types, and append the rows.",
                column=field.name,
            )
    return schema
