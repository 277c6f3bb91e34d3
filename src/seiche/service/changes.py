"""What a client asks for, as values that know nothing of the wire; and what that means for which target."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote

from seiche.service.operations import Operation

__all__ = ["Change", "Kind", "TableDefinition", "Wanted", "digest", "pointer_key", "table_of", "work_key"]

# An operation of Lance, a definition, a metadata file of Iceberg, or the end of a table.
Kind: TypeAlias = Literal["operation", "definition", "metadata", "delete"]

_TABLES: Final = "tables/by-id"


def _no_text() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table shall be called and where it shall stand, and what is said about it."""

    id: str
    account: str
    name: str
    namespace: str = ""
    description: str = ""
    # An Iceberg schema in JSON, for a table that is to be made.
    schema_json: str = ""
    properties: Mapping[str, str] = field(default_factory=_no_text)
    # As it came, which is what is stored.
    encoded: bytes = b""


@dataclass(frozen=True, slots=True)
class Change:
    """One change, as the client gives it. Exactly one of `payload`, `blob_uri` and `table` is expected."""

    table_id: str = ""
    table_account: str = ""
    table_name: str = ""
    target_key: str = ""
    payload: bytes | None = None
    blob_uri: str | None = None
    table: TableDefinition | None = None
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """One change whose target is known and whose content was looked at: what will be done to which table."""

    target: str
    table: str
    kind: Kind
    data: bytes
    exclusive: bool
    expected_version: int | None = None
    # What the data is called in the account's name space of blobs.
    blob: str = ""
    # The operation in the data, if it has been decoded already.
    operation: Operation | None = field(default=None, compare=False, repr=False)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@lru_cache(maxsize=10_000)
def pointer_key(account: str, table_id: str) -> str:
    """The key of a table. Every part is percent-encoded, so that none can reach out of its place."""
    return f"/accounts/{quote(account, safe='')}/{_TABLES}/{quote(table_id, safe='')}"


def work_key(account: str, tx: str) -> str:
    """What stands for everything that a saved transaction wants; nobody can name it."""
    return f"/accounts/{quote(account, safe='')}/transactions/{quote(tx, safe='')}/work"


def table_of(account: str, key: str) -> str | None:
    """The id of the table whose key this is; `None` if it is anything else, or not the account's."""
    prefix = pointer_key(account, "")
    table = unquote(key.removeprefix(prefix)) if key.startswith(prefix) else ""
    return table if table and pointer_key(account, table) == key else None
