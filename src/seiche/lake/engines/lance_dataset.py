"""Tables of a lake as pylance datasets: what is run on them commits through the lake, or into a transaction."""

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import lance
import pyarrow as pa
from lance.dataset import Branches, DatasetOptimizer, Tags

from seiche.errors import InvalidInput
from seiche.lake.engines.lance_namespace import LakeNamespace, TransactionNamespace
from seiche.lake.engines.lance_parts import LakeOptimizer, Merging, ReadOnlyBranches, ReadOnlyTags, TransactionOptimizer
from seiche.lake.engines.staged_table import StagedTable
from seiche.lake.engines.table_namespace import TableNamespace
from seiche.store.base import Store
from seiche.table.data.native_errors import trouble, without_panics
from seiche.table.versions import hint

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.objects.rows import TableRow
    from seiche.lake.transaction import Transaction

__all__ = ["REFUSED", "STATEMENTS", "LakeDataset", "ManagedDataset", "TransactionDataset"]

# How often a statement is run again after a conflict, and for how long: for as many seconds as pylance would. Its ten
# attempts are too few: somebody who updates the same row again and again may win ten times in a row.
_ATTEMPTS: Final = 100
_SECONDS: Final = 30.0

# Methods of a dataset that commit. Each is one statement.
STATEMENTS: Final = (
    "add_bases",
    "add_columns",
    "alter_columns",
    "commit_existing_index_segments",
    "create_index",
    "create_scalar_index",
    "delete",
    "delete_config_keys",
    "drop_columns",
    "drop_index",
    "insert",
    "merge",
    "replace_field_metadata",
    "replace_schema",
    "replace_schema_metadata",
    "truncate_table",
    "update",
    "update_config",
    "update_field_metadata",
    "update_metadata",
    "update_schema_metadata",
)

# Methods that cannot work on a table of a lake, and what to use instead.
REFUSED: Final[Mapping[str, str]] = {
    "cleanup_old_versions": "`lake.expire` and `lake.gc` clean up: versions of the lake need those of its tables.",
    "create_branch": "Tables of a lake have no branches; a transaction keeps changes apart until it commits.",
    "deep_clone": "`lake.export` makes copies.",
    "initialize_mem_wal": "Tables of a lake take rows by commits only.",
    "mem_wal_writer": "Tables of a lake take rows by commits only.",
    "migrate_manifest_paths_v2": "Tables of a lake have the newer names already.",
    "shallow_clone": "A clone would need files that the lake may clean up; `lake.export` makes copies that last.",
}


class ManagedDataset(lance.LanceDataset):
    """A pylance dataset of a table that belongs to a lake. It reads as any other."""

    _namespace: TableNamespace

    def _open(self, namespace: TableNamespace, table_id: str, store: Store, session: Any = None) -> None:
        try:
            with without_panics():
                lance.LanceDataset.__init__(
                    self,
                    store.native_uri(),
                    storage_options=dict(store.native_options) or None,
                    namespace_client=namespace,
                    table_id=[table_id],
                    namespace_client_managed_versioning=True,
                    session=session,
                )
        except (OSError, ValueError) as error:
            raise trouble(f"{store.uri} could not be opened by pylance", error, table=store.uri) from error
        self._namespace = namespace

    def _execute(self, name: str, run: Callable[[Any], Any], *, repeatable: bool = True) -> Any:
        """Run one statement: `run` is given the dataset to run it on."""
        raise NotImplementedError

    def merge_insert(self, on: str | Iterable[str] | None = None) -> Any:
        return Merging(self, on)

    def _refresh(self) -> None:
        """Go to the newest version."""
        self._ds.checkout_latest()
        self._list_indices_res = None

    @property
    def tags(self) -> Tags:
        return ReadOnlyTags(self._ds)

    @property
    def branches(self) -> Branches:
        return ReadOnlyBranches(self._ds)

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._ds = copy.copy(self._ds)
        return made


class LakeDataset(ManagedDataset):
    """The newest version of a table. Every statement is a transaction of its own, run again if others are in the way.

    A handle stays at its version until a statement, or `checkout_latest`, takes it to the newest one. Statements always
    work on the newest. It can be pickled; the copy can only be read.
    """

    def __init__(self, lake: "Lake", row: "TableRow", store: Store) -> None:
        """Use `lake.table(name).to_lance()`."""
        self._lake = lake
        self._row_id = row.id
        namespace = LakeNamespace(lake)
        namespace.check_lance((row.id,))
        self._open(namespace, row.id, store)

    def _execute(self, name: str, run: Callable[[Any], Any], *, repeatable: bool = True) -> Any:
        self._check_live()

        def once(transaction: "Transaction") -> tuple[TransactionDataset, Any]:
            inside = TransactionDataset(transaction, StagedTable(transaction, (self._row_id,)), self.session())
            return inside, inside._execute(name, run)

        inside, result = self._lake.run(once, attempts=_ATTEMPTS if repeatable else 1, timeout=_SECONDS)
        self._refresh()
        return self if result is inside else result

    def _check_live(self) -> None:
        """Before anything is written for nothing."""
        if self._lake._pinned is not None:
            raise InvalidInput(
                f"the lake was opened at version {self._lake.version} and is read-only",
                remedy="Open it without a version to change it.",
            )

    def restore(self) -> None:
        """Make the version that this handle is at the newest one again."""
        self._check_live()
        version = self.version
        self._lake.run(lambda tx: _table(tx, self._row_id).restore(version))
        self._refresh()

    @property
    def optimize(self) -> DatasetOptimizer:
        return LakeOptimizer(self)

    def compact(self, options: Mapping[str, Any]) -> Any:
        """Compact as the lake does it: with two versions of the table in one commit."""
        self._check_live()
        result = self._lake.run(lambda tx: _table(tx, self._row_id).compact(**options))
        self._refresh()
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        # A handle made from a manifest in memory, as pylance would pickle it, commits under wrong names. A published
        # version, opened by its plain name, is closed to all writers.
        transaction = self._lake.transaction()
        table = StagedTable(transaction, (self._row_id,))
        if not transaction.publish(table.row):
            raise InvalidInput(
                f"{table.name}: the newest version could not be published, so others cannot open it yet",
                remedy="Try again later, or open the table in the other process.",
            )
        return lance.dataset, (self.uri, self.version, None, None, None, None, self._storage_options)


class TransactionDataset(ManagedDataset):
    """A table as a transaction sees it. Every statement is one of the transaction's.

    Each statement works on the newest state, whatever handle made it, and the handle is there afterwards. One that
    fails leaves the transaction as it was.
    """

    _namespace: TransactionNamespace

    def __init__(self, transaction: "Transaction", table: StagedTable, session: Any = None) -> None:
        """Use `tx.table(name).to_lance()`."""
        self._table = table
        self._busy = False
        _ = table.work  # refuses tables that pylance cannot open
        self._open(transaction.namespace(), table.id, table.store, session)

    def _execute(self, name: str, run: Callable[[Any], Any], *, repeatable: bool = True) -> Any:
        if self._busy:
            return run(self)
        before = self._table.edit
        self._table.transaction.check_running()
        self._refresh()
        self._namespace.refusal = None
        self._busy = True
        try:
            return run(self)
        except BaseException as error:
            self._table.put_back(before)
            refusal = self._namespace.refusal
            if refusal is not None:
                raise refusal from error
            raise
        finally:
            self._busy = False
            self._correct_hint()

    def _correct_hint(self) -> None:
        """pylance has left its own count of versions as a hint for others, to whom it means nothing."""
        store, row = self._table.store, self._table.row
        if store.lists_in_one_request and row.table_version:
            hint.write(store, row.table_version)

    def restore(self) -> None:
        """Make a committed version of the table, which this handle is at, what the transaction sees and commits."""
        if self.version > self._table.row.table_version:
            raise InvalidInput(
                f"{self._table.name}: version {self.version} exists inside this transaction only",
                remedy="Check out a committed version first.",
            )
        _table(self._table.transaction, self._table.id).restore(self.version)
        self._refresh()

    @property
    def optimize(self) -> DatasetOptimizer:
        return TransactionOptimizer(self)

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            f"{self._table.name}: a dataset inside a transaction stays in its process",
            remedy="Send rows or fragments, or save the transaction with `tx.save()`.",
        )


def _table(transaction: "Transaction", table_id: str) -> Any:
    from seiche.lake.handles import TransactionTable

    return TransactionTable(transaction, StagedTable(transaction, (table_id,)).id)


def _statement(name: str) -> Callable[..., Any]:
    """A method that runs the one of the same name as a statement."""
    plain = getattr(lance.LanceDataset, name)

    @wraps(plain)
    def run(self: ManagedDataset, *args: Any, **options: Any) -> Any:
        def inside(dataset: TransactionDataset) -> Any:
            return plain(dataset, *args, **options)

        return self._execute(name, inside, repeatable=all(map(is_repeatable, (*args, *options.values()))))

    return run


def _refusal(name: str, remedy: str) -> Callable[..., NoReturn]:
    @wraps(getattr(lance.LanceDataset, name))
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise InvalidInput(f"`{name}` is not for tables of a lake", remedy=remedy)

    return refuse


def is_repeatable(data: object) -> bool:
    """Whether data can be gone through a second time."""
    return not hasattr(data, "__next__") and not isinstance(data, pa.RecordBatchReader | pa.dataset.Scanner)


for _name in STATEMENTS:
    setattr(ManagedDataset, _name, _statement(_name))
for _name, _remedy in REFUSED.items():
    setattr(ManagedDataset, _name, _refusal(_name, _remedy))
