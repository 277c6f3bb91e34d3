"""A transaction: statements over any number of tables that happen together or not at all."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn, Self

from seiche.core.forked import renew_in_children
from seiche.core.runtime import Runtime
from seiche.errors import (
    OUTLIVED,
    CommitUnknown,
    ConflictError,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    RetryableConflict,
    SeicheError,
    Unavailable,
)
from seiche.lake.commit.committer import Committer
from seiche.lake.commit.decided import check_not_done, decided
from seiche.lake.commit.intent import Intent, check_fence
from seiche.lake.definitions import Definitions
from seiche.lake.federated.edit import explained
from seiche.lake.objects.names import parts
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.streams import StreamClaim
from seiche.lake.tree.transactions import Isolation

if TYPE_CHECKING:
    from seiche.lake.engines.lance_namespace import TransactionNamespace
    from seiche.lake.engines.pyiceberg_catalog import SeicheCatalog
    from seiche.lake.handles import TransactionTable

__all__ = ["Transaction"]

# What comes of files that are not there any more, also where PyIceberg tells it.
_LOST = (Corrupt, NotFound, Unavailable, FileNotFoundError)

_ELSEWHERE = "Save it with `tx.save()` and go on elsewhere with `lake.resume(id)`, or send the rows."

Status = Literal["running", "committed", "rolled back", "failed", "unknown"]


class Transaction(Definitions):
    """Statements that are visible to nobody else until `commit`, and then all at once.

    Reads see the version of the lake where the transaction began, and the transaction's own changes. An error in a
    statement leaves the transaction as it was before that statement; a failed commit ends it. As a context manager it
    commits at the end of the block, or rolls back if the block raises.
    """

    def __init__(
        self,
        state: State,
        committer: Committer,
        runtime: Runtime,
        *,
        transaction_id: str,
        isolation: Isolation = "snapshot",
        stream: StreamClaim | None = None,
        properties: Mapping[str, str] | None = None,
        expires_at_millis: int = 0,
        read_only: bool = False,
    ) -> None:
        """Use `lake.transaction()`."""
        super().__init__(transaction_id, state, runtime)
        self.isolation: Isolation = isolation
        self.status: Status = "running"
        self.version: int | None = None
        self.replayed = False
        # By their ids, the versions that the commit made of tables, as far as they are known.
        self.table_versions: Mapping[str, int] = {}
        self.stream = stream
        self.properties = dict(properties or {})
        self.expires_at_millis = expires_at_millis
        self._committer = committer
        self._read_only = read_only
        self._lance: TransactionNamespace | None = None
        self._entered = False
        self._inherited = False
        renew_in_children(self)

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a transaction stays in its process", remedy=_ELSEWHERE)

    def forked(self) -> None:
        """In a child it can be looked at. Its end is up to the process that began it: two that commit under one id
        would both hear that theirs is done, and only what the first one did would be.
        """
        self._inherited = True

    def _check_own(self) -> None:
        if self._inherited:
            raise InvalidInput(
                f"the transaction {self.id} was begun before this process was forked, and stays in the one that began"
                " it",
                remedy=_ELSEWHERE,
                transaction_id=self.id,
            )

    def table(self, name: str | Sequence[str]) -> "TransactionTable":
        """A table as this transaction sees it: read it, change it."""
        from seiche.lake.handles import TransactionTable

        self.check_running()
        row = self.named(parts(name)).row
        if row.format == "iceberg":
            from seiche.lake.iceberg.handles import IcebergTransactionTable

            return IcebergTransactionTable(self, row.id)
        if row.type != "managed":
            from seiche.lake.federated.tables import ForeignTable

            return ForeignTable(self, row.id)
        return TransactionTable(self, row.id)

    def namespace(self) -> "TransactionNamespace":
        """The lake as this transaction sees it, for pylance: what it commits there becomes part of the transaction."""
        from seiche.lake.engines.lance_namespace import TransactionNamespace

        self.check_running()
        if self._lance is None:
            self._lance = TransactionNamespace(self)
        return self._lance

    def iceberg_catalog(self) -> "SeicheCatalog":
        """The lake as this transaction sees it, for PyIceberg: what it commits there becomes part of the
        transaction.
        """
        import seiche.lake.iceberg  # noqa: F401 - says so if PyIceberg is not installed
        from seiche.lake.engines.pyiceberg_catalog import SeicheCatalog

        self.check_running()
        return SeicheCatalog.inside(self)

    def commit(self) -> int:
        """Make everything visible at once; returns the version of the lake that does so.

        Raises `RetryableConflict` or `IncompatibleConflict` if others were faster with something that leaves no room
        for this, and `CommitUnknown` if the storage would not say; `lake.status(tx.id)` tells later. The transaction
        ends in any case. If nothing was changed, no version is made and the one that was read is returned.
        """
        self._check_own()
        with self.lock:
            self.check_running()
            try:
                intent = self._asked()
            except SeicheError as error:
                self._fail(error)
                raise
            if intent is None:
                self.status, self.version = "committed", self.base
                return self.base
            # Until there is an answer: whatever interrupts the commit may come after the root.
            self.status = "unknown"
        try:
            answer = self._committer.commit(intent)
        except CommitUnknown:
            raise
        except SeicheError as error:
            self.status = "failed"
            if isinstance(error, ConflictError):
                # Whoever runs it again may name the same files: what is read only once was read for them.
                self._committer.write(intent.unwritten)
            self._fail(error)
            raise
        self.status, self.version, self.replayed = "committed", answer.version, answer.replayed
        self.table_versions = answer.tables
        return answer.version or 0

    def _fail(self, error: SeicheError) -> None:
        """The transaction ends here. Raises what says more than the error does, if there is more to say."""
        self.status = "failed"
        told = explained(error, self.edits.values(), self.id) if isinstance(error, ConflictError) else error
        if told is not error:
            raise told from error

    def save(self) -> str:
        """Put the transaction into storage as it is now, so that another process can go on with it; returns its id.

        `lake.resume(id)` continues it. What happens here afterwards is not part of what was saved.
        """
        from seiche.lake import saved

        self._check_own()
        self.check_running()
        for edit in self.edits.values():
            if edit.is_planned_last and edit.worked:
                raise InvalidInput(
                    f"the transaction changes {edit.name}, a federated table, and cannot be saved",
                    remedy="Commit it in the process that began it.",
                )
        self.late.write()
        try:
            self.state.store.flush(self.unflushed)
        except NotFound as error:
            self.check_overtaken(error)
            raise
        self.unflushed.clear()
        saved.write(self, self.state.store)
        return self.id

    def rollback(self) -> None:
        """End the transaction; nothing of it happened."""
        self.check_running()
        self.status = "rolled back"

    def _asked(self) -> Intent | None:
        """`intent`, of a transaction that may be committed."""
        intent = self.intent()
        if intent is not None and self._read_only:
            raise InvalidInput(
                f"the lake was opened at version {self.base} and is read-only",
                remedy="Open it without a version to change it.",
            )
        return intent

    def intent(self) -> Intent | None:
        """What the transaction asks for, as a value; `None` if it asks for nothing."""
        edits = {table_id: edit for table_id, edit in self.edits.items() if edit.changed}
        written = {key: edit for key, edit in self.rows.items() if edit.found != edit.wanted}
        if not edits and not written and self.stream is None:
            return None
        if self.expires_at_millis and self.now_millis() > self.expires_at_millis and not self._is_decided():
            raise RetryableConflict(
                f"transaction {self.id} is older than transactions may become.",
                remedy="Nothing was written. Run it again; `lake.transaction(lifetime=...)` allows more time.",
                transaction_id=self.id,
                reason=OUTLIVED,
            )
        left = self.late.left()
        return Intent(
            id=self.id,
            base=min(self.base, self.oldest),
            isolation=self.isolation,
            reads=self.reads,
            edits=edits,
            rows=written,
            stream=self.stream,
            properties=self.properties,
            unflushed=tuple(self.unflushed),
            unwritten=left,
            seen=self.base,
        )

    def _is_decided(self) -> bool:
        """Whether it was saved, and somebody else has gone on with it to the end; or done before under its key."""
        return decided(self.id, min(self.base, self.oldest), self._committer.states.latest()) is not None

    def __enter__(self) -> Self:
        self.check_running()
        if self._entered:
            raise InvalidInput(
                f"the transaction {self.id} has a block already, at whose end it commits",
                remedy="Give statements to it there, or begin another one with `lake.transaction()`.",
                transaction_id=self.id,
            )
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status != "running":
            return
        if kind is None:
            self.commit()
            return
        self.rollback()
        if isinstance(error, _LOST) and not self._read_only:
            self.check_overtaken(error)

    def check_overtaken(self, error: Exception) -> None:
        """`RetryableConflict` if a clean-up has come since the transaction began, and explains what failed; `NotFound`
        if somebody else had committed the transaction by then.
        """
        try:
            newest = self._committer.states.latest()
        except SeicheError:
            return  # the error itself says more
        base = min(self.base, self.oldest)
        try:
            if base < newest.root.min_base:
                check_not_done(self.id, base, newest)
            check_fence(self.id, base, newest)
        except (NotFound, RetryableConflict) as overtaken:
            raise overtaken from error

    def __repr__(self) -> str:
        return f"<transaction {self.id}: {self.status}, began at version {self.base}, {self.isolation}>"

    def publish(self, row: TableRow) -> bool:
        """See to it that the table's version has its plain name; `False` if that was not possible.

        For reading it does not matter: not to those who may only read, nor if something foreign has taken the name.
        """
        try:
            self._committer.publisher.check(row, self.state.manifests)
        except (Corrupt, PermissionDenied, Unavailable):
            return False
        return True

    def check_running(self) -> None:
        """`InvalidInput` if the transaction has ended."""
        if self.status != "running":
            raise InvalidInput(
                f"the transaction {self.id} has ended: {self.status}",
                remedy="Begin a new one with `lake.transaction()`.",
                transaction_id=self.id,
            )
