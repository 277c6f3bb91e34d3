"""Proving that a lake is sound, and mending what can be mended without a doubt.

Looked at are all versions that can be read: the line of their roots, their trees, every row, every table with all
versions that are kept of it, and every file that those name. Whatever is wrong is taken down, and the rest goes on.
Files that nothing needs are not wrong: `gc` knows them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import NotFound, SeicheError
from seiche.lake.care.check_roots import check_roots
from seiche.lake.care.check_tables import TableCheck
from seiche.lake.care.check_trees import TreeCheck
from seiche.lake.care.given_up import GIVEN_UP, GivenUp
from seiche.lake.care.layout import DESKS, NOTED, TRASH
from seiche.lake.care.listing import unpack
from seiche.lake.care.live import rows_since
from seiche.lake.care.problems import Findings, Problem
from seiche.lake.care.reading_ahead import BYTES_AT_ONCE
from seiche.lake.federated.release import released
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import TABLE
from seiche.lake.objects.keys import TRASH as DROPPED
from seiche.lake.objects.rows import RetentionRow, TableRow, TrashRow
from seiche.lake.saved import FOLDER as SAVED
from seiche.lake.saved import decode as decode_saved
from seiche.lake.states import States
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.latest import read_hint, read_root, write_hint, write_oldest
from seiche.lake.tree.names import HINT, OLDEST, root_name
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.lake.tree.tree import Tree
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.care.gc import Progress
    from seiche.lake.iceberg.checking import IcebergCheck

__all__ = ["Soundness", "check_lake"]

_AGAIN = 3
_TABLES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Soundness:
    """What was looked at, and what was found wrong. `ok` if nothing is, or nothing is any more."""

    versions: int
    expired: int
    nodes: int
    tables: int
    files: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error left. Notes are none."""
        return not any(one.severity == "error" and not one.repaired for one in self.problems)

    def kinds(self) -> set[str]:
        """The kinds of what was found."""
        return {one.kind for one in self.problems}

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "ok": self.ok,
            "versions": self.versions,
            "expired": self.expired,
            "nodes": self.nodes,
            "tables": self.tables,
            "files": self.files,
            "problems": [one.as_dict() for one in self.problems],
        }


def check_lake(
    store: Store, runtime: Runtime, *, repair: bool = False, deep: bool = False, progress: "Progress"
) -> Soundness:
    """Look at everything; with `deep`, also read all data files. With `repair`, mend what is safe to mend.

    Safe are names that published manifests lack, or stand damaged under while the lake's own is sound, and hints. The
    lake may be in use meanwhile. Needs nothing to be sound, not even that the lake can be opened.
    """
    earlier: set[tuple[str, str]] = set()
    found: set[tuple[str, str]] = set()
    for _ in range(_AGAIN):
        before = _given_up(store)
        job = _Check(store, runtime, deep, progress)
        job.run()
        if not job.findings.problems or not job.was_overtaken(before):
            break
        earlier, found = found, found | job.findings.places()
    else:
        # Expiries go on and on. What was missing only because its version had gone is not looked for again by the next
        # run, which does not see that version; what is found twice is wrong.
        job.findings.keep(earlier)
    if repair:
        job.findings.repair()
    return Soundness(
        versions=len(job.live),
        expired=job.expired,
        nodes=job.trees.nodes,
        tables=job.checked,
        files=job.files,
        problems=tuple(job.findings.problems),
    )


def _given_up(store: Store) -> GivenUp | None:
    """What the newest version says is given up; `None` if it cannot be read, which the check itself reports."""
    try:
        return GivenUp.of(States(store, SYSTEM).latest())
    except SeicheError:
        return None


def _is_tombstone(store: Store, version: int) -> bool:
    try:
        return read_root(store, version).expired_at_millis is not None
    except SeicheError:
        return False  # damaged: named already


class _Check:
    """One run of `fsck`."""

    def __init__(self, store: Store, runtime: Runtime, deep: bool, progress: "Progress") -> None:
        self.findings = Findings()
        self._nodes = Nodes(store)
        self.trees = TreeCheck(self._nodes, self.findings)
        self.tables: dict[str, TableCheck] = {}
        self.iceberg: dict[str, IcebergCheck] = {}
        self.live: list[int] = []
        self.expired = 0
        self.checked = 0
        self.files = 0
        self._store = store
        self._runtime = runtime
        self._deep = deep
        self._progress = progress
        self._last: Tree | None = None

    def run(self) -> None:
        newest: Root | None = None
        oldest: int | None = None
        for root in check_roots(self._store, self.findings):
            self._progress("looking at versions", root.version)
            if root.expired_at_millis is not None:
                self.expired += 1
                continue
            newest = root
            oldest = root.version if oldest is None else oldest
            self.live.append(root.version)
            if self.trees.check(root):
                self._take_tables(root)
        if newest is not None and self._last is not None and self._last.root is newest.node:
            self._take_dropped(newest, self._last)
            self.trees.check_objects(newest, self._last)
        if newest is not None:
            self._leave_released(newest)
        self._check_tables()
        self._check_hints(newest, oldest or 0)
        self._check_folders()

    def was_overtaken(self, before: GivenUp | None) -> bool:
        """Whether something may have been cleared away under our eyes: an expiry has given up versions since `before`,
        or has made tombstones since of versions that it had given up by then and that were still looked at.
        """
        if before != _given_up(self._store):
            return True
        dying = set(() if before is None else before.unburied).intersection(self.live)
        return any(self._store.in_parallel(lambda version: _is_tombstone(self._store, version), sorted(dying)))

    def _check_tables(self) -> None:
        """Where storage is far, several at a time. What is known of a table goes when it has been looked at."""
        while some := [self._next_table() for _ in range(min(self._at_once, len(self.tables) + len(self.iceberg)))]:
            self._store.in_parallel(lambda table: table.check(), some)
            for table in some:
                self.findings.join(table.findings)
                self.files += table.files
                self.checked += 1
                self._progress("looking at tables", self.checked)

    def _next_table(self) -> "TableCheck | IcebergCheck":
        checks = self.tables or self.iceberg
        return checks.pop(next(iter(checks)))

    @property
    def _at_once(self) -> int:
        # On a disk it would save nothing, and what reads data files has no time to wait for storage.
        return 1 if self._deep or self._store.lists_in_one_request else _TABLES_AT_ONCE

    def _take_tables(self, root: Root) -> None:
        """The tables of a version whose tree is sound."""
        tree = Tree(root.node, self._nodes, Shape())
        with self.findings.looking_at("tree", root.name):
            for key, value in rows_since(tree, self._last):
                if key.startswith(TABLE) and rows.kind_of(value) is TableRow:
                    self._take(rows.decode(definitions.resolve(self._store, value), TableRow))
            self._last = tree

    def _leave_released(self, newest: Root) -> None:
        """What became of a released table is up to those who write it, also where old versions of the lake have it."""
        try:
            for location in released(States(self._store, self._runtime).of(newest)):
                self.tables.pop(location, None)
                self.iceberg.pop(location, None)
        except SeicheError:
            return  # damaged: named already

    def _take_dropped(self, newest: Root, tree: Tree) -> None:
        """Dropped tables have versions up to the one at which they were dropped."""
        with self.findings.looking_at("tree", newest.name):
            for _, value in tree.scan_prefix(DROPPED):
                resolved = definitions.resolve(self._store, value)
                row = rows.decode(rows.decode(resolved, TrashRow).row, TableRow)
                if row.location in self.tables or row.location in self.iceberg:
                    self._take(row)
            given_up = tree.get(GIVEN_UP)
            if given_up is not None:
                rows.decode(definitions.resolve(self._store, given_up), RetentionRow)

    def _current(self, table_id: str) -> int:
        """The newest version of a table by now, 0 if that cannot be known."""
        try:
            row = States(self._store, self._runtime).latest().table_by_id(table_id)
            return 0 if row is None else row.table_version
        except SeicheError:
            return 0

    def _take(self, row: TableRow) -> None:
        if row.is_own("iceberg"):
            self._take_iceberg(row)
        if not row.is_own("lance"):
            return
        if row.location not in self.tables:
            self.tables[row.location] = TableCheck(
                self._store,
                row.location,
                Findings(),
                self._runtime,
                self._current,
                deep=self._deep,
                ahead=BYTES_AT_ONCE // self._at_once,
            )
        self.tables[row.location].add(row)

    def _take_iceberg(self, row: TableRow) -> None:
        from seiche.lake.iceberg.checking import IcebergCheck

        if row.location not in self.iceberg:
            self.iceberg[row.location] = IcebergCheck(self._store, row.location, Findings(), deep=self._deep)
        self.iceberg[row.location].add(row)

    def _check_hints(self, newest: Root | None, oldest: int) -> None:
        if newest is None:
            return
        said = read_hint(self._store)
        # Others may have committed since the roots were looked at.
        ahead = said is not None and said > newest.version and self._store.exists(root_name(said))
        if said != newest.version and not ahead:
            self.findings.add(
                "hint.stale",
                HINT,
                f"the hint says {said}, the newest version is {newest.version}",
                "It only costs time.",
                severity="note",
                repair=lambda: write_hint(self._store, newest.version),
            )
        if self._store.exists(OLDEST):
            try:
                found = int(self._store.get(OLDEST))
            except (SeicheError, ValueError):
                found = -1
            if not 0 <= found <= newest.version:
                self.findings.add(
                    "hint.stale",
                    OLDEST,
                    "it does not name a version",
                    "It only costs time.",
                    severity="note",
                    repair=lambda: write_oldest(self._store, oldest),
                )

    def _check_folders(self) -> None:
        """What waits: saved transactions, the trash, notes of clean-ups. Losing one of these breaks no version."""
        for folder, what, read in _FOLDERS:
            for info in self._store.list(folder):
                if folder == TRASH and not info.path.endswith("/list"):
                    continue
                try:
                    read(self._store.get(info.path), info.path)
                except NotFound:
                    continue  # a clean-up took it since it was listed
                except (SeicheError, DecodeError) as error:
                    self.findings.add(f"{what}.damaged", info.path, str(error), _REMEDIES.get(what, _OF_NO_USE))
        for info in self._store.list(DESKS):
            if "/_foreign/" in info.path:
                self.findings.add(
                    "desk.set_aside",
                    info.path,
                    "a client of the Lance Namespace server committed this past it, and the lake was faster",
                    "Do what it was meant to do again, through the server; then remove it.",
                    severity="note",
                )


_OF_NO_USE: Final = "It is of no use: remove it."
_REMEDIES: Final = {
    "saved": "Put it back from a copy, or remove it and begin the transaction anew. Until then nothing expires and"
    " nothing is cleared away: what it needs is not known."
}
_FOLDERS: tuple[tuple[str, str, Callable[[bytes, str], object]], ...] = (
    (SAVED, "saved", decode_saved),
    (TRASH, "trash", unpack),
    (NOTED, "note", unpack),
)
