"""Iceberg tables of a lake: Spark's workers read and write data files through PyIceberg, the driver commits them."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seiche.errors import InvalidInput
from seiche.lake.iceberg.condition_text import condition
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.handles import IcebergTransactionTable
from seiche.lake.iceberg.metadata import json_of
from seiche.lake.iceberg.reading import changing, check_writable_version, reading
from seiche.lake.iceberg.sources import cast, must_have_some, nothing
from seiche.spark.address import Address
from seiche.spark.jobs import Batches, executor
from seiche.spark.narrow import collected_rows
from seiche.spark.scanning import GROUP, addressed
from seiche.spark.types import as_shown, conform_shown, settled, shown_schema, spark_schema
from seiche.table.change import Result
from seiche.table.data.scanning import ADDRESS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from seiche.lake.transaction import Transaction

__all__ = ["FilesWritten", "IcebergScan", "IcebergTarget", "add_files", "iceberg_scans", "write_frame"]

# A task reads about so many rows, and writes them into files in pieces of so many.
_ROWS = 1 << 20
_PIECE = 1 << 19


@dataclass(frozen=True, slots=True)
class IcebergScan:
    """Some data files of one snapshot, with the deletes for them. Can be pickled and read in any process."""

    # What the table is called, for whoever cannot read it.
    table: str
    address: Address
    metadata: str
    files: bytes
    # Columns in the Arrow types in which Spark takes them.
    columns: pa.Schema
    where: str | None = None
    # With addresses: the number of the first of its files among all files of the snapshot.
    first: int | None = None

    def read(self, number: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows, as Spark takes them; `number` is that of the task."""
        if self.first is not None:
            yield from self._addressed(number)
            return
        with reading(self.table):
            for batch in self._scan(self.columns.names).to_record_batches(self.tasks):
                if batch.num_rows:
                    yield as_shown(batch, self.columns)

    @property
    def tasks(self) -> list[Any]:
        """PyIceberg's tasks: a data file each, with the deletes for it."""
        found: list[Any] = pickle.loads(self.files)  # noqa: S301 - the driver made it
        return found

    @property
    def size(self) -> int:
        """About how many bytes its rows take."""
        return sum(one.file.file_size_in_bytes for one in self.tasks)

    def rows_of(self, task: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of one of its files, always in the same order."""
        with reading(self.table):
            yield from self._scan(names).to_record_batches([task])

    def _addressed(self, number: int) -> Iterator[pa.RecordBatch]:
        names = [name for name in self.columns.names if name not in (ADDRESS, GROUP)]
        # Without any column PyIceberg would not say how many rows there are.
        read = names or [_metadata(self.metadata).schema().fields[0].name]
        for place, task in enumerate(self.tasks, self.first or 0):
            row = place << 32
            for batch in self.rows_of(task, read):
                if not batch.num_rows:
                    continue
                addresses = pa.array(range(row, row + batch.num_rows), pa.int64())
                row += batch.num_rows
                group = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
                marked = batch.append_column(ADDRESS, addresses).append_column(GROUP, group)
                yield as_shown(marked, self.columns)

    def _scan(self, names: Sequence[str]) -> Any:
        from pyiceberg.io.pyarrow import ArrowScan

        from seiche.lake.iceberg.asking import ask_what_is_meant
        from seiche.lake.iceberg.conditions import explicit
        from seiche.lake.iceberg.dictionaries import read_values
        from seiche.lake.iceberg.null_lists import keep_nulls

        keep_nulls()
        ask_what_is_meant()
        read_values()
        metadata = _metadata(self.metadata)
        chosen = metadata.schema().select(*names)
        return ArrowScan(metadata, LakeFileIO(self.address.open()), chosen, explicit(condition(self.where or "true")))


def iceberg_scans(
    handle: IcebergTransactionTable,
    transaction: "Transaction",
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    parts: int | None = None,
    addresses: bool = False,
) -> "tuple[list[IcebergScan], StructType]":
    """The tasks that read the table as the transaction sees it, and the schema of what they give.

    With `addresses`, each row comes with the number of its file, in the order of their names, and its own in the file.
    """
    table = handle.to_iceberg()
    schema = handle.schema
    names = list(schema.names if columns is None else columns)
    for name in names:
        if name not in schema.names:
            raise InvalidInput(f"{handle.name} has no column {name!r}", remedy="Check the names.", column=name)
    fields = spark_schema(pa.schema([schema.field(name) for name in names]))
    if addresses:
        if where is not None:
            raise InvalidInput("rows with addresses cannot be filtered while reading", remedy="Filter the frame.")
        fields = addressed(fields)
    wanted = shown_schema(fields)
    planned = list(table.scan(row_filter=condition(where or "true"), selected_fields=tuple(names)).plan_files())
    planned.sort(key=lambda one: str(one.file.file_path))
    metadata = json_of(table.metadata).decode()
    address = Address.of(transaction.state.store)
    found: list[IcebergScan] = []
    seen = 0
    for group in _grouped(planned, parts):
        first = seen if addresses else None
        found.append(IcebergScan(handle.name, address, metadata, pickle.dumps(group), wanted, where, first))
        seen += len(group)
    return found, fields


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """Where rows go: the table's metadata, as of when the job began. Can be pickled."""

    table: str
    address: Address
    metadata: str
    schema: pa.Schema

    @classmethod
    def of(cls, handle: IcebergTransactionTable, transaction: "Transaction") -> "IcebergTarget":
        """Of a table whose rows can be written; see `check_writable_version`."""
        metadata = handle.to_iceberg().metadata
        check_writable_version(handle.name, metadata.format_version)
        return cls(handle.name, Address.of(transaction.state.store), json_of(metadata).decode(), handle.schema)

    def write(self, batches: Batches) -> bytes:
        """Write batches as Spark gives them into data files; durable when this returns. In a worker."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        from seiche.lake.iceberg.null_lists import keep_nulls
        from seiche.lake.iceberg.partitions import keep_rows

        keep_nulls()
        keep_rows()
        store, noted = self.address.open(), list[str]()
        io = LakeFileIO(store, noted.append)
        metadata = _metadata(self.metadata)
        made: list[Any] = []
        for piece in _pieces(self.schema, batches):
            with changing(self.table, "write"):
                made += _dataframe_to_data_files(metadata, piece, io)
        store.flush(noted)
        return pickle.dumps(made)


@dataclass(frozen=True, slots=True)
class FilesWritten:
    """What one task wrote: PyIceberg's data files, pickled."""

    files: bytes
    executor: str


def write_frame(
    transaction: "Transaction", handle: IcebergTransactionTable, frame: "DataFrame", *, overwrite: bool
) -> Result:
    """Append the rows of a frame, or replace all rows by them, in the transaction."""
    from seiche.spark.writing import frame_schema

    target = IcebergTarget.of(handle, transaction)
    conform_shown(frame_schema(frame), target.schema)
    parts = collected_rows(frame, partial(_write_part, target))
    done = add_files(handle, [part.files for part in parts], overwrite=overwrite)
    return Result(
        "overwrite" if overwrite else "append",
        transaction.edit(handle.id).row.table_version + 1,
        changed=overwrite or bool(done.files),
        rows=done.rows,
        files=done.files,
        bytes=done.bytes,
        notes={"executors": len({part.executor for part in parts})},
    )


def add_files(handle: IcebergTransactionTable, written: Sequence[bytes], *, overwrite: bool) -> Result:
    """Make data files that workers wrote part of the table, in the transaction that the handle belongs to."""
    files = [one for part in written for one in pickle.loads(part)]  # noqa: S301 - our own workers made it
    rows = sum(one.record_count for one in files)
    if files or overwrite:
        verb = "overwrite" if overwrite else "append"
        handle._changed(verb, rows, partial(_add, files, overwrite=overwrite))
    return Result("append", 0, rows=rows, files=len(files), bytes=sum(one.file_size_in_bytes for one in files))


def _add(files: Sequence[Any], table: Any, *, overwrite: bool) -> None:
    from pyiceberg.expressions import AlwaysTrue

    with table.transaction() as change:
        if overwrite and table.metadata.current_snapshot_id is not None:
            change.delete(AlwaysTrue())
        if files:
            with change.update_snapshot().fast_append() as append:
                for one in files:
                    append.append_data_file(one)


def _write_part(target: IcebergTarget, batches: Batches) -> Iterator[FilesWritten]:
    yield FilesWritten(target.write(batches), executor())


def _pieces(schema: pa.Schema, batches: Batches) -> Iterator[pa.Table]:
    """Rows under the table's types, in tables of a size that makes a good file."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        filled = _filled(settled(batch), schema)
        made = conform_shown(filled.schema, schema).batch(filled)
        there = set(made.schema.names)
        missing = [field for field in schema if field.name not in there]
        for field in missing:
            made = made.append_column(field, nothing(made.num_rows, field.type))
        waiting.append(made.select(schema.names))
        rows += made.num_rows
        if rows >= _PIECE:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _filled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with some value inside of nulls, where the table's fields cannot be null. What does not fit stays."""
    known = set(schema.names)
    for index, name in enumerate(batch.schema.names):
        kind = schema.field(name).type if name in known else pa.null()
        if must_have_some(kind) and batch.column(index).null_count:
            with suppress(pa.ArrowException):
                column = cast(pa.chunked_array([batch.column(index)]), kind)
                batch = batch.set_column(index, name, column.combine_chunks())
    return batch


def _grouped(files: Sequence[Any], parts: int | None) -> Iterator[list[Any]]:
    """Files together whose rows are about as many as those of the others."""
    total = sum(one.file.record_count for one in files)
    target = max(1, -(-total // parts)) if parts else _ROWS
    run: list[Any] = []
    for one in files:
        run.append(one)
        if sum(each.file.record_count for each in run) >= target:
            yield run
            run = []
    if run:
        yield run


def _metadata(text: str) -> Any:
    from pyiceberg.table.metadata import TableMetadataUtil

    return TableMetadataUtil.parse_raw(text)
