"""Where the files of a table lie: below its own root, or below base paths of it, which may be anywhere."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, NotFound
from seiche.store.base import Store
from seiche.store.beside import open_beside
from seiche.store.paths import join
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import BasePath, DataFile, DeletionFile, IndexMetadata

__all__ = ["TableRoot", "TableRoots"]


class TableRoot:
    """One of these places: which files are there, and how large each is. Its folders are listed once, when asked for.

    `shown` is how a path in it is called to people. In a base path that `is_table` not, data files lie in it directly.
    """

    def __init__(
        self,
        store: Store,
        shown: Callable[[str], str],
        *,
        is_table: bool = True,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """`sizes` are those of all files in it, if they are known."""
        self.store = store
        self.shown = shown
        self.is_table = is_table
        self._sizes = dict(sizes or {})
        self._listed = set() if sizes is None else {""}

    def data(self, file: DataFile) -> str:
        """The path of a data file in it."""
        return join("data", file.path) if self.is_table else file.path

    def size(self, path: str) -> int | None:
        """How large the file at `path` is; `None` if there is none."""
        folder = path.partition("/")[0] if self.is_table else ""
        if not self._listed & {"", folder}:
            with suppress(NotFound):
                self._sizes |= {info.path: info.size for info in self.store.list(folder)}
            self._listed.add(folder)
        return self._sizes.get(path)


class TableRoots:
    """All of them. Which number a base path has is different from version to version."""

    def __init__(self, own: TableRoot, runtime: Runtime) -> None:
        self.own = own
        self._runtime = runtime
        self._known: dict[tuple[str, bool], TableRoot] = {}
        self._numbers: dict[int, TableRoot] = {}

    def at(self, manifest: Manifest) -> None:
        """From now on, numbers are those of this version."""
        self._numbers = {base.id: self._base(base) for base in manifest.header.base_paths}

    @property
    def stores(self) -> dict[int, Store]:
        """The base paths by their numbers."""
        return {number: root.store for number, root in self._numbers.items()}

    def of(self, file: DataFile | DeletionFile | IndexMetadata) -> TableRoot:
        """Where a file of the version lies; `Corrupt` if that is a base path that it has not."""
        if not file.HasField("base_id"):
            return self.own
        if file.base_id not in self._numbers:
            raise Corrupt(f"a file lies below base path {file.base_id}, and the version has no such base path")
        return self._numbers[file.base_id]

    def _base(self, base: BasePath) -> TableRoot:
        key = (base.path, base.is_dataset_root)
        if key not in self._known:
            store = open_beside(self.own.store, base.path, runtime=self._runtime)
            self._known[key] = TableRoot(store, store.native_uri, is_table=base.is_dataset_root)
        return self._known[key]
