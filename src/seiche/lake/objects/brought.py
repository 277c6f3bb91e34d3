"""Rows and keys that come from outside, in a saved transaction: looked at before anything is decided.

What cannot be read would be found by whoever lists the lake afterwards, reads its log or rolls it back.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from seiche.errors import Corrupt, InvalidInput
from seiche.lake.objects import rows
from seiche.lake.objects.keys import NAMESPACE, RETENTION, TABLE, TAG, name_of, namespace_key, table_key
from seiche.lake.objects.names import parts
from seiche.lake.objects.rows import NamespaceRow, RetentionRow, Row, TableRow, TagRow, ViewRow

__all__ = ["check_key", "check_made", "check_row", "check_table_key"]

# What statements write as it is. Tables are written by their edits; ids, outcomes and streams by the commit itself.
_KINDS: Final[Mapping[bytes, type[Row]]] = {
    NAMESPACE: NamespaceRow,
    TABLE: ViewRow,
    TAG: TagRow,
    RETENTION: RetentionRow,
}


def check_key(key: bytes) -> None:
    """`Corrupt` if no statement writes a row of this key."""
    if key[:4] not in _KINDS:
        raise _refused(key, "no statement writes such rows")
    if key[:4] in (NAMESPACE, TABLE):
        _check_named(key)
    else:
        _check_text(key)


def check_row(key: bytes, found: bytes | None, wanted: bytes | None) -> None:
    """`Corrupt` if this is not what can be wanted of such a key, behind which `found` stands."""
    if wanted is not None:
        rows.decode(wanted, _KINDS[key[:4]])
    elif found is not None and rows.kind_of(found) is TableRow:
        raise _refused(key, "a table stands there, which goes by an edit of its own")


def check_table_key(key: bytes) -> None:
    """`Corrupt` if no table can have this key."""
    if not key.startswith(TABLE):
        raise _refused(key, "it is not that of a table")
    _check_named(key)


def check_made(row: TableRow) -> None:
    """`Corrupt` if no table that is made can have this id."""
    try:
        UUID(row.id)
    except ValueError as error:
        raise Corrupt(f"{row.id!r} is not the id of a table", remedy="Begin the transaction anew.") from error


def _check_named(key: bytes) -> None:
    _check_text(key)
    name = name_of(key)
    try:
        parts(name)
    except InvalidInput as error:
        raise _refused(key, error.message) from error
    if key != (table_key(name) if key.startswith(TABLE) else namespace_key(name)):
        raise _refused(key, "it is written in another way")


def _check_text(key: bytes) -> None:
    try:
        key.decode()
    except UnicodeDecodeError as error:
        raise _refused(key, "it is no text") from error


def _refused(key: bytes, why: str) -> Corrupt:
    shown = key[:_SHOWN] + b"..." if len(key) > _SHOWN else key
    return Corrupt(f"{shown!r} is a key that cannot be written: {why}", remedy="Begin the transaction anew.")


_SHOWN: Final = 100
