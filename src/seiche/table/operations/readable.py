"""Columns that readers can make sense of."""

from collections.abc import Iterable, Sequence

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format.fields import SYSTEM_COLUMNS
from seiche.table.format.manifest_pb2 import Field

__all__ = ["check_readable"]

_TYPES = "Give types as the schemas of other tables have them; `seiche.table.format.schema.from_arrow` makes fields."


def check_readable(schema: Sequence[Field], before: Iterable[Field]) -> None:
    """`InvalidInput` for a column with a name or type with which nobody could read the table, or the process that
    tried would die. Those that the schema had `before` are not looked at: they may be of a newer writer.
    """
    known = {_encoded(column) for column in _columns(before)}
    new = [column for column in _columns(schema) if _encoded(column) not in known]
    if not new:
        return
    for column in new:
        _check_names(column)
    from seiche.table.format.schema import to_arrow  # loads Arrow, which few commits need

    try:
        to_arrow(field for column in new for field in column)
    except Corrupt as error:
        raise InvalidInput(error.message, remedy=_TYPES) from error
    except (TypeError, ValueError) as error:  # what is inside a type of an extension is not what that wants
        raise InvalidInput(f"the columns would be none that can be read: {error}", remedy=_TYPES) from error


def _columns(schema: Iterable[Field]) -> list[list[Field]]:
    """Each column with all fields inside of it; parents come first."""
    columns: dict[int, list[Field]] = {}
    for field in schema:
        column = columns.setdefault(field.id, []) if field.parent_id == -1 else columns.get(field.parent_id, [])
        column.append(field)
        columns[field.id] = column
    return [column for field_id, column in columns.items() if column[0].id == field_id]


def _encoded(column: Iterable[Field]) -> tuple[bytes, ...]:
    return tuple(field.SerializeToString(deterministic=True) for field in column)


def _check_names(column: Sequence[Field]) -> None:
    # A NUL ends names where rows go from native code to Arrow, and with an outer one the process; the rest no scan
    # finds, not even one of all columns, or takes for what it knows of each row.
    name = column[0].name
    if name in SYSTEM_COLUMNS or not set(".`").isdisjoint(name) or any("\0" in field.name for field in column):
        raise InvalidInput(
            f"column {name!r}, or a field inside of it, has a name with which nobody could read it",
            remedy="Rename it, without dots, backticks and NULs, and not like what Lance knows of each row.",
            column=name,
        )
