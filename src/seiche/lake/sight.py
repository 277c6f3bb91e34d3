"""The lake as one transaction sees it: the version where it began, under its own changes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from threading import RLock

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.intent import RowEdit
from seiche.lake.commit.reads import Aspect, ReadSet
from seiche.lake.commit.work import Work
from seiche.lake.late_files import LateFiles
from seiche.lake.objects import rows
from seiche.lake.objects.keys import KeyRange, children_of, name_of, namespace_key, table_key, tables_of, tables_under
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import NamespaceRow, TableRow
from seiche.lake.state import State
from seiche.lake.tree.root import millis
from seiche.table.format.manifest import Manifest

__all__ = ["Sight"]


class Sight(ABC):
    """What is there, as the transaction sees it, and what it has looked at and changed so far.

    Looking something up here is what the transaction has read: a serializable one answers for it at its commit.
    """

    def __init__(self, transaction_id: str, state: State, runtime: Runtime) -> None:
        self.id = transaction_id
        # The version of the lake that the transaction sees, without its own changes.
        self.state = state
        self.runtime = runtime
        self.reads = ReadSet()
        self.edits: dict[str, TableEdit] = {}
        self.rows: dict[bytes, RowEdit] = {}
        # Names as this transaction sees them, where it changed them: a table's id, or None where it is gone.
        self.names: dict[bytes, str | None] = {}
        # Ids of tables by the keys under which they were looked up: the transaction sees one version to its end.
        self._looked_up: dict[bytes, str] = {}
        # Tables as the transaction found them, as far as their manifests were needed.
        self._begun: dict[str, Work] = {}
        # Files that the statements wrote and that are not safely on disk yet, and those that are not even written.
        self.unflushed: list[str] = []
        self.late = LateFiles(state.store, self.unflushed, runtime)
        # Several threads may run statements. What a table has become is taken and put back by one at a time, and by
        # none once the transaction has ended; those that depend on the rows of a table come one after the other.
        self.lock = RLock()
        self._statements: dict[str, RLock] = {}
        # The oldest version of the lake that anything in it was built on, if files were written before it began.
        self.oldest = state.version

    @abstractmethod
    def check_running(self) -> None:
        """`InvalidInput` if the transaction has ended."""

    @abstractmethod
    def check_overtaken(self, error: Exception) -> None:
        """`RetryableConflict` if something failed only because a clean-up took what the transaction sees, or has
        written: then that is what there is to say.
        """

    @property
    def base(self) -> int:
        """The version of the lake that this transaction sees."""
        return self.state.version

    def namespaces(self, inside: str | Sequence[str] = ()) -> list[Name]:
        """The namespaces directly in another one, or the outermost ones."""
        self.check_running()
        outer = parts(inside, what="namespace") if inside else ()
        return [name_of(key) for key in sorted(self._keys(children_of(outer)))]

    def tables(self, namespace: str | Sequence[str] | None = None) -> list[Name]:
        """The tables and views directly in a namespace, or all that there are."""
        self.check_running()
        span = tables_under(()) if namespace is None else tables_of(parts(namespace, what="namespace"))
        found = self._keys(span) | {key for key in self.names if key in span}
        return sorted(name_of(key) for key in found if key not in self.names or self._taken(key))

    def _keys(self, span: KeyRange) -> set[bytes]:
        """What has a row in a range of keys; that the range was looked at is noted."""
        self.reads.range(self.state, span)
        found = {key for key, _ in self.state.tree.scan(span.start, span.stop)}
        for key, edit in self.rows.items():
            if key in span:
                (found.discard if edit.wanted is None else found.add)(key)
        return found

    def named(self, name: Name) -> TableEdit:
        """The table of this name, as the transaction sees it."""
        key = table_key(name)
        if key in self.names:
            table_id = self.names[key]
            if table_id is not None:
                return self.edits[table_id]
            raise NotFound(f"{text(name)} was dropped or renamed by this transaction", table=text(name))
        edit = self.edits.get(self._looked_up.get(key, ""))
        if edit is not None:
            return edit
        found = self.state.behind(key)
        self.reads.found(key, Aspect.IDENTITY, None if found is None else found.id)
        row = self.state.as_table(found, name)
        self._looked_up[key] = row.id
        edit = self.edits.get(row.id)
        return edit or self.edits.setdefault(row.id, TableEdit(row=row, key=key, found=row, found_key=key))

    def edit(self, table_id: str) -> TableEdit:
        """What the transaction does to a table so far; `NotFound` if that was to drop it.

        Handles outlive the table: what is said to one afterwards would be done to nothing, and told as done.
        """
        edit = self.edits[table_id]
        if edit.key is None:
            raise NotFound(f"{edit.name} was dropped by this transaction", table=edit.name)
        return edit

    def put_edit(self, edit: TableEdit) -> None:
        """Keep what the transaction does to a table from now on."""
        with self.lock:
            self.check_running()
            self.edits[edit.row.id] = edit

    def add_statement(self, table_id: str, work: Work) -> None:
        """Keep what the transaction has made of a table's content; its name and row stay as they are."""
        with self.lock:
            self.check_running()
            self.edits[table_id] = replace(self.edit(table_id), work=work)

    def alone(self, table_id: str) -> AbstractContextManager[object]:
        """One statement at a time on a table, for the length of the block. The same thread may enter it again."""
        return self._statements.setdefault(table_id, RLock())

    @contextmanager
    def defining(self, *tables: str) -> Iterator[None]:
        """Names and rows change by one statement at a time, for the length of the block, and not once the transaction
        has ended. What others do to `tables` comes before or after it, so that neither undoes the other.
        """
        with ExitStack() as held:
            for table_id in sorted(tables):
                held.enter_context(self.alone(table_id))
            held.enter_context(self.lock)
            self.check_running()
            yield

    def begun(self, table_id: str, load: Callable[[bool], Manifest]) -> Work:
        """A table that the transaction has not changed yet; it is loaded once, and told whether it is the first."""
        work = self._begun.get(table_id)
        if work is None:
            work = self._begun[table_id] = Work.begin(load(not self._begun))
        return work

    def enter(self, name: Name, row: TableRow, work: Work | None = None) -> None:
        """Give a name that is free to a table: one that is being made, or that stands elsewhere."""
        self.enter_edit(name, TableEdit(row=row, key=table_key(name), work=work))

    def enter_edit(self, name: Name, edit: TableEdit) -> None:
        """`enter` a table whose edit is of another kind."""
        with self.defining():
            self.check_free(name)  # once more: another thread may have taken it since it was looked at
            self.edits[edit.row.id] = edit
            self.names[table_key(name)] = edit.row.id

    def note_read(self, table_id: str) -> None:
        """The content of a table was looked at."""
        found_key = self.edits[table_id].found_key
        if found_key is not None:
            self.reads.key(self.state, found_key, Aspect.CONTENT)
            with self.lock:
                self.edits[table_id] = replace(self.edits[table_id], read=True)

    def note_columns(self, table_id: str) -> None:
        """The columns of a table were looked at."""
        self.note_look(table_id, Aspect.COLUMNS)

    def note_properties(self, table_id: str) -> None:
        """The properties of a table were looked at."""
        self.note_look(table_id, Aspect.PROPERTIES)

    def other_properties(
        self, edit: TableEdit, there: Mapping[str, str], wanted: Mapping[str, str | None]
    ) -> dict[str, str | None]:
        """The wanted properties but for those that a table has already, which count as looked at."""
        found = {name: value for name, value in wanted.items() if there.get(name) != value}
        if len(found) < len(wanted):
            self.note_properties(edit.row.id)
        return found

    def note_look(self, table_id: str, aspect: Aspect) -> None:
        """A table was looked at."""
        found_key = self.edits[table_id].found_key
        if aspect is Aspect.CONTENT:
            self.note_read(table_id)
        elif found_key is not None:
            self.reads.key(self.state, found_key, aspect)

    @contextmanager
    def answering(self, table_id: str) -> Iterator[None]:
        """A statement about a table. If it is refused, it has looked at all of it: whoever goes on after the error goes
        by that.
        """
        try:
            yield
        except Exception:
            found_key = self.edits[table_id].found_key
            if found_key is not None:
                for aspect in (Aspect.CONTENT, Aspect.COLUMNS, Aspect.PROPERTIES):
                    self.reads.key(self.state, found_key, aspect)
            raise

    def namespace_named(self, name: Name, aspect: Aspect = Aspect.WHOLE) -> NamespaceRow:
        """The namespace of this name, as the transaction sees it; `aspect` is what will be looked at of it."""
        value = self.row_behind(namespace_key(name), aspect)
        if value is None:
            raise NotFound(
                f"there is no namespace {text(name)}",
                remedy="`lake.namespaces()` lists what there is; `create_namespace` makes one.",
                name=text(name),
            )
        return rows.decode(value, NamespaceRow)

    def check_parent(self, name: Name) -> None:
        """What is made inside a namespace needs it to be there still when the commit is decided."""
        if name:
            self.namespace_named(name, Aspect.IDENTITY)
            if namespace_key(name) not in self.rows:
                self.reads.key(self.state, namespace_key(name), Aspect.IDENTITY, structural=True)

    def check_free(self, name: Name) -> None:
        """`AlreadyExists` if the name is taken, as the transaction sees it."""
        if len(name) < 2:
            raise InvalidInput(
                f"{text(name)} has no namespace", remedy="Name it `namespace.name`, after creating the namespace."
            )
        self.check_parent(name[:-1])
        if self._taken(table_key(name)):
            raise AlreadyExists(
                f"there is a table or view {text(name)} already",
                remedy="Choose another name, or use what is there.",
                name=text(name),
            )

    def _taken(self, key: bytes) -> bool:
        """Whether a table or view has this key, as the transaction sees it. A view may stand where a table was."""
        if self.names.get(key) is not None:
            return True
        if key in self.names and key not in self.rows:
            return False
        return self.row_behind(key, Aspect.IDENTITY) is not None

    def row_behind(self, key: bytes, aspect: Aspect = Aspect.WHOLE) -> bytes | None:
        """What stands behind a key, as the transaction sees it; that it was looked at is noted.

        Also that there is nothing, or something where nothing is wanted: whoever goes on after the error goes by that.
        """
        if key in self.rows:
            return self.rows[key].wanted
        value = self.state.get(key)
        self.reads.found(key, aspect, aspect.of(value, self.state))
        return value

    def write_row(self, key: bytes, wanted: bytes | None) -> None:
        """What shall stand behind a key; `None` for nothing."""
        found = self.rows[key].found if key in self.rows else self.state.get(key)
        if wanted is None and found is not None and rows.kind_of(found) is TableRow:
            # A view that took the name of a table and goes again. That the table has left is said by its own edit, and
            # it may come back to its name: a row that is taken away here would take it along.
            self.rows.pop(key, None)
        else:
            self.rows[key] = RowEdit(found, wanted)

    def now_millis(self) -> int:
        """The time, as it is written into rows."""
        return millis(self.runtime.clock.now())
