"""Columns by their names, as a caller gives them."""

from collections.abc import Iterable, Sequence

from seiche.errors import InvalidInput, NotFound
from seiche.table.format.fields import find_all
from seiche.table.format.manifest_pb2 import Field

__all__ = ["all_named", "named"]


def named(fields: Sequence[Field], path: str) -> Field:
    """The column, or with dots in the path the field inside one; `InvalidInput` if there is none."""
    return all_named(fields, [path])[0]


def all_named(fields: Sequence[Field], paths: Iterable[str]) -> list[Field]:
    """The columns, or fields inside of some, at these paths; `InvalidInput` if one of them is none."""
    wanted = list(paths)
    for path in wanted:
        given: object = path
        if not isinstance(given, str) or not given:
            raise InvalidInput(f"the name of a column is needed, not {path!r}", remedy="Give it as text.", column=path)
    try:
        return find_all(fields, wanted)
    except NotFound as error:
        raise InvalidInput(error.message, remedy=error.remedy, **error.details) from error
