"""One meaning of a condition for everything that PyIceberg does with it.

PyIceberg asks four parts of itself whether a condition holds: Arrow about rows that are read, the opposite of that for
rows that stay when others are deleted, statistics about whole files, values of partitions about whole files. About
nulls and not-a-numbers they disagree. `b != true` reads no row whose `b` is null, and deletes them with their file;
`a = 1 OR b = 2` reads a row whose `a` is null, and leaves it standing. Rows that should stay would be lost, and an
update would lose some rows and have others twice.

So each comparison is told what to make of both, as SQL engines do when they talk to Iceberg: with null nothing
compares, whatever is asked; not a number is different from everything and neither less nor more.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    IsNaN,
    IsNull,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    UnboundPredicate,
    parser,
)
from pyiceberg.expressions.visitors import ResidualVisitor, bind
from pyiceberg.io import pyarrow as pyarrow_io
from pyiceberg.schema import Schema

from seiche.lake.iceberg.no_rows import empty

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["agree_on_nulls", "explicit", "matching"]

_DIFFERENT: Final = (NotEqualTo, NotIn, NotStartsWith)
_COMPARISONS: Final = (
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
    "equal",
    "not_equal",
    "in",
    "not_in",
)


def explicit(given: str | BooleanExpression, *, negated: bool = False) -> BooleanExpression:
    """The condition, or its opposite, with nothing left to say about nulls and not-a-numbers, and without NOT.

    It holds for a row or it does not: there is no third.
    """
    one = parser.parse(given) if isinstance(given, str) else given
    if isinstance(one, Not):
        return explicit(one.child, negated=not negated)
    if isinstance(one, And | Or):
        parts = explicit(one.left, negated=negated), explicit(one.right, negated=negated)
        return And(*parts) if isinstance(one, And) != negated else Or(*parts)
    asked = ~one if negated else one
    if isinstance(one, AlwaysTrue | AlwaysFalse | IsNull | NotNull) or not isinstance(one, UnboundPredicate):
        return asked
    there = NotNull(term=one.term)
    if isinstance(one, IsNaN | NotNaN):
        return And(there, asked)
    # Where a column has no such values PyIceberg drops the question itself.
    if isinstance(one, _DIFFERENT) != negated:
        return And(there, Or(IsNaN(term=one.term), asked))
    return And(And(there, NotNaN(term=one.term)), asked)


def matching(table: "Table", given: BooleanExpression, columns: Sequence[str] = ()) -> pa.Table:
    """The rows that a delete with this condition removes, which is asked in the same way; of these columns, or all.

    A scan lets Arrow skip parts of files by their smallest and largest values, which know nothing of not-a-numbers.
    """
    where, schema = explicit(given), table.schema()
    tasks = list(table.scan(row_filter=given).plan_files())
    read = pyarrow_io.ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_record_batches(tasks)
    holds = pyarrow_io.expression_to_pyarrow(bind(schema, where, case_sensitive=True), schema)
    found = [pa.Table.from_batches([batch]).filter(holds) for batch in read]
    wanted = schema.select(*columns) if columns else schema
    if columns:
        chosen = [batch for part in found for batch in part.combine_chunks().to_batches()]
        found = [pa.Table.from_batches([pyarrow_io._to_requested_schema(wanted, schema, one)]) for one in chosen]
    return pa.concat_tables([empty(wanted), *found], promote_options="permissive")


def agree_on_nulls() -> None:
    """From now on a delete leaves exactly the rows that its condition does not read, in this process, and partitions of
    null are compared with nothing: PyIceberg would end with a `TypeError`.
    """
    pyarrow_io._expression_to_complementary_pyarrow = _all_others
    for name in _COMPARISONS:
        found = getattr(ResidualVisitor, f"visit_{name}")
        if not hasattr(found, "__wrapped__"):
            setattr(ResidualVisitor, f"visit_{name}", _but_for_null(found))


def _all_others(expr: BooleanExpression, schema: Schema | None = None) -> pc.Expression:
    """Whatever the condition does not hold for, also where Arrow has no answer."""
    return ~pc.coalesce(pyarrow_io.expression_to_pyarrow(expr, schema), pa.scalar(False))


def _but_for_null(compare: Callable[..., BooleanExpression]) -> Callable[..., BooleanExpression]:
    @wraps(compare)
    def compared(visitor: Any, term: Any, *args: Any, **wanted: Any) -> BooleanExpression:
        return AlwaysFalse() if term.eval(visitor.struct) is None else compare(visitor, term, *args, **wanted)

    return compared
