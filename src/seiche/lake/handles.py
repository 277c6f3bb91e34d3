"""Tables of a lake, as a user holds them: inside a transaction, and outside of one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from seiche.errors import InvalidInput
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.work import Work
from seiche.lake.late_files import LateFiles, LateStore
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.read_ahead import read_ahead
from seiche.lake.read_only import check_writable
from seiche.lake.versions import LakeVersions, newest_manifest
from seiche.store.prefix import below
from seiche.table import history
from seiche.table.build import build
from seiche.table.change import Change, Prepare, Result, forget
from seiche.table.format.manifest import Manifest
from seiche.table.history import Version
from seiche.table.operations import Append, Overwrite
from seiche.table.reachable import Reach
from seiche.table.snapshot import Snapshot
from seiche.table.transaction import Transaction as TableTransaction
from seiche.table.verbs.table import TableVerbs
from seiche.table.versions.naming import check_version

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

    from seiche.lake.engines.iceberg_table import EngineTable
    from seiche.lake.lake import Lake
    from seiche.lake.state import State
    from seiche.lake.transaction import Transaction
    from seiche.table.data.changes import Changes

__all__ = ["LakeTable", "TransactionTable"]

# How often one statement is done again after a conflict, and for how long. Others who append can be faster ten times.
_ATTEMPTS = 100
_SECONDS = 120.0
# Prepared without looking at the table's rows. Everything else reads them, if only to find the ones to change.
_BLIND = (Append, Overwrite)
# Look for rows by a condition or by keys: that there were none is something that was read as well.
_SEARCHING = ("delete", "merge", "update")


class TransactionTable(TableVerbs):
    """A table inside a transaction: reads see what the transaction did, and what it does is seen by nobody else yet."""

    def __init__(self, transaction: "Transaction", table_id: str) -> None:
        """Use `tx.table(name)`."""
        self.id = table_id
        self._transaction = transaction

    @property
    def name(self) -> str:
        """What the transaction calls it, as in `shop.orders`."""
        return self._transaction.edits[self.id].name

    @property
    def format(self) -> str:
        """`lance` or `iceberg`."""
        return self._edit.row.format

    @property
    def schema(self) -> "pa.Schema":
        """The columns, as the transaction sees them."""
        self._transaction.note_columns(self.id)
        return self._snapshot().schema

    def to_arrow(self, *, columns: Sequence[str] | None = None, filter: str | None = None) -> "pa.Table":
        """Rows as the transaction sees them, its own changes included."""
        from seiche.table.data.native import scan

        self._transaction.note_read(self.id)
        return scan(self._snapshot().rows, columns, filter)

    def count_rows(self, filter: str | None = None) -> int:
        """How many rows the transaction sees, or such as match `filter`."""
        from seiche.table.data.native import count

        self._transaction.note_read(self.id)
        return count(self._snapshot().rows, filter)

    def to_lance(self) -> "lance.LanceDataset":
        """The table as a pylance dataset that sees what the transaction did, and whose commits become part of it.

        The table counts as read by the transaction from now on.
        """
        from seiche.lake.engines.lance_dataset import TransactionDataset
        from seiche.lake.engines.staged_table import StagedTable

        self._transaction.note_read(self.id)
        return TransactionDataset(self._transaction, StagedTable(self._transaction, (self.id,)))

    def to_iceberg(self) -> "EngineTable":
        """Refused: it is a Lance table. Of an Iceberg table, a PyIceberg table inside the transaction."""
        raise not_iceberg(self._edit.row, self.name)

    def check_writable(self) -> None:
        """Raise `InvalidInput` if the table can only be read here. Who writes files for a change asks before."""
        check_writable(self._edit.row, self.name)

    def apply(self, change: Change) -> None:
        """Make a prepared change part of the transaction."""
        with self._transaction.alone(self.id):
            self._apply(change)

    def _apply(self, change: Change) -> None:
        work = self._work()
        transaction = self._transaction
        if not isinstance(change.operation, _BLIND):
            transaction.note_read(self.id)
        if change.since is not None:
            transaction.oldest = min(transaction.oldest, change.since)
        # Every statement makes the one version after the base: that is what will be committed.
        before = work.running
        if before.version != work.base.version:
            header = before.copy_header()
            header.version = work.base.version
            before = Manifest(header, before.fragments, before.index_section, field_ids=before.field_ids)
        operation = TableTransaction(work.base.version, transaction.id, change.operation)
        made = build(before, operation, runtime=transaction.runtime, load=self._load, managed=True)
        transaction.add_statement(self.id, work.with_statement(change, made))

    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Once, on what the transaction sees; a conflict with others shows when the transaction commits."""
        self._transaction.check_running()
        self.check_writable()
        if verb == "append":  # does not depend on the table's rows, so several threads may write theirs side by side
            return self._statement(verb, prepare)
        with self._transaction.alone(self.id):
            if verb in _SEARCHING:
                self._transaction.note_read(self.id)
            return self._statement(verb, prepare)

    def _statement(self, verb: str, prepare: Prepare) -> Result:
        with self._transaction.answering(self.id):
            return self._done(verb, prepare)

    def _done(self, verb: str, prepare: Prepare) -> Result:
        done: Change | None = None
        following: Prepare | None = prepare
        while following is not None and (change := following(self._snapshot(verb != "append"))) is not None:
            self.apply(change)
            done, following = change, change.then
        version = self._work().base.version
        if done is None:
            self._transaction.note_columns(self.id)
            self._transaction.note_properties(self.id)
            return Result(verb, version, changed=False)
        return Result(verb, version + 1, rows=done.rows, files=done.files, bytes=done.bytes, notes=done.notes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} in {self._transaction!r})"

    @property
    def _edit(self) -> TableEdit:
        return self._transaction.edit(self.id)

    def _work(self) -> Work:
        edit = self._edit
        if edit.work is not None:
            return edit.work
        if not edit.row.is_own("lance"):
            raise InvalidInput(
                f"{edit.name} is a table of type {edit.row.type} and format {edit.row.format}: it cannot be changed so",
                remedy="Use its own engine.",
                table=edit.name,
            )
        return self._transaction.begun(self.id, lambda first: self._newest(edit, first))

    def _newest(self, edit: TableEdit, first: bool) -> Manifest:
        state, row = self._transaction.state, edit.row
        # Who changed some tables together may look at one of them alone now; at the second one it is likely that all
        # are meant. Those that are at hand need no look at all the others: that would be once more for each of them.
        known = state.manifests
        if not first and edit.found_key in known.together and not (row.manifest and known.holds(row.manifest)):
            read_ahead(state, known.together)
        return newest_manifest(state.store, row, state.manifests)

    def _load(self, version: int) -> Manifest:
        state = self._transaction.state
        return LakeVersions(state.store, self._edit.row, state.manifests).read(version).manifest

    def _snapshot(self, rows: bool = True) -> Snapshot:
        """The table as the transaction sees it; without `rows` for whoever looks at none of them."""
        work = self._work()
        if rows and work.statements:
            # Not only those who ask the store find what they wrote: workers of other processes go by its place.
            self._transaction.late.write()
        return table_snapshot(self._transaction.state, self._edit.row, work, self._transaction)


def table_snapshot(state: "State", row: TableRow, work: Work, transaction: "Transaction") -> Snapshot:
    """The table as the statements so far leave it."""

    def published() -> Manifest | None:
        # Only native code needs it, and not for everything: rows are appended without.
        return work.base if work.base.version and transaction.publish(row) else None

    return Snapshot(
        LateStore(state.store, row.location, transaction.late),
        work.running,
        transaction.runtime,
        staged=True,
        published=published,
        since=min(transaction.base, transaction.oldest),
        fence=state.root.min_base,
    )


def not_iceberg(row: TableRow, name: str) -> InvalidInput:
    """Says that a table is none that PyIceberg could open."""
    return InvalidInput(
        f"{name} is a table of format {row.format}, not an Iceberg table", remedy="Use `to_lance()`.", table=name
    )


class LakeTable(TableVerbs):
    """A table of a lake. Every call starts from the latest version; every verb is a transaction of its own.

    Of a lake that was opened at a version, it is that version's table, and read-only.
    """

    # The format of the tables that it is for, and whether they are the lake's own.
    _kind: ClassVar[tuple[str, bool]] = ("lance", True)

    def __init__(self, lake: "Lake", name: Name) -> None:
        """Use `lake.table(name)`."""
        self._lake = lake
        self._name = name

    @property
    def name(self) -> str:
        """What it is called, as in `shop.orders`."""
        return text(self._name)

    @property
    def row(self) -> TableRow:
        """What the lake knows about the table."""
        return self._lake.state().table(self._name)

    @property
    def format(self) -> str:
        """`lance` or `iceberg`."""
        return self.row.format

    @property
    def version(self) -> int:
        """The table's own version."""
        return self.row.table_version

    @property
    def schema(self) -> "pa.Schema":
        """The columns, as an Arrow schema."""
        with self._lake.reading():
            return self._read().schema

    @property
    def uri(self) -> str:
        """Where a plain Lance reader finds the table."""
        return below(self._lake.store, self._known().location).uri

    def to_arrow(self, *, columns: Sequence[str] | None = None, filter: str | None = None) -> "pa.Table":
        """Rows as an Arrow table: all of them, or the `columns` and the rows that match `filter` (SQL)."""
        with self._lake.reading():
            return self._read().to_arrow(columns=columns, filter=filter)

    def count_rows(self, filter: str | None = None) -> int:
        """How many rows there are, or match `filter` (SQL); of them no more is read than it takes to know."""
        with self._lake.reading():
            return self._read().count_rows(filter)

    def versions(self) -> list[Version]:
        """The table's own versions that are kept, oldest first, with the time and the operation that made each.

        `lake.log()` has those of the lake.
        """
        with self._lake.reading():
            return history.kept(self._past())

    def changes(
        self, from_version: int, to_version: int | None = None, *, columns: Sequence[str] | None = None
    ) -> "Changes":
        """The rows that were inserted, updated and deleted after `from_version` of the table, up to and with
        `to_version` (the newest, if not given); 0 is before all.

        As of a table without a lake: every version is looked at by itself, compaction shows nothing, and without stable
        row ids an update is a delete and an insert. `NotFound` if a version in between has been cleaned up.
        """
        from seiche.table.data.changes import find_changes

        with self._lake.reading():
            past = self._past()
            first = 0 if from_version == 0 else check_version(from_version)
            last = past.newest() if to_version is None else past.reached(check_version(to_version))
            return find_changes(past, past.dataset, first, last, columns, self._lake.states.runtime)

    def to_lance(self) -> "lance.LanceDataset":
        """The table as a pylance dataset whose commits go through the lake, each as a transaction of its own."""
        from seiche.lake.engines.lance_dataset import LakeDataset

        row = self._known()
        return LakeDataset(self._lake, row, below(self._lake.store, row.location))

    def to_iceberg(self) -> "EngineTable":
        """Refused: it is a Lance table. Of an Iceberg table, a PyIceberg table whose commits go through the lake."""
        raise not_iceberg(self._known(), self.name)

    def _known(self) -> TableRow:
        """What the lake knows about the table, for whatever is done otherwise with tables of another kind."""
        return self._same_kind(self.row)

    def _same_kind(self, row: TableRow) -> TableRow:
        """The row unchanged; `InvalidInput` if the table is of another kind than when this handle was taken."""
        if (row.format, row.type == "managed") == self._kind:
            return row
        raise self._other_kind(row)

    def _other_kind(self, row: TableRow) -> InvalidInput:
        return InvalidInput(
            f"{self.name} is by now a {row.type} table of format {row.format}, and was not when this handle was taken",
            remedy=f"Take a new one: `lake.table({self.name!r})`.",
            table=self.name,
        )

    def _past(self) -> LakeVersions:
        state = self._lake.state()
        return LakeVersions(state.store, self._same_kind(state.table(self._name)), state.manifests)

    def _read(self) -> TransactionTable:
        return self._lake.transaction().table(self._name)

    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        since, where = -1, ""
        earlier: list[LateFiles] = []

        def prepared(table: TransactionTable) -> Result:
            nonlocal since, where
            transaction = table._transaction
            # Files of an earlier attempt are as old as that attempt, whatever this one begins from: if a clean-up came
            # between, it may have taken them for garbage. And they lie with the table that had the name then: one that
            # was made anew since would name files that it does not have.
            if table.id != where or since < max(0, transaction.state.root.min_base):
                forget(prepare)
                earlier.clear()
                since, where = transaction.base, table.id
            transaction.oldest = min(transaction.oldest, since)
            before = tuple(earlier)
            earlier.append(transaction.late)
            result = table._run(verb, prepare)
            if before:
                transaction.late.take_over(before, _named_by(transaction.edit(table.id)))
            return result

        return self._alone(prepared, attempts=attempts, timeout=timeout)

    def _alone(
        self, do: Callable[[TransactionTable], Result], *, attempts: int | None = None, timeout: float | None = None
    ) -> Result:
        """Do it in a transaction of its own, again after a conflict that may be retried."""
        tries = 0

        def once(transaction: "Transaction") -> "tuple[Result, Transaction, str]":
            nonlocal tries
            tries += 1
            table = transaction.table(self._name)
            return do(table), transaction, table.id

        (result, transaction, table_id), version = self._lake.run_versioned(
            once,
            attempts=_ATTEMPTS if attempts is None else attempts,
            timeout=_SECONDS if timeout is None else timeout,
        )
        # Others may have come first, and some verbs make two versions: only the commit knows which one it was.
        made = transaction.table_versions.get(table_id, result.version)
        return replace(result, version=made, attempts=tries, notes={**result.notes, "lake_version": version})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} of {self._lake!r})"


def _named_by(edit: TableEdit) -> Callable[[str], bool]:
    """Whether what is done to a table names the file at a path of the lake."""
    reach = Reach()
    for change in () if edit.work is None else edit.work.statements:
        reach.add_transaction(TableTransaction(0, "", change.operation).to_proto())
    return lambda path: reach.holds(path.removeprefix(f"{edit.row.location}/"))
