"""Rows for an Iceberg table, from whatever holds them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from seiche.errors import InvalidInput
from seiche.table.data.fitting import left_out

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["as_arrow", "cast", "must_have_some", "nothing"]


def as_arrow(data: Any, schema: "pa.Schema", *, whole: bool = True) -> "pa.Table":
    """The rows as an Arrow table that fits the columns of `schema`; nullable ones may be missing.

    `data` is what a Lance table takes. Types are cast where nothing can be lost. What is missing is null in `whole`
    rows; otherwise it stays missing, if there are rows.
    """
    import pyarrow as pa

    found = _table(data, schema)
    _check_names(found.column_names, schema)
    # Arrow makes the list of names anew each time that it is asked for one.
    names = set(found.column_names)
    columns, fields = [], []
    for field in schema:
        given = found[field.name] if field.name in names else None
        if given is None and not field.nullable:
            raise InvalidInput(f"column {field.name!r} is missing, and cannot be null", remedy="Give it values.")
        if given is None and found.num_rows and not whole:
            continue
        if given is not None and (lost := left_out(given.type, field.type)):
            raise InvalidInput(
                f"the table has no {lost!r} in column {field.name!r}, which is {field.type}",
                remedy="Leave it out; `to_iceberg().update_schema()` adds one.",
            )
        try:
            columns.append(nothing(found.num_rows, field.type) if given is None else _kept(given, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidInput(
                f"column {field.name!r} cannot be made {field.type}: {error}", remedy="Convert it before."
            ) from error
        fields.append(field)
    return pa.table(columns, schema=pa.schema(fields, schema.metadata))


def _kept(column: "pa.ChunkedArray", kind: "pa.DataType") -> "pa.ChunkedArray | pa.Array":
    import pyarrow as pa

    from seiche.table.data.values import check_kept, decoded, spelled

    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array(map(decoded, column.chunks), None if column.num_chunks else column.type.value_type)
    made = cast(spelled(column, kind), kind)
    check_kept(column, made)
    return made


def cast(column: "pa.ChunkedArray", kind: "pa.DataType") -> "pa.ChunkedArray | pa.Array":
    """The values under another type. Inside of a null nothing need be there, whatever the type says of its fields:
    Arrow takes what is null there for a null that must not be.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not column.null_count or not must_have_some(kind):
        return column.cast(kind)
    values = column.drop_null().cast(kind)
    there = pc.cast(column.is_valid(), pa.int64())
    at = pc.if_else(column.is_valid(), pc.subtract(pc.cumulative_sum(there), 1), len(values))
    return pa.chunked_array([*values.chunks, nothing(1, kind)]).take(at)


def nothing(length: int, kind: "pa.DataType") -> "pa.Array":
    """Nulls, in which fields that cannot be null have some value: `pa.nulls` leaves them null, and is refused."""
    import numpy as np
    import pyarrow as pa

    from seiche.table.data.values import array_of

    if not must_have_some(kind):
        return pa.nulls(length, kind)
    return array_of([None], kind).take(np.zeros(length, np.int64))


def must_have_some(kind: "pa.DataType") -> bool:
    """Whether a struct of this type has fields that cannot be null."""
    import pyarrow.types as kinds

    return kinds.is_struct(kind) and any(not one.nullable or must_have_some(one.type) for one in kind)


def _check_names(names: Iterable[str], schema: "pa.Schema") -> None:
    there = schema.names
    known = set(there)
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"the table has no column {name!r}",
                remedy=f"It has {', '.join(there)}; `to_iceberg().update_schema()` adds one.",
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
