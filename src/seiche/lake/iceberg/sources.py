"""Rows for an Iceberg table, from whatever holds them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from seiche.errors import InvalidInput
from seiche.table.data.fitting import left_out

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["as_arrow"]


def as_arrow(data: Any, schema: "pa.Schema") -> "pa.Table":
    """The rows as an Arrow table that fits the columns of `schema`; nullable ones may be missing.

    `data` is what a Lance table takes. Types are cast where nothing can be lost.
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
    """All rows, from whatever a Lance table takes too, or from what can be made an Arrow table, such as a scan of
    PyIceberg.
    """
    import pyarrow as pa

    from seiche.table.data.source import Source

    if hasattr(data, "to_arrow") and not hasattr(data, "__arrow_c_stream__"):
        data = data.to_arrow()
    opened = Source(data).open(schema)
    return pa.Table.from_batches(opened.batches, opened.schema)
