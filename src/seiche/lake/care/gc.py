"""Clearing away files that no kept version of a lake needs.

A file goes in three steps, in at least two runs, and can come back until the last:

1. A run that finds it unneeded makes a note of it.
2. A run that comes `grace` later finds it unneeded again. It puts up a fence: nobody who began up to the version that
   the note was made at can commit any more, and only such a one could have brought the file. Then it looks once more,
   at what was committed until then, and moves the file to the trash.
3. A run that comes `window` later removes it from the trash.

Nothing of this depends on clocks being right. They only decide when a run finds that enough time has passed; what a
file must not be needed by is told by the order of the listing, the fence and the versions between them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from seiche.core.durations import Duration, duration, in_words
from seiche.core.given import a_flag
from seiche.lake.adopt import KEPT
from seiche.lake.care.clean_up import CleanUp, Unneeded
from seiche.lake.care.fence import Fence
from seiche.lake.care.layout import Place, Sort, place
from seiche.lake.care.leases import USUAL, leases
from seiche.lake.care.listing import Listed
from seiche.lake.care.live import live_roots
from seiche.lake.care.notes import Note, leave_note, notes
from seiche.lake.care.path_set import PathSet, spelling
from seiche.lake.care.reachable import Reachable
from seiche.lake.care.saved_work import SavedWork, saved_work
from seiche.lake.care.trash import Trash, TrashedFile
from seiche.lake.federated.release import released
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.names import root_version
from seiche.lake.tree.root import Root
from seiche.store.base import ObjectInfo, Store
from seiche.store.paths import join

if TYPE_CHECKING:
    from seiche.lake.care.verbs import CareVerbs

__all__ = ["GRACE", "WINDOW", "CleanUp", "Files", "Listing", "Progress", "Unneeded", "collect"]

# Longer than transactions live.
GRACE: Final = timedelta(days=1)
WINDOW: Final = timedelta(days=7)

# Told now and then what is being done, and how far it is.
Progress: TypeAlias = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a lake. Some that are needed may be left out: of those only the number and the bytes are known."""

    listed: Iterable[ObjectInfo]
    left_out: int = 0
    bytes: int = 0


# Lists all files of a lake; it may leave out any that are in the set.
Listing: TypeAlias = Callable[[Store, PathSet], Files]

_OFTEN: Final = 1000

T = TypeVar("T")


def collect(
    lake: "CareVerbs",
    *,
    dry_run: bool = True,
    grace: Duration = GRACE,
    window: Duration = WINDOW,
    progress: Progress = lambda _what, _done: None,
    listing: Listing = lambda store, _needed: Files(store.list()),
) -> CleanUp:
    """Clear away what nothing needs; a dry run only says what would go, and why, and writes nothing.

    With no `grace` everything happens in one run, and transactions that are running now have to be run again. With no
    `window` there is no way back. Interrupted anywhere, it can be run again.
    """
    if not a_flag(dry_run, "dry_run"):
        lake.check_writable()
    job = _Job(lake, duration(grace, "grace"), duration(window, "window"), progress, listing)
    job.look()
    if dry_run:
        now = lake.states.runtime.clock.now()
        return job.report(job.ready([*notes(lake.store), Note(job.newest.version, now, "")], now))
    return job.clear()


class _Job:
    """One run of a clean-up."""

    def __init__(
        self, lake: "CareVerbs", grace: timedelta, window: timedelta, progress: Progress, listing: Listing
    ) -> None:
        self._lake = lake
        self._grace = grace
        self._window = window
        self._progress = progress
        self._listing = listing
        self.states: States = lake.states
        self.newest: State = self.states.latest()
        self.reachable = Reachable(self.states)
        self.found: list[tuple[Place, Listed]] = []
        self._foreign: list[Place] = []
        self._dropped: list[bytes] = []
        self._fenced = False
        self._waiting = ""
        self._files = self._bytes = 0
        # Where tables are that are known, by their own name and by the spelling of that.
        self._locations: dict[str, str] = {}

    def look(self) -> None:
        """Find the files that nothing needs."""
        self._mark(live_roots(self.states, self.newest))
        self._list()
        # Whoever wrote one of the files just listed had begun at this version or before.
        self._catch_up()
        overtaken = list(self._overtaken())
        manifests = [one for one in self._foreign if one.inside.endswith(".manifest")]
        self.reachable.add_foreign([*manifests, *overtaken])
        aside = list(self._set_aside())
        self.reachable.add_foreign(aside)
        self._foreign = [one for one in self._foreign if one.path not in self.reachable.needed] + overtaken + aside
        self.found = [(one, listed) for one, listed in self.found if not self.reachable.needs(one)]

    def ready(self, known: Sequence[Note], now: datetime) -> tuple[Note | None, list[tuple[Place, Listed]]]:
        """Which of the files may go, and the note that says so. `now` is by the storage's clock."""
        saved = [one for one in saved_work(self._lake.store) if one.may_commit(self.newest, now)]
        usable = [note for note in known if note.at <= now - self._grace and _before(note, saved)]
        if not usable:
            self._waiting = _why_wait(known, now, self._grace, saved)
            return None, []
        note = max(usable, key=lambda one: (one.version, one.at))
        old = now - self._grace
        if not note.path:
            return note, [(one, listed) for one, listed in self.found if listed.modified <= old]
        noted = note.load(self._lake.store)
        ready = [(one, listed) for one, listed in self.found if listed.modified <= old and listed.identity in noted]
        if len(ready) < len(self.found):
            self._waiting = (
                f"files that were not noted by version {note.version}, or are younger than {in_words(self._grace)}"
            )
        return note, ready

    def clear(self) -> CleanUp:
        """Note what was found, move what was noted before, and remove what has been in the trash for long."""
        store, runtime = self._lake.store, self.states.runtime
        own = leave_note(store, self.newest.version, (listed for _, listed in self.found), runtime)
        note, ready = self.ready(list(notes(store)), own.at)
        fence = run = None
        if note is not None and (ready or self._dropped):
            fence = self._put_up_fence(note.version + 1)
            ready = [(one, listed) for one, listed in ready if not self.reachable.needs(one)]
            run = self._take(ready)
        trash = Trash(store, runtime)
        removed, size, back = trash.empty(own.at - self._window, self._is_needed)
        self._tidy(note, own)
        made = self.report((note, ready))
        return replace(made, done=True, fence=fence, run=run, removed=removed, removed_bytes=size, restored=tuple(back))

    def report(self, fate: tuple[Note | None, list[tuple[Place, Listed]]]) -> CleanUp:
        """What was found, and the fate of each file: noted, or moved to the trash."""
        moved = {one.path for one, _ in fate[1]}
        unneeded = tuple(
            Unneeded(
                one.path,
                listed.size,
                listed.modified,
                one.sort.value,
                self.reachable.why_not(one),
                "moved" if one.path in moved else "waits",
            )
            for one, listed in sorted(self.found, key=lambda each: each[0].path)
        )
        return CleanUp(
            version=self.newest.version,
            done=False,
            files=self._files,
            bytes=self._bytes,
            versions=self.reachable.versions,
            unneeded=unneeded,
            waiting_for=self._waiting if len(moved) < len(unneeded) else "",
            foreign=tuple(sorted(one.path for one in self._foreign if one.sort is not Sort.UNKNOWN)),
            unknown=tuple(sorted(one.path for one in self._foreign if one.sort is Sort.UNKNOWN)),
            closed=dict(self.reachable.closed),
        )

    def _mark(self, roots: Iterator[Root]) -> None:
        self.reachable.add_roots(self._counted("looking at versions", roots))
        self._dropped = self.reachable.add_dropped(self.newest, fenced=self._fenced)
        for location in released(self.newest):
            self.reachable.closed[location] = "the table was released: it belongs to whoever writes it now"
        self.reachable.settle()
        saved = list(saved_work(self._lake.store))
        now = self.states.runtime.clock.now()
        self.reachable.add_saved(one for one in saved if one.may_commit(self.newest, now))

    def _catch_up(self) -> None:
        """Count in what was committed since."""
        seen = self.newest.version
        self.newest = self.states.latest()
        since = range(seen + 1, self.newest.version + 1)
        self._mark(live_roots(self.states, self.newest, since))

    def _list(self) -> None:
        known = (*self.reachable.tables, *self.reachable.closed)
        self._locations = {spelling(one): one for one in known} | {one: one for one in known}
        files = self._listing(self._lake.store, self.reachable.needed)
        self._files, self._bytes = files.left_out, files.bytes
        nested: set[str] = set()
        for info in self._counted("listing files", iter(files.listed)):
            self._files += 1
            self._bytes += info.size
            folder, _, name = info.path.rpartition("/")
            if folder and root_version(name) is not None:
                nested.add(folder)
            found = self._place(info.path)
            if found.foreign or self._is_foreign_manifest(found):
                self._foreign.append(found)
            elif not self.reachable.needs(found):
                self.found.append((found, Listed(found.path, info.size, info.modified)))
        if nested:
            self._leave(tuple(f"{folder}/" for folder in nested))

    def _place(self, path: str) -> Place:
        """What a file is, in the table that it belongs to, under whatever spelling its folder is listed."""
        found = place(path, self._locations)
        if found.location in self.reachable.tables:
            return found
        known = self._locations.get(found.location) or self._locations.get(spelling(found.location))
        return found if known is None else place(join(known, found.inside), [known])

    def _leave(self, folders: tuple[str, ...]) -> None:
        """Leave alone what lies in folders of other lakes: their files are called as this one's are."""
        theirs = [one.path for one, _ in self.found if one.path.startswith(folders)]
        self._foreign += [Place(path, Sort.UNKNOWN) for path in theirs]
        self.found = [(one, listed) for one, listed in self.found if not one.path.startswith(folders)]

    def _is_foreign_manifest(self, found: Place) -> bool:
        table = self.reachable.tables.get(found.location)
        return found.sort is Sort.MANIFEST and table is not None and found.version > table.newest

    def _overtaken(self) -> Iterator[Place]:
        """Foreign manifests under the names of versions that the lake has made too: `adopt` may bring them in as well.
        Looked for only in tables with files that nothing seems to need.
        """
        tables = self.reachable.tables
        for taken in self._lake.store.in_parallel(lambda location: tables[location].taken_names(), self._own_places()):
            yield from (place(path, tables.keys()) for path in taken)

    def _set_aside(self) -> Iterator[Place]:
        """Foreign manifests that `adopt` has set aside since their folder was listed: who looks only once may look
        there too early, and for their first names too late. So this comes when those have been looked at.
        """
        store, known = self._lake.store, {one.path for one in self._foreign}
        for aside in store.in_parallel(lambda location: list(store.list(join(location, KEPT))), self._own_places()):
            yield from (place(info.path, self.reachable.tables.keys()) for info in aside if info.path not in known)

    def _own_places(self) -> list[str]:
        """Where tables are that have files which nothing seems to need."""
        return sorted({one.location for one, _ in self.found} & self.reachable.tables.keys())

    def _put_up_fence(self, min_base: int) -> int:
        dropped = frozenset(self._dropped)
        if self.newest.root.min_base < min_base or dropped:
            self._lake.decide(
                Fence(
                    str(self.states.runtime.uuid()),
                    self.states.latest().version,
                    properties={"care": "gc"},
                    min_base=min_base,
                    write=lambda state: {key: None for key in dropped if state.get(key) is not None},
                )
            )
        self._fenced = True
        self._catch_up()
        return max(min_base, self.newest.root.min_base)

    def _take(self, ready: list[tuple[Place, Listed]]) -> str | None:
        if not ready:
            return None
        trash = Trash(self._lake.store, self.states.runtime)
        if not self._window:
            trash.discard([one.path for one, _ in ready], progress=lambda done: self._progress("removing", done))
            return None
        files = (TrashedFile(one.path, listed.size, self.reachable.why_not(one)) for one, listed in ready)
        return trash.take(files, progress=lambda done: self._progress("moving to the trash", done))

    def _is_needed(self, path: str) -> bool | None:
        """Of a file in the trash; `None` if it cannot be known."""
        found = self._place(path)
        if self.reachable.leads_to(found):
            # What was counted in may have expired while this ran, and then another clean-up took the file rightly.
            return True if self._afresh.leads_to(found) else None
        return None if self.reachable.needs(found) else False

    @cached_property
    def _afresh(self) -> Reachable:
        """What is needed now, without the versions that have expired since the beginning."""
        again = _Job(self._lake, self._grace, self._window, self._progress, self._listing)
        again._mark(live_roots(again.states, again.newest))
        return again.reachable

    def _tidy(self, used: Note | None, own: Note) -> None:
        """Remove notes that a later one replaces, leases that have run out, and what dead writers left half written."""
        store = self._lake.store
        for note in notes(store):
            replaced = used is not None and (note.version, note.at) < (used.version, used.at)
            if replaced or (note.path == own.path and not self.found):
                store.delete(note.path)
        for lease in leases(store):
            # Never at once: by its reader's clock it may not have run out yet.
            if lease.until < own.at - max(self._grace, USUAL):
                store.delete(lease.path)
        store.sweep(max(self._grace, GRACE))

    def _counted(self, what: str, items: Iterator[T]) -> Iterator[T]:
        for number, item in enumerate(items, 1):
            if number % _OFTEN == 0:
                self._progress(what, number)
            yield item


def _before(note: Note, saved: Sequence[SavedWork]) -> bool:
    """Whether a fence right behind the note spares every saved transaction."""
    return all(note.version < one.base for one in saved)


def _why_wait(known: Sequence[Note], now: datetime, grace: timedelta, saved: Sequence[SavedWork]) -> str:
    old = [note for note in known if note.at <= now - grace]
    if old and saved:
        oldest = min(saved, key=lambda one: one.base)
        return f"transaction {oldest.id}, which was saved at version {oldest.base} and may commit until {oldest.until}"
    return f"a run that comes {in_words(grace)} after the first one that noted them"
