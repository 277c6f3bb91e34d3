"""The data source "seiche": `spark.read.format("seiche")` and `df.write.format("seiche")`."""

import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from seiche.errors import InvalidInput
from seiche.lake.lake import Lake
from seiche.spark.daemon import hush
from seiche.spark.jobs import Readable
from seiche.spark.options import Options
from seiche.spark.types import nullable, shown_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader

    from seiche.spark.iceberg import IcebergScan
    from seiche.spark.scanning import Scan

__all__ = ["SeicheSource", "TableReader"]

hush()

_FOR_STREAMS = "It is for `spark.readStream`. A read gives the rows of one version: leave it out."
_STREAM_ONLY = dict.fromkeys(("changes", "starting_version", "on_change"), _FOR_STREAMS)


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

                return changes_schema(options.chosen(table.schema))
            return spark_schema(options.chosen(table.schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options.of(self.options)
        options.refuse(_STREAM_ONLY)
        if not schema.names:
            # Spark takes no rows without columns from Python: none would be counted.
            raise InvalidInput("a read needs a column at least", remedy="Leave out `.schema(...)`, or name a column.")
        return TableReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from seiche.spark.table_writer import TableWriter

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
    """Reads one version of a table: the one there is when the read is planned.

    It takes no filters of Spark's (`pushFilters`). Spark 4.3 keeps what was planned with one query's filters with the
    frame, and gives it to the next query of that frame, and to the other sides of a union or a join: rows are missing
    there, and nothing says so.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, each with its fragments or files pinned."""
        lake = self._options.open_held()
        with lake.reading():
            tasks, found = self._tasks(lake)
        for given, there in zip(self._schema, found, strict=True):
            self._check(given, there)
        wanted = shown_schema(self._schema)
        return [ScanPartition(replace(one, columns=wanted)) for one in tasks]

    def _check(self, given: StructField, there: StructField) -> None:
        """`InvalidInput` unless the column is what Spark was told: nulls may be allowed where there are none."""
        same = given.dataType in (there.dataType, nullable(there.dataType))
        if not same or (there.nullable and not given.nullable):
            kinds = [f"{one.dataType.simpleString()}{'' if one.nullable else ' not null'}" for one in (given, there)]
            raise InvalidInput(
                f"column {given.name!r} of {self._options.table} was to be read as {kinds[0]}, and is {kinds[1]}",
                remedy="Leave out `.schema(...)`, and cast the column; if the table has changed, load the frame again.",
                column=given.name,
            )

    def _tasks(self, lake: Lake) -> "tuple[Sequence[Scan | IcebergScan], StructType]":
        transaction = lake.transaction()
        table = transaction.table(self._options.table)
        count, where = self._options.number("partitions"), self._options.values.get("filter") or None
        if self._options.is_iceberg(lake):
            from seiche.lake.iceberg.handles import IcebergTransactionTable
            from seiche.spark.iceberg import iceberg_scans

            handle = cast(IcebergTransactionTable, table)
            return iceberg_scans(handle, transaction, columns=self._schema.names, where=where, parts=count)
        from seiche.spark.scanning import scans, spread

        snapshot = table._snapshot()
        count = count or spread(snapshot.manifest.fragments.decoded(), os.cpu_count() or 1)
        return scans(snapshot, columns=self._schema.names, where=where, parts=count)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, ScanPartition):
            yield from partition.task.read(0)


@cache
def _settle() -> None:
    """Spark plans in processes of its own, which look for garbage after every call: not among what is loaded by now.

    That takes 50 ms each time, on the processors that the first tasks want.
    """
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        gc.freeze()
