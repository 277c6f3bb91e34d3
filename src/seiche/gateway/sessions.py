"""Transactions that clients choose by a header: what unmodified engines commit under it, through either protocol, is
seen by nobody else until the transaction is committed.

A session lives in this process, and is saved with the lake after each statement: another process, or the same one after
a crash, goes on with all of its statements or with none of them forgotten.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    ConflictError,
    InvalidInput,
    NotFound,
    RetryableConflict,
    SeicheError,
)
from seiche.lake import saved
from seiche.lake.commit.intent import Intent

if TYPE_CHECKING:
    from seiche.gateway.lance_namespace.families import SessionNamespace
    from seiche.lake.lake import Lake
    from seiche.lake.transacting import Status
    from seiche.lake.transaction import Transaction

__all__ = ["HEADER", "Session", "Sessions", "State"]

log = logging.getLogger("seiche.gateway")

HEADER = "x-seiche-transaction"

State = Literal["Running", "Succeeded", "Canceled"]

_IDLE = 3600.0
_MOST = 1000
# How many that are idle one call forgets: each may have to be written down, and somebody waits for that call.
_AT_ONCE = 4
# Before the key of a statement, in the properties of its transaction: with those it is saved.
_NOTE = "statement "
# The time at which those expire that met a conflict: before there was any.
_GIVEN_UP = 1


@dataclass
class Session:
    """A transaction under way, and the lock under which its statements come one after the other."""

    name: str
    transaction: "Transaction"
    used: float
    lock: RLock = field(default_factory=RLock)
    # It as it was saved last; `None` if it was not. Another server may have gone on with it since.
    saved: bytes | None = None
    # What clients of the Lance protocol see of it, which remembers what they were shown.
    namespace: "SessionNamespace | None" = None

    def note(self, key: str, what: str) -> None:
        """Remember, until the transaction ends, what was made part of it under a key."""
        self.transaction.properties[_NOTE + key] = what

    def noted(self, key: str) -> str | None:
        """What was made part of the transaction under a key, if anything was."""
        return self.transaction.properties.get(_NOTE + key)

    def drop_notes(self) -> None:
        """Nothing more can be said in it: the lake's own record of the transaction need not be full of keys."""
        for name in [one for one in self.transaction.properties if one.startswith(_NOTE)]:
            del self.transaction.properties[name]


class Sessions:
    """The transactions that clients of this process have begun. A name is used once, for ever."""

    def __init__(self, lake: "Lake", runtime: Runtime) -> None:
        self._lake = lake
        self._runtime = runtime
        self._lock = RLock()
        self._running: dict[str, Session] = {}

    @contextmanager
    def using(self, name: str, *, changes: bool) -> Iterator[Session]:
        """The session of this name, begun if it is new, for one call; saved afterwards if that `changes` anything."""
        with self._turn(name) as session:
            session.transaction.check_running()
            yield session
            if changes:
                try:
                    session.transaction.save()
                    session.saved = self._stored(name)
                except BaseException:
                    # Whoever is told so may believe that it did not happen, and a server that starts again would not
                    # know of it: so it is not known here, either.
                    self._end(name)
                    raise

    @contextmanager
    def _turn(self, name: str) -> Iterator[Session]:
        """The session of this name, for nobody else meanwhile.

        While others are waited for it may end, or lose what was not saved, and another server may have gone on with it:
        then it is looked for again.
        """
        while True:
            session = self._find(name)
            with session.lock:
                with self._lock:
                    is_current = self._running.get(name) is session
                if is_current and self._is_newest(session):
                    yield session
                    return
                if is_current:
                    self._end(name)

    def _is_newest(self, session: Session) -> bool:
        """Whether no other server has gone on with it, or ended it: what is said here would be lost."""
        decided = self._lake.status(session.transaction.id).outcome != "undecided"
        return not decided and session.saved == self._stored(session.name)

    def state(self, name: str) -> State:
        """What has become of a transaction, here or on another server; an error if there never was one."""
        outcome = self._lake.status(self._id(name)).outcome
        if outcome != "undecided":
            return "Succeeded" if outcome == "committed" else "Canceled"
        if self._is_given_up(name):
            return "Canceled"
        with self._lock:
            if name in self._running:
                return "Running"
        if self._saved(name) is None:
            raise NotFound(f"there is no transaction {name}", transaction=name)
        return "Running"

    def committed(self, name: str) -> "Status | None":
        """How a transaction of this name has been committed, if it has."""
        found = self._lake.status(self._id(name))
        return found if found.outcome == "committed" else None

    def commit(self, name: str) -> None:
        """Make everything visible at once. Told again after a lost answer, it is done once.

        A conflict ends the transaction: its statements have to be run again in a new one.
        """
        if self.state(name) == "Succeeded":
            return
        try:
            with self._turn(name) as session:
                self._commit(session)
        except InvalidInput:
            # Whoever asked before, and was waited for, has ended it.
            if self.state(name) != "Succeeded":
                raise

    def _commit(self, session: Session) -> None:
        session.drop_notes()
        try:
            session.transaction.commit()
        except CommitUnknown:
            # One look at what storage says now; if it says nothing it stays unknown, and can be asked again.
            if self._lake.status(session.transaction.id).outcome != "committed":
                raise
        except ConflictError:
            self._give_up(session.transaction)
            raise
        finally:
            self._end(session.name)

    def forget(self, name: str) -> None:
        """What has not been saved of a transaction under way. It goes on from there."""
        self._end(name)

    def cancel(self, name: str) -> None:
        """End the transaction; nothing of it happened, and nothing will."""
        with suppress(ConflictError):  # it is too old to be gone on with, and this can still be said for good
            if self.state(name) == "Succeeded":
                raise InvalidInput(f"the transaction {name} is committed", remedy="Change it back by a new one.")
        if self._lake.settle(self._id(name)).outcome == "committed":
            raise RetryableConflict(f"the transaction {name} was committed meanwhile.")
        self._end(name)

    def _give_up(self, transaction: "Transaction") -> None:
        """It is saved, and would be gone on with: what was said to be over must not happen later."""
        transaction.expires_at_millis = _GIVEN_UP
        try:
            saved.write(transaction, self._lake.store)
        except SeicheError as error:
            raise CommitUnknown(
                f"transaction {transaction.id} met a conflict, and is not ended: {error.message}",
                transaction_id=transaction.id,
            ) from error

    def _find(self, name: str) -> Session:
        with self._lock:
            self._forget_idle()
            session = self._running.get(name)
            if session is None:
                stored = self._stored(name)
                session = Session(name, self._begin(name), self._now(), saved=stored)
            # The one that was used last stands last.
            self._running.pop(name, None)
            self._running[name] = session
            session.used = self._now()
            return session

    def _begin(self, name: str) -> "Transaction":
        if len(name) > 200 or not name.isprintable():
            raise InvalidInput(f"{HEADER} has to be a name of at most 200 characters", remedy="Use a uuid.")
        if self._lake.status(self._id(name)).outcome != "undecided":
            raise InvalidInput(f"the transaction {name} has ended", remedy="Use a new name for a new transaction.")
        if self._is_given_up(name):
            raise RetryableConflict(
                f"the transaction {name} met a conflict, and has ended.",
                remedy="Nothing of it happened. Run its statements again under a new name.",
            )
        if len(self._running) >= _MOST and not self._forget(list(self._running.values()), most=1):
            raise RetryableConflict(f"{_MOST} transactions are under way.", remedy="Commit or cancel some.")
        return self._saved(name) or self._lake.transaction(key=_key(name))

    def _saved(self, name: str) -> "Transaction | None":
        try:
            return self._lake.resume(self._id(name))
        except NotFound:
            return None

    def _stored(self, name: str) -> bytes | None:
        try:
            return self._lake.store.get(saved.saved_path(self._id(name)))
        except NotFound:
            return None

    def _is_given_up(self, name: str) -> bool:
        """Whether it met a conflict: nobody can go on with what was saved of it."""
        try:
            return saved.read(self._lake.store, self._id(name)).expires_at_millis == _GIVEN_UP
        except NotFound:
            return False

    def _id(self, name: str) -> str:
        return str(Runtime.derived_uuid(UUID(self._lake.state().definition.id), _key(name)))

    def _end(self, name: str) -> None:
        with self._lock:
            self._running.pop(name, None)

    def _forget_idle(self) -> None:
        now = self._now()
        self._forget([one for one in self._running.values() if now - one.used > _IDLE], most=_AT_ONCE)

    def _forget(self, sessions: list[Session], most: int) -> int:
        """The first of them that nobody uses; returns how many that were.

        Out of memory only: whoever comes back goes on from what was saved, also who has only read, on the same version.
        """
        count = 0
        for session in sessions:
            if count == most:
                break
            if session.lock.acquire(blocking=False):
                try:
                    if session.saved is None:
                        self._note_begun(session.transaction)
                    self._end(session.name)
                    count += 1
                except SeicheError as error:
                    log.warning("transaction %s stays in memory: %s", session.name, error.message)
                    break
                finally:
                    session.lock.release()
        return count

    def _note_begun(self, transaction: "Transaction") -> None:
        """Save the transaction without statements, unless another server has gone on with it, which has said more."""
        begun = Intent(
            transaction.id,
            transaction.base,
            transaction.isolation,
            transaction.reads,
            properties=transaction.properties,
        )
        with suppress(AlreadyExists):
            data = saved.encode(begun, transaction.expires_at_millis).SerializeToString()
            self._lake.store.put_if_absent(saved.saved_path(transaction.id), data)

    def _now(self) -> float:
        return self._runtime.clock.monotonic()


def _key(name: str) -> str:
    return f"lance-session {name}"
