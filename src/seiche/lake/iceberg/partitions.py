"""Every row of an append is in exactly one partition.

PyIceberg finds the distinct values of a partition and then asks Arrow for the rows that equal each. Nothing equals not
a number: a write with one ended with a division by zero. 0.0 and -0.0 are two values that equal each other: rows with
either were in two files, and so twice in the table. Here rows are grouped by the value itself.

The partition of a file that is added as it is PyIceberg takes from its least and its greatest value, which say nothing
of nulls, and takes none for null: rows were in a partition that is not theirs, and were not found.

For buckets, days and the like PyIceberg wants a native library, which not everybody has. It knows how to find them
without; here each value that differs is asked for once.

A partition may be null although its column must have values: inside of a null, or where the spec has given the field
up. PyIceberg takes it for a number then, in the manifests that it writes and reads, and failed.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyiceberg.exceptions import NotInstalledError
from pyiceberg.io import pyarrow as pyarrow_io
from pyiceberg.io.fileformat import DataFileStatistics
from pyiceberg.partitioning import (
    PartitionField,
    PartitionFieldValue,
    PartitionKey,
    PartitionSpec,
    _to_partition_representation,
)
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StructType, TimestampNanoType, TimestamptzNanoType

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["keep_rows"]


def keep_rows() -> None:
    """From now on PyIceberg writes every row into one partition, in this process."""
    pyarrow_io._determine_partitions = _partitions
    found = DataFileStatistics._partition_value
    if not hasattr(found, "__wrapped__"):
        DataFileStatistics._partition_value = _of_all_rows(found)  # type: ignore[method-assign]
    if not hasattr(PartitionSpec.partition_type, "__wrapped__"):
        PartitionSpec.partition_type = _of_any(PartitionSpec.partition_type)  # type: ignore[method-assign]


def _of_any(know: Callable[..., StructType]) -> Callable[..., StructType]:
    @wraps(know)
    def known(spec: PartitionSpec, schema: Schema) -> StructType:
        fields = know(spec, schema).fields
        return StructType(*(NestedField(one.field_id, one.name, one.field_type, required=False) for one in fields))

    return known


def _of_all_rows(infer: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(infer)
    def inferred(statistics: DataFileStatistics, field: PartitionField, schema: Schema) -> Any:
        made = infer(statistics, field, schema)
        if field.source_id not in statistics.column_sizes or isinstance(field.transform, VoidTransform):
            return made
        nulls = statistics.null_value_counts.get(field.source_id)
        if nulls != (statistics.record_count if made is None else 0):
            raise ValueError(
                f"the statistics of the file do not say that all its rows are in one partition by {field.name!r}: "
                f"{nulls if nulls is not None else 'nobody knows how many'} of {statistics.record_count} are null"
            )
        return made

    return inferred


class _Key(PartitionKey):
    """As PyIceberg's, which takes no bucket of a time for what it is, and knows one field of each column only."""

    @cached_property
    def partition(self) -> Record:
        return Record(*(self._stored(one) for one in self.field_values))

    def _stored(self, one: PartitionFieldValue) -> Any:
        if one.value is None:
            return None
        source = self.schema.find_field(one.field.source_id).field_type
        return _to_partition_representation(one.field.transform.result_type(source), one.value)


def _partitions(spec: PartitionSpec, schema: Schema, arrow_table: pa.Table) -> Iterator[Any]:
    values = [_values(one, schema, arrow_table) for one in spec.fields]
    groups: NDArray[np.int64] = np.zeros(arrow_table.num_rows, np.int64)
    for column in values:
        own = _numbered(column)
        groups = np.unique(groups * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
    for number, first in enumerate(np.unique(groups, return_index=True)[1].tolist()):
        key = _Key(
            field_values=[
                PartitionFieldValue(field=field, value=column[first].as_py())
                for field, column in zip(spec.fields, values, strict=True)
            ],
            partition_spec=spec,
            schema=schema,
        )
        rows = arrow_table.filter(pa.array(groups == number))
        yield pyarrow_io._TablePartition(partition_key=key, arrow_table_partition=rows.combine_chunks())


def _values(field: Any, schema: Schema, rows: pa.Table) -> pa.ChunkedArray:
    """What the partition makes of each row."""
    if isinstance(field.transform, VoidTransform):  # of a column that may be gone
        return pa.chunked_array([pa.nulls(rows.num_rows, pa.int32())])
    source = schema.find_field(field.source_id)
    name = schema.find_column_name(field.source_id)
    if name is None:
        raise ValueError(f"partition {field.name!r} is of a column that the table has not: {field.source_id}")
    found = pyarrow_io._get_field_from_arrow_table(rows, name)
    try:
        made = field.transform.pyarrow_transform(source.field_type)(found)
    except NotInstalledError:
        made = _one_by_one(field.transform, source.field_type, found)
    return made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made])


def _one_by_one(transform: Any, kind: Any, column: pa.ChunkedArray) -> pa.Array:
    """What the partition makes of each row, by the distinct values: times as numbers, which have no end."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ExtensionArray):
        whole = whole.storage
    if kinds.is_timestamp(whole.type):
        unit = "ns" if isinstance(kind, TimestampNanoType | TimestamptzNanoType) else "us"
        whole = whole.cast(pa.timestamp(unit, whole.type.tz), safe=False).cast(pa.int64())
    elif kinds.is_time(whole.type):
        whole = whole.cast(pa.time64("us"), safe=False).cast(pa.int64())
    elif kinds.is_date(whole.type):
        whole = whole.cast(pa.date32()).cast(pa.int32())
    found, make = pc.dictionary_encode(whole), transform.transform(kind)
    made = [make(one) for one in found.dictionary.to_pylist()]
    wanted = whole.type if isinstance(transform, TruncateTransform) else pa.int32()
    try:
        return pa.array(made, wanted).take(found.indices)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ValueError(f"a value is so small that its partition, by {transform}, is below what {kind} has") from error


def _numbered(column: pa.ChunkedArray) -> "NDArray[np.int64]":
    """The number of each row's value among the distinct ones, of which null is one. Floats differ as their bits do."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ExtensionArray):
        whole = whole.storage
    if kinds.is_floating(whole.type):
        one_nan = pc.if_else(pc.is_nan(whole), pa.scalar(float("nan"), whole.type), whole)
        whole = one_nan.view(pa.int64() if kinds.is_float64(whole.type) else pa.int32())
    codes = pc.dictionary_encode(whole, null_encoding="encode").indices
    numbers: NDArray[np.int64] = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
