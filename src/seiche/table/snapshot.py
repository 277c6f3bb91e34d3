"""One version of a table, with what is needed to read it and to prepare a change of it."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.table.bases import deletion_files
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest import Manifest

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

__all__ = ["Snapshot"]


class Snapshot:
    """What a verb starts from. The version may be published, or stand only in a transaction that is still running.

    Everything that is prepared from a snapshot writes new files only; the table does not change before a commit.
    """

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        runtime: Runtime,
        *,
        staged: bool = False,
        published: "Manifest | Callable[[], Manifest | None] | None" = None,
        since: int | None = None,
        fence: int = 0,
    ) -> None:
        """`staged` says that the version is not published; `published` is then the one it was built on, if there is
        one, or tells it when it is needed. In a lake, `since` is the version of the lake that it was taken from: a
        clean-up that comes later may take files for garbage that were written for a change of this snapshot. Of files
        from before version `fence` this may have happened.
        """
        self.store = store
        self.manifest = manifest
        self.runtime = runtime
        self.since = since
        self.fence = fence
        self._staged = staged
        self._given = published

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def published_version(self) -> int | None:
        """The number of the newest version up to this one that has its manifest under its plain name, if known."""
        if not self._staged:
            return self.version
        return None if self._published is None else self._published.version

    @cached_property
    def _published(self) -> Manifest | None:
        return self._given() if callable(self._given) else self._given

    @cached_property
    def dataset(self) -> "lance.LanceDataset":
        """The native dataset. For reading and for writing files; it must never commit."""
        from seiche.table.data.native import open_staged, open_version

        if self._staged:
            return open_staged(self.store, self.manifest, base=self._published)
        return open_version(self.store, self.version)

    @cached_property
    def rows(self) -> "lance.LanceDataset":
        """The native dataset, to scan rows with. Whether the version is published is asked only if it matters."""
        from seiche.table.data.native import looks_at_published, open_staged

        if self._staged and not looks_at_published(self.manifest):
            return open_staged(self.store, self.manifest)
        return self.dataset

    @cached_property
    def schema(self) -> "pa.Schema":
        """The columns, as an Arrow schema."""
        from seiche.table.format.schema import to_arrow

        return to_arrow(self.manifest.header.fields, self.manifest.header.schema_metadata)

    @cached_property
    def deletions(self) -> DeletionFiles:
        """The table's deletion vectors."""
        return deletion_files(self.manifest, self.store, self.runtime)
