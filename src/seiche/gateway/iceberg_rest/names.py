"""Names in paths and bodies of the Iceberg REST protocol."""

from collections.abc import Mapping
from typing import Any, Final

from seiche.errors import InvalidInput
from seiche.lake.objects.names import Name, check_name, parts

__all__ = ["SEPARATOR", "identifier", "namespace_in", "table_in"]

# Between the levels of a namespace in a path.
SEPARATOR: Final = "\x1f"


def namespace_in(text: str) -> Name:
    """The namespace in a path, which has been decoded: levels with the separator between them."""
    return parts(text.split(SEPARATOR), what="namespace")


def table_in(path: Mapping[str, str], what: str = "table") -> Name:
    """The full name of the table or view that a path is about."""
    return (*namespace_in(path["namespace"]), check_name(path[what], what=what))


def identifier(given: Any, what: str = "table") -> Name:
    """The full name in a body: `{"namespace": [...], "name": "..."}`."""
    if not isinstance(given, dict):
        raise InvalidInput(f"{given!r} does not name a {what}", remedy='Send {"namespace": [...], "name": "..."}.')
    levels, name = given.get("namespace"), given.get("name")
    if not isinstance(levels, list) or not levels or not isinstance(name, str):
        raise InvalidInput(f"{given!r} does not name a {what}", remedy='Send {"namespace": [...], "name": "..."}.')
    if not all(isinstance(level, str) for level in levels):
        raise InvalidInput(f"the levels of {levels!r} are not all text", remedy="Send a list of names.")
    return (*parts(levels, what="namespace"), check_name(name, what=what))
