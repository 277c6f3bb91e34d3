"""Conditions that PyIceberg knows the meaning of, and asks in a way that nobody can answer, or others instead.

Arrow is asked for columns by their names, which PyIceberg joins by dots and parts at dots again: one whose name has a
dot was not found. Arrow compares no uuids; their bytes it does, and PyIceberg compared those with the uuids that
partitions have: none were equal. The value that rows have of a column that is younger than they are was compared as
Python has it, not as Iceberg does: no date equals the number of its day. Whether all rows of a file are meant PyIceberg
cannot tell of a column inside of another, and failed. And for partitions in months or years it looks at the next day,
which there is none of at the end of the calendar. Whether a list or a map is null it did not read: it asked for the
column itself, and takes only what is inside of one. And what has to have a value inside of a column is null where that
column is: PyIceberg took it for never null, and `s.x IS NOT NULL` deleted all rows. An underscore of LIKE is one, and
not any character: it is refused. The values that columns are compared with are in `literals`.
"""

import operator
import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import transforms
from pyiceberg.expressions import And, BooleanExpression, BoundIsNaN, BoundReference, Or, Reference, parser
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.visitors import (
    ROWS_MIGHT_NOT_MATCH,
    _ColumnNameTranslator,
    _StrictMetricsEvaluationVisitor,
    bind,
    extract_field_ids,
)
from pyiceberg.io import pyarrow as pyarrow_io
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, MapType, NestedField, StringType, UUIDType

from seiche.lake.iceberg.literals import compare_as_columns_have_it

__all__ = ["ask_what_is_meant", "needs_rows"]

_BYTES: Final = pa.binary(16)
# What means something in LIKE besides %, and what is escaped there that PyIceberg does not know of.
_WILD: Final = re.compile(r"_|\\(?!%)")
_NONE: Final = pa.chunked_array([], pa.int64())
_COMPARED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less_than": operator.lt,
    "less_than_or_equal": operator.le,
    "greater_than": operator.gt,
    "greater_than_or_equal": operator.ge,
    "in": lambda column, values: column.isin(values),
    "not_in": lambda column, values: ~column.isin(values),
}


def ask_what_is_meant() -> None:
    """From now on such conditions are answered, in this process."""
    compare_as_columns_have_it()
    pyarrow_io._ConvertToArrowExpression = _Asking  # type: ignore[misc]
    held: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (BoundReference, "eval", _comparable),
        (Reference, "bind", _perhaps_null),
        (_ColumnNameTranslator, "visit_bound_predicate", _with_default),
        *((_StrictMetricsEvaluationVisitor, f"visit_{name}", _perhaps_not) for name in _COMPARED),
        (transforms, "_truncate_number", _if_there_is_one),
        (transforms, "_truncate_number_strict", _if_there_is_one),
        (pyarrow_io, "_task_to_record_batches", _after_reading),
        (parser, "_evaluate_like_statement", _of_plain_characters),
    )
    for owner, name, holding in held:
        found = getattr(owner, name)
        if not hasattr(found, "__wrapped__"):
            setattr(owner, name, holding(found))


def needs_rows(schema: Schema, given: BooleanExpression) -> bool:
    """Whether the condition can only be asked of rows that have been read: of a file Arrow compares the least and the
    greatest uuid first, and a column inside of a null has no value, whatever younger rows begin with.
    """
    for number in extract_field_ids(bind(schema, given, case_sensitive=True)):
        column = schema.find_field(number)
        inside = number in schema._lazy_id_to_parent
        if isinstance(column.field_type, UUIDType) or (inside and column.initial_default is not None):
            return True
    return False


class _Asking(pyarrow_io._ConvertToArrowExpression):
    def _get_field_name(self, term: Any) -> str | tuple[str, ...]:
        column = term.ref().field
        if self._schema is None or self._schema.find_column_name(column.field_id) is None:
            return str(column.name)
        names: list[str] = []
        number: int | None = column.field_id
        while number is not None:
            names.insert(0, self._schema.find_field(number).name)
            number = self._schema._lazy_id_to_parent.get(number)
        return tuple(names)

    def visit_starts_with(self, term: Any, literal: Any) -> pc.Expression:
        if not isinstance(term.ref().field.field_type, StringType):
            return super().visit_starts_with(term, literal)
        # As texts: Arrow does not know the beginnings of those that are kept in a dictionary.
        return pc.starts_with(pc.field(self._get_field_name(term)).cast(pa.large_string()), literal.value)

    def visit_not_starts_with(self, term: Any, literal: Any) -> pc.Expression:
        return ~self.visit_starts_with(term, literal)


def _compared(name: str, compare: Callable[[Any, Any], Any]) -> Callable[..., pc.Expression]:
    plain = getattr(pyarrow_io._ConvertToArrowExpression, f"visit_{name}")

    @wraps(plain)
    def compared(visitor: _Asking, term: Any, **wanted: Any) -> pc.Expression:
        kind = term.ref().field.field_type
        if isinstance(kind, FloatType | DoubleType) and 0.0 in wanted.get("literals", ()):
            return compare(pc.field(visitor._get_field_name(term)), pa.array([*wanted["literals"], 0.0, -0.0]))
        if not isinstance(kind, UUIDType):
            return plain(visitor, term, **wanted)
        column = pc.field(visitor._get_field_name(term)).cast(_BYTES)
        if "literals" in wanted:
            return compare(column, pa.array(wanted["literals"], _BYTES))
        return compare(column, pa.scalar(wanted["literal"].value, _BYTES))

    return compared


for _name, _compare in _COMPARED.items():
    setattr(_Asking, f"visit_{_name}", _compared(_name, _compare))


def _with_default(translate: Callable[..., BooleanExpression]) -> Callable[..., BooleanExpression]:
    @wraps(translate)
    def translated(visitor: _ColumnNameTranslator, predicate: Any) -> BooleanExpression:
        column = predicate.term.ref().field
        if column.initial_default is not None:
            value = literal(column.initial_default).to(column.field_type).value
            visitor.projected_field_values = {column.field_id: value, **visitor.projected_field_values}
        return translate(visitor, predicate)

    return translated


def _comparable(look: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(look)
    def looked(column: BoundReference, row: Any) -> Any:
        found = look(column, row)
        return found.bytes if isinstance(found, UUID) else found  # as the value is that it is compared with

    return looked


def _perhaps_null(bind_to: Callable[..., BoundReference]) -> Callable[..., BoundReference]:
    @wraps(bind_to)
    def bound(name: Reference, schema: Schema, case_sensitive: bool = True) -> BoundReference:
        found = bind_to(name, schema, case_sensitive)
        if found.field.optional or all(one.required for one in _around(schema, found.field.field_id)):
            return found
        return type(found)(found.field.model_copy(update={"required": False}), found.accessor)

    return bound


def _around(schema: Schema, number: int) -> Iterator[NestedField]:
    """The columns that a column is inside of."""
    parents = schema._lazy_id_to_parent
    while (parent := parents.get(number)) is not None:
        yield schema.find_field(parent)
        number = parent


def _perhaps_not(compare: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(compare)
    def compared(visitor: _StrictMetricsEvaluationVisitor, term: Any, *args: Any, **wanted: Any) -> bool:
        if visitor.struct.field(field_id=term.ref().field.field_id) is None:
            return ROWS_MIGHT_NOT_MATCH
        return compare(visitor, term, *args, **wanted)

    return compared


def _after_reading(read: Callable[..., Any]) -> Callable[..., Any]:
    """Arrow is not given a file together with a condition that it would first ask of the least and the greatest value:
    it takes those of uuids for others, and of not-a-numbers they know nothing. Where rows were deleted by position
    PyIceberg asks it of rows that have been read: here none were.
    """

    @wraps(read)
    def asked(
        files: Any, task: Any, where: Any, wanted: Any, schema: Schema, ids: Any, deleted: Any, *more: Any
    ) -> Any:
        ids = {inside for number in ids for inside in _read_for(schema, number)}
        columns = (schema.find_field(number) for number in extract_field_ids(where))
        if not deleted and (_finds_nan(where) or any(isinstance(one.field_type, UUIDType) for one in columns)):
            deleted = [_NONE]
        return read(files, task, where, wanted, schema, ids, deleted, *more)

    return asked


def _finds_nan(where: BooleanExpression) -> bool:
    """Whether the condition, which has been spelled out, may hold for what is not a number."""
    if isinstance(where, And | Or):
        return _finds_nan(where.left) or _finds_nan(where.right)
    return isinstance(where, BoundIsNaN)


def _read_for(schema: Schema, number: int) -> Iterator[int]:
    """The ids by which PyIceberg reads a column."""
    kind, parents = schema.find_type(number), schema._lazy_id_to_parent
    if not isinstance(kind, ListType | MapType):
        yield number
        return
    for inside in parents:
        if parents[inside] == number:
            yield from _read_for(schema, inside)


def _if_there_is_one(project: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(project)
    def projected(*args: Any) -> Any:
        try:
            return project(*args)
        except OverflowError:
            return None  # nothing is known of partitions then: their rows are asked

    return projected


def _of_plain_characters(read: Callable[..., BooleanExpression]) -> Callable[..., BooleanExpression]:
    @wraps(read)
    def checked(result: Any) -> BooleanExpression:
        pattern = result.raw_quoted_string.value
        if _WILD.search(pattern):
            raise ValueError(f"of LIKE only % at the end is understood, not what else is in {pattern!r}")
        return read(result)

    return checked
