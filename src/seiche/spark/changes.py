"""What happened to the rows of a table, version by version, as tasks for Spark's workers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql.types import StructType

from seiche.core.runtime import SYSTEM
from seiche.errors import InvalidInput, NotFound
from seiche.lake.versions import LakeVersions
from seiche.spark.address import Address
from seiche.spark.columns import Columns
from seiche.spark.scanning import grouped
from seiche.spark.types import as_shown, spark_schema
from seiche.table.bases import deletion_files
from seiche.table.build import empty
from seiche.table.data.changes import CHANGE_TYPE, COMMIT_VERSION, Kind
from seiche.table.data.columns.past import PastColumns
from seiche.table.data.merge.target import read_rows
from seiche.table.data.moving import Places
from seiche.table.data.portion import Portion
from seiche.table.data.scanning import BATCH_ROWS, quoted
from seiche.table.format import roaring
from seiche.table.format.manifest import Manifest
from seiche.table.format.row_ids import RowIds
from seiche.table.operations import Overwrite, Restore
from seiche.table.row_changes import Rows, VersionChanges, changes_of
from seiche.table.snapshot import Snapshot

__all__ = [
    "ChangeScan",
    "History",
    "OnChange",
    "changes_schema",
    "read_changes",
]

# What to do about versions that changed or removed rows when only new ones are asked for.
OnChange: TypeAlias = Literal["fail", "skip"]


def changes_schema(schema: pa.Schema) -> StructType:
    """The columns of a table and what happened to each row: `insert`, `update` or `delete`, and in which version."""
    loose = pa.schema([field.with_nullable(True) for field in schema])
    return spark_schema(loose).add(CHANGE_TYPE, "string").add(COMMIT_VERSION, "long")


@dataclass(frozen=True, slots=True)
class ChangeScan:
    """Some rows of some fragments of one version, and what happened to them. Can be pickled."""

    address: Address
    portion: Portion
    # By fragment the rows, as Roaring bitmaps.
    rows: Mapping[int, bytes]
    columns: pa.Schema
    # What those of the columns are called in this version that it has.
    past: PastColumns
    kind: Kind
    version: int


class History:
    """The versions of one table up to one that the lake has, and what each did to rows.

    Columns are asked for by the names in `columns`, those of the newest version if not given.
    """

    def __init__(self, versions: LakeVersions, columns: Columns | None = None) -> None:
        self._versions = versions
        self._columns = columns
        self._manifests: dict[int, Manifest] = {0: empty()}

    @property
    def newest(self) -> int:
        return self._versions.newest()

    def made_by(self, version: int) -> str:
        """The name of the transaction that made a version, which is that of no other, in no history of the lake."""
        return self._manifest(version).header.transaction_file

    def changes(self, version: int, since: int | None = None) -> VersionChanges:
        """What a version did to the rows of the one before, or a Restore to those of the version `since`. Compaction
        and indices did nothing to any.
        """
        before, after = self._manifest(version - 1 if since is None else since), self._manifest(version)
        store = self._versions.store
        return changes_of(
            before,
            after,
            self._versions.transaction(version),
            deletion_files(before, store, SYSTEM),
            deletion_files(after, store, SYSTEM),
            lambda some: store.in_parallel(self._versions.transaction, some),
        )

    def appended(self, version: int, on_change: OnChange) -> VersionChanges | None:
        """The rows that a version added, if it did nothing else; `on_change` says what becomes of other versions."""
        found = self.changes(version)
        if not len(found.deleted) and not len(found.updated):
            return found
        if on_change == "skip":
            return None
        raise InvalidInput(
            f"version {version} of the table removed or changed {len(found.deleted) + len(found.updated)} rows, and the"
            " stream was to follow new rows only",
            remedy='Follow all changes with option("changes", "true"), or pass over such versions with'
            ' option("on_change", "skip").',
            version=version,
        )

    def scans(self, version: int, kind: Kind, rows: Rows, columns: pa.Schema) -> list[ChangeScan]:
        """The tasks that read these rows."""
        at = version - 1 if kind == "delete" else version
        manifest = self._manifest(at)
        snapshot = Snapshot(self._versions.store, manifest, SYSTEM, staged=True)
        fragments = [one for one in manifest.fragments if one.id in rows.offsets]
        address = Address.of(self._versions.store)
        past = self._past(manifest, columns)
        return [
            ChangeScan(
                address,
                Portion.of(snapshot, group),
                {one.id: roaring.encode(rows.offsets[one.id]) for one in group},
                columns,
                past,
                kind,
                version,
            )
            for group in grouped(fragments)
        ]

    def everything(self, version: int, columns: pa.Schema) -> list[ChangeScan]:
        """The tasks that read all rows of a version, as rows that were inserted."""
        return self.scans(version, "insert", Rows(self.live(version)), columns)

    def live(self, version: int) -> dict[int, BitMap]:
        """By fragment, the rows that a version has."""
        from seiche.table.data.removal import all_live_rows

        snapshot = Snapshot(self._versions.store, self._manifest(version), SYSTEM, staged=True)
        return all_live_rows(snapshot, snapshot.manifest.fragments)

    def _past(self, manifest: Manifest, columns: pa.Schema) -> PastColumns:
        if self._columns is None:
            self._columns = Columns.of(self._versions.read(self.newest).manifest)
        return self._columns.within(manifest, columns.names, self._follows)

    def _follows(self, earlier: int, later: int) -> bool:
        try:
            between = [self._versions.transaction(one).operation for one in range(earlier + 1, later + 1)]
        except NotFound:  # cleaned up: nothing is known
            return False
        return not any(isinstance(one, Overwrite | Restore) for one in between)

    def _manifest(self, version: int) -> Manifest:
        if version not in self._manifests:
            # Two neighbours are needed at a time.
            self._manifests = {one: held for one, held in self._manifests.items() if one in (0, version - 1)}
            self._manifests[version] = self._versions.read(version).manifest
        return self._manifests[version]


def read_changes(scan: ChangeScan) -> Iterator[pa.RecordBatch]:
    """The rows of one task, as Spark takes them."""
    snapshot = scan.portion.snapshot(scan.address.open(), SYSTEM)
    places = _places(snapshot, scan.rows)
    if not len(places):
        return
    chosen = {name: quoted(then) for name, then in scan.past.names.items()}
    for batch in read_rows(snapshot, places, chosen, BATCH_ROWS):
        yield _marked(batch, scan)


def _marked(batch: pa.RecordBatch, scan: ChangeScan) -> pa.RecordBatch:
    """With what happened to the rows; a column that they did not have yet is null."""
    rows = batch.num_rows
    given = {name: scan.past.shown(batch.column(name), then) for name, then in scan.past.names.items()}
    given[CHANGE_TYPE] = pa.repeat(pa.scalar(scan.kind, pa.string()), rows)
    given[COMMIT_VERSION] = pa.repeat(pa.scalar(scan.version, pa.int64()), rows)
    for field in scan.columns:
        if field.name not in given:
            given[field.name] = pa.nulls(rows, field.type)
    chosen = [given[name] for name in scan.columns.names]
    return as_shown(pa.RecordBatch.from_arrays(chosen, names=scan.columns.names), scan.columns)


def _places(snapshot: Snapshot, rows: Mapping[int, bytes]) -> Places:
    addresses, row_ids = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    stable = snapshot.manifest.has_stable_row_ids
    for fragment_id, encoded in sorted(rows.items()):
        offsets = np.frombuffer(roaring.decode(encoded, what="changed rows").to_array(), np.uint32).astype(np.uint64)
        addresses.append(offsets | np.uint64(fragment_id << 32))
        fragment = snapshot.manifest.fragments.get(fragment_id)
        if stable and fragment is not None:
            ids = RowIds.decode(fragment.inline_row_ids, rows=fragment.physical_rows).to_array()
            row_ids.append(ids[offsets.astype(np.int64)])
    return Places(np.concatenate(addresses), np.concatenate(row_ids) if stable else None)
