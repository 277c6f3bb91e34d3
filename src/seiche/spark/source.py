"""The data source "seiche": `spark.read.format("seiche")` and `df.write.format("seiche")`."""

import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from seiche.core.runtime import SYSTEM
from seiche.errors import IncompatibleConflict, InvalidInput, NotFound
from seiche.lake.lake import Lake, open_lake
from seiche.lake.objects.names import parts
from seiche.lake.transaction import Transaction
from seiche.spark.daemon import hush
from seiche.spark.filters import Pushed
from seiche.spark.jobs import Readable
from seiche.spark.options import Options
from seiche.spark.scanning import scans, spread
from seiche.spark.types import arrow_schema, conform_shown, spark_schema
from seiche.spark.writing import Target, overwriting, target_of, write_batches, written_fragments
from seiche.table.change import Change
from seiche.table.data.write import Limits
from seiche.table.operations import Append
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader

    from seiche.spark.iceberg import IcebergTarget

__all__ = ["FragmentsWritten", "SeicheSource", "TableReader", "TableWriter"]

hush()


class SeicheSource(DataSource):
    """A table of a lake: options `lake` and `table`; for an old version `version` (a number of the lake, or a tag) or
    `as_of`; `columns` and `filter` to read less.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        _settle()

    @classmethod
    def name(cls) -> str:
        return "seiche"

    def schema(self) -> StructType:
        """The columns of the table, or those asked for."""
        options = Options.of(self.options)
        with options.open() as lake, lake.reading():
            table = lake.transaction().table(options.table)
            if options.yes("changes"):
                from seiche.spark.changes import changes_schema

                return changes_schema(table.schema)
            return spark_schema(options.chosen(table.schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(Options.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return TableWriter(Options.of(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: N802 - as Spark calls it
        from seiche.spark.stream_source import ChangesReader

        return ChangesReader(Options.of(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamArrowWriter":  # noqa: N802
        from seiche.spark.stream_sink import StreamWriter

        return StreamWriter(Options.of(self.options), schema, overwrite=overwrite)


class ScanPartition(InputPartition):
    """One task of a scan. It carries the version with it: what a reader knows is pickled before it makes partitions."""

    def __init__(self, task: Readable) -> None:
        super().__init__(None)
        self.task = task


class TableReader(DataSourceReader):
    """Reads one version of a table: the one there is when the read is planned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = schema.names
        with options.open() as lake, lake.reading():
            table = lake.transaction().table(options.table)
            # Filters for an Iceberg table are left to Spark: PyIceberg has a language of its own.
            known = pa.schema([]) if _is_iceberg(lake, options.table) else table.schema
            self.pushFilters = Pushed(known)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, each with its fragments or files pinned."""
        lake = self._options.open_held()
        with lake.reading():
            return [ScanPartition(one) for one in self._tasks(lake)]

    def _tasks(self, lake: Lake) -> "Sequence[Readable]":
        transaction = lake.transaction()
        table = transaction.table(self._options.table)
        count = self._options.number("partitions")
        if _is_iceberg(lake, self._options.table):
            from seiche.lake.iceberg.handles import IcebergTransactionTable
            from seiche.spark.iceberg import iceberg_scans

            handle = cast(IcebergTransactionTable, table)
            return iceberg_scans(handle, transaction, columns=self._columns, where=self._where(), parts=count)[0]
        snapshot = table._snapshot()
        count = count or spread(snapshot.manifest.fragments.decoded(), os.cpu_count() or 1)
        return scans(snapshot, columns=self._columns, where=self._where(), parts=count)[0]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, ScanPartition):
            yield from partition.task.read(0)

    def _where(self) -> str | None:
        """What the user asked for, and what Spark left to us."""
        pushed: Any = self.pushFilters
        conditions = [*filter(None, [self._options.values.get("filter")]), *pushed.conditions]
        return " AND ".join(f"({one})" for one in conditions) or None


@dataclass
class FragmentsWritten(WriterCommitMessage):
    """What one task wrote: fragments that belong to no version yet, and the version of the lake when it began."""

    fragments: tuple[bytes, ...]
    base: int


class TableWriter(DataSourceArrowWriter):
    """Writes rows by all workers, and commits once.

    The id of the commit is made before the first task starts: however often the commit is asked for, it happens once.
    Of a task that ran twice Spark hands over one message, and what the other wrote is in no version; the lake's
    clean-up finds it.
    """

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        self._job = str(SYSTEM.uuid())
        self._limits = Limits.of(options.number("max_rows_per_file"), options.number("max_bytes_per_file"))
        with options.open(writing=True) as lake:
            self._target, self._table = self._aim(lake, schema)
            self._home = lake.store.uri if options.served else options.uri
        conform_shown(arrow_schema(schema), self._target.schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        base = open_lake(self._home, **self._options.storage).version
        if not isinstance(self._target, Target):
            return FragmentsWritten((self._target.write(iterator),), base)
        written = write_batches(self._target, iterator)
        return FragmentsWritten(tuple(one.SerializeToString() for one in written.fragments), base)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        """One transaction of the lake with everything that was written."""
        self.commit_as([one for one in messages if isinstance(one, FragmentsWritten)], key=f"spark:{self._job}")

    def commit_as(self, messages: "Sequence[FragmentsWritten]", **identity: Any) -> None:
        """The same, under an identity by which a repetition is known: a key, or a stream and its epoch."""
        with self._options.open(writing=True) as lake:

            def apply(transaction: Transaction) -> None:
                # Rule 1 of the protocol: not after a clean-up that may have taken the files for left over.
                transaction.oldest = min([transaction.oldest, *(one.base for one in messages)])
                self._apply(transaction, [one for message in messages for one in message.fragments])

            lake.run(apply, **identity)

    def _apply(self, transaction: Transaction, written: Sequence[bytes]) -> None:
        table = transaction.table(self._options.table)
        if table.id != self._table:
            raise IncompatibleConflict(
                f"{self._options.table} was dropped and made anew while the job ran",
                remedy="Nothing was committed. Look at the new table; if the rows belong there, run the job again.",
                table=self._options.table,
            )
        if not isinstance(self._target, Target):
            from seiche.lake.iceberg.handles import IcebergTransactionTable
            from seiche.spark.iceberg import add_files

            add_files(cast(IcebergTransactionTable, table), written, overwrite=self._overwrite)
            return
        fragments = written_fragments(iter(written))
        snapshot = table._snapshot()
        if self._overwrite:
            table.apply(overwriting(fragments, self._target.schema, snapshot, {}))
        elif fragments.fragments:
            _require_same(self._target, snapshot)
            table.apply(Change(Append(fragments.fragments), rows=fragments.rows))

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        """Nothing: Spark calls it also when the commit has happened and only its answer was lost."""

    def _aim(self, lake: Lake, schema: StructType) -> "tuple[Target | IcebergTarget, str]":
        """Where the rows go, and the id of the table, which lies there: another of the same name does not."""
        transaction = lake.transaction()
        try:
            table = transaction.table(self._options.table)
        except NotFound as error:
            remedy = "A write makes no table. `lake.create_table(...)` does, or CREATE TABLE ... AS SELECT in SQL."
            raise NotFound(error.message, remedy=remedy, table=self._options.table) from error
        if _is_iceberg(lake, self._options.table):
            from seiche.lake.iceberg.handles import IcebergTransactionTable
            from seiche.spark.iceberg import IcebergTarget

            return IcebergTarget.of(cast(IcebergTransactionTable, table), transaction), table.id
        snapshot = table._snapshot()
        if not self._overwrite:
            return target_of(snapshot, self._limits), table.id
        new = arrow_schema(schema) if self._options.yes("overwrite_schema") else snapshot.schema
        return target_of(snapshot, self._limits, new), table.id


@cache
def _settle() -> None:
    """Spark plans in processes of its own, which look for garbage after every call: not among what is loaded by now.

    That takes 50 ms each time, on the processors that the first tasks want.
    """
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        gc.freeze()


def _is_iceberg(lake: Lake, table: str) -> bool:
    return lake.state().table(parts(table)).format == "iceberg"


def _require_same(target: Target, snapshot: Snapshot) -> None:
    """Files are written for the columns that the table had when the job began."""
    if target_of(snapshot, target.limits).header_fields != target.header_fields:
        raise InvalidInput(
            "the columns of the table have changed while the job ran",
            remedy="Nothing was committed. Run the job again.",
        )
