"""The class a user of a lake holds."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from uuid import UUID

from seiche.core.durations import Duration
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, RetryableConflict
from seiche.lake import saved
from seiche.lake.adopt import Adopted, adopt
from seiche.lake.care.leases import Hold
from seiche.lake.care.verbs import CareVerbs
from seiche.lake.commit import Answer, Committer
from seiche.lake.handles import LakeTable
from seiche.lake.history_verbs import HistoryVerbs
from seiche.lake.intent import Intent
from seiche.lake.objects.names import Name, parts
from seiche.lake.publish import Publisher
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.streams import StreamClaim
from seiche.lake.tags import version_of
from seiche.lake.transaction import Transaction
from seiche.lake.tree.create import create_lake
from seiche.lake.tree.root import millis
from seiche.lake.tree.transactions import Isolation
from seiche.store import open_store
from seiche.store.base import Store
from seiche.table.engines import engine

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.engines.lance_namespace import LakeNamespace
    from seiche.lake.engines.pyiceberg_catalog import SeicheCatalog

__all__ = ["Lake", "Status", "create", "open_lake"]

T = TypeVar("T")

# Well below the shortest sensible retention: a transaction that outlives it could only fail.
_LIFETIME = 24 * 3600.0
_COMMITTING = Patience(attempts=200, timeout=120.0)


@dataclass(frozen=True, slots=True)
class Status:
    """What became of a transaction. `undecided` is not an answer for ever; `lake.settle` makes one."""

    transaction: str
    outcome: Literal["committed", "aborted", "undecided"]
    version: int | None = None


class Lake(HistoryVerbs, CareVerbs):
    """A lake: any number of tables that change together.

    Opened without a version it is live: every call and every transaction starts from the latest version. Opened at a
    version or time it stays there and is read-only.
    """

    def __init__(self, states: States, *, pinned: State | None = None, lease: Duration | None = None) -> None:
        """Use `seiche.create` or `seiche.open`."""
        self._states = states
        self._pinned = pinned
        self._hold = None if pinned is None else Hold(states, pinned.version, lease)
        self._runtime = states.runtime
        self._committer = Committer(states, Publisher(states.store, states.runtime), states.runtime, _COMMITTING)

    @property
    def uri(self) -> str:
        return self._states.store.uri

    @property
    def store(self) -> Store:
        """The storage of the lake, rooted at it."""
        return self._states.store

    @property
    def states(self) -> States:
        """All versions of the lake, to look things up in."""
        return self._states

    @property
    def version(self) -> int:
        """The version this handle is at: the latest if it is live."""
        return self.state().version

    def state(self) -> State:
        """The version this handle is at, to look things up in."""
        return self._pinned or self._states.latest()

    def reading(self) -> AbstractContextManager[None]:
        """Around whatever reads: a version that this handle stays at is held, or known to have expired."""
        return nullcontext() if self._hold is None else self._hold.reading()

    def close(self) -> None:
        """Give up the lease on the version that this handle stays at, if it has one."""
        if self._hold is not None:
            self._hold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        at: State | None = None,
    ) -> Transaction:
        """Begin a transaction on the latest version, or `at` one that was the latest a moment ago.

        With a `key`, it is applied at most once: whoever commits under the same key again gets the version that the
        first one made. With a `stream` and an `epoch`, likewise for that epoch, whichever run (`owner`) it comes from.
        With a session of Spark, statements are executed by its workers, and `tx.read(table)` gives a data frame.
        """
        if isolation not in ("snapshot", "serializable"):
            raise InvalidInput(f"isolation {isolation!r} is unknown", remedy='Use "snapshot" or "serializable".')
        if (stream is None) != (epoch is None):
            raise InvalidInput("a stream needs an epoch, and an epoch a stream", remedy="Give `stream=` and `epoch=`.")
        if key is not None and not key:
            raise InvalidInput("the key of a transaction is empty", remedy="Give a key that means this work only.")
        claim = None if stream is None or epoch is None else StreamClaim(stream, epoch, owner)
        state = at or self.state()
        identity = (
            self._runtime.ordered_uuid() if key is None else self._runtime.derived_uuid(UUID(state.definition.id), key)
        )
        kind = Transaction if spark is None else engine("spark").transaction_class(spark)
        begun: Transaction = kind(
            state,
            self._committer,
            self._runtime,
            transaction_id=str(identity),
            isolation=isolation,
            stream=claim,
            properties=properties,
            expires_at_millis=millis(self._runtime.clock.now()) + int(lifetime * 1000),
            read_only=self._pinned is not None,
        )
        return begun

    def spark(self, session: Any) -> Any:
        """The lake with a session of Spark (a `seiche.spark.SparkLake`): its workers do what is asked for."""
        return engine("spark").lake(self, session)

    def resume(self, transaction_id: str) -> Transaction:
        """Go on with a transaction that was saved, here or in another process, as it was when it was saved."""
        message = saved.read(self.store, transaction_id)
        state = self._states.at(message.base_version)
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
        )
        saved.fill(transaction, message, state)
        return transaction

    def run(
        self, fn: Callable[[Transaction], T], *, attempts: int = 10, timeout: float | None = None, **options: Any
    ) -> T:
        """Run `fn(tx)` in a transaction and commit it, again on the latest version after each retryable conflict.

        `fn` may be called several times, so it must not do anything outside of the transaction that cannot be repeated.
        Other errors are raised at once. `options` are those of `transaction`.
        """
        return self.run_versioned(fn, attempts=attempts, timeout=timeout, **options)[0]

    def run_versioned(
        self, fn: Callable[[Transaction], T], *, attempts: int = 10, timeout: float | None = None, **options: Any
    ) -> tuple[T, int]:
        """As `run`, with the version of the lake that it made."""
        patience = Patience(attempts=attempts, timeout=120.0 if timeout is None else timeout)
        conflict: RetryableConflict | None = None
        for _ in patience.tries(self._runtime):
            transaction = self.transaction(**options)
            try:
                with transaction:
                    result = fn(transaction)
            except RetryableConflict as error:
                conflict = error
            else:
                return result, transaction.version or 0
        if conflict is None:
            raise InvalidInput(f"{attempts} attempts are none", remedy="Allow at least one.")
        raise conflict

    def table(self, name: str | Sequence[str]) -> LakeTable:
        """A table; `NotFound` if there is none of this name."""
        full = parts(name, what="table")
        with self.reading():
            row = self.state().table(full)
        if row.format == "iceberg":
            from seiche.lake.iceberg.foreign import ForeignIcebergTable
            from seiche.lake.iceberg.handles import IcebergLakeTable

            return (IcebergLakeTable if row.type == "managed" else ForeignIcebergTable)(self, full)
        if row.type != "managed":
            from seiche.lake.federated import ForeignLakeTable

            return ForeignLakeTable(self, full)
        return LakeTable(self, full)

    def namespace(self, *, branches: bool = False) -> "LakeNamespace":
        """The lake for pylance: `lance.dataset(namespace_client=lake.namespace(), table_id=["shop", "orders"])`.

        `lake.table(name).to_lance()` gives the better handle: it follows when others commit. With `branches` it is the
        namespace that `seiche serve` hands out: pylance's own branches, tags and rebase work, and what it writes lies
        beside the table until it is committed, when it is copied in.
        """
        from seiche.lake.engines.lance_namespace import LakeNamespace

        if branches:
            made: LakeNamespace = engine("server").namespace(self)
            return made
        return LakeNamespace(self)

    def iceberg_catalog(self) -> "SeicheCatalog":
        """The lake for PyIceberg: its Iceberg tables, each commit a transaction of its own."""
        import seiche.lake.iceberg  # noqa: F401 - says so if PyIceberg is not installed
        from seiche.lake.engines.pyiceberg_catalog import SeicheCatalog

        return SeicheCatalog.over(self)

    def namespaces(self, inside: str | Sequence[str] = ()) -> list[Name]:
        """The namespaces directly in another one, or the outermost ones."""
        with self.reading():
            return self.transaction().namespaces(inside)

    def tables(self, namespace: str | Sequence[str] | None = None) -> list[Name]:
        """The tables and views directly in a namespace, or all that there are."""
        with self.reading():
            return self.transaction().tables(namespace)

    def create_namespace(self, name: str | Sequence[str], properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace; the one around it must exist."""
        self.run(lambda tx: tx.create_namespace(name, properties))

    def drop_namespace(self, name: str | Sequence[str]) -> None:
        """Remove an empty namespace."""
        self.run(lambda tx: tx.drop_namespace(name))

    def create_table(self, name: str | Sequence[str], schema: "pa.Schema", **options: Any) -> LakeTable:
        """Make an empty table; `options` as for `tx.create_table`."""
        self.run(lambda tx: tx.create_table(name, schema, **options))
        return self.table(name)

    def register_table(self, name: str | Sequence[str], location: str, **options: Any) -> LakeTable:
        """Give a table that lies elsewhere a name in the lake; `options` as for `tx.register_table`."""
        self.run(lambda tx: tx.register_table(name, location, **options))
        return self.table(name)

    def release(self, name: str, *, drop: bool = False) -> str:
        """Give a Lance table of the lake back to plain writers; returns its address, which stays.

        From then on the lake knows it as a federated table, or with `drop` not at all. Nothing of it is ever cleared
        away by the lake. Versions of the lake from before need its files, too: who cleans the table up makes them
        unreadable. Interrupted, it can be run again.
        """
        from seiche.lake.federated_release import release

        return release(self, name, drop=drop)

    def drop_table(self, name: str | Sequence[str]) -> None:
        """Remove a table; its files stay as long as a kept version needs them."""
        self.run(lambda tx: tx.drop_table(name))

    def rename_table(self, name: str | Sequence[str], to: str | Sequence[str]) -> None:
        """Give a table another name."""
        self.run(lambda tx: tx.rename_table(name, to))

    def status(self, transaction_id: str) -> Status:
        """What became of a transaction. `undecided` may still change, unless `settle` decides it."""
        found = self._states.latest().outcome(transaction_id)
        if found is None:
            return Status(transaction_id, "undecided")
        return Status(transaction_id, found.outcome, found.version)

    def settle(self, transaction_id: str) -> Status:
        """Decide a transaction: if it is not committed by now, it never will be.

        Absence says nothing, since its root may be on the way; so the abort is written into a root of its own.
        """
        try:
            UUID(transaction_id)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"{transaction_id!r} is not the id of a transaction", remedy="Give `tx.id`, a UUID."
            ) from error
        self._committer.abort(transaction_id)
        return self.status(transaction_id)

    def decide(self, intent: Intent) -> int:
        """Commit what was put together by other means than a transaction; returns the version that it made."""
        if self._pinned is not None:
            raise InvalidInput(
                f"the lake was opened at version {self._pinned.version} and is read-only",
                remedy="Open it without a version to change it.",
            )
        return self._committer.commit(intent).version or 0

    def decide_group(
        self, intents: Sequence[Intent], decided: Callable[[list[Answer]], None] | None = None
    ) -> list[Answer]:
        """Decide several transactions with one root, each with an answer of its own; see `Committer.commit_group`."""
        return self._committer.commit_group(intents, decided)

    def adopt(self, name: str) -> list[Adopted]:
        """Bring in what somebody committed to a table's directory past the lake; see `seiche.lake.adopt`."""
        return adopt(self, name)

    def __repr__(self) -> str:
        pinned = f" at version {self._pinned.version}" if self._pinned else ""
        return f"Lake({self.uri!r}{pinned})"


def create(
    uri: str | Store, *, runtime: Runtime = SYSTEM, settings: Mapping[str, Any] | None = None, **options: Any
) -> Lake:
    """Make an empty lake and publish its version 0; `AlreadyExists` if there is one."""
    store = _trusted(uri, runtime, options)
    create_lake(store, runtime=runtime, **(settings or {}))
    return Lake(States(store, runtime))


def open_lake(
    uri: str | Store,
    version: int | str | None = None,
    *,
    as_of: datetime | None = None,
    lease: Duration | None = None,
    runtime: Runtime = SYSTEM,
    **options: Any,
) -> Lake:
    """The lake at `uri`: live, or pinned and read-only at a version (a number, a tag or an export) or at the time
    `as_of`.

    With a `lease` the version does not expire while the handle is used, and for that long after; `close` gives it free.
    `NotFound` if the version has expired.
    """
    store = uri if isinstance(uri, Store) else open_store(uri, runtime=runtime, **options)
    states = States(store, runtime)
    states.latest()
    if version is not None and as_of is not None:
        raise InvalidInput("say either which version or what time", remedy="Give `version=` or `as_of=`, not both.")
    given: object = as_of
    if given is not None and not isinstance(given, datetime):
        raise InvalidInput(
            f"as_of={as_of!r} is not a time", remedy="Give an aware datetime; a tag is given as `version=`."
        )
    point = version if as_of is None else as_of
    if point is None:
        if lease is not None:
            raise InvalidInput("the newest version never expires", remedy="Give `version=` or `as_of=` with `lease=`.")
        return Lake(states)
    return Lake(states, pinned=states.at(version_of(states, point)), lease=lease)


def _trusted(uri: str | Store, runtime: Runtime, options: Mapping[str, Any]) -> Store:
    """The store, after making sure that of two writers of one name only one wins there."""
    if isinstance(uri, Store):
        return uri
    from seiche.store import probe

    store = open_store(uri, runtime=runtime, **options)
    if not store.lists_in_one_request:
        probe(store, quick=True).require()
    return store
