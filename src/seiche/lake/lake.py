"""The class a user of a lake holds."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from seiche.core.durations import Duration
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.lake.adopt import Adopted, adopt
from seiche.lake.care.leases import Hold
from seiche.lake.care.verbs import CareVerbs
from seiche.lake.commit.committer import Committer
from seiche.lake.definition_verbs import DefinitionVerbs
from seiche.lake.handles import LakeTable
from seiche.lake.history.tags import version_of
from seiche.lake.history.verbs import HistoryVerbs
from seiche.lake.objects.names import Name, parts
from seiche.lake.objects.rows import TableRow
from seiche.lake.publish import Publisher
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.transacting import TransactionVerbs
from seiche.lake.tree.create import create_lake, known_settings
from seiche.store import open_store
from seiche.store.base import Store
from seiche.store.paths import check_new_place
from seiche.table.engines import engine

if TYPE_CHECKING:
    from seiche.lake.engines.lance_namespace import LakeNamespace
    from seiche.lake.engines.pyiceberg_catalog import SeicheCatalog

__all__ = ["Lake", "create", "open_lake"]

_COMMITTING = Patience(attempts=200, timeout=120.0)


class Lake(TransactionVerbs, DefinitionVerbs, HistoryVerbs, CareVerbs):
    """A lake: any number of tables that change together.

    Opened without a version it is live: every call and every transaction starts from the latest version. Opened at a
    version or time it stays there and is read-only.

    ```python
    lake = seiche.create("memory://a-lake")
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", pa.schema([("id", pa.int64()), ("total", pa.float64())]))
    orders.append([{"id": 1, "total": 9.5}])
    with lake.transaction() as tx:
        tx.append("shop.orders", [{"id": 2, "total": 3.0}])
        tx.delete("shop.orders", "id = 1")
    assert lake.table("shop.orders").to_arrow(columns=["id"]).to_pylist() == [{"id": 2}]
    assert [one.version for one in lake.log(limit=2)] == [4, 3]
    ```
    """

    def __init__(self, states: States, *, pinned: State | None = None, lease: Duration | None = None) -> None:
        """Use `seiche.create` or `seiche.open`."""
        self._states = states
        self._pinned = pinned
        self._hold = None if pinned is None else Hold(states, pinned.version, lease)
        self._runtime = states.runtime
        self._committer = Committer(states, Publisher(states.store, states.runtime), states.runtime, _COMMITTING)

    def __reduce__(self) -> tuple[Any, ...]:
        lease = None if self._hold is None or self._hold.lease is None else self._hold.lease.lasting
        return _again, (self._states, None if self._pinned is None else self._pinned.version, lease)

    @property
    def uri(self) -> str:
        """Where the lake is."""
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

    def spark(self, session: Any) -> Any:
        """The lake with a session of Spark (a `seiche.spark.SparkLake`): its workers do what is asked for."""
        return engine("spark").lake(self, session)

    def table(self, name: str | Sequence[str]) -> LakeTable:
        """A table; `NotFound` if there is none of this name."""
        full = parts(name, what="table")
        with self.reading():
            return self.handle(full, self.state().table(full))

    def handle(self, full: Name, row: TableRow) -> LakeTable:
        """The table of this name, of which it is known what it is."""
        if row.format == "iceberg":
            from seiche.lake.iceberg.foreign.tables import ForeignIcebergTable
            from seiche.lake.iceberg.handles import IcebergLakeTable

            return (IcebergLakeTable if row.type == "managed" else ForeignIcebergTable)(self, full)
        if row.type != "managed":
            from seiche.lake.federated.tables import ForeignLakeTable

            return ForeignLakeTable(self, full)
        return LakeTable(self, full)

    def namespace(self, *, branches: bool = False) -> "LakeNamespace":
        """The lake for pylance: `lance.dataset(namespace_client=lake.namespace(), table_id=["shop", "orders"])`.

        `lake.table(name).to_lance()` gives the better handle: what it commits goes together with what others committed
        meanwhile, or is run again. With `branches` it is the namespace that `seiche serve` hands out: pylance's own
        branches, tags and rebase work, and what it writes lies beside the table until it is committed, when it is
        copied in.
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

    def release(self, name: str | Sequence[str], *, drop: bool = False) -> str:
        """Give a Lance table of the lake back to plain writers; returns its address, which stays.

        From then on the lake knows it as a federated table, or with `drop` not at all. Nothing of it is ever cleared
        away by the lake. Versions of the lake from before need its files, too: who cleans the table up makes them
        unreadable. Interrupted, it can be run again.
        """
        from seiche.lake.federated.release import release

        return release(self, name, drop=drop)

    def adopt(self, name: str | Sequence[str]) -> list[Adopted]:
        """Bring in what somebody committed to a table's directory past the lake; see `seiche.lake.adopt`."""
        return adopt(self, name)

    def __repr__(self) -> str:
        pinned = f" at version {self._pinned.version}" if self._pinned else ""
        return f"Lake({self.uri!r}{pinned})"


def create(
    uri: str | PathLike[str] | Store,
    *,
    runtime: Runtime = SYSTEM,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Lake:
    """Make an empty lake and publish its version 0; `AlreadyExists` if there is one.

    On a remote store it is first made sure that of two writers only one can win there. `settings` are the fields of a
    lake's definition, such as how long versions are kept; `options` are those of the storage.

    ```python
    lake = seiche.create("new-lake", settings={"minimum_versions_to_keep": 10})
    assert lake.version == 0
    ```
    """
    store = _trusted(uri, runtime, options)
    check_new_place(store.native_uri())
    create_lake(store, runtime=runtime, **known_settings(settings))
    return Lake(States(store, runtime))


def open_lake(
    uri: str | PathLike[str] | Store,
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

    ```python
    seiche.create("some-lake").tag("empty")
    lake = seiche.open("some-lake")
    with seiche.open("some-lake", version="empty", lease="1h") as before:
        assert before.namespaces() == []
    ```
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


def _again(states: States, version: int | None, lease: Duration | None) -> Lake:
    """A handle that was pickled: on the same lake, or on the same version of it, with a lease of its own."""
    return Lake(states) if version is None else Lake(states, pinned=states.at(version), lease=lease)


def _trusted(uri: str | PathLike[str] | Store, runtime: Runtime, options: Mapping[str, Any]) -> Store:
    """The store, after making sure that of two writers of one name only one wins there."""
    if isinstance(uri, Store):
        return uri
    from seiche.store import probe

    store = open_store(uri, runtime=runtime, **options)
    if not store.lists_in_one_request:
        probe(store, quick=True).require()
    return store
