"""Queries, made data frames: every table in them is read at one version, and no more of it than is needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from seiche.errors import InvalidInput, NotFound
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import ViewRow
from seiche.spark.explaining import explained
from seiche.spark.lake import SparkLake
from seiche.spark.names import quoted
from seiche.spark.sql.failures import as_input_errors
from seiche.spark.sql.pruning import bare_count, needed_columns, pushed_filter
from seiche.spark.sql.queries import Query, TableReference, parse_query
from seiche.spark.sql.quotes import check_quotes
from seiche.spark.sql.relations import find, qualified
from seiche.spark.transaction import SparkTransaction
from seiche.spark.zones import of_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seiche.lake.handles import TransactionTable

__all__ = ["Reader", "as_frame"]

_DEEPEST = 32


@dataclass(slots=True)
class Reader:
    """Reads for one statement: as the transaction sees the lake, or where the query says so, as it was in a version."""

    lake: SparkLake
    tx: SparkTransaction
    namespace: Name = ()
    _past: dict[object, SparkTransaction] = field(default_factory=dict)
    # Whether all columns are read, needed or not.
    _whole: bool = False

    def frame(self, query: Query) -> "DataFrame":
        """The result of a query. Nothing is read until it is asked for, and then what was there now."""
        return self._frame(query, self.tx, ())

    def expression(self, expression: Query, frames: "dict[str, DataFrame]", around: Name = ()) -> str:
        """An expression with `{name}` for each table of the lake in it; what the names stand for goes into `frames`.
        `around` is the table that it is about, if that has no alias.
        """
        return self._written(expression, self.tx, (), frames, braces=True, around=around)

    def qualified_text(self, query: Query) -> str:
        """The query with whole names for the tables of the lake; `InvalidInput` if it also looks at Spark's own."""
        edits: list[tuple[int, int, str]] = []
        for table in query.tables:
            full = self._full_name(table)
            if full is None:
                raise InvalidInput(
                    f"{text(table.name)} is not in the lake: a view can look at what is in the lake only",
                    remedy="Put its rows into a table of the lake.",
                )
            if len(table.name) == 1:
                edits.append((table.start, table.end, ".".join(map(quoted, full))))
        written = query.text
        for start, end, new in sorted(edits, reverse=True):
            written = written[:start] + new + written[end:]
        return written[query.start : query.end + len(written) - len(query.text)]

    def _frame(self, query: Query, tx: SparkTransaction, inside: tuple[Name, ...]) -> "DataFrame":
        counted = self._counted(query, tx)
        if counted is not None:
            return counted
        with as_input_errors(), explained(lambda: replace(self, _whole=True)._made(query, tx, inside)):
            return self._made(query, tx, inside)

    def _made(self, query: Query, tx: SparkTransaction, inside: tuple[Name, ...]) -> "DataFrame":
        frames: dict[str, DataFrame] = {}
        written = self._written(query, tx, inside, frames, braces=False)
        return as_frame(self.lake.session, written, frames)

    def _written(
        self,
        query: Query,
        tx: SparkTransaction,
        inside: tuple[Name, ...],
        frames: "dict[str, DataFrame]",
        *,
        braces: bool,
        around: Name = (),
    ) -> str:
        """The query with `{name}` for each table of the lake; braces of its own are doubled if there are such names."""
        check_quotes(query, self.lake.session)
        names: dict[TableReference, str] = {}
        for table in query.tables:
            found = self._source(query, table, tx, inside)
            if found is not None:
                name = f"t{len(frames)}"
                frames[name] = found
                names[table] = f"{{{name}}}"
        return query.rewritten(
            lambda table: names.get(table) or ".".join(map(quoted, table.name)),
            braces=braces or bool(frames),
            around=around,
        )

    def _counted(self, query: Query, tx: SparkTransaction) -> "DataFrame | None":
        """The number of rows of a table, from its metadata."""
        bare = bare_count(query)
        if bare is None:
            return None
        reference, called = bare
        at = self._at(query, reference, tx)
        full = self._full_name(reference)
        found = None if full is None else find(at, full)
        if full is None or found is None or isinstance(found, ViewRow) or not _is_lance(found):
            return None
        count = at.count(full)
        return self.lake.session.sql(f"SELECT CAST({count} AS BIGINT) AS {quoted(called)}")

    def _source(
        self, query: Query, table: TableReference, tx: SparkTransaction, inside: tuple[Name, ...]
    ) -> "DataFrame | None":
        """What stands behind a table in a query; `None` for what Spark itself knows."""
        at = self._at(query, table, tx)
        full = self._full_name(table)
        if full is None:
            if table.travel is not None:
                raise InvalidInput(f"{text(table.name)} is Spark's own, and has no versions", remedy="Leave out AS OF.")
            return None
        found = find(at, full)
        if found is None:
            raise NotFound(
                f"there is no table or view {text(full)} in version {at.base} of the lake",
                remedy="SHOW TABLES IN namespace lists what there is.",
                table=text(full),
                version=at.base,
            )
        if isinstance(found, ViewRow):
            return self._view(found, full, at, inside)
        schema = found.schema
        # Conditions are written for the one engine; the other has a language of its own.
        where = pushed_filter(table, schema) if _is_lance(found) else None
        return at.read(full, None if self._whole else needed_columns(query, table, schema), where)

    def _view(self, view: ViewRow, name: Name, at: SparkTransaction, inside: tuple[Name, ...]) -> "DataFrame":
        if name in inside or len(inside) > _DEEPEST:
            chain = " -> ".join(text(one) for one in (*inside, name))
            raise InvalidInput(f"the view {text(name)} looks at itself: {chain}", remedy="Define it anew.")
        if view.dialect != "spark" or not view.sql:
            raise InvalidInput(
                f"the view {text(name)} is written in the dialect {view.dialect or 'unknown'!r}",
                remedy="Only views in the dialect 'spark' can be read here.",
            )
        return self._frame(parse_query(view.sql, 0, len(view.sql)), at, (*inside, name))

    def _at(self, query: Query, table: TableReference, tx: SparkTransaction) -> SparkTransaction:
        """The transaction, or one that sees the version that the query asks for."""
        if table.travel is None:
            return tx
        point = table.travel.point(query.text)
        if isinstance(point, datetime) and point.tzinfo is None:
            point = of_session(point, self.lake.session)
        if point not in self._past:
            handle = self.lake.at(None, point) if isinstance(point, datetime) else self.lake.at(point)
            self._past[point] = cast(SparkTransaction, handle.transaction(spark=self.lake.session))
        return self._past[point]

    def _full_name(self, table: TableReference) -> Name | None:
        """The name in the lake; `None` for a view of the Spark session, which goes first, as in Spark."""
        if len(table.name) > 1:
            return table.name
        if self._is_temporary(table.name[0]):
            return None
        return qualified(table.name, self.namespace)

    def _is_temporary(self, name: str) -> bool:
        catalog = self.lake.session.catalog
        return catalog.tableExists(quoted(name)) and bool(catalog.getTable(quoted(name)).isTemporary)


def _is_lance(table: "TransactionTable") -> bool:
    return table._edit.row.format == "lance"


def as_frame(session: "SparkSession", written: str, frames: "Mapping[str, DataFrame]") -> "DataFrame":
    """The result of a query in which `{name}` stands for a frame. It holds what it needs: no view is left behind."""
    given: dict[str, Any] = dict(frames)
    return session.sql(written, **given) if given else session.sql(written)
