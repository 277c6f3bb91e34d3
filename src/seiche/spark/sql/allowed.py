"""What may stand in a query or an expression: a list. Everything else is refused by name.

The list is of sqlglot's node types. What it takes for something else than it is (`t@v3` for an alias, SELECT ... INTO
for a query) shows as a node, or is caught as a word before.
"""

from collections.abc import Sequence
from typing import Any

from sqlglot import ErrorLevel, exp

from seiche.spark.sql.refusals import refusal
from seiche.spark.sql.travel import WRITTEN_OUT
from seiche.spark.sql.words import Word

__all__ = ["check_nodes"]

_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
_REFUSED = (
    exp.Parameter,
    exp.Placeholder,
    exp.SessionParameter,
    exp.Into,
    exp.Lock,
    exp.Command,
    exp.DDL,
    exp.DML,
    exp.QueryTransform,
)
_STRUCTURE = (
    exp.Alias,
    exp.Aliases,
    # from_utc_timestamp and to_utc_timestamp.
    exp.AtTimeZone,
    exp.CTE,
    exp.Cluster,
    exp.ColumnDef,
    exp.Cube,
    exp.DataType,
    exp.DataTypeParam,
    exp.Distinct,
    exp.Distribute,
    exp.Dot,
    exp.Filter,
    exp.FromTimeZone,
    exp.From,
    exp.Group,
    exp.GroupingSets,
    exp.Having,
    exp.Hint,
    exp.Identifier,
    exp.IgnoreNulls,
    exp.Interval,
    exp.IntervalSpan,
    # Of the text in get_json_object(column, '$.name').
    exp.JSONPath,
    exp.JSONPathPart,
    exp.Join,
    exp.JoinHint,
    exp.Kwarg,
    exp.Lambda,
    exp.Lateral,
    exp.Limit,
    exp.Offset,
    exp.Order,
    exp.Ordered,
    exp.Pivot,
    exp.PivotAlias,
    exp.PropertyEQ,
    exp.Qualify,
    exp.RespectNulls,
    exp.Rollup,
    exp.Slice,
    exp.Sort,
    exp.Star,
    exp.Table,
    exp.TableAlias,
    exp.TableSample,
    exp.Tuple,
    exp.Unnest,
    exp.Var,
    exp.Where,
    exp.WindowSpec,
    exp.With,
    exp.WithinGroup,
)
# Functions that turn a text into a name, behind everybody's back.
_NAMING = {"IDENTIFIER"}
_SYMBOLS = {
    "@": "the @ of t@v3 is not SQL of this lake: write t VERSION AS OF 3",
    "|>": "the pipe |> is not understood",
    "?": "a parameter ? is not understood",
    ";": "a second statement is not understood: give one at a time",
    "$": "a variable ${...} is not understood",
}


def check_nodes(tree: Any, text: str, start: int, within: Sequence[Word], *, expression: bool) -> None:
    """Refuse whatever is not on the list."""
    for word, following in zip(within, (*within[1:], None), strict=True):
        if word.key == "FOR" and following is not None and following.key in {"UPDATE", "SHARE"}:
            raise refusal(text, word.start, f"{word.text} {following.text} is not understood: rows are not locked")
        if word.key in _SYMBOLS:
            raise refusal(text, word.start, _SYMBOLS[word.key])
        if word.key in _NAMING and word.sort == "word" and text[word.end :].lstrip().startswith("("):
            raise refusal(text, word.start, f"{word.text}(...) is not understood: write the name itself")
    if not isinstance(tree, _QUERIES):
        raise refusal(text, start, f"{_called(tree)} is not a query")
    if expression:
        _check_expression(tree, text, start)
    for node in tree.walk():
        if isinstance(node, _REFUSED) or not isinstance(node, (exp.Condition, *_QUERIES, *_STRUCTURE)):
            remedy = WRITTEN_OUT if isinstance(node, exp.Version) else ""
            raise refusal(text, _place(node, text, start), f"{_called(node)} is not understood", remedy)


def _check_expression(tree: Any, text: str, start: int) -> None:
    """What was put behind a SELECT must be one value, and nothing more."""
    given = {name for name, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or given != {"expressions"} or len(tree.expressions) != 1:
        raise refusal(text, start, "one condition or value was expected")
    only = tree.expressions[0]
    if isinstance(only, (exp.Alias, exp.Aliases, exp.Star)):
        raise refusal(text, start, f"{_called(only)} is not a condition or value")


def _called(node: Any) -> str:
    shown = _written(node)
    return f"{type(node).__name__} ({shown if len(shown) <= 60 else shown[:57] + '...'})"


def _place(node: Any, text: str, start: int) -> int:
    """Where a node stands: by the first of its names, or as it is written; else where the query begins."""
    places: list[int] = [one.meta["start"] for one in node.find_all(exp.Identifier) if "start" in one.meta]
    if places:
        return min(places)
    return max(text.upper().find(_written(node).upper(), start), start)


def _written(node: Any) -> str:
    return str(node.sql("spark", unsupported_level=ErrorLevel.IGNORE))
