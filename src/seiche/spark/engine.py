"""What the lower layers ask for when rows are a data frame of Spark, or a transaction has a session.

Found by the entry point `spark` of the group `seiche.engines`; nothing below imports Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from seiche.errors import InvalidInput
from seiche.spark.settings import check_session
from seiche.table.change import Prepare
from seiche.table.data.merge.clauses import Clause
from seiche.table.data.write import Limits

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction
    from seiche.spark.lake import SparkLake

__all__ = ["appending", "columns", "lake", "merging", "overwriting", "transaction_class"]


def columns(rows: Any) -> "pa.Schema":
    """The columns of a table for a data frame. Whether it has nulls today does not bind what comes later."""
    import pyarrow as pa

    from seiche.spark.types import columns_for

    schema = columns_for(rows.schema)
    for field in schema:
        if pa.types.is_null(field.type):
            raise InvalidInput(
                f"column {field.name} has no type", remedy="Say which with CAST(NULL AS ...).", column=field.name
            )
    return schema


def appending(rows: Any, limits: Limits) -> Prepare:
    """Prepares an append of a data frame."""
    from seiche.spark.writing import FrameAppending

    return FrameAppending(rows, limits)


def overwriting(rows: Any, schema: "pa.Schema | None", config: Mapping[str, str] | None, limits: Limits) -> Prepare:
    """Prepares an overwrite by a data frame."""
    from seiche.spark.writing import FrameOverwriting

    return FrameOverwriting(rows, schema, config, limits)


def merging(rows: Any, on: Sequence[str], clauses: Sequence[Clause], limits: Limits) -> Prepare:
    """Prepares a merge of a data frame."""
    from seiche.spark.dml.merging import FrameMerging

    return FrameMerging(rows, on, clauses, limits)


def transaction_class(session: Any) -> "Callable[..., Transaction]":
    """What makes a transaction whose statements this session executes."""
    check_session(session)
    from seiche.spark.transaction import SparkTransaction

    return partial(SparkTransaction, session=session)


def lake(handle: "Lake", session: Any) -> "SparkLake":
    """The lake with a session of Spark."""
    check_session(session)
    from seiche.spark.lake import SparkLake

    return SparkLake(handle, session)
