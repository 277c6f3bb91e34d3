"""Where the files of Iceberg tables are: addresses, as Iceberg's metadata has them, and paths inside the lake.

Iceberg names files by absolute addresses. A lake is a directory that can be copied, and everything in it is named
relative to it; so an address that leads into a table of the lake is recognised by the table's own place, which has the
table's id in it and exists once in the world, wherever the lake stood when the address was written.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from seiche.errors import InvalidInput
from seiche.lake.creating import location as lance_location
from seiche.lake.objects.names import Name
from seiche.store.base import Store
from seiche.store.paths import valid

__all__ = ["address", "new_location", "path_of", "root_address", "table_id_in"]

SUFFIX: Final = ".iceberg"
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PLACE: Final = re.compile(rf"tables/(?:[^/]+/)*?[^/]+-({_UUID})\.iceberg(?=/|$)")


def new_location(name: Name, table_id: str) -> str:
    """Where a new Iceberg table lives, relative to the lake; never a place where a table has been before."""
    return lance_location(name, table_id).removesuffix(".lance") + SUFFIX


def root_address(store: Store) -> str:
    """The address of the lake, as other Iceberg engines understand it: nothing in it is percent-encoded."""
    native = store.native_uri().rstrip("/")
    return f"file://{native}" if native.startswith("/") else unquote(native)


def address(store: Store, path: str) -> str:
    """The address of a file of the lake."""
    return f"{root_address(store)}/{path}"


def path_of(store: Store, where: str) -> str | None:
    """The path in the lake that an address leads to; `None` if it leads elsewhere."""
    found = _PLACE.search(where)
    inside = where[found.start() :] if found is not None and _is_part(where, found.start()) else None
    if inside is None:
        for root in _spellings(root_address(store)):
            if where.startswith(root + "/"):
                inside = where[len(root) + 1 :]
                break
    return inside if inside is not None and valid(inside) else None


def table_id_in(store: Store, where: str) -> tuple[str, str]:
    """The place in the lake that the address of a new table names, and the table's id in it.

    `InvalidInput` if it is none that `new_location` has given out.
    """
    path = path_of(store, where.rstrip("/"))
    found = None if path is None else _PLACE.fullmatch(path)
    if path is None or found is None:
        raise InvalidInput(
            f"{where} cannot be the place of a table of this lake",
            remedy="Leave the location out: the lake chooses one below its own root.",
            location=where,
        )
    return path, found[1]


def _is_part(where: str, start: int) -> bool:
    return start == 0 or where[start - 1] == "/"


def _spellings(root: str) -> Iterator[str]:
    """The ways in which engines write one address."""
    yield root
    scheme, mark, rest = root.partition("://")
    if scheme == "file":
        yield from (rest, f"file:{rest}")
    elif scheme == "s3":
        yield from (f"{other}{mark}{rest}" for other in ("s3a", "s3n"))
