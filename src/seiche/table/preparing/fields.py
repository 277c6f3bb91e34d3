"""Columns by their names, as a caller gives them."""

from collections.abc import Sequence

from seiche.errors import InvalidInput, NotFound
from seiche.table.format.fields import find
from seiche.table.format.manifest_pb2 import Field

__all__ = ["named"]


def named(fields: Sequence[Field], path: str) -> Field:
    """The column, or with dots in the path the field inside one; `InvalidInput` if there is none."""
    given: object = path
    if not isinstance(given, str) or not given:
        raise InvalidInput(f"the name of a column is needed, not {path!r}", remedy="Give it as text.", column=path)
    try:
        return find(fields, path)
    except NotFound as error:
        raise InvalidInput(error.message, remedy=error.remedy, column=path) from error
