"""Files carried by Spark's workers, for exports and deep clones. What is copied twice is as if it were copied once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from seiche.core.runtime import SYSTEM, Runtime
from seiche.lake.export.copying import Hashed, Threads, copy_item, read_back
from seiche.lake.export.items import Item, copied
from seiche.spark.address import Address
from seiche.spark.jobs import Progress, executor, parallelism, run_each
from seiche.store.base import Store
from seiche.table.clone import copy_one
from seiche.table.version_files import StoredFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Carriers"]

# Small files are put together in a task; a large one has a task of its own.
_TASK_BYTES = 256 << 20
_TASKS_PER_WORKER = 4


@dataclass(frozen=True, slots=True)
class _Task:
    """Files of one store on their way to another: the path there, the path here, the size. Can be pickled."""

    source: Address
    target: Address
    files: tuple[tuple[str, str, int], ...]


class Carriers:
    """Copies files, and reads them back, by all workers of a session. It can carry an export, or a clone."""

    # What is copied is written down after so many; a job of Spark for each time.
    at_once = 4096

    def __init__(self, session: "SparkSession", progress: Progress | None = None) -> None:
        self._session = session
        self._progress = progress
        # Which executors have had a part in it.
        self.executors: set[str] = set()

    def copy(self, items: Sequence[Item], target: Store, runtime: Runtime) -> Sequence[Hashed]:
        """For exports: bring files to the target, hashed on the way. Those that are made come from this process."""
        made = Threads().copy([one for one in items if one.source is None], target, runtime)
        files = [(one.source[0], one.source[1], one.path, one.size) for one in items if one.source is not None]
        found = self._run(_copied, self._tasks(files, Address.of(target)))
        return [*made, *found]

    def read(self, files: Sequence[Hashed], target: Store, runtime: Runtime) -> Sequence[Hashed | None]:
        """For exports: what files of the target are, each read whole."""
        address = Address.of(target)
        found = self._run(_read, self._tasks([(target, one.path, one.path, one.size) for one in files], address))
        known = {one.path: one for one in found}
        return [known.get(one.path) for one in files]

    def clone(self, files: Sequence[StoredFile], target: Store) -> None:
        """For deep clones: copy files within the storage where it can, each checked for its size."""
        named = [(one.store, one.path, one.target, one.size) for one in files]
        self._run(_cloned, self._tasks(named, Address.of(target)))

    def _run(self, work: "_Work", tasks: Sequence[_Task]) -> list[Hashed]:
        found: list[Hashed] = []
        for done, by in run_each(self._session, partial(_reported, work), tasks, self._progress):
            found += done
            self.executors.add(by)
        return found

    def _tasks(self, files: Sequence[tuple[Store, str, str, int]], target: Address) -> list[_Task]:
        by_source: dict[Address, list[tuple[str, str, int]]] = {}
        for store, path, there, size in files:
            by_source.setdefault(Address.of(store), []).append((path, there, size))
        total = sum(size for *_, size in files)
        most = max(1, min(_TASK_BYTES, total // (_TASKS_PER_WORKER * parallelism(self._session))))
        return [_Task(source, target, group) for source, some in by_source.items() for group in _grouped(some, most)]


if TYPE_CHECKING:
    from collections.abc import Callable

    _Work = Callable[[_Task], list[Hashed]]


def _grouped(files: Sequence[tuple[str, str, int]], most: int) -> list[tuple[tuple[str, str, int], ...]]:
    """Files together whose sizes add up to about `most`, and never very many."""
    groups: list[list[tuple[str, str, int]]] = []
    size = 0
    for one in sorted(files, key=lambda each: -each[2]):
        if not groups or size + one[2] > most or len(groups[-1]) >= Carriers.at_once // _TASKS_PER_WORKER:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one[2]
    return [tuple(one) for one in groups]


def _reported(work: "_Work", task: _Task) -> tuple[list[Hashed], str]:
    return work(task), executor()


def _copied(task: _Task) -> list[Hashed]:
    source, target = task.source.open(), task.target.open()
    return [copy_item(copied(source, path, there, size), target, SYSTEM) for path, there, size in task.files]


def _read(task: _Task) -> list[Hashed]:
    target = task.target.open()
    found = (read_back(Hashed(path, size, ""), target, SYSTEM) for path, _, size in task.files)
    return [one for one in found if one is not None]


def _cloned(task: _Task) -> list[Hashed]:
    source, target = task.source.open(), task.target.open()
    for path, there, size in task.files:
        copy_one(StoredFile(source, path, size, there), target, SYSTEM)
    return []
