"""What a root says about the transactions that it decided."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from google.protobuf.message import DecodeError

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt
from seiche.lake.format_pb2 import Transaction, Transactions
from seiche.lake.tree.names import optimised
from seiche.lake.tree.pointer import Pointer, fetch, pointer, target
from seiche.store.base import Store

__all__ = ["Isolation", "Outcome", "TransactionRecord", "load", "pack", "stow", "unpack"]

Isolation: TypeAlias = Literal["snapshot", "serializable"]
Outcome: TypeAlias = Literal["committed", "aborted"]

_ISOLATIONS: Final = ("snapshot", "serializable")
_OUTCOMES: Final = ("committed", "aborted")
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
                isolation=_ISOLATIONS.index(record.isolation),  # type: ignore[arg-type]
                outcome=_OUTCOMES.index(record.outcome),  # type: ignore[arg-type]
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
                _ISOLATIONS[one.isolation],
                _OUTCOMES[one.outcome],
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

    Large change sets leave the root, ids and outcomes never: who finds a root must know at once whether it is his own.
    """
    if sum(len(key) + 2 for record in records for key in record.keys or ()) <= inline:
        return tuple(records), None, {}
    data = pack(records)
    path = optimised(f"txn-{runtime.uuid()}.binpb")
    return tuple(replace(record, keys=None) for record in records), pointer(path, zlib.crc32(data)), {path: data}


def load(store: Store, side_file: Pointer) -> tuple[TransactionRecord, ...]:
    """The records of a side file, complete."""
    return unpack(fetch(store, side_file), target(side_file)[0])
