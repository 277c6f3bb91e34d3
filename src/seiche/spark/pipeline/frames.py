"""What the queries of a run see: its sources, and the tables of the lake as its transaction sees them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seiche.errors import InvalidInput, SeicheError
from seiche.spark.pipeline.definition import Place
from seiche.spark.sql.pruning import needed_columns, pushed_filter
from seiche.spark.sql.queries import Query, TableReference, parse_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seiche.spark.transaction import SparkTransaction

__all__ = ["Frames", "parsed"]


class Frames:
    """Sources and tables by name. A table is read as the transaction sees it at the moment of asking."""

    def __init__(self, tx: "SparkTransaction", sources: "Mapping[str, DataFrame]") -> None:
        self._tx = tx
        self.sources = sources

    def frame(self, name: str) -> "DataFrame":
        """A source or a table, with all its columns."""
        return self.sources[name] if name in self.sources else self._tx.read(name)

    def query(self, sql: str, place: Place = Place(), what: str = "the query") -> "DataFrame":  # noqa: B008 - a value
        """What a query gives. Of tables, only the columns and rows that it can need are read."""
        query = parsed(sql, place, what)
        frames: dict[str, Any] = {}

        def name_for(table: TableReference) -> str:
            key = f"frame_{len(frames)}"
            frames[key] = self._needed(query, table)
            return "{" + key + "}"

        try:
            return self._tx.session.sql(query.rewritten(name_for, braces=True), **frames)
        except SeicheError:
            raise
        except Exception as error:
            raise InvalidInput(f"{place}: {what}: {short(error)}", remedy="Correct the query.") from error

    def _needed(self, query: Query, table: TableReference) -> "DataFrame":
        name = ".".join(table.name)
        if name in self.sources:
            return self.sources[name]
        schema = self._tx.table(table.name).schema
        columns = needed_columns(query, table, schema)
        return self._tx.read(table.name, columns, pushed_filter(table, schema))


def parsed(sql: str, place: Place, what: str) -> Query:
    """A query, or `InvalidInput` that says where it was written down."""
    try:
        found = parse_query(sql, 0, len(sql))
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {what}: {error.message}", remedy="Write one SELECT.") from error
    for table in found.tables:
        if table.travel is not None:
            raise InvalidInput(
                f"{place}: {what}: {'.'.join(table.name)} is read at another time",
                remedy="All steps of a run read one version of the lake.",
            )
    return found


def short(error: Exception) -> str:
    """What Spark says, without the plan that it says it about."""
    return str(error).split("\n", 1)[0].strip()
