"""Paths as pylance and a namespace tell them to each other: from the root of the object store, not of the table."""

from urllib.parse import unquote

from seiche.errors import InvalidInput
from seiche.store.base import Store
from seiche.store.paths import valid

__all__ = ["is_inside", "object_path", "path_inside"]


def object_path(store: Store, path: str = "") -> str:
    """The path of a file of `store` below the bucket, or for local files below `/`."""
    uri = store.native_uri(path)
    _, scheme, rest = uri.partition("://")
    if not scheme:
        return uri.lstrip("/")
    return unquote(rest.partition("/")[2])


def path_inside(store: Store, native: str) -> str:
    """The path below the root of `store` of a file that pylance named; `InvalidInput` if it lies elsewhere."""
    inside = native.lstrip("/").removeprefix(_start(store))
    if not is_inside(store, native) or not valid(inside):
        raise InvalidInput(
            f"{native} is not a file of the table at {store.uri}",
            remedy="The table was dropped and made anew, or belongs to another lake: open it again.",
            path=native,
        )
    return inside


def is_inside(store: Store, native: str) -> bool:
    """Whether a file that pylance named lies below the root of `store`."""
    return native.lstrip("/").startswith(_start(store))


def _start(store: Store) -> str:
    return object_path(store).rstrip("/") + "/"
