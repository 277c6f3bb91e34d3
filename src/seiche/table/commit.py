"""The commit loop: check against what others committed, rebase, build from the latest version, claim the next."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyroaring import BitMap

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, NotFound, RetryableConflict, SeicheError, Unavailable
from seiche.store.base import Data
from seiche.table.build import build
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.pending import Pending
from seiche.table.transaction import Transaction
from seiche.table.versions.base import Versions

__all__ = ["Commit", "Committer"]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that happened: the version it made, and what it took."""

    manifest: Manifest
    transaction: Transaction
    attempts: int

    @property
    def version(self) -> int:
        return self.manifest.version


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits transactions to one table. When `commit` returns, the version is durable and everybody sees it."""

    versions: Versions
    runtime: Runtime
    patience: Patience

    def commit(
        self, transaction: Transaction, base: Manifest, *, affected_rows: Mapping[int, BitMap] | None = None
    ) -> Commit:
        """Make `transaction` the next version of the table; nothing is visible before that.

        `base` is a manifest the caller holds, preferably of the version that the transaction read. Raises
        `RetryableConflict` or `IncompatibleConflict` when somebody else's commit is in the way, and `CommitUnknown`
        when the storage would not say whether the claim succeeded.
        """
        pending = Pending(transaction, base, self.versions, self.runtime, affected_rows=affected_rows)
        written = ""
        attempt = 0
        for attempt in self.patience.tries(self.runtime):
            newest = self.versions.newest(max(pending.checked, base.version))
            if earlier := pending.check_against(newest):
                return Commit(earlier.load(), earlier.transaction, attempt)
            ready, manifest = pending.build()
            if ready.file_name != written:
                self._write_transaction(ready)
                written = ready.file_name
            if self._claim(manifest, ready):
                self.versions.announce(manifest.version)
                return Commit(manifest, ready, attempt)
        raise self._outrun(transaction, pending.checked, attempt)

    def create(self, transaction: Transaction, empty: Manifest) -> Commit:
        """Make version 1 of a table that does not exist; `AlreadyExists` if it does, or somebody else was faster."""
        with suppress(NotFound):
            newest = self.versions.newest()
            raise self._taken(newest)
        manifest = build(empty, transaction, runtime=self.runtime)
        self._write_transaction(transaction)
        if not self._claim(manifest, transaction) and not self._is_ours(1, transaction):
            raise self._taken(1)
        self.versions.announce(manifest.version)
        return Commit(manifest, transaction, 1)

    def _write_transaction(self, transaction: Transaction) -> None:
        """The copy that stands beside the inline one. Older readers want it; nothing here depends on it."""
        # The name holds the transaction's uuid: if something is there already, it is ours.
        with suppress(AlreadyExists, CommitUnknown):
            path = f"_transactions/{transaction.file_name}"
            self.versions.store.put_if_absent(path, transaction.encode(), durable=False)

    def _claim(self, manifest: Manifest, transaction: Transaction) -> bool:
        """Try to make this manifest its version: `True` if it is, `False` if somebody has that version.

        After an unclear answer only a different manifest under the name says no. Absent does not: the put may still be
        on its way, so the identical bytes are put again, and whichever copy lands is this commit.
        """
        data: Data = file.encode(manifest, transaction.encode())
        for _ in self.patience.tries(self.runtime):
            try:
                self.versions.claim(manifest.version, data)
            except AlreadyExists:
                # Should it be ours after all, the next look at newer versions finds our own transaction id.
                return False
            except CommitUnknown:
                try:
                    return self._is_ours(manifest.version, transaction)
                except (NotFound, Unavailable):
                    continue
                except SeicheError as error:
                    # Not that error itself: its remedy might be to do the work again, and it may have been done.
                    raise self._unknown(manifest.version, transaction) from error
            except Unavailable:
                continue
            else:
                return True
        raise self._unknown(manifest.version, transaction)

    def _is_ours(self, version: int, transaction: Transaction) -> bool:
        return self.versions.transaction(version).uuid == transaction.uuid

    def _outrun(self, transaction: Transaction, newest: int, attempts: int) -> RetryableConflict:
        table = self.versions.store.uri
        return RetryableConflict(
            f"{table}: {transaction.operation.name} read version {transaction.read_version}; in {attempts} attempts other"
            f" writers were faster each time, the latest version is now {newest}.",
            table=table,
            operation=transaction.operation.name,
            read_version=transaction.read_version,
            version=newest,
            attempts=attempts,
        )

    def _unknown(self, version: int, transaction: Transaction) -> CommitUnknown:
        table = self.versions.store.uri
        return CommitUnknown(
            f"{table}: the storage did not say whether transaction {transaction.uuid} made version {version}.",
            remedy=f"Look before you repeat it: if version {version} exists, its transaction id tells whose it is.",
            table=table,
            version=version,
            transaction_id=transaction.uuid,
        )

    def _taken(self, version: int) -> AlreadyExists:
        table = self.versions.store.uri
        return AlreadyExists(
            f"there is a table at {table} already, at version {version}",
            remedy="Open it with `Table.open`, or choose another address.",
            table=table,
            version=version,
        )
