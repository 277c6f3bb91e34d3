"""Values that columns are compared with, as the columns have them.

PyIceberg compares a decimal only with numbers that have as many places as its column: `price = 1.1` was refused where
`price = 1.10` was taken, and one beyond the precision of the column ended as a damaged file. A float was compared with
the double that was written, which it does not equal: nothing was found by `f = 1.1`. Of a list, a number that no value
of the column can be stood for all others. And a fraction that whole numbers are compared with is rounded: who deleted
the rows where `id = 1.5` lost those of 2. That is refused, as are more places than a decimal has.
"""

import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, DecimalException
from functools import wraps
from typing import Any, Final

from pyiceberg.expressions import LiteralPredicate, SetPredicate, UnboundPredicate
from pyiceberg.expressions.literals import (
    AboveMax,
    BelowMin,
    DecimalLiteral,
    FloatLiteral,
    Literal,
    LongAboveMax,
    LongBelowMin,
    LongLiteral,
    StringLiteral,
    TimestampLiteral,
)
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IntegerType, LongType, TimestampType, TimestamptzType
from pyiceberg.utils.datetime import timestamp_to_micros, timestamptz_to_micros

__all__ = ["compare_as_columns_have_it"]

# Longer than the numbers of any column, so that nothing is rounded before it is looked at.
_EXACT: Final = Context(prec=2000)
_TIME: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})(?:[T ](?P<minute>\d{2}:\d{2})(?P<second>:\d{2})?(?P<part>\.\d{1,6})?0*)?"
    r"(?P<zone>Z|[-+]\d{2}:\d{2})?",
    re.IGNORECASE,
)


def compare_as_columns_have_it() -> None:
    """From now on conditions of PyIceberg are about such values, in this process."""
    for owner in (LiteralPredicate, SetPredicate):
        if not hasattr(owner.bind, "__wrapped__"):
            owner.bind = _bound(owner.bind)  # type: ignore[method-assign]
    if not hasattr(FloatLiteral.__init__, "__wrapped__"):
        FloatLiteral.__init__ = _of_few_bits(FloatLiteral.__init__)  # type: ignore[method-assign]
    for given in (LongLiteral, DecimalLiteral, StringLiteral):
        _convert(given, DecimalType, _decimal)
    _convert(StringLiteral, TimestampType, lambda one, _: TimestampLiteral(timestamp_to_micros(_spelled(one.value))))
    _convert(
        StringLiteral, TimestamptzType, lambda one, _: TimestampLiteral(timestamptz_to_micros(_spelled(one.value)))
    )


def _convert(given: type[Any], kind: type[Any], to: Callable[[Any, Any], Any]) -> None:
    given.__dict__["to"].register(kind, to)


def _bound(bind_to: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(bind_to)
    def bound(predicate: Any, schema: Schema, case_sensitive: bool = True) -> Any:
        column = predicate.term.bind(schema, case_sensitive).ref().field
        if isinstance(column.field_type, IntegerType | LongType):
            for one in predicate.literals if isinstance(predicate, SetPredicate) else [predicate.literal]:
                if _is_fraction(one.value):
                    raise ValueError(f"{one.value} is not a whole number, and all values of {column.name} are")
        if isinstance(predicate, SetPredicate):
            # In no set: the largest number of all equals one that is larger, there.
            as_there = [one.to(column.field_type) for one in predicate.literals]
            possible = [one for one in as_there if not isinstance(one, AboveMax | BelowMin)]
            if len(possible) < len(as_there):
                left: Any = type(predicate)(predicate.term, possible)  # or something else, if it is one value or none
                return left.bind(schema, case_sensitive) if isinstance(left, UnboundPredicate) else left
        return bind_to(predicate, schema, case_sensitive)

    return bound


def _is_fraction(value: Any) -> bool:
    try:
        number = Decimal(str(value))
    except DecimalException:
        return False  # not a number at all: PyIceberg says so itself
    return number.is_finite() and number != number.to_integral_value()


def _decimal(given: Any, kind: DecimalType) -> Literal[Any]:
    try:
        number = Decimal(given.value)
    except DecimalException as error:
        raise ValueError(f"{given.value!r} is not a number") from error
    if not number.is_finite():
        raise ValueError(f"{given.value!r} is no decimal")
    as_there = number.quantize(Decimal((0, (1,), -kind.scale)), context=_EXACT)
    if as_there != number:
        raise ValueError(f"{given.value} has more than {kind.scale} decimal places, and no {kind} has")
    if len(as_there.as_tuple().digits) > kind.precision:
        return LongAboveMax() if number > 0 else LongBelowMin()
    return DecimalLiteral(as_there)


def _of_few_bits(made: Callable[..., None]) -> Callable[..., None]:
    @wraps(made)
    def rounded(one: FloatLiteral, value: float) -> None:
        made(one, struct.unpack("<f", struct.pack("<f", value))[0])

    return rounded


def _spelled(given: str) -> str:
    """A time as PyIceberg reads it; what is none stays, for it to refuse."""
    found = _TIME.fullmatch(given)
    if found is None:
        return given
    zone = "+00:00" if found["zone"] in ("Z", "z") else found["zone"] or ""
    return f"{found['day']}T{found['minute'] or '00:00'}{found['second'] or ':00'}{found['part'] or ''}{zone}"
