"""What the queries of a run see: its sources, and the tables of the lake as its transaction sees them."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from seiche.errors import InvalidInput, SeicheError
from seiche.spark.explaining import explained
from seiche.spark.pipeline.definition import Check, Place
from seiche.spark.pipeline.direct import direct_answer
from seiche.spark.sql.failures import first_line
from seiche.spark.sql.pruning import needed_columns, pushed_filter
from seiche.spark.sql.queries import Query, TableReference, parse_query
from seiche.spark.sql.quotes import check_quotes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seiche.spark.transaction import SparkTransaction

__all__ = ["Frames", "parsed", "short"]

_RAISED: Final = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt)\b")
_JAVA_CLASS: Final = re.compile(r"^[a-z]\w*(\.\w+)+: ")


class Frames:
    """Sources and tables by name. A table is read as the transaction sees it at the moment of asking."""

    def __init__(self, tx: "SparkTransaction", sources: "Mapping[str, DataFrame]") -> None:
        self._tx = tx
        self.sources = sources

    def count(self, check: Check) -> int | None:
        """What a check counts, if that can be said without a job of Spark."""
        query = parsed(check.sql, check.place, f"check {check.name!r}")
        check_quotes(query, self._tx.session)
        if any(".".join(table.name) in self.sources for table in query.tables):
            return None
        return direct_answer(check, query, self._tx)

    def frame(self, name: str) -> "DataFrame":
        """A source or a table, with all its columns."""
        return self.sources[name] if name in self.sources else self._tx.read(name)

    def query(self, sql: str, place: Place = Place(), what: str = "the query") -> "DataFrame":  # noqa: B008 - a value
        """What a query gives. Of tables, only the columns and rows that it can need are read."""
        query = parsed(sql, place, what)
        check_quotes(query, self._tx.session)

        def frame(wanted: "Callable[[TableReference], DataFrame]") -> "DataFrame":
            frames: dict[str, Any] = {}

            def name_for(table: TableReference) -> str:
                key = f"frame_{len(frames)}"
                frames[key] = wanted(table)
                return "{" + key + "}"

            return self._tx.session.sql(query.rewritten(name_for, braces=True), **frames)

        try:
            with explained(lambda: frame(lambda table: self.frame(".".join(table.name)))):
                return frame(lambda table: self._needed(query, table))
        except SeicheError:
            raise
        except Exception as error:
            raise InvalidInput(f"{place}: {what}: {short(error)}", remedy="Correct the query.") from error

    def _needed(self, query: Query, table: TableReference) -> "DataFrame":
        name = ".".join(table.name)
        if name in self.sources:
            return self.sources[name]
        handle = self._tx.table(table.name)
        schema = handle.schema
        # Conditions are written for the one engine; Iceberg's has a language of its own.
        where = None if self._tx.is_iceberg(handle) else pushed_filter(table, schema)
        return self._tx.read(table.name, needed_columns(query, table, schema), where)


def parsed(sql: str, place: Place, what: str) -> Query:
    """A query, or `InvalidInput` that says where it was written down."""
    try:
        found = _parsed(sql)
    except InvalidInput as error:
        where = " of the query" if "position" in error.details else ""
        raise InvalidInput(f"{place}: {what}: {error.message}{where}", remedy="Write one SELECT.") from error
    for table in found.tables:
        if table.travel is not None:
            raise InvalidInput(
                f"{place}: {what}: {'.'.join(table.name)} is read at another time",
                remedy="All steps of a run read one version of the lake.",
            )
    return found


@lru_cache(maxsize=512)
def _parsed(sql: str) -> Query:
    """Each query is asked for several times: for the plan, by the step or check, and again after a conflict."""
    return parse_query(sql, 0, len(sql))


def short(error: BaseException) -> str:
    """What Spark says, in one line: without the plan that it says it about, and what it was doing in which language."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if "Python worker" in lines[0]:
        # The line with which a Python traceback ends.
        return next((line for line in reversed(lines) if _RAISED.match(line)), lines[0])
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return _JAVA_CLASS.sub("", lines[1].removeprefix(": "))
    return first_line(error)
