"""The commit loop: check against what others committed, rebase, build from the latest version, claim the next."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pyroaring import BitMap

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, NotFound, RetryableConflict, SeicheError, Unavailable
from seiche.store.base import Data
from seiche.table.build import build
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Append
from seiche.table.pending import Pending
from seiche.table.runs import with_run
from seiche.table.transaction import Transaction
from seiche.table.versions.base import Versions

__all__ = ["Commit", "Committer"]

# How often one claim is put again while its outcome is unclear. Not the number of attempts that the caller allows:
# those count lost races, and giving up here means to leave somebody in doubt.
_SETTLING_ATTEMPTS = 20


class Commit(NamedTuple):
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
        self,
        transaction: Transaction,
        base: Manifest,
        *,
        affected_rows: Mapping[int, BitMap] | None = None,
        fresh: bool = False,
        unmoved: bool = False,
    ) -> Commit:
        """Make `transaction` the next version of the table; nothing is visible before that.

        `base` is a manifest the caller holds, preferably of the version that the transaction read. A `fresh`
        transaction is one whose id was made just now, so that nobody can have committed it or know of it; others are
        looked for among the newer versions. One that holds only if nothing was committed since the version that it read
        wants the table `unmoved`.

        Raises `RetryableConflict` or `IncompatibleConflict` when somebody else's commit is in the way, and
        `CommitUnknown` when the storage would not say whether the claim succeeded.
        """
        pending = Pending(transaction, base, self.versions, self.runtime, affected_rows=affected_rows, fresh=fresh)
        written = ""
        attempt = 0
        for attempt in self.patience.tries(self.runtime):
            # One by one, where writers can arrange that: in a crowd most attempts would be for nothing. There, to
            # check what the others did takes longer than the commit, so it is done while one waits.
            with self.versions.turns.one(pending.catch_up):
                newest, written = self._look(pending, base, written, fresh=fresh)
                if newest == base.version and not self.versions.has(base):
                    raise self._behind(transaction, newest, "the table was removed since, and made anew in its place")
                if earlier := pending.check_against(newest):
                    return Commit(earlier.load(), earlier.transaction, attempt)
                if unmoved and newest > transaction.read_version:
                    raise self._moved(transaction, newest)
                ready, manifest = pending.build()
                encoded, name = ready.encode(), manifest.header.transaction_file
                if name != written:
                    self._write_transaction(name, encoded, fresh=fresh)
                    written = name
                run = None
                if pending.run is not None:
                    ready, run = with_run(ready, manifest.version, pending.run)
                    encoded = encoded if run is None else ready.encode()
                if self._claim(manifest, ready, encoded):
                    self.versions.run = run
                    self.versions.announce(manifest.version)
                    return Commit(manifest, ready, attempt)
        raise self._outrun(transaction, pending.checked, attempt)

    def create(self, transaction: Transaction, empty: Manifest) -> Commit:
        """Make the first version of a table that does not exist; `AlreadyExists` if it does, or somebody was faster.

        That is version 1, built on a manifest that is `empty`; or it is that of a clone, built on its source.
        """
        with suppress(NotFound):
            newest = self.versions.newest()
            raise self._taken(newest)
        manifest, encoded = build(empty, transaction, runtime=self.runtime), transaction.encode()
        self._write_transaction(transaction.file_name, encoded, fresh=False)
        if not self._claim(manifest, transaction, encoded):
            raise self._taken(manifest.version)
        self.versions.announce(manifest.version)
        return Commit(manifest, transaction, 1)

    def _look(self, pending: Pending, base: Manifest, written: str, *, fresh: bool) -> tuple[int, str]:
        """The newest version, as far as it seems, and the name under which the transaction is written by then."""
        store, transaction = self.versions.store, pending.transaction
        known = max(pending.checked, base.version)
        if written or store.lists_in_one_request or type(transaction.operation) is not Append:
            return self.versions.presumed(known), written
        # Whatever others committed, an append stays as it is: where each request takes long, it need not wait for that.
        name, encoded = transaction.file_name, transaction.encode()
        write = partial(self._write_transaction, name, encoded, fresh=fresh)
        newest, _ = store.together(partial(self.versions.presumed, known), write)
        return newest, name

    def _write_transaction(self, name: str, encoded: bytes, *, fresh: bool) -> None:
        """The copy that stands beside the inline one. Older readers want it; nothing here depends on it."""
        store, path = self.versions.store, f"_transactions/{name}"
        try:
            # The name holds the transaction's uuid. One that was made just now nobody looks for before a manifest has
            # it. Another may have been committed before: what is there then must be whole, or this would leave it so.
            if fresh:
                store.put_own(path, encoded)
            else:
                store.put_if_absent(path, encoded, durable=False)
        except (AlreadyExists, CommitUnknown):
            pass  # if something is there already, it is ours

    def _claim(self, manifest: Manifest, transaction: Transaction, encoded: bytes) -> bool:
        """Try to make this manifest its version: `True` if it is, `False` if somebody else has that version.

        Raises `Unavailable` if nothing can have been written, `CommitUnknown` if something may have been.
        """
        data = file.encode(manifest, encoded)
        try:
            self.versions.claim(manifest.version, data)
        except AlreadyExists:
            return False
        except (CommitUnknown, Unavailable) as error:
            return self._claim_again(manifest.version, transaction, data, error)
        return True

    def _claim_again(self, version: int, transaction: Transaction, data: Data, failure: SeicheError) -> bool:
        """Find out whether this manifest is its version, after an unclear answer or none.

        Only a different manifest under the name says no. Absent does not: the put may still be on its way, so the
        identical bytes are put again, and whichever copy lands is this commit. Nor does "exists already", which may
        speak of the first copy: taken for a loss, a commit that happened would be reported as one that did not.
        """
        doubt = isinstance(failure, CommitUnknown)
        for _ in replace(self.patience, attempts=_SETTLING_ATTEMPTS).tries(self.runtime):
            try:
                if doubt:
                    with suppress(NotFound):
                        return self._settled(version, transaction)
                self.versions.claim(version, data)
                return True
            except AlreadyExists as error:
                if not doubt:
                    return False
                failure = error
            except CommitUnknown as error:
                doubt, failure = True, error
            except Unavailable as error:
                failure = error
            except SeicheError as error:
                failure = error
                break
        if not doubt:
            raise failure
        # Not that error itself: its remedy might be to do the work again, and it may have been done.
        raise self._unknown(version, transaction) from failure

    def _settled(self, version: int, transaction: Transaction) -> bool:
        """Whether the version that exists is ours; if so it lasts, which the unclear answer may have been about."""
        if self.versions.transaction(version).uuid != transaction.uuid:
            return False
        self.versions.store.flush([self.versions.path(version)])
        return True

    def _outrun(self, transaction: Transaction, newest: int, attempts: int) -> RetryableConflict:
        faster = f"in {attempts} attempts other writers were faster each time"
        return self._behind(transaction, newest, faster, attempts=attempts)

    def _moved(self, transaction: Transaction, newest: int) -> RetryableConflict:
        return self._behind(transaction, newest, "it depends on that, and others have committed since")

    def _behind(self, transaction: Transaction, newest: int, why: str, **details: Any) -> RetryableConflict:
        table = self.versions.store.uri
        return RetryableConflict(
            f"{table}: {transaction.operation.name} read version {transaction.read_version}; {why}, the latest version"
            f" is now {newest}.",
            table=table,
            operation=transaction.operation.name,
            read_version=transaction.read_version,
            version=newest,
            **details,
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
