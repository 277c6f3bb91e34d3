"""`df.write.format("seiche")`: rows written by all workers, and one commit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from seiche.core.runtime import SYSTEM
from seiche.errors import IncompatibleConflict, InvalidInput, NotFound
from seiche.lake.lake import Lake, open_lake
from seiche.lake.transaction import Transaction
from seiche.spark.names import said_twice
from seiche.spark.options import Options
from seiche.spark.types import arrow_schema, conform_shown
from seiche.spark.writing import Target, overwriting, target_of, write_batches, written_fragments
from seiche.table.change import Change
from seiche.table.data.write import Limits
from seiche.table.operations import Append
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from seiche.spark.iceberg import IcebergTarget

__all__ = ["FragmentsWritten", "TableWriter"]

# Who overwrites and names a condition means a part of the table; all of it would be replaced.
_READ_ONLY = {
    "filter": "It is for reading. Choose rows with `.where(...)`. To replace some, open a transaction:"
    " `tx.delete(table, where)` and `tx.append(table, frame)` are one version then.",
    "columns": "It is for reading. Choose columns with `.select(...)`.",
}


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
        options.refuse(_READ_ONLY)
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
        """Commit under an identity by which a repetition is known: a key, or a stream and its epoch."""
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
            if not self._options.yes("overwrite_schema"):
                _require_same(self._target, snapshot, snapshot.schema)
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
        table.check_writable()
        if self._options.is_iceberg(lake):
            from seiche.lake.iceberg.handles import IcebergTransactionTable
            from seiche.spark.iceberg import IcebergTarget

            return IcebergTarget.of(cast(IcebergTransactionTable, table), transaction), table.id
        snapshot = table._snapshot()
        if not self._overwrite:
            return target_of(snapshot, self._limits), table.id
        new = _columns(schema) if self._options.yes("overwrite_schema") else snapshot.schema
        return target_of(snapshot, self._limits, new), table.id


def _columns(schema: StructType) -> pa.Schema:
    """The columns of a frame, as those of a table."""
    if (twice := said_twice(schema.names)) is not None:
        raise InvalidInput(
            f"two columns are called {twice!r}", remedy="Give each a name of its own, with `.alias(...)`.", column=twice
        )
    return arrow_schema(schema)


def _require_same(target: Target, snapshot: Snapshot, schema: pa.Schema | None = None) -> None:
    """Files are written for the columns that the table had when the job began; an overwrite would bring them back."""
    if target_of(snapshot, target.limits, schema).header_fields != target.header_fields:
        raise InvalidInput(
            "the columns of the table have changed while the job ran",
            remedy="Nothing was committed. Run the job again.",
        )
