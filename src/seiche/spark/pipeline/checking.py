"""Checks of what would be published, inside the transaction that would publish it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp, parse_one

from seiche.errors import InvalidInput, SeicheError
from seiche.spark.pipeline.definition import Check
from seiche.spark.pipeline.frames import Frames, short
from seiche.spark.pipeline.records import CheckRecord
from seiche.spark.zones import collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Checker", "columns_named"]

# How many of the rows that are to blame are shown.
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Checker:
    """Evaluates checks: `now` asks what would be published, `before` what the run began from (`None`: nothing)."""

    now: Frames
    before: "Callable[[Check], Frames | None]"

    def evaluate(self, check: Check) -> CheckRecord:
        """What the check finds. An error in its query is the check's, by place and name."""
        try:
            return self._evaluate(check)
        except SeicheError as error:
            if error.message.startswith(str(check.place)):
                raise
            said = f"{check.place}: check {check.name!r}: {error.message}"
            raise type(error)(said, remedy=error.remedy, **error.details) from error
        except Exception as error:  # whatever Spark makes of the query
            raise InvalidInput(
                f"{check.place}: check {check.name!r}: {short(error)}",
                remedy="Correct the query. Nothing was published.",
            ) from error

    def _evaluate(self, check: Check) -> CheckRecord:
        found = _value(self.now, check)
        expected, passed = self._judge(check, found)
        rows: tuple[dict[str, Any], ...] = ()
        blamed = check.rows or _counted(check.sql)
        if not passed and blamed:
            frame = self.now.query(blamed)
            rows = tuple(dict(zip(frame.columns, row, strict=True)) for row in _collected(frame, _SHOWN))
        return CheckRecord(check.name, passed, _plain(found), expected, rows)

    def _judge(self, check: Check, found: Any) -> tuple[str, bool]:
        measured = check.drift is not None or check.at_least is not None or check.at_most is not None
        if measured and (isinstance(found, bool) or not isinstance(found, int | float | Decimal | None)):
            raise InvalidInput(
                f"{check.place}: check {check.name!r} found {_plain(found)!r}, which is no number",
                remedy="Bounds and drift are of numbers; compare others with `expect`.",
            )
        if check.drift is not None:
            return self._drift(check, found)
        if check.at_least is not None or check.at_most is not None:
            low, high = check.at_least, check.at_most
            said = " and ".join(
                f"{words} {bound:g}" for words, bound in (("at least", low), ("at most", high)) if bound is not None
            )
            inside = found is not None and (low is None or found >= _like(found, low))
            return said, inside and (high is None or found <= _like(found, high))
        return repr(check.expect), _same(found, check.expect)

    def _drift(self, check: Check, found: Any) -> tuple[str, bool]:
        share: float | Decimal = check.drift or 0.0
        past = self.before(check)
        if past is None:
            return f"within {share:g} of what it was (there was nothing)", True
        was = _value(past, check)
        if was is None or found is None:
            return f"within {share:g} of {was}", was is found
        # Money is decimal, and takes no part in sums with other numbers: not even with what it was before it was money.
        if isinstance(was, Decimal) or isinstance(found, Decimal):
            now, then, share = (_like(Decimal(0), one) for one in (found, was, share))
            return f"within {share:g} of {was}", abs(now - then) <= share * abs(then)
        return f"within {share:g} of {was}", abs(found - was) <= share * abs(was)


def columns_named(sql: str) -> set[str]:
    """The columns that a query speaks of, in lower case, and whatever stands before a dot in front of one."""
    tree = parse_one(sql, read="spark")
    return {part.name.lower() for column in tree.find_all(exp.Column) for part in column.parts}


def _counted(sql: str) -> str:
    """The query for the rows that a plain `SELECT count(*) FROM ... WHERE ...` counts; empty if it is not one."""
    tree = parse_one(sql, read="spark")
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or tree.args.get("group"):
        return ""
    counted = tree.expressions[0].unalias()
    if not (isinstance(counted, exp.Count) and isinstance(counted.this, exp.Star) and tree.args.get("where")):
        return ""
    return tree.select("*", append=False).sql("spark")


def _value(frames: Frames, check: Check) -> Any:
    counted = frames.count(check)
    if counted is not None:
        return counted
    frame = frames.query(check.sql, check.place, f"check {check.name!r}")
    rows = _collected(frame, 2)
    if len(rows) != 1 or len(rows[0]) != 1:
        raise InvalidInput(
            f"{check.place}: check {check.name!r} must give one value, and gave {len(rows)} rows"
            f" of {len(frame.columns)} columns",
            remedy="Write it as SELECT count(*) FROM a table WHERE a condition.",
        )
    return rows[0][0]


def _collected(frame: "DataFrame", limit: int) -> list[list[Any]]:
    """The first rows, with times as SQL shows them: in the time zone of the session, without naming it."""
    return [
        [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in row]
        for row in collected(frame.limit(limit))
    ]


def _like(found: Any, bound: Any) -> Any:
    """A number that was written down, as it was written if it is compared with a decimal: 0.95 is less as a float."""
    return Decimal(str(bound)) if isinstance(found, Decimal) else bound


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, str) and isinstance(found, date):
        return str(found) == expected  # a file has no other way to say a day or a time
    if isinstance(found, Decimal) and isinstance(expected, int | float):
        return bool(found == _like(found, expected))
    return bool(found == expected) and isinstance(found, bool) == isinstance(expected, bool)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else str(value)
