"""Keys of the tree: where each kind of row stands.

A key is a schema of four characters and what identifies the row. Keys are compared as bytes. The blank and U+001F,
which no name can contain and which sort below everything that one can, separate the parts:

    B===<parent> <name>      a namespace       parent: its parts with U+001F between, empty for the outermost
    C===<namespace> <name>   a table or a view
    D===<id>                 an object's id    leads to its key, through renames
    E===<id>                 a transaction     how it ended
    F===<stream>             a stream          its last epoch
    G===<name>               a tag
    H===<name>               an export
    I===<id>                 trash             something dropped whose files are still there
    J===<name>               retention         a rule about what is kept

So the child namespaces of a namespace are one range, its tables and views are one range, and neither has anything
else in it, however deep namespaces are nested: the blank ends the parent, and only direct children have exactly this
parent. All descendants are one range too. Tables and views share their keys, so that a name cannot stand for both.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from seiche.errors import Corrupt
from seiche.lake.objects.names import Name

__all__ = [
    "EXPORT",
    "ID",
    "NAMESPACE",
    "RETENTION",
    "STREAM",
    "TABLE",
    "TAG",
    "TRANSACTION",
    "TRASH",
    "KeyRange",
    "children_of",
    "export_key",
    "id_key",
    "name_of",
    "namespace_key",
    "retention_key",
    "stream_key",
    "table_key",
    "tables_of",
    "tables_under",
    "tag_key",
    "transaction_key",
    "trash_key",
]

NAMESPACE: Final = b"B==="
TABLE: Final = b"C==="
ID: Final = b"D==="
TRANSACTION: Final = b"E==="
STREAM: Final = b"F==="
TAG: Final = b"G==="
EXPORT: Final = b"H==="
TRASH: Final = b"I==="
RETENTION: Final = b"J==="

_NEST: Final = b"\x1f"
_END: Final = b" "


class KeyRange(NamedTuple):
    """The keys with `start <= key < stop`."""

    start: bytes
    stop: bytes

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.start <= key < self.stop


def namespace_key(name: Sequence[str]) -> bytes:
    """The key of a namespace. Names must have been checked."""
    return _named(NAMESPACE, tuple(name))


def table_key(name: Sequence[str]) -> bytes:
    """The key of a table or view, whose last part is its own name and the others its namespace."""
    return _named(TABLE, tuple(name))


def id_key(object_id: str) -> bytes:
    """The key under which an object's id leads to its name."""
    return ID + object_id.encode()


def transaction_key(transaction_id: str) -> bytes:
    """The key under which a transaction's outcome stands."""
    return TRANSACTION + transaction_id.encode()


def stream_key(stream: str) -> bytes:
    """The key of a stream's last epoch. Names of streams are not paths: any text will do."""
    return STREAM + stream.encode()


def tag_key(name: str) -> bytes:
    """The key of a tag."""
    return TAG + name.encode()


def export_key(name: str) -> bytes:
    """The key of an export."""
    return EXPORT + name.encode()


def trash_key(object_id: str) -> bytes:
    """The key of something that was dropped."""
    return TRASH + object_id.encode()


def retention_key(name: str) -> bytes:
    """The key of a rule about what is kept."""
    return RETENTION + name.encode()


def children_of(namespace: Sequence[str]) -> KeyRange:
    """Exactly the namespaces directly in this one; `()` for the outermost."""
    return _within(NAMESPACE + _path(namespace) + _END)


def tables_of(namespace: Sequence[str]) -> KeyRange:
    """Exactly the tables and views directly in this namespace."""
    return _within(TABLE + _path(namespace) + _END)


def tables_under(namespace: Sequence[str]) -> KeyRange:
    """Exactly the tables and views in this namespace or below it, at any depth."""
    if not namespace:
        return _within(TABLE)
    # U+001F leads further down, the blank right behind it to what is directly inside.
    return KeyRange(TABLE + _path(namespace) + _NEST, tables_of(namespace).stop)


@lru_cache(maxsize=4096)
def name_of(key: bytes) -> Name:
    """The name in the key of a namespace, table or view."""
    parent, mark, name = key[4:].rpartition(_END)
    if key[:4] not in {NAMESPACE, TABLE} or not mark or not name:
        raise Corrupt(f"{key!r} is not the key of a namespace or table", remedy="Run `seiche fsck`.", key=key)
    return (*(part.decode() for part in parent.split(_NEST) if part), name.decode())


def _path(namespace: Sequence[str]) -> bytes:
    return _NEST.join(part.encode() for part in namespace)


@lru_cache(maxsize=4096)
def _named(schema: bytes, name: Name) -> bytes:
    return schema + _path(name[:-1]) + _END + name[-1].encode()


def _within(prefix: bytes) -> KeyRange:
    return KeyRange(prefix, prefix[:-1] + bytes([prefix[-1] + 1]))
