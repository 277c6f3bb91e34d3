"""Where pylance works on a table of the lake: a directory beside it that shows the table's versions, open to writers.

pylance finds out what others have committed by listing `_versions` in the table's directory. In a table of a lake those
manifests are closed to writers who do not know the lake, so pylance could never rebase. A desk has a `_versions` of its
own, with the same versions under the same numbers; their files are referred to, not copied. What pylance writes lands
on the desk, and is copied into the table when the commit comes through the server. The lake decides as ever: a desk can
be thrown away at any time, and is made again from the lake.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from seiche.core.insisting import insist
from seiche.core.runtime import SYSTEM
from seiche.errors import AlreadyExists, Corrupt, InvalidInput, NotFound
from seiche.gateway.lance_namespace.branches import branch_of, family, table_of
from seiche.gateway.lance_namespace.following import Following
from seiche.gateway.lance_namespace.tidying import tidied
from seiche.gateway.lance_namespace.translation import from_desk, to_desk
from seiche.lake.care.layout import DESKS
from seiche.lake.engines.native_manifest import NativeManifest, read_native
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import LakeVersions
from seiche.store.base import ObjectInfo, Store
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table.format import file
from seiche.table.format.file import ManifestFile
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import BasePath
from seiche.table.format.refs import branch_path, branch_root
from seiche.table.operations import Delete, Update
from seiche.table.versions.naming import Naming, named, parse

__all__ = ["LINES", "Desk", "Desks", "main_desk"]

log = logging.getLogger("seiche.gateway")

# Whose versions lie on the desk of a branch: a file of the same name as that of the branch.
LINES: Final = "_lines"
# No commit takes longer: what has been on a desk for so long is no longer needed there.
_LONGEST_COMMIT: Final = timedelta(days=7)
# A server lives for long, and tables are made and dropped: of those there is no end.
_MOST_KNOWN: Final = 10_000


class Desk:
    """The desk of one table.

    The versions on it have no gaps: pylance skips a missing one in silence, and would bring deleted rows back.
    """

    def __init__(self, lake: Store, row: TableRow) -> None:
        self._lake = lake
        self._location = row.location
        self._home = below(lake, row.location)
        self._branch = branch_of(row)
        # Of a branch, the desk lies where pylance looks for it: on that of the table.
        main = main_desk(lake, row)
        self._place = main if self._branch is None else f"{main}/{branch_root(self._branch)}"
        self.main = below(lake, main)
        self.store = below(lake, self._place)
        self._lock = Lock()
        self._first = self._last = 0

    def show(self, state: State, row: TableRow, version: int | None, now: datetime) -> tuple[str, int]:
        """See to it that every version up to the newest is on the desk, and `version` if given; where it is, its size.

        `NotFound` if the lake has no such version any more. What it names on the desk stays there for days from now on.
        """
        number = row.table_version if version is None else version
        path = Naming.V2.path(number)
        for _ in range(2):
            with self._lock:
                self._make_own(row)
                self._fill(LakeVersions(state.store, row, state.manifests), number)
            try:
                there = self.store.head(path)
                if now - there.modified > _LONGEST_COMMIT / 2:  # whoever opens it must not lose its files by its age
                    _put(self.store, path, self.store.get(path))
                return path, there.size
            except NotFound:  # somebody has cleared the desk
                self._first = self._last = 0
        raise NotFound(f"{self.store.uri} does not keep version {number}", version=number)

    def put_past(self, row: TableRow) -> str | None:
        """Where the version is that comes next, if somebody has put one there past the server."""
        path = Naming.V2.path(row.table_version + 1)
        with self._lock:
            self._make_own(row)
        return path if self.store.exists(path) else None

    def _make_own(self, row: TableRow) -> None:
        """Clear the desk of a branch of what another branch has left that had its name, under the same numbers.

        One that is gone can come back by a rollback, and nobody else says so.
        """
        if self._branch is None:
            return
        named = branch_path(self._branch)
        mark = f"{LINES}/{named}"
        with suppress(NotFound):
            if self.main.get(mark) == row.id.encode():
                return
        _clear_line(self.store)
        self._first = self._last = 0
        if self.main.exists(named):  # that of a new branch is still to come, and pylance's to write
            _put(self.main, named, table_of(row).encode())
        _put(self.main, mark, row.id.encode())

    def _fill(self, versions: LakeVersions, number: int) -> None:
        newest = versions.row.table_version
        if not self._last:
            self._look(newest)
        try:
            while self._last and self._last < newest:
                self._put(versions, self._last + 1)
                self._last += 1
        except NotFound:
            # It was behind for so long that the lake has cleared away what comes next. Who began before that is told to
            # begin again (`check_seen`).
            _clear_line(self.store)
            self._first = self._last = 0
        if not self._last:
            self._put(versions, newest)
            self._first = self._last = newest
        while number < self._first:
            self._put(versions, self._first - 1)
            self._first -= 1

    def check_seen(self, native: NativeManifest, previous: Manifest) -> None:
        """Refuse work that began before the desk was last cleared: pylance cannot have seen all that came since.

        We clear it, and so does the clean-up of any client.
        """
        began, newest = _began(native, previous), previous.version
        if began < newest and not self._shown(newest).issuperset(range(began + 1, newest + 1)):
            raise InvalidInput(
                f"the work began at version {began}, and what came since is not on the desk any more",
                remedy="Nothing was written. Open the table again.",
                version=began,
            )

    def read(
        self,
        path: str,
        version: int,
        known: Sequence[BasePath] = (),
        really: Callable[[str], str] = lambda address: address,
    ) -> NativeManifest:
        """What pylance has left at `path` on the desk, as a version of the lake's table; see `from_desk`."""
        return from_desk(read_native(self.store, path, version), self._home.native_uri(), known, really)

    def take_over(self, paths: Iterable[str]) -> None:
        """Copy files from the desk into the table; those that are there already came with an earlier attempt."""

        def copy(path: str) -> None:
            source, target = join(self._place, path), join(self._location, path)
            try:
                if self._lake.lists_in_one_request:
                    self._lake.copy_if_absent(source, target)
                elif not self._lake.exists(target):
                    # With a condition it would go through this process, in one piece, and data files have any size. Two
                    # attempts at once bring the same bytes: the name holds an id that pylance has drawn.
                    self._lake.copy_from(self._lake, source, target)
            except AlreadyExists:
                return

        self._lake.in_parallel(lambda path: insist(lambda: copy(path), SYSTEM), paths)

    def _look(self, newest: int) -> None:
        """What is there already, made by this process or another: the run of versions that ends nearest the newest."""
        found = self._shown(newest)
        if not found:
            return
        self._first = self._last = max(found)
        while self._first - 1 in found:
            self._first -= 1

    def _shown(self, newest: int) -> set[int]:
        """Versions that are on the desk, up to the newest of the lake."""
        return {number for naming, number in named(self.store) if naming is Naming.V2 and number <= newest}

    def _put(self, versions: LakeVersions, number: int) -> None:
        stored = versions.read(number)
        shown = self._left_by_client(number, stored) or to_desk(stored, self._home.native_uri(), self._branch)
        path = Naming.V2.path(number)
        try:
            insist(lambda: self.store.put_if_absent(path, shown, durable=False), SYSTEM)
        except AlreadyExists:
            # By another process of ours, or by a writer that passed the server by: what the lake decided stands here.
            with suppress(NotFound):
                found = self.store.get(path)
                if _same_transaction(found, shown):
                    return
                self._set_aside(found, number)
            _put(self.store, path, shown)

    def _left_by_client(self, number: int, stored: ManifestFile) -> bytes | None:
        """The very bytes that a client wrote for a version, if they are still there.

        pylance, after an answer that was lost, compares what stands under the number with what it wrote. If it did not
        find its own bytes it would take the version for somebody else's, and do its work a second time.
        """
        path = Naming.V2.path(number)
        # They come right behind the name of the version itself: of a long list of versions nothing else is looked at.
        for info in self.store.list("_versions", start_after=path, recursive=False):
            if not info.path.startswith(f"{path}-"):
                break
            with suppress(NotFound, Corrupt):
                data = self.store.get(info.path)
                if _uuid(file.decode(data, path=info.path)) == _uuid(stored):
                    return data
        return None

    def _set_aside(self, found: bytes, number: int) -> None:
        """Keep a version of somebody who believes that it was committed: the lake has decided on another."""
        path = f"_foreign/{number}-{hashlib.sha256(found).hexdigest()[:16]}.manifest"
        insist(lambda: self.store.put(path, found), SYSTEM)
        log.warning("%s: version %d was written past the server and is not in the lake", self.store.uri, number)


def _began(native: NativeManifest, previous: Manifest) -> int:
    """The version at which a client's work began, as far as it tells.

    Of what it has rebased, pylance says that it began at the newest version that it saw; but a deletion file still says
    which version's deletions are in it.
    """
    began = native.message.read_version
    operation = native.transaction.operation
    for fragment in operation.updated_fragments if isinstance(operation, Delete | Update) else ():
        now = previous.fragments.get(fragment.id)
        if fragment.HasField("deletion_file") and (now is None or now.deletion_file.id != fragment.deletion_file.id):
            began = min(began, fragment.deletion_file.read_version)
    return began


def _uuid(stored: ManifestFile) -> str:
    return "" if stored.transaction is None else stored.transaction.uuid


def _same_transaction(one: bytes, other: bytes) -> bool:
    mine, theirs = (_uuid(file.decode(data, path="desk")) for data in (one, other))
    return bool(mine) and mine == theirs


class Desks:
    """The desks of one lake, as this process knows them: those that were asked for last. What is on another one is
    looked up again, as on one that another process has made.
    """

    def __init__(self, lake: Store) -> None:
        self.following = Following()
        self._lake = lake
        self._lock = Lock()
        self._known: dict[tuple[str, ...], Desk] = {}

    def of(self, row: TableRow) -> Desk:
        # A branch that is none any more has another desk.
        key = (row.id, *family(row))
        with self._lock:
            known = self._known.pop(key, None)
            desk = self._known[key] = Desk(self._lake, row) if known is None else known
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            return desk

    def tidy(self, now: datetime) -> int:
        """Clear away what was put on desks longer ago than any commit may take; returns how many files went.

        Versions go from the oldest, so that no gap comes between those that stay; then files that none of these names.
        """
        desks, before = below(self._lake, DESKS), now - _LONGEST_COMMIT
        listed: dict[str, list[ObjectInfo]] = {}
        for info in desks.list():
            listed.setdefault(info.path.partition("/")[0], []).append(info)
        return sum(self._tidied(below(desks, name), files, before) for name, files in listed.items())

    @staticmethod
    def _tidied(desk: Store, files: list[ObjectInfo], before: datetime) -> int:
        try:
            return tidied(desk, files, before)
        except (Corrupt, InvalidInput, NotFound) as error:
            # Something on it is not understood here, or somebody else clears it. Others are cleared all the same.
            log.warning("%s was not cleared: %s", desk.uri, error.message)
            return 0


def _put(desk: Store, path: str, data: bytes) -> None:
    """Until the storage says that it is there: nothing on a desk decides anything."""
    insist(lambda: desk.put(path, data, durable=False), SYSTEM)


def _clear_line(desk: Store) -> None:
    """Remove what a branch of the same name has left: its versions are others, under the same numbers."""
    for info in list(desk.list("_versions")):
        if parse(info.path.rpartition("/")[2]) is not None:
            desk.delete(info.path)


def main_desk(lake: Store, row: TableRow) -> str:
    """Where the desk of a table lies, and those of all its branches in it.

    The address is part of the name: when a lake is moved, its desks must not lead to the old place.
    """
    table_id, location = family(row)
    address = hashlib.sha256(below(lake, location).native_uri().encode()).hexdigest()[:8]
    return f"{DESKS}/{table_id}-{address}"
