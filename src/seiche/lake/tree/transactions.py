"""What a root says about the transactions that it decided."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from google.protobuf.message import DecodeError

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt
from seiche.lake import format_pb2
from seiche.lake.format_pb2 import Transaction, Transactions
from seiche.lake.tree.names import optimised
from seiche.lake.tree.pointer import Pointer, fetch, pointer, target
from seiche.store.base import Store

__all__ = ["Isolation", "Outcome", "TransactionRecord", "load", "pack", "stow", "unpack"]

Isolation: TypeAlias = Literal["snapshot", "serializable"]
Outcome: TypeAlias = Literal["committed", "aborted"]

_ISOLATIONS: Final[Mapping[Isolation, format_pb2.Isolation]] = {
    "snapshot": format_pb2.SNAPSHOT,
    "serializable": format_pb2.SERIALIZABLE,
}
_OUTCOMES: Final[Mapping[Outcome, format_pb2.Outcome]] = {
    "committed": format_pb2.COMMITTED,
    "aborted": format_pb2.ABORTED,
}
_ISOLATION_OF: Final = {number: word for word, number in _ISOLATIONS.items()}
_OUTCOME_OF: Final = {number: word for word, number in _OUTCOMES.items()}
_INLINE: Final = 32 << 10


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One decided transaction: enough to answer for it, and for a later writer to see what it changed.

    `keys` are the tree keys that it wrote, ascending; None means that they are in the root's side file, or, in an
    expired root, that they are gone.
    """

    id: str
    base_version: int
    isolation: Isolation = "snapshot"
    outcome: Outcome = "committed"
    keys: tuple[bytes, ...] | None = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def pack(records: Sequence[TransactionRecord]) -> bytes:
    """The records as they stand in a root's system row or in a side file."""
    message = Transactions(
        transactions=[
            Transaction(
                id=record.id,
                base_version=record.base_version,
                isolation=_ISOLATIONS[record.isolation],
                outcome=_OUTCOMES[record.outcome],
                keys=record.keys or (),
                # An empty mapping takes as long as all the rest.
                properties=record.properties or None,
            )
            for record in records
        ]
    )
    return message.SerializeToString(deterministic=True)


def unpack(data: bytes, path: str, *, with_keys: bool = True) -> tuple[TransactionRecord, ...]:
    """The records in `data`, read from `path`; without keys if those stand elsewhere."""
    try:
        return tuple(
            TransactionRecord(
                one.id,
                one.base_version,
                _ISOLATION_OF[one.isolation],
                _OUTCOME_OF[one.outcome],
                tuple(one.keys) if with_keys else None,
                dict(one.properties),
            )
            for one in Transactions.FromString(data).transactions
        )
    except (DecodeError, LookupError) as error:
        raise Corrupt(
            f"the transactions in {path} cannot be read: {error}",
            remedy="Use a newer release if one wrote this lake; otherwise restore the file from a copy.",
            path=path,
        ) from error


def stow(
    records: Sequence[TransactionRecord], runtime: Runtime, *, inline: int = _INLINE
) -> tuple[tuple[TransactionRecord, ...], Pointer | None, dict[str, bytes]]:
    """The records for a root, the pointer to their side file if they need one, and that file to be written first.

    Large change sets leave the root, ids and outcomes never: a writer that finds a root must see at once whether its
    own transaction is in it.
    """
    if sum(len(key) + 2 for record in records for key in record.keys or ()) <= inline:
        return tuple(records), None, {}
    data = pack(records)
    path = optimised(f"txn-{runtime.uuid()}.binpb")
    return tuple(replace(record, keys=None) for record in records), pointer(path, zlib.crc32(data)), {path: data}


def load(store: Store, side_file: Pointer) -> tuple[TransactionRecord, ...]:
    """The records of a side file, complete."""
    return unpack(fetch(store, side_file), target(side_file)[0])
