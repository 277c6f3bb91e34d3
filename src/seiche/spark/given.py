"""What callers of the verbs of Spark give, looked at before anything runs."""

from collections.abc import Mapping

from pyspark.sql import Column

from seiche.core.given import text, wrong
from seiche.errors import InvalidInput

__all__ = ["check_chosen", "check_expression", "check_expressions"]


def check_expression(value: object, what: str) -> None:
    """`InvalidInput` unless it is SQL of Spark, or a column of it."""
    if not isinstance(value, str | Column):
        raise wrong(what, value, 'Give SQL of Spark, such as "total * 2" or "null", or a column of Spark.')


def check_expressions(value: object, what: str) -> None:
    """`InvalidInput` unless these are expressions by column."""
    if not isinstance(value, Mapping):
        raise wrong(what, value, 'Give expressions by column: {"left": "left - 1"}.')
    for name, one in value.items():
        check_expression(one, f"{name!r} in {what}")


def check_chosen(columns: object, where: object) -> None:
    """`InvalidInput` for columns that are a text, each of whose letters could be one, and for a filter that is none."""
    if isinstance(columns, str):
        raise InvalidInput(f"columns cannot be the text {columns!r}", remedy=f"Give a list: columns=[{columns!r}].")
    if where is not None:
        text(where, "the filter", 'Give SQL of the storage engine, such as "id > 7"; or filter the frame.')
