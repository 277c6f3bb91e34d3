"""What data files of the first format cannot hold."""

import pyarrow as pa
import pyarrow.compute as pc

from seiche.errors import InvalidInput
from seiche.table.data.conform import without_extension

__all__ = ["without_nulls"]

_LISTS = (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)
# Those that keep a null.
_KEEPERS = (pa.NullArray, pa.StringArray, pa.LargeStringArray, pa.BinaryArray, pa.LargeBinaryArray)


def without_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows; `InvalidInput` if they have nulls that the first format does not keep.

    Native code writes a zero, an empty list or a struct of such in their place, and of a column without any value at
    times a file that nobody can read.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if where := _null_in(column, name):
            raise InvalidInput(
                f"column {where!r} has nulls, and the data files of this table are of the first format version, which"
                " keeps them in texts and bytes only",
                remedy="Give values, or make a new table, `Table.create(...)`, and append this one to it: current"
                " format versions have nulls.",
                column=where,
            )
    return batch


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
