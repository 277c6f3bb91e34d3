"""Everything that an export consists of, worked out before anything is copied.

It follows from the record of the export and from versions that never change, names and times included. So an export
that is run again after a crash makes the same files, and whoever finds one knows that it is the right one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import NotFound
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.live import changes_since, rows_since
from seiche.lake.care.portions import portions
from seiche.lake.care.ranges import Ranges
from seiche.lake.care.reachable import DROPPED
from seiche.lake.export.items import Item, copied, made
from seiche.lake.export.records import Export
from seiche.lake.export.tables import TableCopy, reference, table_copy
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import TABLE, id_key, name_of, tables_under, tag_key, trash_key
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow, TagRow, TrashRow, ViewRow
from seiche.lake.pins import EXPORTS, TAGS
from seiche.lake.state import State, as_relation
from seiche.lake.states import States
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.pointer import target as path_of
from seiche.lake.tree.root import Root, at_millis, millis
from seiche.lake.tree.tree import Tree
from seiche.store.base import Store

__all__ = ["Contents", "check_exportable", "contents", "export_root_id"]

Messages = dict[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Contents:
    """`items` are all files but the roots, `roots` those in ascending order, without a gap."""

    items: tuple[Item, ...]
    roots: tuple[Item, ...]
    tables: tuple[TableCopy, ...]
    # Tables whose plain names are referred to, and must stand before the export does.
    referred: tuple[TableRow, ...]


def export_root_id(root: Root, name: str) -> str:
    """The id of the root that an export has in the place of `root`: by it the export is known again."""
    return str(Runtime.derived_uuid(UUID(root.root_id), f"export {name}"))


def contents(states: States, export: Export, target: Store) -> Contents:
    """Work out an export that goes to `target`. Reads trees and manifests, and writes nothing.

    `NotFound` if a table that it names is not there, `Corrupt` or `NotFound` if a file is missing.
    """
    return _Job(states, export).run(target)


def check_exportable(states: States, export: Export) -> None:
    """What can be told without looking into tables: `NotFound` or `InvalidInput` if the export makes no sense."""
    state = states.at(export.version)
    chosen = _chosen(state, export.tables)
    for _, row in _tables(state):
        if export.mode == "full" and (chosen is None or row.id in chosen):
            if row.type == "managed":
                table_copy(states.store, row, states.runtime)
        elif export.mode != "full" and (chosen is None or row.id not in chosen):
            reference(states.store, row)


class _Job:
    """One export being worked out."""

    def __init__(self, states: States, export: Export) -> None:
        self._states = states
        self._store: Store = states.store
        self._export = export
        self._versions = states.store.in_parallel(states.at, export.versions)
        self._newest = self._versions[-1]
        self._runtime = _repeatable(self._newest.definition.id, export)
        self._items: dict[str, Item] = {}
        self._tables: dict[str, TableCopy] = {}
        # For each version, the tables that it does not share with the one before; `None` where there is none now.
        self._changes: list[dict[bytes, TableRow | None]] = []
        self._copied_ids: set[str] = set()
        self._referred: list[TableRow] = []
        self._chosen = _chosen(self._newest, export.tables)

    def run(self, target: Store) -> Contents:
        self._take_tables()
        home = self._export.address
        for found in self._store.in_parallel(lambda one: one.settle(target, home), self._tables.values()):
            self._add(*found)
        roots = []
        before: Tree | None = None
        different: dict[bytes, Messages] = {}
        for state, changes in zip(self._versions, self._changes, strict=True):
            for key, row in changes.items():
                different.pop(key, None)
                if row is not None and (messages := self._different(key, row)):
                    different[key] = messages
            tree = self._tree(state, self._messages(state, different))
            self._take_tree(state, tree, before)
            roots.append(self._root(state, tree))
            before = tree
        roots = list(self._line({one.path: one for one in roots}))
        return Contents(tuple(self._items.values()), tuple(roots), tuple(self._tables.values()), tuple(self._referred))

    def _add(self, *items: Item) -> None:
        for one in items:
            self._items.setdefault(one.path, one)

    def _take_tables(self) -> None:
        """The tables that are copied, with every row that stands for one of them. Versions share most rows, which are
        looked at once.
        """
        before: State | None = None
        for state in self._versions:
            changes = dict(_tables(state) if before is None else _tables_since(state, before))
            for row in changes.values():
                if row is not None and self._is_copied(row):
                    self._copied_ids.add(row.id)
                    self._take(row)
            self._changes.append(changes)
            before = state
        for row in (row for _, row in _dropped(self._newest)):
            # If it was released first it was not the lake's own any more, though it is in earlier versions.
            if row.id in self._copied_ids and self._is_copied(row):
                self._take(row)

    def _take(self, row: TableRow) -> None:
        if row.location not in self._tables:
            self._tables[row.location] = table_copy(self._store, row, self._runtime)
        self._tables[row.location].add(row)

    def _is_copied(self, row: TableRow) -> bool:
        if row.type != "managed" or self._export.mode == "minimal":
            return False
        return self._chosen is None or row.id in self._chosen

    def _tree(self, state: State, messages: Messages) -> Tree:
        """The tree of a version as the copy has it: what is not different is shared, and copied as it is."""
        if not messages:
            return state.tree
        said = [(key, self._stowed(value, state), self._export.name) for key, value in messages.items()]
        first = state.tree.apply(said, self._runtime)
        # Once more, so that they can move down: a root must not be a burden to whoever commits next.
        second = first.tree.apply((), self._runtime)
        fresh = {**first.files, **second.files}
        for pointer in second.tree.walk():
            path = path_of(pointer)[0]
            if path in fresh:
                self._add(made(path, fresh[path]))
        return second.tree

    def _stowed(self, value: bytes | None, state: State) -> bytes | None:
        if value is None:
            return None
        kind = rows.kind_of(value).__name__.removesuffix("Row").lower()
        small, files = definitions.stow(value, kind, (), self._runtime, most_bytes=state.definition.row_max_size_bytes)
        self._add(*(made(path, data) for path, data in files.items()))
        return small

    def _messages(self, state: State, different: Mapping[bytes, Messages]) -> Messages:
        """The rows that are different in the copy of a version, given those of its tables."""
        found: Messages = {}
        for key in sorted(different):
            found |= different[key]
        if state is self._newest:
            found |= self._remembered(state)
        return found

    def _different(self, key: bytes, row: TableRow) -> Messages:
        """What is different in the copy about a table; nothing if it stands there as it is here."""
        if self._is_copied(row):
            changed = self._tables[row.location].row(row)
        elif self._chosen is not None and row.id not in self._chosen and self._export.mode == "full":
            return {key: None, id_key(row.id): None}
        else:
            changed = reference(self._store, row)
            if row.type == "managed":
                self._referred.append(row)
        return {} if changed is row else {key: rows.encode(changed)}

    def _remembered(self, state: State) -> Messages:
        """What the newest version says beside its objects: other exports are none of the copy's business, tags and
        dropped tables are if their versions are there, and all other versions have been given up.
        """
        found: Messages = {key: None for span in (EXPORTS, TAGS) for key, _ in state.scan(span)}
        for name, version in self._export.tags.items():
            value = state.get(tag_key(name))
            tag = TagRow(version=version, created_at_millis=millis(self._export.created_at))
            if value is not None and (known := rows.decode(value, TagRow)).version == version:
                tag = known  # else it was made after the version that is exported, which does not know it
            found[tag_key(name)] = rows.encode(tag)
        for trash, row in _dropped(state):
            key = trash_key(row.id)
            if row.id not in self._copied_ids or not self._is_copied(row):
                found[key] = None
                continue
            changed = self._tables[row.location].row(row)
            if changed is not row:
                found[key] = rows.encode(replace(trash, row=rows.encode(changed)))
        have = set(self._export.versions)
        gone = Ranges.of(version for version in range(state.version) if version not in have)
        return found | dict(GivenUp(gone, gone, min(have)).row())

    def _take_tree(self, state: State, tree: Tree, before: Tree | None) -> None:
        """Files that a root leads to, but for those of tables."""
        root = state.root
        for pointer in (root.definition, root.transactions_file):
            if pointer is not None:
                self._add(copied(self._store, path_of(pointer)[0]))
        for pointer in tree.walk():
            self._add(copied(self._store, path_of(pointer)[0]))
        for _, value in rows_since(tree, before):
            where = definitions.reference(value)
            if where is not None:
                self._add(copied(self._store, path_of(where)[0]))
            elif rows.kind_of(value) is ViewRow:
                self._take_view(rows.decode(value, ViewRow))

    def _take_view(self, row: ViewRow) -> None:
        path = row.metadata_location
        if path and "://" not in path and not path.startswith("/"):
            self._add(copied(self._store, path))

    def _root(self, state: State, tree: Tree) -> Item:
        if tree is state.tree:
            return copied(self._store, state.root.name)
        root_id = export_root_id(state.root, self._export.name)
        return _root_item(replace(state.root, node=tree.root, root_id=root_id), state.definition.order)

    def _line(self, known: dict[str, Item]) -> Iterator[Item]:
        """The roots without a gap: whoever looks for the latest one must not stop short of it."""
        order = self._newest.definition.order
        have = set(self._export.versions)
        for some in portions((version, 0) for version in range(min(have), self._newest.version + 1)):
            for root in self._store.in_parallel(lambda version: read_root(self._store, version), some):
                if root.version in have:
                    yield known[root.name]
                elif root.expired_at_millis is not None:
                    yield copied(self._store, root.name)
                else:
                    yield _root_item(root.tombstone(self._export.created_at), order)


def _root_item(root: Root, order: int) -> Item:
    return made(root.name, root.encode(order))


def _tables(state: State) -> Iterator[tuple[bytes, TableRow]]:
    for key, value in state.scan(tables_under(())):
        row = as_relation(value)
        if isinstance(row, TableRow):
            yield key, row


def _tables_since(state: State, before: State) -> Iterator[tuple[bytes, TableRow | None]]:
    """The tables that a version does not share with an earlier one; `None` where there is no table any more."""
    for key, value in changes_since(state.tree, before.tree):
        if key.startswith(TABLE):
            row = None if value is None else as_relation(definitions.resolve(state.store, value))
            yield key, row if isinstance(row, TableRow) else None


def _dropped(state: State) -> Iterator[tuple[TrashRow, TableRow]]:
    for _, value in state.scan(DROPPED):
        trash = rows.decode(value, TrashRow)
        yield trash, rows.decode(trash.row, TableRow)


def _chosen(state: State, tables: tuple[Name, ...] | None) -> frozenset[str] | None:
    if tables is None:
        return None
    ids = {name_of(key): row.id for key, row in _tables(state)}
    for name in tables:
        if name not in ids:
            raise NotFound(
                f"{text(name)} does not exist in version {state.version} of the lake",
                remedy="`lake.tables()` lists what there is; names are `namespace.table`.",
                table=text(name),
                version=state.version,
            )
    return frozenset(ids[name] for name in tables)


def _repeatable(lake_id: str, export: Export) -> Runtime:
    """A runtime that says the same whenever this export is worked out."""
    seed = Runtime.derived_uuid(UUID(lake_id), f"export {export.name} {export.version} {export.created_at}").int
    start = at_millis(millis(export.created_at))
    return Runtime(SimulatedClock(start), Runtime.seeded(seed).random)
