"""Rows in memory with columns set by SQL, as an update sets them on a table."""

import re
from collections.abc import Mapping

import lance
import pyarrow as pa

from seiche.table.data.assign import assigned, check_columns, check_expressions
from seiche.table.data.native import in_memory
from seiche.table.data.scanning import ADDRESS, batches, scanner

__all__ = ["with_assigned"]

# A native dataset in memory, gone with the last reference: expressions are evaluated by the engine that evaluates them
# on tables, and mean the same.
_PLACE = "memory://assigning"
_WHAT = "the update"


def with_assigned(rows: pa.Table, assignments: Mapping[str, str]) -> pa.Table:
    """The same rows in the same order, with the columns set.

    `InvalidInput` for SQL that cannot be read, a column that is not there, and a value that its column cannot hold.
    """
    check_columns(assignments, rows.schema)
    dataset = _dataset(rows, assignments)
    check_expressions(dataset, assignments, rows.schema)
    scan = scanner(dataset, columns={**assignments, ADDRESS: ADDRESS}, what=_WHAT)
    values = pa.Table.from_batches(list(batches(scan, what=_WHAT)), scan.projected_schema).combine_chunks()
    for name in assignments:
        field = rows.schema.field(name)
        computed = values.column(name).combine_chunks()
        rows = rows.set_column(rows.schema.get_field_index(name), field, assigned(computed, field))
    return rows


def _dataset(rows: pa.Table, assignments: Mapping[str, str]) -> lance.LanceDataset:
    """Only with the columns that may be meant: not every type of Iceberg's is one of Lance's."""
    text = "\n".join(assignments.values())
    meant = [name for name in rows.column_names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]
    chosen = rows.select(meant or list(assignments)[:1])
    remedy = "Read the rows, change them, and `overwrite(..., where=)` them."
    return in_memory(chosen, _PLACE, what=_WHAT, remedy=remedy)
