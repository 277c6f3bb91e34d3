"""Tags and branches of a table: names for versions, and tables within the table."""

import json

from seiche.errors import Corrupt, NotFound
from seiche.store.base import Store
from seiche.store.prefix import below

__all__ = ["find_branch", "find_tag"]


def find_tag(store: Store, name: str) -> int:
    """The version that a tag stands for."""
    path = f"_refs/tags/{name.replace('/', '%2F')}.json"
    try:
        return int(json.loads(store.get(path))["version"])
    except NotFound as error:
        raise NotFound(f"{store.uri} has no tag {name!r}", table=store.uri, tag=name) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{path} is not a tag", path=path) from error


def find_branch(store: Store, name: str) -> Store:
    """Where a branch lives: a table of its own below the table."""
    return below(store, f"tree/{name}")
