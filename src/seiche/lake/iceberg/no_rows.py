"""A scan that finds no rows has the columns that were asked for, whatever their types.

Arrow makes no empty table where there is a uuid inside of a column, and PyIceberg asks for one: to read no rows failed,
and so did to count those of a file of which none is meant.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyiceberg.io import pyarrow as pyarrow_io
from pyiceberg.schema import Schema

__all__ = ["empty", "read_nothing"]


def read_nothing() -> None:
    """From now on no rows can be read of any table, in this process."""
    pyarrow_io.ArrowScan.to_table = _read  # type: ignore[method-assign, assignment]


def empty(schema: Schema) -> pa.Table:
    """No rows of these columns."""
    return pa.Table.from_batches([], pyarrow_io.schema_to_pyarrow(schema, include_field_ids=False))


def _read(scan: pyarrow_io.ArrowScan, tasks: Iterable[Any]) -> pa.Table:
    found = [pa.Table.from_batches([one]) for one in scan.to_record_batches(tasks)]
    return pa.concat_tables(found, promote_options="permissive") if found else empty(scan._projected_schema)
