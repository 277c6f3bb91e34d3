"""Filters that Spark hands over, as conditions of the storage engine: only where both certainly mean the same."""

import datetime
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.sql import datasource as ds

__all__ = ["Pushed", "condition"]

_COMPARISONS: dict[type, str] = {
    ds.EqualTo: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}


class Pushed:
    """What is called to push filters down.

    Spark refuses a reader that has `pushFilters` while the setting for it is off, and that is its default. This looks
    to Spark as if the reader did not have it, and works when it is called, which is when the setting is on.
    """

    __func__ = staticmethod(ds.DataSourceReader.pushFilters)

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.conditions: list[str] = []

    def __call__(self, filters: "list[ds.Filter]") -> "list[ds.Filter]":
        """Take those filters that can be evaluated while reading; the others are given back to Spark."""
        rest = []
        for one in filters:
            made = condition(one, self._schema)
            if made is None:
                rest.append(one)
            else:
                self.conditions.append(made)
        return rest


def condition(given: "ds.Filter", schema: pa.Schema) -> str | None:
    """The filter in SQL of the storage engine; `None` if it is not certain to mean the same."""
    if isinstance(given, ds.Not):
        inner = None if isinstance(given.child, ds.EqualNullSafe) else condition(given.child, schema)
        return None if inner is None else f"NOT ({inner})"
    attribute: Sequence[str] = getattr(given, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in schema.names or "`" in attribute[0]:
        return None  # a field inside of a column
    name, kind = f"`{attribute[0]}`", schema.field(attribute[0]).type
    if isinstance(given, ds.IsNull):
        return f"{name} IS NULL"
    if isinstance(given, ds.IsNotNull):
        return f"{name} IS NOT NULL"
    if isinstance(given, ds.In):
        literals = [_literal(value, kind) for value in given.value]
        sure = bool(literals) and None not in literals
        return f"{name} IN ({', '.join(filter(None, literals))})" if sure else None
    operator = _COMPARISONS.get(type(given))
    literal = None if operator is None else _literal(getattr(given, "value", None), kind)
    return None if literal is None else f"{name} {operator} {literal}"


def _literal(value: object, kind: pa.DataType) -> str | None:
    """A value as SQL of the type of the column; `None` for those whose order or equality engines see differently."""
    if isinstance(value, bool):
        return str(value).lower() if kinds.is_boolean(kind) else None
    if isinstance(value, int):
        # The lowest of 64 bits is not read as a whole number there: the minus sign comes after the digits.
        return str(value) if kinds.is_integer(kind) and value > -(1 << 63) else None
    if isinstance(value, str):
        plain = kinds.is_string(kind) or kinds.is_large_string(kind)
        return "'" + value.replace("'", "''") + "'" if plain and "\x00" not in value else None
    if isinstance(value, Decimal):
        if not kinds.is_decimal128(kind) or -value.as_tuple().exponent > kind.scale:  # type: ignore[operator]
            return None
        return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return f"DATE '{value.isoformat()}'" if kinds.is_date32(kind) else None
    return None
