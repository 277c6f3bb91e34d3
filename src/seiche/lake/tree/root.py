"""The root of one version: a node, and what the lake says about itself in the system rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from seiche.errors import Corrupt, NotFound
from seiche.lake.tree import node_file, transactions
from seiche.lake.tree.names import root_name, root_version
from seiche.lake.tree.node import EMPTY, Node
from seiche.lake.tree.pointer import Pointer, target
from seiche.lake.tree.transactions import TransactionRecord

__all__ = ["FORMAT_VERSION", "Root", "at_micros", "at_millis", "micros", "millis"]

FORMAT_VERSION: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def millis(time: datetime) -> int:
    """Milliseconds since 1970."""
    return micros(time) // 1000


def micros(time: datetime) -> int:
    """Microseconds since 1970, exactly: commits within one millisecond are still told apart by their storage times."""
    return (time - _EPOCH) // _MICROSECOND


def at_millis(after_1970: int) -> datetime:
    """The time that is so many milliseconds after 1970 began."""
    return at_micros(after_1970 * 1000)


def at_micros(after_1970: int) -> datetime:
    """The time that is so many microseconds after 1970 began."""
    return _EPOCH + after_1970 * _MICROSECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One version of the lake. What it says about itself:

    - `root_id`: a fresh uuid for every root that anyone builds, also for one that loses. It settles a put whose answer
      was lost: whoever finds another id under the name has lost.
    - `definition`: pointer to the lakehouse definition.
    - `created_at_millis`: the writer's clock, made greater than the predecessor's.
    - `prev_storage_micros`, `prev_eff_micros`: the storage time of the predecessor, and the greatest such time so
      far. The lake's timeline is read from these, so it is monotone and survives copying.
    - `min_base`: transactions that began below this version can no longer commit.
    - `transactions`: what this root decided; `transactions_file` holds their change sets if those are large.
    - `rollback_from`, `rollback_to`: versions, if this root rolled the lake back.
    - `expired_at_millis`: set in the tombstone that takes the place of an expired root; its node is empty.
    """

    version: int
    root_id: str
    node: Node
    definition: Pointer
    created_at_millis: int
    prev_storage_micros: int | None = None
    prev_eff_micros: int | None = None
    min_base: int = 0
    transactions: tuple[TransactionRecord, ...] = ()
    transactions_file: Pointer | None = None
    rollback_from: int | None = None
    rollback_to: int | None = None
    expired_at_millis: int | None = None

    @property
    def name(self) -> str:
        """The name of this root's file."""
        return root_name(self.version)

    @property
    def ids(self) -> frozenset[str]:
        """The transactions that this root decided."""
        return frozenset(record.id for record in self.transactions)

    def successor(
        self,
        node: Node,
        *,
        root_id: str,
        transactions: Sequence[TransactionRecord] = (),
        transactions_file: Pointer | None = None,
        now: datetime,
        storage_time: datetime,
        definition: Pointer | None = None,
        min_base: int | None = None,
        rollback_to: int | None = None,
    ) -> "Root":
        """The next root with `node` as its content; `storage_time` is when the store says that *this* root was written.

        Times are made monotone here. A storage time ahead of the writer's clock is cut to it, so that one root written
        under a wrong clock cannot push the whole future of the lake behind it.
        """
        return Root(
            version=self.version + 1,
            root_id=root_id,
            node=node,
            definition=self.definition if definition is None else definition,
            created_at_millis=max(millis(now), self.created_at_millis + 1),
            prev_storage_micros=micros(storage_time),
            prev_eff_micros=max(self.prev_eff_micros or 0, micros(min(storage_time, now))),
            min_base=self.min_base if min_base is None else min_base,
            transactions=tuple(transactions),
            transactions_file=transactions_file,
            rollback_from=None if rollback_to is None else self.version,
            rollback_to=rollback_to,
        )

    def tombstone(self, now: datetime) -> "Root":
        """What takes the place of this root when it expires: the name stays taken, ids, outcomes and times stay
        known.
        """
        records = tuple(replace(record, keys=None) for record in self.transactions)
        return replace(self, node=EMPTY, transactions=records, transactions_file=None, expired_at_millis=millis(now))

    def live(self) -> "Root":
        """This root, or `NotFound` if it has expired: a tombstone has no content to read."""
        if self.expired_at_millis is not None:
            raise NotFound(
                f"version {self.version} of the lake has expired",
                remedy="Open a later version; `seiche log` lists those that are kept.",
                version=self.version,
            )
        return self

    def encode(self, order: int) -> bytes:
        """The bytes of this root's file, for a tree of this order."""
        path, crc = target(self.definition)
        optional = {
            "previous_root": None if self.version == 0 else root_name(self.version - 1),
            "prev_storage_micros": self.prev_storage_micros,
            "prev_eff_micros": self.prev_eff_micros,
            "rollback_from_root": None if self.rollback_from is None else root_name(self.rollback_from),
            "rollback_to": None if self.rollback_to is None else root_name(self.rollback_to),
            "transactions_file": self.transactions_file,
            "expired": self.expired_at_millis,
        }
        rows = {
            "format_version": b"%d" % FORMAT_VERSION,
            "version": b"%d" % self.version,
            "root_id": self.root_id.encode(),
            "lakehouse_def": path.encode(),
            "lakehouse_def_crc": b"%08x" % crc,
            "created_at_millis": b"%d" % self.created_at_millis,
            "min_base": b"%d" % self.min_base,
            **{name: str(value).encode() for name, value in optional.items() if value is not None},
            "transactions": transactions.pack(self.transactions),
        }
        return node_file.encode(self.node, rows, order)

    @classmethod
    def decode(cls, data: bytes, version: int) -> "Root":
        """The root in a file that was read under the name of `version`; `Corrupt` if it is damaged or out of place."""
        name = root_name(version)
        node, rows = node_file.decode(data, name)
        try:
            return cls._decoded(node, rows, name, version)
        except (LookupError, ValueError) as error:
            raise Corrupt(
                f"{name} is not a sound root of version {version}: {error!r}",
                remedy="Restore this file from a copy of the lake; until then open an earlier version.",
                path=name,
                version=version,
            ) from error

    @classmethod
    def _decoded(cls, node: Node, rows: Mapping[str, bytes], name: str, version: int) -> "Root":
        written = int(rows["format_version"])
        if written > FORMAT_VERSION:
            raise Corrupt(
                f"{name} is in format {written}; this release reads up to {FORMAT_VERSION}",
                remedy="Open the lake with a newer release of Seiche.",
                path=name,
            )
        previous = rows.get("previous_root", b"").decode()
        if int(rows["version"]) != version or previous != (root_name(version - 1) if version else ""):
            raise ValueError(f"it says that it is version {int(rows['version'])}, after {previous!r}")
        side_file = rows.get("transactions_file")
        expired = _number(rows, "expired")
        return cls(
            version=version,
            root_id=rows["root_id"].decode(),
            node=node,
            definition=f"{rows['lakehouse_def'].decode()}#{rows['lakehouse_def_crc'].decode()}",
            created_at_millis=int(rows["created_at_millis"]),
            prev_storage_micros=_number(rows, "prev_storage_micros"),
            prev_eff_micros=_number(rows, "prev_eff_micros"),
            min_base=int(rows["min_base"]),
            transactions=transactions.unpack(
                rows["transactions"], name, with_keys=side_file is None and expired is None
            ),
            transactions_file=None if side_file is None else side_file.decode(),
            rollback_from=_version(rows, "rollback_from_root"),
            rollback_to=_version(rows, "rollback_to"),
            expired_at_millis=expired,
        )


def _number(rows: Mapping[str, bytes], name: str) -> int | None:
    return int(rows[name]) if name in rows else None


def _version(rows: Mapping[str, bytes], name: str) -> int | None:
    if name not in rows:
        return None
    version = root_version(rows[name].decode())
    if version is None:
        raise ValueError(f"{name} does not name a root")
    return version
