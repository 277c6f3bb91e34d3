"""What tells one request from another, and what may stand in it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from seiche.lake.objects.names import Name
from seiche.service.changes import Change, digest
from seiche.service.properties import RESERVED, are_few
from seiche.service.refusals import refused

__all__ = [
    "as_written",
    "begin_hash",
    "check_properties",
    "check_reserved",
    "checked_id",
    "checked_key",
    "execute_hash",
    "prepare_hash",
    "reserved_names",
]

_AS_WRITTEN: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_RESERVED: Final = 1000
_LONGEST_KEY: Final = 1024


def begin_hash(ttl: float | None, properties: Mapping[str, str]) -> str:
    return digest(json.dumps([ttl, sorted(properties.items())]).encode())


def prepare_hash(tx: str, changes: Sequence[Change]) -> str:
    return digest(repr((tx, [_summary(change) for change in changes])).encode())


def execute_hash(ttl: float | None, properties: Mapping[str, str], changes: Sequence[Change], work: bytes) -> str:
    return digest(repr((ttl, sorted(properties.items()), [*map(_summary, changes)])).encode() + work)


def _summary(change: Change) -> tuple[object, ...]:
    """What tells one change from another."""
    data = change.payload if change.table is None else change.table.encoded
    return (
        change.table_id,
        change.table_name,
        change.target_key,
        None if data is None else digest(data),
        change.blob_uri,
        change.table is not None,
        change.expected_version,
    )


def checked_id(tx: str) -> str:
    """The id that a client has chosen, as ids are written."""
    found = as_written(tx)
    if not _AS_WRITTEN.fullmatch(found):
        raise refused(f"{tx!r} cannot be the id of a transaction", "tx-id.invalid", "Use a UUID.")
    return found


def as_written(tx: str) -> str:
    """An id as ids are written, of which a client may have another spelling; unchanged if it is none."""
    if _AS_WRITTEN.fullmatch(tx):
        return tx
    try:
        return str(UUID(tx))
    except ValueError:
        return tx


def check_properties(properties: Mapping[str, str]) -> None:
    if not are_few(properties):
        raise refused("the properties are too many or too long", "properties.too-large")
    # A client that could choose the id to reserve could take one that a table had before, and get that table's place.
    if any(name.startswith(RESERVED) for name in properties):
        raise refused(
            f"properties that begin with {RESERVED} are the server's",
            "properties.reserved",
            "Ask for an id with ReserveTransactionTableId.",
        )


def checked_key(key: str) -> str:
    """The idempotency key as it counts; nothing if there is none."""
    key = key.strip()
    if len(key) > _LONGEST_KEY:
        raise refused(f"an idempotency key has at most {_LONGEST_KEY} characters", "idempotency.key-too-long")
    return key


def check_reserved(properties: Mapping[str, str]) -> None:
    """Whether one more id may be reserved: each is a property, written again with every other."""
    if sum(name.startswith(RESERVED) for name in properties) >= _MOST_RESERVED:
        raise refused(f"a transaction reserves at most {_MOST_RESERVED} ids", "reserve.too-many")


def reserved_names(properties: Mapping[str, str]) -> dict[str, Name]:
    """The names of tables that a transaction may make, by the ids that were reserved for them."""
    return {
        table: tuple(name.removeprefix(RESERVED).split("."))
        for name, table in properties.items()
        if name.startswith(RESERVED)
    }
