"""Values that SQL expressions give to columns: checked when planned, cast when computed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from seiche.errors import InvalidInput
from seiche.table.data.conform import check_nulls, coded, without_extension
from seiche.table.data.fitting import is_text, left_out
from seiche.table.data.json_texts import check_json
from seiche.table.data.native import in_memory
from seiche.table.data.scanning import scanner, types_of
from seiche.table.data.values import check_infinity, spelled

if TYPE_CHECKING:
    import lance

__all__ = ["assigned", "check_columns", "check_expressions"]


def check_columns(assignments: Mapping[str, str], schema: pa.Schema) -> None:
    """`InvalidInput` unless each name is a column of the table and each value a string of SQL."""
    if not assignments:
        raise InvalidInput("no column is set", remedy='Say what to set, such as {"total": "total + 1"}.')
    for name, expression in assignments.items():
        if name not in schema.names:
            raise InvalidInput(
                f"the table has no column {name!r}, only {', '.join(map(repr, schema.names))}",
                remedy="Set whole columns by their names; fields inside of a column cannot be set alone.",
                column=name,
            )
        if not _is_text(expression):
            raise InvalidInput(
                f"column {name!r} must be set to an expression in SQL, not {expression!r}",
                remedy='Write values as SQL literals, such as "1" or "\'text\'".',
                column=name,
            )


def check_expressions(
    dataset: "lance.LanceDataset", assignments: Mapping[str, str], schema: pa.Schema, where: str | None = None
) -> None:
    """`InvalidInput` for SQL that does not parse, names what is not there, or gives what its column cannot hold."""
    if where is not None:
        scanner(dataset, columns=[], where=where, what=f"the condition {where!r}", with_row_address=True)
    for name, given in types_of(dataset, assignments).items():
        expression, wanted = assignments[name], schema.field(name).type
        if not _castable(given, wanted) or _is_fraction(expression, wanted):
            raise InvalidInput(
                f"the expression {expression!r} for column {name!r} gives {given}, the column is of type {wanted}",
                remedy="Write an expression of the column's type, or cast it in SQL.",
                column=name,
            )


def assigned(values: pa.Array, field: pa.Field) -> pa.Array:
    """Computed values as those of the column.

    As in SQL, what has more decimals or a finer time than the column loses them; what is too large for it, or null
    where that may not be, is `InvalidInput`.
    """
    if values.type != field.type:
        try:
            plain = without_extension(values)
            values = _cast(_natively_spelled(plain, field.type), field.type)
            check_infinity(plain, values)
        except (pa.ArrowException, ValueError) as error:
            raise InvalidInput(
                f"a computed value does not fit column {field.name!r} of type {field.type}: {error}",
                remedy="Write an expression whose values the column can hold.",
                column=field.name,
            ) from error
    check_json(values, field.name)
    check_nulls(values, field)
    return values


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    given = values.type
    if kinds.is_floating(given) and kinds.is_integer(wanted):
        values = pc.trunc(values)
    if kinds.is_decimal(given) and kinds.is_decimal(wanted) and given.scale > wanted.scale:
        values = pc.round(values, ndigits=wanted.scale, round_mode="half_towards_infinity")
    if kinds.is_decimal(given) and kinds.is_integer(wanted):
        values = pc.trunc(values)
    if kinds.is_integer(given) and kinds.is_decimal(wanted):
        # Arrow asks whether the largest number would fit; the second step asks whether these do.
        values = values.cast(pa.decimal256(76, wanted.scale))
    if kinds.is_dictionary(wanted):
        return coded(values.cast(wanted.value_type), wanted)
    return pc.cast(spelled(values, wanted), options=pc.CastOptions(target_type=wanted, allow_time_truncate=True))


def _natively_spelled(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Numbers and times as the texts that Lance makes of them, where texts are wanted: so they are the same as those of
    a cast in SQL. Arrow says 1 for 1.0, and writes times in another way.
    """
    text = is_text(wanted.value_type if kinds.is_dictionary(wanted) else wanted)
    if not text or not (kinds.is_floating(values.type) or kinds.is_temporal(values.type)):
        return values
    dataset = in_memory(pa.table({"v": values}), "memory://spelling", what="the update")
    scan = scanner(dataset, columns={"v": "cast(v as string)"}, what="the update")
    return scan.to_table()["v"].combine_chunks()


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    if given == wanted:
        return True
    if left_out(given, wanted):
        return False
    try:
        _cast(without_extension(pa.array([], given)), wanted)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _is_text(given: object) -> bool:
    return isinstance(given, str) and bool(given.strip())


def _is_fraction(expression: str, wanted: pa.DataType) -> bool:
    """Whether a constant with decimals is given to a column of whole numbers: nobody means that."""
    if not kinds.is_integer(wanted):
        return False
    try:
        return not float(expression).is_integer()
    except ValueError:
        return False
