"""A lake, and a transaction of it, as namespaces through which pylance opens tables and commits to them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import lance_namespace as lance

from seiche.errors import InvalidInput, NotFound, RetryableConflict
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.work import Work
from seiche.lake.engines.capture import capture
from seiche.lake.engines.catalog import id_of
from seiche.lake.engines.native_commit import NativeVersion, before_first, commit_native, reference
from seiche.lake.engines.staged_table import StagedTable
from seiche.lake.engines.table_namespace import TableNamespace, found
from seiche.lake.engines.views import Views
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import Name, parts
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.undo import kept_on_error
from seiche.lake.versions import LakeVersions
from seiche.store.base import Store
from seiche.store.prefix import below

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["LakeNamespace", "TransactionNamespace", "row_of"]

T = TypeVar("T")


class LakeNamespace(TableNamespace):
    """The newest version of a lake. Each new version of a table is a commit of the lake.

    A commit comes with a number, and is that version of the table or none: it is never rebased here. An object of this
    class is for work that begins after it was made; when the lake's clean-up has passed it by, commits through it are
    refused, because their files may have been taken for garbage.
    """

    def __init__(self, lake: "Lake") -> None:
        """Use `lake.namespace()`."""
        super().__init__()
        self._lake = lake
        self._since = lake.version

    def namespace_id(self) -> str:
        return f"LakeNamespace {{ lake: '{self._lake.uri}' }}"

    def _reading(self) -> "Transaction":
        return self._lake.transaction()

    def _writing(self, do: Callable[["Transaction"], T]) -> T:
        return self._lake.run(do)

    def _store(self) -> Store:
        return self._lake.store

    def _row_of(self, name: Name) -> TableRow:
        with self._lake.reading():
            return row_of(self._lake.state(), name)

    def _newest(self, name: Name) -> lance.TableVersion:
        row = self.check_lance(name)
        return self._published(row, row.table_version)

    def _version(self, name: Name, version: int) -> lance.TableVersion:
        return self._published(self.check_lance(name), version)

    def _numbers(self, name: Name) -> list[int]:
        return self._kept(self.check_lance(name))

    def _create(self, entries: Sequence[Any]) -> list[lance.TableVersion]:
        wanted = [self._wanted(entry) for entry in entries]
        made = self._commit(wanted)
        for one, entry in zip(wanted, entries, strict=True):
            self._declared.forget(one.name)
            self._clear(one.row, entry)
        return made

    def _commit(self, wanted: Sequence[NativeVersion]) -> list[lance.TableVersion]:
        if not all(map(self._is_done, wanted)):
            try:
                commit_native(self._lake, wanted, self._since)
            except RetryableConflict:
                if not all(map(self._is_done, wanted)):
                    self._publish(wanted)
                    raise
            else:
                return [self._made(one) for one in wanted]
        return [self._version(one.name, one.native.version) for one in wanted]

    def _made(self, one: NativeVersion) -> lance.TableVersion:
        """A version that was just committed: a look into the lake could fail, and the commit would seem to have."""
        ref = reference(one.native)
        return found(below(self._lake.store, one.row.location), one.native.version, ref.path, ref.size)

    def _wanted(self, entry: Any) -> NativeVersion:
        name = id_of(entry)
        row, first = self._meant(name, entry)
        return NativeVersion(name, row, self._read(row, entry), declared=first)

    def _is_done(self, one: NativeVersion) -> bool:
        """Whether this very version stands in the lake: an earlier attempt whose answer was lost."""
        try:
            row = self._row_of(one.name)
        except NotFound:
            return False
        if row.id != one.row.id or row.table_version < one.native.version:
            return False
        stands = LakeVersions(self._lake.store, row).read(one.native.version)
        return stands.transaction == one.native.message

    def _publish(self, lost: Sequence[NativeVersion]) -> None:
        """pylance looks for the versions that it has lost against in the table's public directory."""
        transaction = self._lake.transaction()
        for one in lost:
            with suppress(NotFound):
                transaction.publish(row_of(transaction.state, one.name))


class TransactionNamespace(TableNamespace):
    """A lake as one transaction sees it. Each new version of a table is a statement of the transaction.

    Nobody else sees any of it before the transaction commits; a commit of it may rebase the statements as it does with
    all others. Versions have numbers of their own here, which mean nothing outside.
    """

    def __init__(self, transaction: "Transaction") -> None:
        """Use `tx.namespace()`."""
        super().__init__()
        self._transaction = transaction
        self._views: dict[str, Views] = {}

    def namespace_id(self) -> str:
        return f"TransactionNamespace {{ transaction: '{self._transaction.id}' }}"

    def describe_table(self, request: lance.DescribeTableRequest) -> lance.DescribeTableResponse:
        """Where a table is. Whoever asks may go on to read it: the table counts as read by the transaction."""
        described = super().describe_table(request)
        if not described.is_only_declared:
            self.table(id_of(request)).note_read()
        return described

    def table(self, name: Name) -> StagedTable:
        """A table as the transaction sees it."""
        return StagedTable(self._transaction, name)

    def _reading(self) -> "Transaction":
        self._transaction.check_running()
        return self._transaction

    def _writing(self, do: Callable[["Transaction"], T]) -> T:
        transaction = self._reading()
        with kept_on_error(transaction):
            return do(transaction)

    def _store(self) -> Store:
        return self._transaction.state.store

    def _row_of(self, name: Name) -> TableRow:
        return self.table(name).row

    def _newest(self, name: Name) -> lance.TableVersion:
        shown = self._view(self.table(name)).newest
        return found(self.table(name).store, shown.number, shown.path, shown.size)

    def _version(self, name: Name, version: int) -> lance.TableVersion:
        table = self.table(name)
        shown = self._view(table).find(version)
        if shown is None:
            return self._published(table.row, version)
        return found(table.store, shown.number, shown.path, shown.size)

    def _numbers(self, name: Name) -> list[int]:
        table = self.table(name)
        return [*self._kept(table.row), *(one.number for one in self._view(table).all)]

    def _create(self, entries: Sequence[Any]) -> list[lance.TableVersion]:
        if len(entries) != 1:
            raise InvalidInput(
                "a transaction takes one version at a time", remedy="They are committed together anyway."
            )
        (entry,) = entries
        self._transaction.check_running()
        name = id_of(entry)
        row, first = self._meant(name, entry)
        if first:
            return [self._begin(name, row, entry)]
        return [self._capture(self.table(name), entry)]

    def _capture(self, table: StagedTable, entry: Any) -> lance.TableVersion:
        view = self._view(table)
        native = self._read(table.row, entry)
        if native.version != view.newest.number + 1:
            raise RetryableConflict(
                f"{table.name}: this is version {native.version}, but the transaction shows {view.newest.number} as the"
                " newest.",
                remedy="Another handle has made a statement since. Check out the latest version and run it again.",
                table=table.name,
            )
        before = table.edit
        capture(table, native)
        try:
            shown = view.add(native)
        except BaseException:
            table.put_back(before)
            raise
        self._clear(table.row, entry)
        return found(table.store, shown.number, shown.path, shown.size)

    def _begin(self, name: Name, row: TableRow, entry: Any) -> lance.TableVersion:
        """The first version of a table that pylance makes inside the transaction."""
        native = self._read(row, entry)
        transaction = self._transaction
        transaction.check_free(name)
        key = table_key(name)
        names = dict(transaction.names)
        transaction.edits[row.id] = TableEdit(row=row, key=key, work=Work.begin(before_first(native)))
        transaction.names[key] = row.id
        try:
            made = self._capture(self.table(name), entry)
        except BaseException:
            del transaction.edits[row.id]
            transaction.names = names
            raise
        self._declared.forget(name)
        return made

    def _view(self, table: StagedTable) -> Views:
        if table.id not in self._views:
            self._views[table.id] = Views(table)
        return self._views[table.id]


def row_of(state: State, name: Name) -> TableRow:
    """The table of this name, or of the id that is its only part; `NotFound` if there is none."""
    name = parts(name, what="table")
    if len(name) != 1:
        return state.table(name)
    row = state.table_by_id(name[0])
    if row is None:
        raise NotFound(
            f"there is no table with the id {name[0]}",
            remedy="It was dropped. Names have at least two parts: namespace and table.",
            table=name[0],
        )
    return row
