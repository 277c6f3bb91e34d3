"""A transaction of a lake whose statements are executed by Spark's workers."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from seiche.errors import InvalidInput
from seiche.lake.handles import TransactionTable
from seiche.lake.statements import TableName
from seiche.lake.transaction import Transaction
from seiche.spark.dml.merge_builder import SparkMergeBuilder
from seiche.spark.given import check_chosen
from seiche.spark.jobs import parallelism
from seiche.spark.raised import as_raised
from seiche.spark.scanning import GROUP, live_rows, read_frame
from seiche.table.change import Result
from seiche.table.data.scanning import ADDRESS
from seiche.table.data.write import Limits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from seiche.spark.dml.iceberg import IcebergGround
    from seiche.spark.dml.merging import FrameMerging

__all__ = ["SparkTransaction", "is_frame"]


def is_frame(data: Any) -> bool:
    """Whether rows are a data frame of Spark, of whichever kind."""
    return hasattr(data, "mapInArrow")


class SparkTransaction(Transaction):
    """As every transaction, with a session of Spark: `lake.transaction(spark=session)`.

    Rows are given as data frames, and conditions and expressions are Spark's SQL, or its columns. Workers scan, join
    and write data files and deletion vectors; the driver gets a few bytes for each file. Nothing else differs: the
    statements fold, rebase and commit with all others, and rows may also be given as Arrow tables or the like.
    """

    def __init__(self, *state: Any, session: "SparkSession", **options: Any) -> None:
        """Use `lake.transaction(spark=session)`."""
        super().__init__(*state, **options)
        # The session that executes the statements.
        self.session = session

    def read(
        self,
        table: TableName,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        *,
        addresses: bool = False,
    ) -> "DataFrame":
        """The table as this transaction sees it now, its own changes included, as a data frame.

        The frame stays at what is seen now, whatever the transaction does next. `columns` and `filter` (SQL of the
        storage engine, not of Spark) are applied while reading: Spark itself cannot push them down here. With
        `addresses`, each row comes with its place, `_rowaddr`.
        """
        check_chosen(columns, filter)
        handle = self.table(table)
        if columns is not None and not columns and not addresses:
            return self._read_no_columns(handle, filter)
        if self.is_iceberg(handle):
            return self._read_iceberg(handle, columns, filter, addresses=addresses)
        self.note_read(handle.id)
        return read_frame(
            self.session,
            handle._snapshot(),
            columns=columns,
            where=filter,
            addresses=addresses,
            parts=self._parts(),
        )

    def _read_no_columns(self, handle: TransactionTable, where: str | None) -> "DataFrame":
        """As many rows as there are. From Python, Spark takes none that have no columns: what is read is left out."""
        if self.is_iceberg(handle):
            first = handle.schema.names[:1]  # a table without any column has no rows
            return self._read_iceberg(handle, first, where).drop(*first)
        return self.read(handle.name, [], where, addresses=True).drop(ADDRESS, GROUP)

    def count(self, table: TableName) -> int:
        """How many rows the table has, from metadata alone where it says so."""
        handle = self.table(table)
        with as_raised():
            if self.is_iceberg(handle):
                return self.read(table).count()
            self.note_read(handle.id)
            known = live_rows(handle._snapshot())
            return known if known is not None else self.read(table, columns=[]).count()

    def append(self, table: TableName, data: Any, **options: Any) -> Result:
        """Add rows."""
        handle = self.table(table)
        if self.is_iceberg(handle) and is_frame(data):
            return self._write_iceberg(handle, data, options, overwrite=False)
        return handle.append(data, **options)

    def overwrite(self, table: TableName, data: Any, **options: Any) -> Result:
        """Replace all rows; the columns stay those of the table unless `schema=` says otherwise."""
        handle = self.table(table)
        if self.is_iceberg(handle) and is_frame(data):
            return self._write_iceberg(handle, data, options, overwrite=True)
        return handle.overwrite(data, **options)

    def delete(self, table: TableName, predicate: "str | Column", **options: Any) -> Result:
        """Remove the rows for which the condition (Spark's SQL, or a column) is true."""
        from seiche.spark.dml.changing import Deleting

        handle = self.table(table)
        prepare = Deleting(self.session, predicate, self._parts())
        if not self.is_iceberg(handle):
            return handle._run("delete", prepare, **options)
        if isinstance(predicate, str) and predicate.strip().lower() == "true":
            return handle.delete("true", **options)  # all of it: no row has to be looked at
        return prepare.on(self._iceberg_ground(handle, options))

    def update(
        self,
        table: TableName,
        set: "Mapping[str, str | Column]",  # noqa: A002 - the word for it
        where: "str | Column | None" = None,
        *,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        **options: Any,
    ) -> Result:
        """Set columns to expressions over the old values, in the rows for which `where` is true, or in all."""
        from seiche.spark.dml.changing import Updating

        limits = Limits.of(max_rows_per_file, max_bytes_per_file)
        prepare = Updating(self.session, set, where, limits, self._parts())
        handle = self.table(table)
        if self.is_iceberg(handle):
            return prepare.on(self._iceberg_ground(handle, options))
        return handle._run("update", prepare, **options)

    def merge(
        self,
        table: TableName,
        data: Any,
        on: str | Sequence[str] = (),
        *,
        condition: "str | Column | None" = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        **options: Any,
    ) -> SparkMergeBuilder:
        """Merge the rows of a data frame by key; say what shall happen to them, then `.execute()`.

        Rows belong together if the columns `on` are equal and, if given, `condition` holds, which speaks of `source.x`
        and `target.x`. Other rows than a data frame are made one.
        """
        if options:
            raise InvalidInput(f"merge does not know {', '.join(sorted(options))}", remedy="Leave it out.")
        limits = (max_rows_per_file, max_bytes_per_file)
        handle = self.table(table)
        run = handle._run if not self.is_iceberg(handle) else partial(self._merge_iceberg, handle)
        return SparkMergeBuilder(run, self.frame(data), on, condition, limits, self._parts())

    def frame(self, data: Any) -> "DataFrame":
        """Rows as a data frame of this session: the frame itself, or what an Arrow table and the like become."""
        if is_frame(data):
            frame: DataFrame = data
            return frame
        import pyarrow as pa

        from seiche.spark.types import as_shown, shown_schema, spark_schema
        from seiche.table.data.source import Source

        opened = Source(data).open()
        columns = spark_schema(opened.schema)
        wanted = shown_schema(columns)
        rows = pa.Table.from_batches([as_shown(one, wanted, exact=wanted.names) for one in opened.batches], wanted)
        # By itself Spark would take times without a zone for those of the session's.
        return self.session.createDataFrame(rows, columns)

    def is_iceberg(self, handle: TransactionTable) -> bool:
        """Whether a table is an Iceberg table: it is read and written by other means, and PyIceberg's conditions."""
        return self.edit(handle.id).row.format == "iceberg"

    def _merge_iceberg(self, handle: TransactionTable, _verb: str, merging: "FrameMerging", **_patience: Any) -> Result:
        return merging.on(self._iceberg_ground(handle, {}))

    def _iceberg_ground(self, handle: TransactionTable, options: Mapping[str, Any]) -> "IcebergGround":
        from seiche.lake.iceberg.handles import IcebergTransactionTable
        from seiche.spark.dml.iceberg import IcebergGround

        _refuse_options(handle, options)
        return IcebergGround(cast(IcebergTransactionTable, handle), self)

    def _read_iceberg(
        self, handle: TransactionTable, columns: Sequence[str] | None, where: str | None, *, addresses: bool = False
    ) -> "DataFrame":
        from seiche.lake.iceberg.handles import IcebergTransactionTable
        from seiche.spark.iceberg import iceberg_scans
        from seiche.spark.jobs import frame_of

        table = cast(IcebergTransactionTable, handle)
        tasks, schema = iceberg_scans(
            table, self, columns=columns, where=where, parts=self._parts(), addresses=addresses
        )
        return frame_of(self.session, tasks, schema)

    def _write_iceberg(
        self, handle: TransactionTable, data: Any, options: Mapping[str, Any], *, overwrite: bool
    ) -> Result:
        from seiche.lake.iceberg.handles import IcebergTransactionTable
        from seiche.spark.iceberg import write_frame

        _refuse_options(handle, options)
        self.check_running()
        handle.check_writable()
        return write_frame(self, cast(IcebergTransactionTable, handle), data, overwrite=overwrite)

    def _parts(self) -> int:
        """Into how many tasks work is divided: one for each worker, since tasks have a price."""
        return max(2, parallelism(self.session))


def _refuse_options(handle: TransactionTable, options: Mapping[str, Any]) -> None:
    if options:
        raise InvalidInput(
            f"{handle.name} is an Iceberg table, for which there is no option {', '.join(sorted(options))}",
            remedy="Leave it out.",
        )
