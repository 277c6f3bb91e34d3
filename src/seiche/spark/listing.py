"""All files of a lake, listed by Spark's workers, for its clean-up.

The driver looks into folders until there are enough of them; each task lists some, all that is below them. Files that
are known to be needed are only counted there: what comes back is what may be garbage, not the whole lake.
"""

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from seiche.lake.care.gc import Files
from seiche.lake.care.path_set import PathSet
from seiche.spark.address import Address
from seiche.spark.jobs import Progress, executor, parallelism, run_each
from seiche.store.base import ObjectInfo, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Listers"]

# So many folders make enough tasks.
_FOLDERS_PER_WORKER = 16
# Below that lies one table, or one part of the tree.
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is below some folders: files that may not be needed, and how many are."""

    files: tuple[ObjectInfo, ...]
    left_out: int
    bytes: int
    executor: str


class Listers:
    """Lists the files of a lake by all workers of a session."""

    def __init__(self, session: "SparkSession", progress: Progress | None = None) -> None:
        self._session = session
        self._progress = progress
        # Which executors have had a part in it.
        self.executors: set[str] = set()

    def __call__(self, store: Store, needed: PathSet) -> Files:
        """All files, but for those that are needed."""
        here, folders = self._planned(store)
        len(needed)  # gathers what was added last, so that it is sent in its short form
        work = partial(_below, Address.of(store), needed)
        tasks = min(len(folders), _FOLDERS_PER_WORKER * parallelism(self._session))
        found = run_each(self._session, work, [folders[first::tasks] for first in range(tasks)], self._progress)
        self.executors.update(one.executor for one in found)
        return Files(
            chain(here, *(one.files for one in found)),
            sum(one.left_out for one in found),
            sum(one.bytes for one in found),
        )

    def _planned(self, store: Store) -> tuple[list[ObjectInfo], list[str]]:
        """Files that were seen on the way, and folders that hold all others."""
        enough = _FOLDERS_PER_WORKER * parallelism(self._session)
        here: list[ObjectInfo] = []
        folders, closed = [""], list[str]()
        while folders and len(folders) + len(closed) < enough:
            folder = folders.pop(0)
            inside = store.folders(folder) if folder.count("/") < _DEPTH else None
            if inside is None:
                closed.append(folder)  # to be listed as it is
                continue
            here += store.list(folder, recursive=False)
            folders += inside
        return here, [*closed, *folders]


def _below(address: Address, needed: PathSet, folders: list[str]) -> _Seen:
    files, left_out, size = list[ObjectInfo](), 0, 0
    store = address.open()
    for info in chain.from_iterable(map(store.list, folders)):
        if info.path in needed:
            left_out += 1
            size += info.size
        else:
            files.append(info)
    return _Seen(tuple(files), left_out, size, executor())
