"""One version of the lake, as something to look things up in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from seiche.errors import NotFound
from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import KeyRange, id_key, namespace_key, table_key, transaction_key
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import NamespaceRow, ObjectNameRow, Row, TableRow, TransactionRow, ViewRow
from seiche.lake.outside import ANYWHERE, Outside
from seiche.lake.tree.definition import LakeDefinition
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.root import Root
from seiche.lake.tree.tree import Tree
from seiche.store.base import Store
from seiche.store.overlay import OverlayStore

__all__ = ["State"]


@dataclass(frozen=True, slots=True)
class State:
    """The objects of a lake at one version. Immutable, like the root it stands for.

    `tree` is that of the root, or what it would be after transactions that are about to be committed with it: members
    of a group are checked against the ones before them as if those had roots of their own.
    """

    store: Store
    root: Root
    tree: Tree
    definition: LakeDefinition
    # Shared by all versions that were opened together.
    manifests: ManifestCache = field(default_factory=ManifestCache, repr=False, compare=False)
    # What may be opened besides the lake's own files.
    outside: Outside = field(default=ANYWHERE, repr=False, compare=False)

    @property
    def version(self) -> int:
        return self.root.version

    def after(self, tree: Tree, files: Mapping[str, bytes]) -> "State":
        """This version with changes that are not durable yet, nor are the files that they name."""
        store = self.store.inner if isinstance(self.store, OverlayStore) else self.store
        return replace(self, tree=tree, store=OverlayStore(store, files))

    def is_durable(self, key: bytes) -> bool:
        """Whether what stands behind a key is what the root says, not what an earlier member of a group wants."""
        if self.tree.root is self.root.node:
            return True
        return replace(self.tree, root=self.root.node).get(key) == self.tree.get(key)

    def get(self, key: bytes) -> bytes | None:
        """The row behind a key, as bytes; read from its definition file if it is a large one."""
        value = self.tree.get(key)
        return None if value is None else definitions.resolve(self.store, value)

    def scan(self, keys: KeyRange) -> Iterator[tuple[bytes, bytes]]:
        """The rows whose keys are in a range, in order."""
        for key, value in self.tree.scan(keys.start, keys.stop):
            yield key, definitions.resolve(self.store, value)

    def namespace(self, name: Name) -> NamespaceRow | None:
        value = self.get(namespace_key(name))
        return None if value is None else rows.decode(value, NamespaceRow)

    def relation(self, name: Name) -> TableRow | ViewRow | None:
        """The table or view of this name."""
        return self.behind(table_key(name))

    def behind(self, key: bytes) -> TableRow | ViewRow | None:
        """The table or view that has this key."""
        value = self.get(key)
        return None if value is None else as_relation(value)

    def table(self, name: Name) -> TableRow:
        """The table of this name; `NotFound` if there is none, or it is a view."""
        return self.as_table(self.relation(name), name)

    def as_table(self, row: TableRow | ViewRow | None, name: Name) -> TableRow:
        """What was found under a name, if it is a table; else `NotFound`."""
        if not isinstance(row, TableRow):
            what = "is a view, not a table" if row else "does not exist"
            raise NotFound(
                f"{text(name)} {what} in version {self.version} of the lake",
                remedy="`lake.tables()` lists what there is; names are `namespace.table`.",
                table=text(name),
                version=self.version,
            )
        return row

    def key_of(self, object_id: str) -> bytes | None:
        """The key under which the object with this id stands now, if it still exists."""
        value = self.get(id_key(object_id))
        return None if value is None else rows.decode(value, ObjectNameRow).key

    def table_by_id(self, table_id: str) -> TableRow | None:
        """The table with this id, whatever it is called now; `None` if it was dropped, or the id is that of a view."""
        key = self.key_of(table_id)
        row = None if key is None else self.behind(key)
        return row if isinstance(row, TableRow) else None

    def table_at(self, version: int, table_id: str) -> TableRow | None:
        """The table as a version of the lake has it. One that expires at this moment does not have it any more."""
        state = self
        if version != self.version:
            root = read_root(self.store, version)
            state = replace(self, root=root, tree=replace(self.tree, root=root.node))
        return state.table_by_id(table_id)

    def outcome(self, transaction_id: str) -> TransactionRow | None:
        """How a transaction ended, if that has been decided and is still remembered."""
        value = self.tree.get(transaction_key(transaction_id))
        return None if value is None else rows.decode(value, TransactionRow)


def as_relation(value: bytes) -> TableRow | ViewRow:
    """The table or view in the bytes of a row."""
    kind: type[Row] = rows.kind_of(value)
    return rows.decode(value, ViewRow) if kind is ViewRow else rows.decode(value, TableRow)
