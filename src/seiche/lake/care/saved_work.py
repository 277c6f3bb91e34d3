"""Transactions that were saved and wait to be continued: what they need to stay."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt, NotFound
from seiche.lake.objects import rows
from seiche.lake.objects.rows import TableRow
from seiche.lake.saved import FOLDER, decode
from seiche.lake.saved_pb2 import SavedTransaction
from seiche.lake.state import State
from seiche.lake.tree.root import at_millis, millis
from seiche.store.base import Store
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.format.transaction_pb2 import CreateIndex, Transaction

__all__ = ["SavedWork", "manifest_lists", "saved_work"]

# Clocks may be wrong by so much before a transaction counts as too old that its owner still takes for young.
_SLACK: Final = timedelta(days=1)
# What else lies there is not one: somebody may have put another lake in that place.
_NAME: Final = re.compile(rf"{FOLDER}/[0-9a-f-]{{36}}\.binpb")
# Whoever wants it to wait for ever may name a time that is no date.
_MOST_MILLIS: Final = millis(datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class SavedWork:
    """A saved transaction: where it began, and what it has written so far, for each table."""

    id: str
    path: str
    base: int
    until: datetime
    written: tuple[tuple[str, Transaction], ...]
    # Snapshots that it brings into Iceberg tables: the table's location, and the address of the list of manifests.
    snapshots: tuple[tuple[str, str], ...] = ()

    def may_commit(self, state: State, now: datetime) -> bool:
        """Whether it can still be continued on top of `state`. Behind the fence, or once decided, it cannot."""
        if self.base < state.root.min_base or state.outcome(self.id) is not None:
            return False
        return now <= self.until + _SLACK


def saved_work(store: Store) -> Iterator[SavedWork]:
    """All saved transactions.

    `Corrupt` if one cannot be read. Put back from a copy it may still be continued: until it is, or is removed, nobody
    can tell which files it needs, or which versions.
    """
    for info in store.list(FOLDER, recursive=False):
        if _NAME.fullmatch(info.path) is None:
            continue
        try:
            saved = decode(store.get_listed(info), info.path)
        except NotFound:
            continue  # it was given up since it was listed
        try:
            work = _work(info.path, saved)
        except (DecodeError, LookupError, ValueError) as error:
            raise Corrupt(
                f"{info.path}: what the saved transaction needs cannot be read: {error}",
                remedy="Put it back from a copy, or remove it and begin the transaction anew.",
                path=info.path,
            ) from error
        yield work


def _work(path: str, saved: SavedTransaction) -> SavedWork:
    written = []
    snapshots: list[tuple[str, str]] = []
    for edit in saved.edits:
        location = rows.decode(edit.row, TableRow).location
        for statement in edit.statements:
            written.append((location, Transaction.FromString(statement.transaction)))
            if statement.frag_reuse_index:
                index = IndexMetadata.FromString(statement.frag_reuse_index)
                written.append((location, Transaction(create_index=CreateIndex(new_indices=[index]))))
        snapshots += [(location, one) for step in edit.iceberg for one in manifest_lists(step.updates)]
    until = at_millis(min(saved.expires_at_millis, _MOST_MILLIS))
    base = min(saved.base_version, saved.oldest_version) if saved.HasField("oldest_version") else saved.base_version
    return SavedWork(saved.id, path, base, until, tuple(written), tuple(snapshots))


def manifest_lists(updates: str) -> Iterator[str]:
    """The manifest lists that updates of an Iceberg table name, which are in JSON."""
    for one in json.loads(updates):
        if one.get("action") == "add-snapshot":
            yield one["snapshot"]["manifest-list"]
