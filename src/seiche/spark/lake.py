"""A lake with a session of Spark."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from seiche.core import given
from seiche.errors import InvalidInput
from seiche.lake.history.tags import version_of
from seiche.lake.lake import Lake
from seiche.lake.objects.names import parts, text
from seiche.lake.publish import Publisher
from seiche.lake.statements import TableName
from seiche.spark.jobs import Progress
from seiche.spark.registration import register
from seiche.spark.transaction import SparkTransaction
from seiche.store.prefix import below
from seiche.table.change import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seiche.lake.care.gc import CleanUp
    from seiche.lake.export.records import Export
    from seiche.spark.sql.session import SqlSession
    from seiche.table.table import Table

__all__ = ["SparkLake"]

T = TypeVar("T")


class SparkLake:
    """What `lake.spark(session)` gives: the same lake, with Spark to do the work."""

    def __init__(self, lake: Lake, session: "SparkSession") -> None:
        """Use `lake.spark(session)`."""
        self.lake = lake
        self.session = session
        self._sql: SqlSession | None = None
        register(session)

    def sql(self, statement: str) -> "DataFrame":
        """Execute a statement of SQL: `BEGIN`, `SELECT`, `MERGE INTO`, `CALL seiche.tag('nightly')` and many more.

        What was opened with `BEGIN` lasts until `COMMIT` or `ROLLBACK`; see `seiche.spark.sql`.
        """
        from seiche.spark.sql.session import SqlSession

        given.text(statement, "a statement", 'Give SQL, such as "SELECT * FROM shop.orders".')
        if self._sql is None:
            self._sql = SqlSession(self)
        return self._sql.execute(statement)

    def transaction(self, **options: Any) -> SparkTransaction:
        """Begin a transaction whose statements Spark executes; `options` are those of `lake.transaction`."""
        return cast(SparkTransaction, self.lake.transaction(spark=self.session, **options))

    def run(self, fn: Callable[[SparkTransaction], T], **options: Any) -> T:
        """Run `fn(tx)` and commit, again on the latest version after each retryable conflict; as `lake.run`."""
        return self.lake.run(lambda tx: fn(cast(SparkTransaction, tx)), spark=self.session, **options)

    def read(
        self,
        table: TableName,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        *,
        version: int | str | None = None,
        as_of: datetime | None = None,
    ) -> "DataFrame":
        """A table as a data frame: as it is now, in a version of the lake (a number or a tag), or at a time."""
        handle = self.at(version, as_of)
        with handle.reading():
            begun = cast(SparkTransaction, handle.transaction(spark=self.session))
            return begun.read(table, columns, filter)

    def count(self, table: TableName, *, version: int | str | None = None, as_of: datetime | None = None) -> int:
        """How many rows a table has, from metadata."""
        handle = self.at(version, as_of)
        with handle.reading():
            return cast(SparkTransaction, handle.transaction(spark=self.session)).count(table)

    def compact(self, table: TableName, *, progress: Progress | None = None, **options: Any) -> Result:
        """Put small fragments together, and write those anew of which much is deleted: a task of Spark for each group.

        `options` are those of `compact` of a table. Rows, row ids and what readers see stay as they are.
        """
        from seiche.spark.maintenance import compact

        return compact(self.session, self.lake.table(table), progress=progress, **options)

    def create_index(
        self,
        table: TableName,
        column: str,
        index_type: str = "BTREE",
        *,
        workers: int | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Result:
        """Build an index in as many segments as there are workers, each by a task of Spark, and commit it as one."""
        from seiche.spark.maintenance import create_index

        return create_index(
            self.session, self.lake.table(table), column, index_type, workers=workers, progress=progress, **options
        )

    def clone(
        self,
        table: TableName,
        target: str,
        *,
        version: int | str | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> "Table":
        """Make a deep clone of a Lance table, which belongs to no lake: workers copy its files. `options` are those of
        the store at the target. If it dies there is no table at the target, and doing it again begins anew.
        """
        from seiche.spark.maintenance import clone

        handle = self.at(version)
        with handle.reading():
            return clone(self.session, _published(handle, table), target, progress=progress, **options)

    def export(self, name: str, target: str, *, progress: Progress | None = None, **options: Any) -> "Export":
        """As `lake.export`, with the files copied, and read back, by all workers; `options` are the same.

        `progress` is told how many tasks of the running job are done, and of how many.
        """
        from seiche.lake.export.export import export_lake
        from seiche.spark.copying import Carriers

        return export_lake(self.lake, name, target, carrier=Carriers(self.session, progress), **options)

    def gc(self, *, progress: Progress | None = None, **options: Any) -> "CleanUp":
        """As `lake.gc`, with all files listed by the workers; `options` are the same. `progress` as for `export`."""
        from seiche.lake.care.gc import collect
        from seiche.spark.listing import Listers

        return collect(self.lake, listing=Listers(self.session, progress), **options)

    def at(self, version: int | str | None = None, as_of: datetime | None = None) -> Lake:
        """The lake itself, or a handle that stays at a version or time and is read-only."""
        point = version if as_of is None else as_of
        if point is None:
            return self.lake
        states = self.lake.states
        return Lake(states, pinned=states.at(version_of(states, point)))

    def __repr__(self) -> str:
        return f"SparkLake({self.lake!r})"


def _published(lake: Lake, name: TableName) -> "Table":
    """A Lance table of the lake as one that stands by itself, at the version that the lake has; read-only."""
    from seiche.table.table import Table

    state = lake.state()
    row = state.table(parts(name))
    if not row.is_own("lance"):
        raise InvalidInput(
            f"{text(parts(name))} is no Lance table of the lake's own, and cannot be cloned",
            remedy="Export it: lake.export(name, target, tables=[...]).",
        )
    # Others know it by its published manifests, and the one who committed it may have died before.
    Publisher(lake.store, lake.states.runtime).publish(row)
    return Table.open(below(lake.store, row.location), row.table_version)
