"""Transactions of a lake: begun, run, gone on with, decided, and asked about."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from inspect import iscoroutine, iscoroutinefunction, isgeneratorfunction
from math import inf
from typing import Any, Literal, TypeVar
from uuid import UUID

from seiche.core import given
from seiche.core.durations import LONGEST
from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import OUTLIVED, SPENT, InvalidInput, NotFound, RetryableConflict
from seiche.lake import saved
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.decided import check_not_done
from seiche.lake.commit.intent import Intent, check_fence
from seiche.lake.commit.tally import Tally
from seiche.lake.history.forgotten import forgotten_outcome
from seiche.lake.saved_pb2 import SavedTransaction
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.streams import StreamClaim
from seiche.lake.transaction import Transaction
from seiche.lake.tree.root import millis
from seiche.lake.tree.transactions import Isolation
from seiche.store.gate import Passage
from seiche.table.engines import engine
from seiche.table.given import patience

__all__ = ["Status", "TransactionVerbs"]

T = TypeVar("T")

# Well below the shortest sensible retention: a transaction that outlives it could only fail.
_LIFETIME = 24 * 3600.0
_FOR_EVER = float("inf")
# How often `run` tries, if it is not told, however long that takes: work of an hour is to be run again, too.
_RUNNING = Patience(attempts=10, timeout=inf)
# What takes so many seconds is slow, and is let through at a gate if it loses. Who is quicker takes turns.
_SLOW = 0.4


@dataclass(frozen=True, slots=True)
class Status:
    """What became of a transaction. `undecided` is not an answer for ever; `lake.settle` makes one."""

    transaction: str
    outcome: Literal["committed", "aborted", "undecided"]
    version: int | None = None


class TransactionVerbs(ABC):
    """`transaction`, `run`, `resume`, `status` and `settle`; and for those who decide transactions of others, `decide`
    and `decide_group`.
    """

    _committer: Committer
    _runtime: Runtime
    # The version that this handle stays at, if it is not live.
    _pinned: State | None
    # Whether what was run last was slow: then the next that is run may well be.
    _slow = False

    @property
    @abstractmethod
    def states(self) -> States:
        """All versions of the lake, to look things up in."""

    @abstractmethod
    def state(self) -> State:
        """The version this handle is at."""

    def transaction(
        self,
        isolation: Isolation = "snapshot",
        *,
        key: str | None = None,
        stream: str | None = None,
        epoch: int | None = None,
        owner: str = "",
        properties: Mapping[str, str] | None = None,
        lifetime: float = _LIFETIME,
        spark: Any = None,
    ) -> Transaction:
        """Begin a transaction on the latest version.

        With a `key`, it is applied at most once: whoever commits under the same key again gets the version that the
        first one made, and until then sees what that one saw, as long as it is kept. With a `stream` and an `epoch`, it
        is applied once for that epoch, whichever run (`owner`) it comes from.
        With a session of Spark, statements are executed by its workers, and `tx.read(table)` gives a data frame.
        """
        if isolation not in ("snapshot", "serializable"):
            raise InvalidInput(f"isolation {isolation!r} is unknown", remedy='Use "snapshot" or "serializable".')
        if (stream is None) != (epoch is None):
            raise InvalidInput("a stream needs an epoch, and an epoch a stream", remedy="Give `stream=` and `epoch=`.")
        if key is not None and not given.text(key, "the key of a transaction"):
            raise InvalidInput("the key of a transaction is empty", remedy="Give a key that means this work only.")
        seconds: object = lifetime
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < _FOR_EVER:
            raise given.wrong("lifetime", lifetime, "Give the seconds after which it may no more commit.")
        given.texts(properties, "properties", "Give texts by name.")
        claim = None if stream is None or epoch is None else StreamClaim(stream, epoch, owner)
        kind = Transaction if spark is None else engine("spark").transaction_class(spark)
        state = self.state() if key is None else self._before(self.state(), key)
        return self._begun(state, key, kind, lifetime, isolation=isolation, stream=claim, properties=properties)

    def transaction_on(self, state: State, key: str, properties: Mapping[str, str]) -> Transaction:
        """Begin a transaction on a version that was the latest a moment ago, for whoever has looked things up there.

        `key` and `properties` as for `transaction`.
        """
        return self._begun(state, key, Transaction, _LIFETIME, properties=properties)

    def _begun(
        self, state: State, key: str | None, kind: type[Transaction], lifetime: float, **options: Any
    ) -> Transaction:
        return kind(
            state,
            self._committer,
            self._runtime,
            transaction_id=str(self._runtime.ordered_uuid()) if key is None else self._id_of(key, state),
            expires_at_millis=millis(self._runtime.clock.now()) + int(min(lifetime, LONGEST.total_seconds()) * 1000),
            read_only=self._pinned is not None,
            **options,
        )

    def _id_of(self, key: str, state: State) -> str:
        return str(self._runtime.derived_uuid(UUID(state.definition.id), key))

    def _before(self, state: State, key: str) -> State:
        """The version that work under a key was committed on, if it was, or else this one.

        On a newer one a repetition that makes a table would find it there, and not get as far as its commit.
        """
        found = state.outcome(self._id_of(key, state))
        if found is None or found.outcome != "committed":
            return state
        try:
            return self.states.at(found.version - 1)
        except NotFound:  # it has expired
            return state

    def resume(self, transaction_id: str) -> Transaction:
        """Go on with a transaction that was saved, here or in another process, as it was when it was saved.

        Of one that somebody has committed, `commit` tells the version; `NotFound` does when its beginning has expired.
        `RetryableConflict` if it was not, and is too old.
        """
        message = saved.read(self.states.store, transaction_id)
        try:
            return self._resumed(message, self.states.at(message.base_version))
        except (NotFound, RetryableConflict):
            base = message.oldest_version if message.HasField("oldest_version") else message.base_version
            newest = self.states.latest()
            check_not_done(message.id, base, newest)
            check_fence(message.id, base, newest)
            raise

    def _resumed(self, message: SavedTransaction, state: State) -> Transaction:
        isolations: tuple[Isolation, ...] = ("snapshot", "serializable")
        transaction = Transaction(
            state,
            self._committer,
            self._runtime,
            transaction_id=message.id,
            isolation=isolations[message.isolation],
            stream=saved.claim(message),
            properties=dict(message.properties),
            expires_at_millis=message.expires_at_millis,
            read_only=self._pinned is not None,
        )
        saved.fill(transaction, message, state)
        return transaction

    def run(
        self, fn: Callable[[Transaction], T], *, attempts: int = 10, timeout: float | None = None, **options: Any
    ) -> T:
        """Run `fn(tx)` in a transaction and commit it, again on the latest version after each retryable conflict.

        It is tried `attempts` times, and after `timeout` seconds no more, if they are given. `fn` may be called several
        times, so it must not do anything outside of the transaction that cannot be repeated. Other errors are raised at
        once. `options` are those of `transaction`.
        """
        return self.run_versioned(fn, attempts=attempts, timeout=timeout, **options)[0]

    def run_versioned(
        self, fn: Callable[[Transaction], T], *, attempts: int = 10, timeout: float | None = None, **options: Any
    ) -> tuple[T, int]:
        """As `run`, with the version of the lake that it made."""
        if iscoroutinefunction(fn) or isgeneratorfunction(fn) or not callable(fn):
            raise _not_run(fn)
        conflict: RetryableConflict | None = None
        clock, took = self._runtime.clock, inf
        limits = patience(_RUNNING, attempts, timeout)
        with Passage(self._committer.states.store, self._runtime, timeout=limits.timeout) as passage:
            for number in limits.tries(self._runtime):
                if self._slow or options.get("spark") is not None:
                    passage.before(number)
                began = clock.monotonic()
                with self._committer.attempt(number, took):
                    transaction = self.transaction(**options)
                    try:
                        with transaction:
                            result = fn(transaction)
                            if iscoroutine(result):
                                result.close()
                                raise _not_run(fn)
                        return result, transaction.version or 0
                    except RetryableConflict as error:
                        self._check_retryable(error, transaction, options, clock.monotonic() - began)
                        conflict = error
                    finally:
                        took = clock.monotonic() - began
                        self._slow = took >= _SLOW
        if conflict is not None and (number > 1 or limits.attempts > 1):
            often = "once" if number == 1 else f"{number} times"
            conflict.message += f" It was tried {often}, and others were faster each time."
            limit = "attempts" if number == limits.attempts else "timeout"
            conflict.remedy += f" `{limit}=` allows more tries."
        raise conflict or InvalidInput("no attempt was allowed", remedy="Give `attempts=` of at least 1.")

    def _check_retryable(
        self, conflict: RetryableConflict, tx: Transaction, options: Mapping[str, Any], took: float
    ) -> None:
        """Raise the conflict if the same work, which took so long, would not be committed another time either."""
        reason = conflict.details.get("reason")
        # What takes longer than it may would do so again. Where only the clock jumped it does not.
        if reason == SPENT or (reason == OUTLIVED and took >= options.get("lifetime", _LIFETIME)):
            raise conflict
        if options.get("key") is not None and self.remembered(tx.id).outcome == "aborted":
            # Every attempt has the same id, which was decided against for good.
            conflict.remedy = "Nothing was written, nor will be under this key: run it under another `key=`."
            raise conflict

    def status(self, transaction_id: str) -> Status:
        """What became of a transaction. `undecided` may still change, unless `settle` decides it.

        So is one that was rolled back, or that changed nothing: it leaves nothing in the lake to tell by. One that had
        a `key` is forgotten when its version expires, and undecided again.
        """
        known = self.remembered(transaction_id)
        if known.outcome != "undecided":
            return known
        found = forgotten_outcome(self.states, known.transaction)
        return known if found is None else Status(known.transaction, found.outcome, found.version)

    def remembered(self, transaction_id: str) -> Status:
        """`status` as far as the tree goes, which forgets a transaction with its version: for who asks often, and for
        young ones. Where versions expire within a day, `status` of one that is undecided reads what is left of each.
        """
        known_as = _as_stored(transaction_id)
        found = self.states.latest().outcome(known_as)
        return Status(known_as, "undecided") if found is None else Status(known_as, found.outcome, found.version)

    def settle(self, transaction_id: str) -> Status:
        """Decide a transaction: if it is not committed by now, it never will be.

        Absence says nothing, since its root may be on the way; so the abort is written into a root of its own.
        """
        known_as = _as_stored(transaction_id)
        self.check_writable()
        if self.status(known_as).outcome == "undecided":
            self._committer.abort(known_as)
        return self.status(known_as)

    def decide(self, intent: Intent) -> int:
        """Commit what was put together by other means than a transaction; returns the version that it made."""
        self.check_writable()
        return self._committer.commit(intent).version or 0

    def first(self) -> AbstractContextManager[object]:
        """Others on this machine wait while the block runs, which has to be short: for work that others were quicker
        than before. A courtesy, as all turns; where storage is far it does nothing.
        """
        return self._committer.turns.held()

    def check_writable(self) -> None:
        """`InvalidInput` if this handle stays at a version: then nothing is changed through it."""
        if self._pinned is not None:
            raise InvalidInput(
                f"the lake was opened at version {self._pinned.version} and is read-only",
                remedy="Open it without a version to change it.",
            )

    @property
    def tally(self) -> Tally:
        """How much was committed through this handle, for whoever counts that."""
        return self._committer.tally

    def decide_group(
        self, intents: Sequence[Intent], decided: Callable[[list[Answer]], None] | None = None
    ) -> list[Answer]:
        """Decide several transactions with one root, each with an answer of its own; see `Committer.commit_group`."""
        return self._committer.commit_group(intents, decided)


def _not_run(fn: object) -> InvalidInput:
    """To call one that is `async`, or a generator, does nothing yet; what it does later would come after the commit."""
    remedy = "Give a function, one without `async` and `yield`: `lake.run(lambda tx: ...)`."
    return given.wrong("what is run in a transaction", fn, remedy)


def _as_stored(transaction_id: str) -> str:
    """A transaction's id as the lake knows it: a UUID can be written in several ways, and under another one a
    transaction that is committed would be told to be undecided, or aborted.

    `InvalidInput` for what can be no transaction's id: of such a one nothing would ever be decided.
    """
    remedy = "Give `tx.id`, a UUID; `lake.log()` has those of kept versions."
    try:
        return str(UUID(given.text(transaction_id, "the id of a transaction", remedy)))
    except ValueError as error:
        raise InvalidInput(f"{transaction_id!r} is not the id of a transaction", remedy=remedy) from error
