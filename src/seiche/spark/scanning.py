"""Reading a version of a table by Spark's workers: groups of fragments, each a task that carries all it needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from seiche.core.runtime import SYSTEM
from seiche.errors import InvalidInput
from seiche.spark.address import Address
from seiche.spark.jobs import frame_of
from seiche.spark.names import quoted, refuse_ours
from seiche.spark.types import as_shown, shown_schema, spark_schema
from seiche.table.data.portion import Portion
from seiche.table.data.scanning import ADDRESS, batches, scanner
from seiche.table.format.deletions import is_counted, rows_left
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    import lance
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["GROUP", "Scan", "addressed", "grouped", "live_rows", "read_frame", "scans", "size_of", "spread"]

# The number of the task that a row was read by. All rows of a fragment are read by the same one.
GROUP = "_seiche_group"

# A task reads about so many rows, if there are enough for every worker to have some.
_ROWS = 1 << 20
# Never more: what a task did is lost with it.
_MOST_ROWS = 1 << 23
# What Spark takes of files into one task, at most, and at least where it has workers to spare.
_TASK_BYTES, _LEAST_BYTES = 128 << 20, 4 << 20
# Rows that go to Spark at a time: about so many bytes, since each batch has a price, and each is held in memory.
_BATCH_BYTES, _MOST_BYTES = 8 << 20, 32 << 20
_FEWEST, _MOST = 1 << 12, 1 << 17
# What a value counts for whose size is not known.
_SOME_BYTES = 64
_WHAT = "the filter"
# Tasks whose fragments a worker keeps open.
_KEPT = 4


@dataclass(frozen=True, slots=True)
class Scan:
    """Some fragments of one version, and what to read of them. Can be pickled and read in any process.

    It names data files, which never change; so it gives the same rows whenever it is read, whatever is committed
    meanwhile.
    """

    address: Address
    portion: Portion
    # Columns in the Arrow types in which Spark takes them.
    columns: pa.Schema
    where: str | None = None
    # Whether each row comes with its address and the number of the task.
    addresses: bool = False
    # Columns whose values must be told apart to the letter.
    exact: tuple[str, ...] = ()

    def read(self, number: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows, as Spark takes them; `number` is that of the task."""
        return _read(self, number)


def scans(
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    addresses: bool = False,
    parts: int | None = None,
    exact: Sequence[str] = (),
) -> "tuple[list[Scan], StructType]":
    """The tasks that read a version, about `parts` of them, and the schema of what they give.

    They refuse a value of the columns `exact` that Spark cannot hold as it is.
    """
    chosen = _chosen(snapshot.schema, columns)
    fields = spark_schema(chosen)
    if addresses:
        fields = addressed(fields)
    wanted = shown_schema(fields)
    address = Address.of(snapshot.store)
    # Refused here, on the driver, rather than by every worker.
    if where is not None:
        scanner(snapshot.dataset, columns=[], where=where, what=_WHAT, with_row_address=True)
    groups = grouped(snapshot.manifest.fragments.decoded(), parts)
    kept = tuple(exact)
    return [Scan(address, Portion.of(snapshot, group), wanted, where, addresses, kept) for group in groups], fields


def read_frame(
    session: "SparkSession",
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    addresses: bool = False,
    parts: int | None = None,
) -> "DataFrame":
    """A version of a table as a data frame."""
    tasks, schema = scans(snapshot, columns=columns, where=where, addresses=addresses, parts=parts)
    return frame_of(session, tasks, schema, size_of(snapshot, schema))


def _read(scan: Scan, number: int) -> Iterator[pa.RecordBatch]:
    """The rows of one task, as Spark takes them."""
    names = [name for name in scan.columns.names if name not in (ADDRESS, GROUP)] if scan.addresses else None
    plan = scanner(
        _opened(scan.address, scan.portion),
        columns=scan.columns.names if names is None else names,
        where=scan.where,
        what=_WHAT,
        # A scan of no columns at all still has to say how many rows there are.
        with_row_address=scan.addresses or not scan.columns.names,
        batch_size=_batch_rows(scan.columns),
        # Rows of a megabyte, as many as there are of others, would be more than a batch can hold.
        batch_size_bytes=_MOST_BYTES,
        blob_handling="all_binary",
    )
    for batch in batches(plan, what=_WHAT):
        yield _marked(batch, scan, number)


@lru_cache(maxsize=_KEPT)
def _opened(address: Address, portion: Portion) -> "lance.LanceDataset":
    """The fragments of a task, as native code has them. A worker does many tasks, and queries come again: to open them
    takes longer than to read a column of a million rows.
    """
    return portion.snapshot(address.open(), SYSTEM).dataset


def _batch_rows(columns: pa.Schema) -> int:
    """How many rows of these columns make a batch."""
    width = sum(map(_width, columns.types))
    return max(_FEWEST, min(_MOST, _BATCH_BYTES // max(1, width)))


def _marked(batch: pa.RecordBatch, scan: Scan, number: int) -> pa.RecordBatch:
    if not scan.addresses:
        return as_shown(batch, scan.columns, exact=scan.exact)
    group = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
    return as_shown(batch.append_column(GROUP, group), scan.columns, exact=scan.exact)


def grouped(fragments: Sequence[DataFragment], parts: int | None = None) -> list[tuple[DataFragment, ...]]:
    """Neighbouring fragments together, with about the same number of rows in each group; about `parts` groups, or more
    if each would be very large.
    """
    total = sum(map(rows_left, fragments))
    target = min(max(1, -(-total // parts)), _MOST_ROWS) if parts else _ROWS
    groups: list[tuple[DataFragment, ...]] = []
    run: list[DataFragment] = []
    rows = 0
    for fragment in fragments:
        # Closed before a fragment that would make it much too large, else after the one that filled it.
        if run and rows + rows_left(fragment) > target + target // 2:
            groups.append(tuple(run))
            run, rows = [], 0
        run.append(fragment)
        rows += rows_left(fragment)
        if rows >= target:
            groups.append(tuple(run))
            run, rows = [], 0
    if run:
        groups.append(tuple(run))
    return groups


def size_of(snapshot: Snapshot, schema: "StructType") -> int:
    """About how many bytes the rows of a version take in these columns; a filter may leave fewer."""
    rows = sum(map(rows_left, snapshot.manifest.fragments.decoded()))
    return int(rows * sum(_width(kind) for kind in shown_schema(schema).types))


def _width(kind: pa.DataType) -> int:
    return max(1, kind.bit_width // 8) if pa.types.is_primitive(kind) else _SOME_BYTES


def spread(fragments: Sequence[DataFragment], workers: int) -> int | None:
    """Into how many tasks fragments are divided if nobody says: as Spark divides files; `None` if a size is unknown."""
    sizes = [file.file_size_bytes for fragment in fragments for file in fragment.files]
    if not sizes or not all(sizes):
        return None
    total = sum(sizes)
    return max(1, -(-total // _TASK_BYTES), min(workers, total // _LEAST_BYTES))


def live_rows(snapshot: Snapshot) -> int | None:
    """How many rows a version has, from its manifest alone; `None` if some fragment does not say."""
    fragments = snapshot.manifest.fragments.decoded()
    if not all(map(is_counted, fragments)):
        return None
    return sum(map(rows_left, fragments))


def addressed(fields: "StructType") -> "StructType":
    """Columns, and with them the address of each row and the number of the task that reads it."""
    refuse_ours(fields.names, (ADDRESS, GROUP), "the table")
    return fields.add(ADDRESS, "long", nullable=False).add(GROUP, "integer", nullable=False)


def _chosen(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            raise InvalidInput(
                f"the table has no column {name!r}, only {', '.join(map(quoted, schema.names))}",
                remedy="Check the names of the columns.",
                column=name,
            )
    return pa.schema([schema.field(name) for name in dict.fromkeys(columns)])
