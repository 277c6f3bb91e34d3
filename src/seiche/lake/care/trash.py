"""The trash: what a clean-up took away, for as long as that can be undone.

Each clean-up that takes files has a folder of its own, in which they stand under the paths that they had. The list of
them is written before the first is moved, so that whatever happens in between, what was to be moved is known.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Final

from seiche.core import given
from seiche.core.insisting import insist
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, Corrupt, NotFound
from seiche.lake.care.layout import TRASH, Sort, place
from seiche.lake.care.listing import pack, unpack
from seiche.lake.commit.written import BLUR
from seiche.store.base import Store

__all__ = ["Trash", "TrashedFile", "TrashedRun"]

# File systems take their times from a clock that is some milliseconds behind, for one file and not for another.
_TICK: Final = timedelta(milliseconds=50)
_LIST: Final = "list"
_FILES: Final = "files"
_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class TrashedFile:
    """A file in the trash, by the path that it had."""

    path: str
    size: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TrashedRun:
    """What one clean-up took, and when by the storage's clock."""

    id: str
    at: datetime
    files: tuple[TrashedFile, ...]

    @property
    def bytes(self) -> int:
        """How large its files are together."""
        return sum(one.size for one in self.files)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        files = [{"path": one.path, "bytes": one.size, "reason": one.reason} for one in self.files]
        return {"run": self.id, "at": self.at.isoformat(), "bytes": self.bytes, "files": files}


class Trash:
    """The trash of one lake. Going through it gives the clean-ups that have files in it, oldest first."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        """Use `lake.trash()`."""
        self._store = store
        self._runtime = runtime

    def __iter__(self) -> Iterator[TrashedRun]:
        found = (self._read(run) for run in self._runs())
        return iter(sorted((run for run in found if run is not None), key=lambda run: run.at))

    def __len__(self) -> int:
        return len(self._runs())

    def restore(self, run: str, paths: Collection[str] | None = None) -> list[str]:
        """Put files back where they were: all that a clean-up took, or some. Returns their paths.

        They count as written now: the next clean-up notes them anew, and Iceberg metadata among them can be registered.
        What stands there by now is left as it is. Interrupted, it can be run again.
        """
        found = self._read(run)
        if found is None:
            raise NotFound(f"there is no clean-up {run!r} in the trash", remedy="`lake.trash()` lists them.", run=run)
        # One text would be asked for parts of it, and files come back that nobody named.
        named = None if paths is None else set(given.names(paths, "paths", "Give paths as `lake.trash()` lists them."))
        wanted = {one.path: one for one in found.files if named is None or one.path in named}
        if any(place(path).sort is Sort.ICEBERG_METADATA for path in wanted):
            # To be registered, they have to be younger than the fence of the clean-up that took them.
            self._runtime.clock.sleep((BLUR + _TICK).total_seconds())
        # Manifests last: one that stands must name nothing but what stands too.
        back = [path for path in reversed(_in_order(wanted)) if self._put_back(run, wanted[path])]
        if paths is None:
            self._drop(run)
        return back

    def take(self, files: Iterable[TrashedFile], *, progress: Callable[[int], None]) -> str:
        """Move files here; returns the id of the clean-up. Those that are not there any more are passed over."""
        by_path = {one.path: one for one in files}
        run = f"{self._runtime.clock.now():%Y%m%dT%H%M%S}-{str(self._runtime.uuid())[:8]}"
        listed = pack(run, [(one.path, str(one.size), one.reason) for one in by_path.values()])
        insist(lambda: self._store.put(f"{TRASH}/{run}/{_LIST}", listed), self._runtime)
        self._each(lambda path: self._move(path, _inside(run, path)), _in_order(by_path), progress)
        return run

    def discard(self, files: Iterable[str], *, progress: Callable[[int], None]) -> None:
        """Remove files without a way back."""
        self._each(self._store.delete, _in_order(files), progress)

    def empty(self, before: datetime, needed: Callable[[str], bool | None]) -> tuple[int, int, list[str]]:
        """Remove for good what was taken up to a time; returns how many files and bytes, and what it put back instead.

        `needed` tells of a path whether something leads to it after all, `None` if that cannot be known now. The first
        should never be so; if it is, it is not made worse. The second stays where it is.
        """
        files = size = 0
        back: list[str] = []
        for run in self:
            if run.at > before:
                continue
            gone = []
            for one in run.files:
                verdict = needed(one.path)
                if verdict is False:
                    gone.append(one)
                elif verdict and self._put_back(run.id, one):
                    # Where something else stands in its place, this may be the only whole copy: it stays.
                    back.append(one.path)
            self._each(self._store.delete, [_inside(run.id, one.path) for one in gone])
            files += len(gone)
            size += sum(one.size for one in gone)
            self._drop(run.id)
        return files, size, back

    def _runs(self) -> list[str]:
        return sorted({info.path.split("/")[1] for info in self._store.list(TRASH) if info.path.count("/") > 1})

    def _read(self, run: str) -> TrashedRun | None:
        """What stands in the folder of a clean-up counts; its list only adds the reasons."""
        reasons: dict[str, str] = {}
        times: list[datetime] = []
        files = []
        with suppress(Corrupt, NotFound):
            path = f"{TRASH}/{run}/{_LIST}"
            reasons = {line[0]: line[2] for line in unpack(self._store.get(path), path)[1] if len(line) == 3}
        for info in self._store.list(f"{TRASH}/{run}"):
            times.append(info.modified)
            origin = info.path.removeprefix(f"{TRASH}/{run}/{_FILES}/")
            if origin != info.path:
                files.append(TrashedFile(origin, info.size, reasons.get(origin, "")))
        return TrashedRun(run, max(times), tuple(files)) if times else None

    def _each(
        self, act: Callable[[str], None], paths: list[str], progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Do something to all paths, some at a time; those of a table's manifests one after the other, in their
        order.
        """
        of_tables: dict[str, list[str]] = {}
        for path in paths:
            found = place(path)
            if found.sort is Sort.MANIFEST:
                of_tables.setdefault(found.location, []).append(path)
        waves = [[path for path in wave if path is not None] for wave in zip_longest(*of_tables.values())]
        waves.append(paths[sum(map(len, waves)) :])
        done = 0
        for wave in waves:
            for first in range(0, len(wave), _AT_ONCE):
                group = wave[first : first + _AT_ONCE]
                self._store.in_parallel(lambda path: insist(lambda: act(path), self._runtime), group)
                done += len(group)
                progress(done)

    def _move(self, source: str, target: str) -> None:
        with suppress(NotFound):
            if self._store.lists_in_one_request:
                with suppress(AlreadyExists):
                    self._store.rename_if_absent(source, target)
            else:
                # On object stores a rename is a download and an upload, a copy is one request. No condition is needed:
                # nobody else has these names.
                self._store.copy_from(self._store, source, target)
                self._store.delete(source)

    def _put_back(self, run: str, one: TrashedFile) -> bool:
        """Whether it is back now; `False` if it had been there already."""
        inside = _inside(run, one.path)
        try:
            standing = self._store.head(one.path).size
        except NotFound:
            insist(lambda: self._move(inside, one.path), self._runtime)
            return True
        if standing == one.size:
            # Names are not used twice: it was brought back before, and only this was left to be done.
            insist(lambda: self._store.delete(inside), self._runtime)
        return False

    def _drop(self, run: str) -> None:
        """The list goes last, and only if nothing is left."""
        left = [info.path for info in self._store.list(f"{TRASH}/{run}/{_FILES}")]
        if not left:
            self._store.delete(f"{TRASH}/{run}/{_LIST}")
            self._store.prune(f"{TRASH}/{run}")


def _inside(run: str, path: str) -> str:
    return f"{TRASH}/{run}/{_FILES}/{path}"


def _in_order(paths: Iterable[str]) -> list[str]:
    """Manifests first, oldest first: one that stands names only what stands, and those that stand leave no gap."""

    def rank(path: str) -> tuple[int, str, int, str]:
        found = place(path)
        return (found.sort is not Sort.MANIFEST, found.location, found.version, path)

    return sorted(paths, key=rank)
