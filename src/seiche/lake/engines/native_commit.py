"""Committing a version that pylance has built, under the number that pylance has given it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, RetryableConflict
from seiche.lake.care.restorable import check_restorable
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.made import Made
from seiche.lake.commit.work import CONTENT
from seiche.lake.engines.native_manifest import NativeManifest, check_bases, new_files
from seiche.lake.engines.staged_table import StagedTable
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import LakeVersions, staged_path
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table.build import empty
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Restore

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["NativeEdit", "NativeVersion", "commit_native", "reference"]


def reference(native: NativeManifest) -> ManifestRef:
    """How the lake's row names such a manifest: by its content, so that staging it again changes nothing."""
    digest = hashlib.sha256(native.data)
    return ManifestRef(
        path=staged_path(native.version, digest.hexdigest()),
        transaction=native.message.uuid,
        sha256=digest.digest(),
        size=len(native.data),
    )


@dataclass(frozen=True, slots=True)
class NativeEdit(TableEdit):
    """An edit that makes one version, and has its manifest already: it is that version or none.

    It is never rebased. Its client has told its user a number, and will look for its own transaction under it.
    """

    native: NativeManifest | None = None

    @property
    def worked(self) -> bool:
        return True

    def _made(self, state: State, now: TableRow, uuid: str, runtime: Runtime, *, durable: bool) -> Made:
        if self.native is None or now.table_version != self.native.version - 1:
            raise self._conflict(state, f"version {now.table_version} was committed meanwhile")
        operation = self.native.transaction.operation
        if isinstance(operation, Restore):
            check_restorable(state, now, operation.version, table=self.name)
        ref = reference(self.native)
        before = () if durable or now.manifest is None else (*now.earlier, now.manifest)
        content = isinstance(operation, CONTENT)
        row = replace(
            now,
            table_version=self.native.version,
            logical_version=now.logical_version + content,
            manifest=ref,
            earlier=before,
        )
        return Made(row, {join(now.location, ref.path): self.native.data}, (self.native.data,))


@dataclass(frozen=True, slots=True)
class NativeVersion:
    """A version that pylance wants to make of a table, which does not exist yet if it is only `declared`."""

    name: Name
    row: TableRow
    native: NativeManifest
    declared: bool = False

    def join(self, transaction: "Transaction") -> None:
        """Make it what the transaction does to the table, after a look at what it does."""
        if self.declared:
            transaction.enter_edit(self.name, self._created(transaction))
        else:
            transaction.put_edit(self._changed(transaction))

    def _changed(self, transaction: "Transaction") -> NativeEdit:
        edit = StagedTable(transaction, self.name).edit
        if edit.row.id != self.row.id:
            raise RetryableConflict(
                f"{edit.name} was dropped and made anew while pylance wrote to it.",
                remedy="Nothing was written. Open the table again.",
                table=edit.name,
            )
        versions = LakeVersions(transaction.state.store, edit.row)
        if edit.row.table_version == self.native.version - 1:
            previous = versions.read(edit.row.table_version).manifest
            self.native.check_follows(
                previous, versions.store, transaction.runtime, load=lambda version: versions.read(version).manifest
            )
            self._take_files(transaction, previous)
        return NativeEdit(row=edit.row, key=edit.key, found=edit.found, found_key=edit.found_key, native=self.native)

    def _created(self, transaction: "Transaction") -> NativeEdit:
        transaction.check_free(self.name)
        previous = before_first(self.native)
        self.native.check_follows(previous, below(transaction.state.store, self.row.location), transaction.runtime)
        self._take_files(transaction, previous)
        return NativeEdit(row=self.row, key=table_key(self.name), native=self.native)

    def _take_files(self, transaction: "Transaction", previous: Manifest) -> None:
        check_bases(previous, self.native.manifest, transaction.state)
        # pylance flushes nothing: without this, a power failure could leave the commit without its rows.
        store = below(transaction.state.store, self.row.location)
        files = new_files(previous, self.native.manifest, store)
        transaction.unflushed += [join(self.row.location, path) for path in files]


def commit_native(lake: "Lake", versions: Sequence[NativeVersion], since: int) -> int:
    """Commit all of them or none, each under its own number; returns the version of the lake.

    `since` is a version of the lake from before any of their files were written: a clean-up since then may have taken
    them for garbage. Told twice, the same versions are committed once. Raises a conflict if a table is not at the
    version before.
    """
    if len({one.row.id for one in versions}) < len(versions) or len({one.name for one in versions}) < len(versions):
        raise InvalidInput("a table is there twice", remedy="Nothing was written. Send one version of each table.")
    words = (f"{text}" for one in versions for text in (*one.name, one.native.message.uuid))
    transaction = lake.transaction(key=f"lance {' '.join(words)}")
    for one in versions:
        one.join(transaction)
    intent = transaction.intent()
    if intent is None:
        return transaction.base
    return lake.decide(replace(intent, base=min(since, intent.base)))


def before_first(native: NativeManifest) -> Manifest:
    """What stands before the first version of a table: nothing, in the format that pylance chose for it."""
    return empty(
        stable_row_ids=native.manifest.has_stable_row_ids,
        data_format=native.manifest.header.data_format.version,
    )
