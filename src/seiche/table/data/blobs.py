"""Values of blob columns: bytes, or where they lie. Callers give plain binary values, or blobs as pylance has them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from seiche.table.format.fields import BLOB

__all__ = ["as_blobs", "is_binary", "is_blob", "made_blobs"]

# A part of a file elsewhere: only the longer form of the type can say it.
_PLACE = ("position", "size")


def is_blob(kind: pa.DataType) -> bool:
    """Whether it is the type of a blob column."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == BLOB


def is_binary(kind: pa.DataType) -> bool:
    """Whether its values are bytes of any length."""
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind))


def made_blobs(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python values as blobs: bytes, addresses, `lance.Blob`, or dictionaries of what a blob is stored as."""
    import lance

    if any(isinstance(value, Mapping) for value in values):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return lance.blob_array(list(values))


def as_blobs(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Binary values, or blobs that are stored in another form, as blobs of this very type."""
    if is_blob(values.type):
        values = values.storage
    if kinds.is_struct(values.type):
        given = {field.name: values.field(index) for index, field in enumerate(values.type)}
    else:
        given = {"data": values.cast(pa.large_binary())}
    wanted = {field.name: field.type for field in kind.storage_type}
    for name in _PLACE:
        if name not in wanted and name in given and given[name].null_count < len(values):
            raise pa.ArrowInvalid("the column cannot hold a part of a file elsewhere, only all of it")
    columns = [given[name] if name in given else pa.nulls(len(values), what) for name, what in wanted.items()]
    storage = pa.StructArray.from_arrays(columns, fields=list(kind.storage_type), mask=values.is_null())
    return pa.ExtensionArray.from_storage(kind, storage)
