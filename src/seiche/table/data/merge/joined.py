"""Rows of the data beside those of the table, so that SQL can speak of `source.x` and `target.x`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from seiche.table.data.native import in_memory
from seiche.table.data.scanning import ADDRESS, batches, scanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Joined", "mentioned"]

# A native dataset in memory, gone with the last reference: expressions are evaluated by the engine that evaluates them
# on tables, and mean the same.
_PLACE = "memory://joined"


def mentioned(side: Literal["source", "target"], expressions: Iterable[str], names: Sequence[str]) -> list[str]:
    """Those columns of one side that may be meant in the expressions: at least all that are."""
    text = "\n".join(expressions)
    plainly_named = not re.search(rf"\b{side}\b(?!\s*\.)", text, re.IGNORECASE)
    before = rf"\b{side}\s*\.\s*[`\"]?" if plainly_named else r"(?<!\w)"
    return [name for name in names if re.search(rf"{before}{re.escape(name)}(?!\w)", text, re.IGNORECASE)]


class Joined:
    """Some rows of both sides, one beside the other."""

    def __init__(self, source: pa.Table, target: pa.Table) -> None:
        """Both have as many rows as each other, and at least one column."""
        both = pa.table({"source": _struct(source), "target": _struct(target)})
        self.dataset = in_memory(both, _PLACE, what="the merge")

    def where(self, condition: str) -> "NDArray[np.int64]":
        """The numbers of the rows for which the condition is true, ascending."""
        what = f"the condition {condition!r}"
        scan = scanner(self.dataset, columns=[], where=condition, what=what, with_row_address=True)
        found = [batch.column(ADDRESS).to_numpy() for batch in batches(scan, what=what)]
        return np.sort(np.concatenate(found)).astype(np.int64) if found else np.empty(0, np.int64)

    def compute(self, expressions: Mapping[str, str]) -> pa.Table:
        """The values of the expressions, row by row."""
        scan = scanner(self.dataset, columns={**expressions, ADDRESS: ADDRESS}, what="the merge")
        found = list(batches(scan, what="the merge"))
        return pa.Table.from_batches(found, scan.projected_schema).select(list(expressions)).combine_chunks()


def _struct(table: pa.Table) -> pa.Array:
    columns = [table.column(index).combine_chunks() for index in range(table.num_columns)]
    # The struct itself is never null, and what is inside may be: rows without a value on one side are no error here.
    inside = [pa.field(field.name, field.type) for field in table.schema]
    return pa.StructArray.from_arrays(columns, fields=inside)
