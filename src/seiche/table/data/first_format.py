"""Rows for data files of the first format, which can hold less than later ones."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from seiche.errors import InvalidInput
from seiche.table.data.conform import without_extension

__all__ = ["whole_rows"]

_LISTS = (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)
# Those that keep a null.
_KEEPERS = (pa.NullArray, pa.StringArray, pa.LargeStringArray, pa.BinaryArray, pa.LargeBinaryArray)


def whole_rows(
    table: pa.Schema, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows with all columns of the table, null where they were left out: native code does not filter rows of a file
    that lacks a column of the filter.

    `InvalidInput` for nulls that the format does not keep. Native code writes a zero, an empty list or a struct of such
    in their place, and of a column without any value at times a file that nobody can read.
    """
    given = set(schema.names)
    full = pa.schema([schema.field(one.name) if one.name in given else one for one in table])
    return full, (_whole(batch, full) for batch in batches)


def _whole(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = [given[one.name] if one.name in given else pa.nulls(batch.num_rows, one.type) for one in schema]
    for name, column in zip(schema.names, columns, strict=True):
        if where := _null_in(column, name):
            raise InvalidInput(
                f"column {where!r} has nulls, and the data files of this table are of the first format version, which"
                " keeps them in texts and bytes only",
                remedy="Give values, or make a new table, `Table.create(...)`, and append this one to it: current"
                " format versions have nulls.",
                column=where,
            )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _null_in(values: pa.Array, where: str) -> str | None:
    values = without_extension(values)
    if isinstance(values, _KEEPERS):
        return None
    if values.null_count:
        return where
    parts: list[tuple[str, pa.Array]] = []
    if isinstance(values, pa.StructArray):
        parts = [(field.name, pc.struct_field(values, index)) for index, field in enumerate(values.type)]
    elif isinstance(values, _LISTS):
        parts = [(values.type.value_field.name, values.flatten())]
    return next((found for name, inner in parts if (found := _null_in(inner, f"{where}.{name}"))), None)
