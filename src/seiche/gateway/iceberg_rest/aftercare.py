"""What is done for tables after commits to them: old snapshots expire, statistics are made anew.

Best effort, and outside of the commit: it is put in a queue when the answer is decided, happens in transactions of its
own, and whatever becomes of it changes nothing for the client. Only metadata changes here. Files go when the lake's
clean-up finds that no kept version needs them.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table import Table
from pyiceberg.table.statistics import PartitionStatisticsFile
from pyiceberg.table.update import (
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPartitionStatisticsUpdate,
)

from seiche.core.runtime import Runtime
from seiche.errors import SeicheError
from seiche.gateway.iceberg_rest.partition_statistics import asks_for_statistics, is_out_of_date, statistics_file
from seiche.gateway.iceberg_rest.retention import YOUNGEST_MILLIS, Outdated, asks_for_expiry, outdated
from seiche.lake.iceberg.metadata import Metadata, load
from seiche.lake.iceberg.places import address
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.root import millis
from seiche.lake.tree.timeline import version_at

if TYPE_CHECKING:
    from seiche.lake.iceberg.table import IcebergTable
    from seiche.lake.lake import Lake
    from seiche.lake.state import State

__all__ = ["Aftercare"]

log = logging.getLogger("seiche.gateway")

# Tables that wait. One that finds no place is looked at after its next commit.
_MOST: Final = 10_000


class Aftercare:
    """The tables of one lake that wait to be looked after, each of them once however often it was changed."""

    def __init__(self, lake: "Lake", runtime: Runtime) -> None:
        self._lake = lake
        self._runtime = runtime
        self._lock = Lock()
        self._waiting: dict[Name, None] = {}
        self._worker: Thread | None = None

    def note(self, state: "State", names: Iterable[Name]) -> None:
        """These tables were changed by a commit, whose version of the lake is `state`. Never fails, never waits."""
        try:
            wanted = [name for name in names if _asks(state, name)]
            if wanted:
                self._enqueue(wanted)
        except Exception:
            log.exception("nothing will be done after a commit")

    def note_table(self, table: "IcebergTable") -> None:
        """The same of one table that is at hand."""
        try:
            if table.row.type == "managed" and _asks_for_care(table.metadata):
                self._enqueue([table.name])
        except Exception:
            log.exception("nothing will be done after a commit")

    def wait(self) -> None:
        """Until nothing waits to be done any more."""
        with self._lock:
            worker = self._worker
        if worker is not None:
            worker.join()

    def _enqueue(self, names: Iterable[Name]) -> None:
        with self._lock:
            for name in names:
                if len(self._waiting) < _MOST:
                    self._waiting[name] = None
            if self._worker is None and self._waiting:
                # It ends when nothing is left: a server at rest has no thread for it, and stopping needs no care.
                self._worker = Thread(target=self._work, name="seiche-aftercare", daemon=True)
                self._worker.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._worker = None
                    return
                name = next(iter(self._waiting))
                del self._waiting[name]
            for chore in (self._expire, self._refresh_statistics):
                try:
                    chore(name)
                except Exception as error:  # noqa: BLE001 - best effort: the next commit to the table is the next chance
                    log.warning("%s: %s did not come to an end: %r", text(name), chore.__name__.strip("_"), error)

    def _expire(self, name: Name) -> None:
        """Remove what the table's properties no longer want. Conflicts are left alone: others come first."""
        transaction = self._lake.transaction()
        table = transaction.iceberg(name)
        metadata, now = table.metadata, self._runtime.clock.now()
        gone = outdated(metadata, millis(now))
        if gone.snapshots:
            known = self._known_by(table.row, transaction.state, now - timedelta(milliseconds=YOUNGEST_MILLIS))
            gone = replace(gone, snapshots=tuple(one for one in gone.snapshots if one in known))
        if not gone:
            return
        transaction.commit_iceberg(name, [AssertTableUUID(uuid=metadata.table_uuid)], _removal(metadata, gone))
        transaction.commit()
        log.info("%s: %d snapshots and %d refs expired", text(name), len(gone.snapshots), len(gone.refs))

    def _known_by(self, row: TableRow, state: "State", then: datetime) -> set[int]:
        """The snapshots that the table had `then`, by the storage's times: those in a snapshot are its writer's, whose
        clock may be days behind. None if that cannot be known, as where the lake has given up so young a version.
        """
        with suppress(SeicheError):
            before = state.table_at(version_at(state.store, state.root, then, runtime=self._runtime), row.id)
            return set() if before is None else {one.snapshot_id for one in load(state, before).snapshots}
        return set()

    def _refresh_statistics(self, name: Name) -> None:
        # The transaction is begun before the file is written: a clean-up in between makes the commit fail.
        transaction = self._lake.transaction()
        table = transaction.iceberg(name)
        metadata = table.metadata
        if not is_out_of_date(metadata):
            return
        opened = Table(name, metadata, table.metadata_location, table.io(), None)  # type: ignore[arg-type]
        data = statistics_file(opened)
        number = metadata.current_snapshot_id
        path = f"{table.row.location}/metadata/partition-stats-{number}-{self._runtime.uuid()}.parquet"
        store = self._lake.store
        store.put_if_absent(path, data)
        made = PartitionStatisticsFile.model_validate(
            {"snapshot-id": number, "statistics-path": address(store, path), "file-size-in-bytes": len(data)}
        )
        update = SetPartitionStatisticsUpdate.model_validate({"partition-statistics": made})
        transaction.commit_iceberg(name, [AssertTableUUID(uuid=metadata.table_uuid)], [update])
        transaction.commit()
        log.info("%s: statistics of snapshot %d were made", text(name), number)


def _asks(state: "State", name: Name) -> bool:
    row = state.relation(name)
    return isinstance(row, TableRow) and row.is_own("iceberg") and _asks_for_care(load(state, row))


def _asks_for_care(metadata: Metadata) -> bool:
    return asks_for_expiry(metadata.properties) or asks_for_statistics(metadata)


def _removal(metadata: Metadata, gone: Outdated) -> list[Any]:
    """Refs first: what one stands for cannot go. Statistics by partition are named: PyIceberg would leave them."""
    updates: list[Any] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in gone.refs]
    updates += [
        RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": one.snapshot_id})
        for one in metadata.partition_statistics
        if one.snapshot_id in gone.snapshots
    ]
    if gone.snapshots:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(gone.snapshots)}))
    return updates
