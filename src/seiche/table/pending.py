"""A transaction on its way to being committed: what it has been checked against, and what it would make."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.table.bases import deletion_files
from seiche.table.build import build, settled
from seiche.table.conflicts import always_compatible
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field
from seiche.table.held_manifests import HeldManifests
from seiche.table.operations import Append
from seiche.table.rebase import Committed, TransactionRebase
from seiche.table.resubmission import check_same
from seiche.table.runs import attested, following, without_run
from seiche.table.transaction import Transaction, plain_operation
from seiche.table.versions.base import Versions

__all__ = ["Pending"]

# So few newer versions are simply read.
_WORTH_ASKING = 2


class Pending:
    """One transaction, rebased step by step over what others commit. Whoever decides versions asks it for the next
    one.
    """

    def __init__(
        self,
        transaction: Transaction,
        base: Manifest,
        versions: Versions,
        runtime: Runtime,
        *,
        affected_rows: Mapping[int, BitMap] | None = None,
        table: str = "",
        fresh: bool = False,
    ) -> None:
        """`base` is a manifest the caller holds, preferably of the version that the transaction read: it saves
        reads. A `fresh` transaction is one that nobody can have committed yet.
        """
        if transaction.properties:
            transaction = without_run(transaction)
        self.transaction = transaction
        self.checked = transaction.read_version
        # What is known of the versions up to the one that was checked last.
        self.run = versions.run if versions.run is not None and versions.run.last == self.checked else None
        self._versions = versions
        # Runs of appends are passed over where they do not matter, and where nobody has to be found among them.
        self._passes_runs = fresh and always_compatible(type(transaction.operation), Append)
        self._last_read: tuple[int, pb.Transaction] | None = None
        self._runtime = runtime
        self._given_name = table
        self._base = base
        self._held = HeldManifests(versions, base, transaction.read_version)
        # An append with nothing else to it is the same wherever it is built: most are never rebased.
        plain = type(transaction.operation) is Append and not transaction.properties and not affected_rows
        self._rebase = None if plain else self._begin(affected_rows)

    def check_against(self, newest: int) -> Committed | None:
        """Check everything committed up to version `newest`, in order; a conflict is raised.

        Returns what was committed if one of it is this very transaction: an earlier attempt whose answer was lost.
        """
        if newest < self.checked:
            raise self._from_the_future(newest)
        return self._check(newest, built_upon=newest) if newest > self.checked else None

    def catch_up(self) -> None:
        """Check what is committed by now, without the intention to build upon it. Only saves time later.

        Does nothing where the newest version alone will tell all, until it has not.
        """
        if self._passes_runs:
            return
        newest = self._versions.newest(max(self.checked, self._base.version))
        if newest > self.checked:
            self._check(newest, built_upon=0)

    def _check(self, newest: int, *, built_upon: int) -> Committed | None:
        ours = type(self.transaction.operation)
        if self._passes_runs and newest > self.checked + _WORTH_ASKING:
            self._pass_run(newest, built_upon)
        for version, message in self._newer(newest, built_upon):
            if message.uuid == self.transaction.uuid:
                committed = self._committed(version, message)
                check_same(self.transaction, committed.transaction, version)
                return committed
            # In a crowd nearly all are: what they hold is then not looked at.
            theirs = plain_operation(message)
            if theirs is None or not always_compatible(ours, theirs):
                self._rebase = (self._rebase or self._begin(None)).against(self._committed(version, message))
            self.run = following(self.run, version, message, theirs)
            self.checked = version
        return None

    def _pass_run(self, newest: int, built_upon: int) -> None:
        """If whoever made the newest version says that all since the last one checked are appends, only that one is
        left to check.
        """
        message = self._message(newest, built_upon)
        if 0 < attested(message, newest) <= self.checked + 1:
            self.checked = newest - 1
        else:
            self._passes_runs = False
        self._last_read = newest, message

    def build(self, latest: Manifest | None = None, *, managed: bool = False) -> tuple[Transaction, Manifest]:
        """The transaction as rebased over everything checked, and the version that it makes after that.

        `latest` is what it is built on, if that is not the last version checked but one that is not committed yet: a
        step of the same work, which may have made the very columns that this one is about.
        """
        # On the version that was read, its schema is that of the version itself.
        moved = latest is None and self.checked != self.transaction.read_version
        read_schema = self._read_schema if moved else None
        if latest is None:
            latest = self._held.at(self.checked)
        ready = self._ready(latest)
        made = build(latest, ready, runtime=self._runtime, load=self._held.at, read_schema=read_schema, managed=managed)
        return ready, made

    def _ready(self, latest: Manifest) -> Transaction:
        if self._rebase is None:
            return self.transaction
        if type(self.transaction.operation) is Append:  # the same wherever it is built
            return self._rebase.transaction
        deletions = deletion_files(self._base, self._versions.store, self._runtime)
        return settled(latest, self._rebase.finish(latest, deletions))

    @property
    def _table(self) -> str:
        return self._given_name or self._versions.store.uri

    def _begin(self, affected_rows: Mapping[int, BitMap] | None) -> TransactionRebase:
        return TransactionRebase.begin(
            self.transaction, read_manifest=self._held.at_read_version, affected_rows=affected_rows, table=self._table
        )

    def _committed(self, version: int, message: pb.Transaction) -> Committed:
        return Committed(version, Transaction.from_proto(message), partial(self._held.at, version))

    def _newer(self, newest: int, built_upon: int) -> Iterator[tuple[int, pb.Transaction]]:
        versions, read = range(self.checked + 1, newest + 1), partial(self._message, built_upon=built_upon)
        if self._versions.store.lists_in_one_request:
            return zip(versions, map(read, versions), strict=True)
        return zip(versions, self._versions.store.in_parallel(read, versions), strict=True)

    def _message(self, version: int, built_upon: int) -> pb.Transaction:
        if self._last_read is not None and self._last_read[0] == version:
            return self._last_read[1]
        try:
            if version == built_upon:
                return self._held.message_of_latest(version)
            return self._versions.message(version)
        except NotFound as error:
            raise Corrupt(
                f"{self._table}: version {version} is missing although a later one exists.",
                remedy="What it changed cannot be known. Open the table anew and run the operation again.",
                table=self._table,
                version=version,
            ) from error

    def _read_schema(self) -> Sequence[Field]:
        return self._held.at_read_version().header.fields

    def _from_the_future(self, newest: int) -> InvalidInput:
        return InvalidInput(
            f"{self._table}: the transaction says that it read version {self.checked}, but the latest is {newest}.",
            remedy="Give the version that the operation was built from.",
            table=self._table,
            read_version=self.checked,
            version=newest,
        )
