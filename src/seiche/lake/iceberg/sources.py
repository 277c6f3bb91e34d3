"""Rows for an Iceberg table, from whatever holds them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from seiche.errors import InvalidInput
from seiche.table.data.fitting import left_out
from seiche.table.data.values import typed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["as_arrow"]

_GIVE: Final = "Give an Arrow table, batches, a data frame, or a list of dictionaries."


def as_arrow(data: Any, schema: "pa.Schema") -> "pa.Table":
    """The rows as an Arrow table that fits the columns of `schema`; nullable ones may be missing.

    `data` is an Arrow table, a record batch, a reader, an iterator of batches, a pandas or Polars data frame, or a list
    of dictionaries. Types are cast where nothing can be lost.
    """
    import pyarrow as pa

    found = _table(data, schema)
    _check_names(found.column_names, schema)
    columns = []
    for field in schema:
        if field.name not in found.column_names:
            if not field.nullable:
                raise InvalidInput(f"column {field.name!r} is missing, and cannot be null", remedy="Give it values.")
            columns.append(pa.nulls(found.num_rows, field.type))
            continue
        if lost := left_out(found[field.name].type, field.type):
            raise InvalidInput(
                f"the table has no {lost!r} in column {field.name!r}, which is {field.type}",
                remedy="Leave it out; `to_iceberg().update_schema()` adds one.",
            )
        try:
            columns.append(found[field.name].cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInput(
                f"column {field.name!r} cannot be made {field.type}: {error}", remedy="Convert it before."
            ) from error
    return pa.table(columns, schema=schema)


def _check_names(names: Iterable[str], schema: "pa.Schema") -> None:
    for name in names:
        if name not in schema.names:
            raise InvalidInput(
                f"the table has no column {name!r}",
                remedy=f"It has {', '.join(schema.names)}; `to_iceberg().update_schema()` adds one.",
            )


def _table(data: Any, schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    if hasattr(data, "iloc"):
        return pa.Table.from_pandas(data, preserve_index=False)
    if not isinstance(data, Iterable):
        raise InvalidInput(f"rows cannot be taken from {type(data).__name__}", remedy=_GIVE)
    rows = list(data)
    if rows and isinstance(rows[0], pa.RecordBatch):
        return pa.Table.from_batches(rows)
    try:
        _check_names({str(name) for row in rows for name in row}, schema)
        return pa.table({field.name: typed([row.get(field.name) for row in rows], field.type) for field in schema})
    except (pa.ArrowInvalid, pa.ArrowTypeError, AttributeError, TypeError, OverflowError) as error:
        raise InvalidInput(f"rows cannot be taken from {type(data).__name__}: {error}", remedy=_GIVE) from error
