"""Values that a file keeps as a dictionary are read as what they are.

Files that others wrote, and that became part of a table as they are, may say that Arrow is to show a column by numbers
and a dictionary, as those of pandas do for categories. PyIceberg passed them on like that, and rows of several files
were no table any more: nobody could read all of them, and nothing could be changed.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from pyiceberg.io.pyarrow import ArrowScan

__all__ = ["read_values"]

_READ = "_record_batches_from_scan_tasks_and_deletes"


def read_values() -> None:
    """From now on scans give values, in this process, unless they were asked for dictionaries."""
    found = getattr(ArrowScan, _READ)
    if not hasattr(found, "__wrapped__"):
        setattr(ArrowScan, _READ, _decoding(found))


def _decoding(read: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    @wraps(read)
    def decoded(scan: Any, *given: Any) -> Iterator[pa.RecordBatch]:
        for batch in read(scan, *given):
            yield batch if scan._dictionary_columns else _decoded(batch)

    return decoded


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    if not any(_has_dictionaries(one) for one in batch.schema.types):
        return batch
    schema = pa.schema([one.with_type(_plain(one.type)) for one in batch.schema])
    return pa.RecordBatch.from_arrays(
        [one.cast(field.type) for one, field in zip(batch.columns, schema, strict=True)], schema=schema
    )


def _has_dictionaries(kind: pa.DataType) -> bool:
    inside = (kind.field(index).type for index in range(kind.num_fields))
    return bool(kinds.is_dictionary(kind)) or any(_has_dictionaries(one) for one in inside)


def _plain(kind: pa.DataType) -> pa.DataType:
    if kinds.is_dictionary(kind):
        return kind.value_type
    if kinds.is_struct(kind):
        return pa.struct([one.with_type(_plain(one.type)) for one in kind])
    if kinds.is_map(kind):
        return pa.map_(*(one.with_type(_plain(one.type)) for one in (kind.key_field, kind.item_field)))
    if kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if kinds.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain(kind.value_type)))
    return kind
