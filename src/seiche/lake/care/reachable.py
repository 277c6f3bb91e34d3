"""What the kept versions of a lake need: the one question on which clearing away rests.

A file is needed if something that can still be read, or committed, leads to it. Neither its age nor any hint has a say.
What cannot be looked into needs everything that might be its own.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.care.layout import Place, Sort
from seiche.lake.care.live import rows_since
from seiche.lake.care.path_set import KeptPaths
from seiche.lake.care.portions import portions
from seiche.lake.care.saved_work import SavedWork
from seiche.lake.care.table_files import ANYWHERE, FORMATS, UNREADABLE, NeededNames, TableFiles
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import RETENTION, TABLE, TRASH, KeyRange
from seiche.lake.objects.rows import TableRow, TrashRow, ViewRow
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.pointer import Pointer, fetch, target
from seiche.lake.tree.root import Root
from seiche.table.format import file

__all__ = ["DROPPED", "Reachable"]

DROPPED = KeyRange(TRASH, RETENTION)
# What one table may have of another.
_SHARED: Final = frozenset({Sort.DATA, Sort.DELETIONS, Sort.INDEX, Sort.ICEBERG_MANIFEST})


class Reachable:
    """Everything that was found to be needed so far. It only ever grows.

    So it can be computed before a fence, and brought up to date after it by the versions that were made since.
    """

    def __init__(self, states: States) -> None:
        self.needed = KeptPaths()
        # By location: tables in kept versions, and why nothing of a table may be taken for garbage.
        self.tables: dict[str, TableFiles] = {}
        self.closed: dict[str, str] = {}
        self.ids: set[str] = set()
        self.versions = 0
        self._states = states
        self._seen: set[Pointer] = set()
        self._last: State | None = None
        # Whether files of any table may be needed by one that cannot be looked into.
        self._blind = False

    def add_roots(self, roots: Iterable[Root]) -> None:
        """Count in versions of the lake, ascending. One that expires at this moment may be counted in or not.

        `Corrupt` if the tree of one that is kept cannot be read: then nothing at all is known to be garbage.
        """
        for root in roots:
            try:
                self._add_root(self._states.of(root))
            except Corrupt:
                # Not all that it saw was counted in, and the next version may share it.
                self._seen.clear()
                if self._expired(root):
                    continue
                if self._last is None:
                    raise
                # It was compared with a version that may have expired, and been cleared away, at this moment.
                self._last = None
                self._add_root(self._states.of(root))

    def _expired(self, root: Root) -> bool:
        return read_root(self._states.store, root.version).expired_at_millis is not None

    def _add_root(self, state: State) -> None:
        root = state.root
        for pointer in (root.definition, root.transactions_file):
            if pointer is not None:
                self.needed.add(target(pointer)[0])
        for pointer in state.tree.walk(seen=self._seen):
            self.needed.add(target(pointer)[0])
        for key, value in rows_since(state.tree, None if self._last is None else self._last.tree):
            where = definitions.reference(value)
            if where is not None:
                self.needed.add(target(where)[0])
            if key.startswith(TABLE):
                self._add_relation(value if where is None else fetch(state.store, where))
        self._last = state
        self.versions += 1

    def _add_relation(self, value: bytes) -> None:
        if rows.kind_of(value) is ViewRow:
            self.needed.add(rows.decode(value, ViewRow).metadata_location)
            return
        row = rows.decode(value, TableRow)
        self.ids.add(row.id)
        self._add_table(row)

    def _add_table(self, row: TableRow) -> None:
        if row.type != "managed":
            return
        if row.format not in FORMATS:
            self.closed[row.location] = f"clearing away files of {row.format} tables is not known here"
            return
        if row.location not in self.tables:
            self.tables[row.location] = FORMATS[row.format](self._states.store, row.location, self.needed)
        self.tables[row.location].add(row)

    def add_dropped(self, state: State, *, fenced: bool = False) -> list[bytes]:
        """Count in dropped tables that a kept version still has, up to the version at which they were dropped.

        Whoever brings such a table back goes on from there. Returns the keys of those that no kept version has: they
        need not be remembered any longer. Once the clean-up is `fenced`, it forgets no more of them, and what is
        remembered counts: whoever registers the metadata of such a table goes by that.
        """
        forgotten = []
        for key, value in state.scan(DROPPED):
            row = rows.decode(rows.decode(value, TrashRow).row, TableRow)
            if fenced or row.id in self.ids:
                self._add_table(row)
            else:
                forgotten.append(key)
        return forgotten

    def add_saved(self, works: Iterable[SavedWork]) -> None:
        """Count in transactions that wait to be continued."""
        for work in works:
            self.needed.add(work.path)
            for location, transaction in work.written:
                NeededNames(self.needed, location).add_transaction(transaction)
            self._add_snapshots(work)

    def _add_snapshots(self, work: SavedWork) -> None:
        if not work.snapshots:
            return
        from seiche.lake.iceberg.reach import IcebergReach

        reach = IcebergReach(self._states.store, self.needed)
        for location, where in work.snapshots:
            try:
                reach.add_lists({where: 0})
            except Corrupt as error:
                self.closed[location] = f"the saved transaction {work.id} cannot be looked into: {error}"

    def add_foreign(self, manifests: Iterable[Place]) -> None:
        """Count in what manifests name that the lake did not decide on: somebody may want to bring them in."""
        for one in manifests:
            names = NeededNames(self.needed, one.location, anywhere=True)
            try:
                names.add_manifest(file.decode(self._states.store.get(one.path), path=one.path).manifest)
            except NotFound:
                continue
            except (Corrupt, InvalidInput, DecodeError) as error:
                self.closed[one.location] = f"the foreign manifest {one.path} cannot be read: {error}"

    def settle(self) -> None:
        """Look into all tables counted in so far. One that cannot be looked into is closed, and with it whatever it may
        share with others.

        Files of many tables are read side by side, as far as memory goes, and taken in one after the other.
        """
        for some in portions(self._unread()):
            for (table, part), read in zip(some, self._states.store.in_parallel(_read, some), strict=True):
                if table.location in self.closed:
                    continue
                try:
                    if isinstance(read, Exception):
                        raise read
                    table.take(part, read)
                except UNREADABLE as error:
                    self._close(table, error)

    def _unread(self) -> Iterator[tuple[tuple[TableFiles, Any], int]]:
        """What is to be read of the tables, and how large it is."""
        for table in self.tables.values():
            if table.location in self.closed:
                continue
            try:
                parts = table.unread()
            except UNREADABLE as error:
                self._close(table, error)
            else:
                yield from (((table, part), table.part_bytes) for part in parts)

    def _close(self, table: TableFiles, error: Exception) -> None:
        self.closed[table.location] = f"the table cannot be looked into: {error}"
        if table.may_share():
            self._blind = True
            self.closed[table.location] += " Until it can, files of other tables stay too, since it may share them."

    def needs(self, place: Place) -> bool:
        """Whether the file may be needed by anything that was counted in, as far as can be known."""
        if place.stays or place.foreign or place.location in self.closed or self.leads_to(place):
            return True
        if self._blind and place.sort in _SHARED:
            return True
        # A manifest above the newest version is a foreign commit, which `adopt` may bring in.
        table = self.tables.get(place.location)
        return table is not None and (
            place.sort is Sort.TABLE_HINT or (place.sort is Sort.MANIFEST and place.version > table.newest)
        )

    def leads_to(self, place: Place) -> bool:
        """Whether something that was counted in names the file."""
        return place.path in self.needed or any(name in self.needed for name in _other_names(place))

    def why_not(self, place: Place) -> str:
        """In words why a file is not needed."""
        if place.location and place.location not in self.tables:
            return "no kept version of the lake has the table"
        if place.sort is Sort.MANIFEST:
            return f"version {place.version} of the table is older than any that is kept"
        if place.sort is Sort.SAVED:
            return "the transaction was decided, or can no longer commit"
        return "no kept version leads to it"


def _read(one: tuple[TableFiles, Any]) -> Any:
    table, part = one
    try:
        return table.read(part)
    except UNREADABLE as error:
        return error


def _other_names(place: Place) -> Iterator[str]:
    """What else the file may be known by: a folder that it is in, or its name in another table."""
    if not place.location:
        return
    yield f"{ANYWHERE}/{place.inside}"
    folder = place.inside.rpartition("/")[0]
    while folder:
        yield f"{place.location}/{folder}/"
        yield f"{ANYWHERE}/{folder}/"
        folder = folder.rpartition("/")[0]
