"""Every row of an append is in exactly one partition.

PyIceberg finds the distinct values of a partition and then asks Arrow for the rows that equal each. Nothing equals not
a number: a write with one ended with a division by zero. 0.0 and -0.0 are two values that equal each other: rows with
either were in two files, and so twice in the table. Here rows are grouped by the value itself.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyiceberg.io import pyarrow as pyarrow_io
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["keep_rows"]


def keep_rows() -> None:
    """From now on PyIceberg writes every row into one partition, in this process."""
    pyarrow_io._determine_partitions = _partitions


def _partitions(spec: PartitionSpec, schema: Schema, arrow_table: pa.Table) -> Iterator[Any]:
    values = [_values(one, schema, arrow_table) for one in spec.fields]
    groups: NDArray[np.int64] = np.zeros(arrow_table.num_rows, np.int64)
    for column in values:
        own = _numbered(column)
        groups = np.unique(groups * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
    for number, first in enumerate(np.unique(groups, return_index=True)[1].tolist()):
        key = PartitionKey(
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
    source = schema.find_field(field.source_id)
    name = schema.find_column_name(field.source_id)
    if name is None:
        raise ValueError(f"partition {field.name!r} is of a column that the table has not: {field.source_id}")
    found = pyarrow_io._get_field_from_arrow_table(rows, name)
    made = field.transform.pyarrow_transform(source.field_type)(found)
    return made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made])


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
