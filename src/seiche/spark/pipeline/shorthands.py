"""Checks that everybody needs, said in a word each, and the queries they stand for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from seiche.core.durations import duration
from seiche.errors import InvalidInput
from seiche.spark.names import quoted
from seiche.spark.pipeline.definition import Check, Doubles, Orphans, Place

__all__ = ["check_from", "drift", "foreign_key", "fresh", "not_null", "row_count", "unique"]


def row_count(table: str, *, at_least: float | None = None, at_most: float | None = None) -> Check:
    """The table has so many rows."""
    count = f"SELECT count(*) FROM {_table(table)}"
    return Check(f"rows of {table}", count, None, at_least=at_least, at_most=at_most)


def not_null(table: str, columns: str | Sequence[str]) -> Check:
    """No row lacks a value in any of the columns."""
    lacking = " OR ".join(f"{quoted(column)} IS NULL" for column in _several(columns))
    return Check(
        f"{table}: {_listed(columns)} not null",
        f"SELECT count(*) FROM {_table(table)} WHERE {lacking}",
        rows=f"SELECT * FROM {_table(table)} WHERE {lacking}",
    )


def unique(table: str, columns: str | Sequence[str]) -> Check:
    """No two rows have the same values in the columns."""
    key = ", ".join(map(quoted, _several(columns)))
    doubles = f"SELECT {key}, count(*) AS times FROM {_table(table)} GROUP BY {key} HAVING count(*) > 1"
    return Check(
        f"{table}: {_listed(columns)} unique",
        f"SELECT count(*) FROM ({doubles})",
        rows=doubles,
        meaning=Doubles(table, tuple(_several(columns))),
    )


def foreign_key(
    table: str, columns: str | Sequence[str], references: str, to: str | Sequence[str] | None = None
) -> Check:
    """Whatever stands in the columns stands in the other table too. Rows with a null there are not looked at."""
    here, there = _several(columns), _several(to if to is not None else columns)
    if len(here) != len(there):
        raise InvalidInput(f"foreign_key: {len(here)} columns of {table} cannot match {len(there)} of {references}")
    pairs = " AND ".join(f"a.{quoted(one)} = b.{quoted(other)}" for one, other in zip(here, there, strict=True))
    known = " AND ".join(f"a.{quoted(one)} IS NOT NULL" for one in here)
    orphans = f"FROM {_table(table)} AS a LEFT ANTI JOIN {_table(references)} AS b ON {pairs} WHERE {known}"
    return Check(
        f"{table}: {_listed(columns)} in {references}",
        f"SELECT count(*) {orphans}",
        rows=f"SELECT a.* {orphans}",
        meaning=Orphans(table, tuple(here), references, tuple(there)),
    )


def fresh(table: str, column: str, within: str) -> Check:
    """The newest row is at most so old."""
    seconds = int(duration(within, "within").total_seconds())
    # Days, and times without a zone, are no numbers to Spark; they are those of the session.
    newest = f"CAST(CAST(max({quoted(column)}) AS TIMESTAMP) AS BIGINT)"
    age = f"SELECT CAST(current_timestamp() AS BIGINT) - {newest} FROM {_table(table)}"
    return Check(f"{table}: {column} within {within}", age, None, at_most=seconds)


def drift(table: str, at_most: float, measure: str = "count(*)") -> Check:
    """The measure differs from what it was before the run by at most this share."""
    measured = f"SELECT {measure} FROM {_table(table)}"
    return Check(f"{table}: {measure} drifts at most {at_most:g}", measured, None, drift=at_most)


_SHORTHANDS: Mapping[str, Callable[..., Check]] = {
    "rows": row_count,
    "not_null": not_null,
    "unique": unique,
    "foreign_key": foreign_key,
    "fresh": fresh,
    "drift": drift,
}


def check_from(said: Mapping[str, Any], place: Place) -> Check:
    """The check that one entry of a pipeline file stands for."""
    for word, make in _SHORTHANDS.items():
        if word in said:
            try:
                made = make(**said[word])
            except InvalidInput as error:
                raise InvalidInput(f"{place}: {error.message}", remedy=error.remedy) from error
            return replace(made, name=said.get("name", made.name), place=place)
    bounded = "at_least" in said or "at_most" in said
    return Check(
        name=said.get("name", said["sql"]),
        sql=said["sql"],
        expect=said.get("expect", None if bounded else 0),
        at_least=said.get("at_least"),
        at_most=said.get("at_most"),
        place=place,
    )


def _several(columns: str | Sequence[str]) -> Sequence[str]:
    return (columns,) if isinstance(columns, str) else columns


def _listed(columns: str | Sequence[str]) -> str:
    return ", ".join(_several(columns))


def _table(name: str) -> str:
    """A source or a table as a query names it, where not every name can stand as it is."""
    return name if "`" in name else ".".join(map(quoted, name.split(".")))
