"""A session of SQL on a lake: one statement after the other, each a transaction of its own unless one is open."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seiche.errors import InvalidInput, NotFound, SeicheError
from seiche.lake.objects.names import Name, text
from seiche.lake.undo import kept_on_error
from seiche.spark.lake import SparkLake
from seiche.spark.sql import statements as made
from seiche.spark.sql.ddl import DEFINITIONS, define
from seiche.spark.sql.dml import Changed, execute
from seiche.spark.sql.failures import as_input_errors
from seiche.spark.sql.grammar import parse
from seiche.spark.sql.listing import Listing, describe, listing_frame, show
from seiche.spark.sql.procedures import arguments_of, clean_up, compacted, procedure_of, table_named
from seiche.spark.sql.reading import Reader
from seiche.spark.sql.relations import qualified, table
from seiche.spark.sql.remedies import in_words_of_sql
from seiche.spark.sql.statements import Statement
from seiche.spark.transaction import SparkTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SqlSession"]

_CHANGED = "num_affected_rows bigint, num_inserted_rows bigint, num_updated_rows bigint, num_deleted_rows bigint"


class SqlSession:
    """Statements of one user: what BEGIN opened, and the namespace in USE.

    A statement that is refused or fails leaves an open transaction as it was; one that conflicts at COMMIT ends it. Not
    for several threads at once.
    """

    def __init__(self, lake: SparkLake) -> None:
        """Use `lake.spark(session).sql(...)`."""
        self.lake = lake
        self.namespace: Name = ()
        self._open: SparkTransaction | None = None

    @property
    def transaction(self) -> SparkTransaction | None:
        """The transaction that BEGIN opened, as long as it is open."""
        if self._open is not None and self._open.status != "running":
            self._open = None
        return self._open

    def execute(self, statement: str) -> "DataFrame":
        """Execute a statement. A query gives its result, which is read when it is used; everything else is done when
        this returns, and gives a row or more about what was done.

        `InvalidInput` names what is not understood, and where it stands; then nothing was done.
        """
        with in_words_of_sql():
            parsed = parse(statement)
            if isinstance(parsed, made.Select):
                return self._select(parsed)
            return self._frame(self._run(parsed))

    def _run(self, statement: Statement) -> Listing:
        kind = type(statement)
        if kind in DEFINITIONS:
            return self._changing(lambda reader: _defined(define(statement, reader)))
        verb: Callable[[SqlSession, Any], Listing] = _VERBS[kind]
        return verb(self, statement)

    def _select(self, statement: made.Select) -> "DataFrame":
        # All tables of one query are read at the version where this one transaction begins.
        tx = self.transaction or self.lake.transaction()
        return Reader(self.lake, tx, self.namespace).frame(statement.query)

    def _begin(self, statement: made.Begin) -> Listing:
        if self.transaction is not None:
            raise InvalidInput("a transaction is open already", remedy="COMMIT or ROLLBACK ends it.")
        self._open = self.lake.transaction(isolation=statement.isolation)
        return Listing("transaction string, version bigint", ((self._open.id, self._open.base),))

    def _ending(self) -> SparkTransaction:
        tx = self.transaction
        if tx is None:
            raise InvalidInput("no transaction is open", remedy="BEGIN opens one.")
        self._open = None
        return tx

    def _commit(self, _: made.Commit) -> Listing:
        return Listing("version bigint", ((self._ending().commit(),),))

    def _rollback(self, _: made.Rollback) -> Listing:
        tx = self._ending()
        tx.rollback()
        return Listing("version bigint", ((tx.base,),))

    def _use(self, statement: made.Use) -> Listing:
        name = statement.name

        def check(reader: Reader) -> Listing:
            if name not in reader.tx.namespaces(name[:-1]):
                raise NotFound(f"there is no namespace {text(name)}", remedy="SHOW NAMESPACES lists what there is.")
            return Listing("namespace string", ((text(name),),))

        listing = self._looking(check)
        self.namespace = name
        return listing

    def _show(self, statement: made.Show) -> Listing:
        return self._looking(lambda reader: show(statement, reader))

    def _describe(self, statement: made.Describe) -> Listing:
        return self._looking(lambda reader: describe(statement, reader))

    def _change(self, statement: made.Insert | made.Update | made.Delete | made.Merge) -> Listing:
        return self._changing(lambda reader: _counted(execute(statement, reader)))

    def _optimize(self, statement: made.Optimize) -> Listing:
        return self._changing(lambda reader: _optimized(reader, statement.name))

    def _looking(self, fn: Callable[[Reader], Listing]) -> Listing:
        tx = self.transaction or self.lake.transaction()
        return fn(Reader(self.lake, tx, self.namespace))

    def _changing(self, fn: Callable[[Reader], Listing]) -> Listing:
        """In the open transaction, or in one of its own that is run again after a conflict that allows it."""

        def once(tx: SparkTransaction) -> Listing:
            with kept_on_error(tx), as_input_errors():
                return fn(Reader(self.lake, tx, self.namespace))

        tx = self.transaction
        return once(tx) if tx is not None else self.lake.run(once)

    def _alone(self, what: str) -> None:
        if self.transaction is not None:
            raise InvalidInput(
                f"{what} is decided by itself: it cannot be part of a transaction", remedy="COMMIT or ROLLBACK first."
            )

    def _vacuum(self, statement: made.Vacuum) -> Listing:
        self._alone("VACUUM")
        if statement.name:
            self._looking(lambda reader: _exists(reader, statement.name))
        return clean_up(self.lake, dry_run=statement.dry_run)

    def _call(self, call: made.Call) -> Listing:
        procedure, given = procedure_of(call), arguments_of(call)
        try:
            if procedure.on_lake is not None:
                self._alone(f"seiche.{call.procedure}")
                return procedure.on_lake(self.lake, given)
            on_table = procedure.on_table
            assert on_table is not None  # noqa: S101 - a procedure is one or the other
            named = table_named(given, self.namespace)
            return self._changing(lambda reader: on_table(reader.tx, dict(named)))
        except SeicheError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"seiche.{call.procedure}: {error}", remedy="Check the values of its arguments."
            ) from error

    def _frame(self, listing: Listing) -> "DataFrame":
        return listing_frame(self.lake.session, listing)


def _counted(changed: Changed) -> Listing:
    return Listing(_CHANGED, ((changed.rows, changed.inserted, changed.updated, changed.deleted),))


def _defined(rows: int) -> Listing:
    return Listing("num_inserted_rows bigint", ((rows,),))


def _exists(reader: Reader, name: Name) -> Listing:
    table(reader.tx, qualified(name, reader.namespace))
    return Listing("name string", ())


def _optimized(reader: Reader, name: Name) -> Listing:
    return compacted(reader.tx, qualified(name, reader.namespace))


_VERBS: dict[type[Statement], Any] = {
    made.Begin: SqlSession._begin,
    made.Commit: SqlSession._commit,
    made.Rollback: SqlSession._rollback,
    made.Use: SqlSession._use,
    made.Show: SqlSession._show,
    made.Describe: SqlSession._describe,
    made.Insert: SqlSession._change,
    made.Update: SqlSession._change,
    made.Delete: SqlSession._change,
    made.Merge: SqlSession._change,
    made.Optimize: SqlSession._optimize,
    made.Vacuum: SqlSession._vacuum,
    made.Call: SqlSession._call,
}
