"""A table that is written, branched, cloned, tagged and cleaned up at random, by processes that die, while others read.

Tables have no rows: what matters is which files there are. After every step each version of every line, each clone and
each reader that clean-up promised to spare has all its files, told by an oracle of its own.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, NotFound, SeicheError
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.clone import CLONE_PROPERTY
from seiche.table.operations import Append
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming, parse
from seiche.testing import CRASHES, SimulatedStore, Stopped
from tests.made_up_table import MadeUpTable, manifests_at, missing_files, needed_by, paths_below, simulated

HOUR = 3600.0
# Short, so that within one run much becomes old enough to go.
GRACE = 24 * HOUR


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass(frozen=True)
class Reader:
    """Somebody who opened the latest version of a line, and goes on reading it."""

    root: str
    version: int
    opened: float
    files: frozenset[str]


@dataclass
class World:
    """Everything that there is, and what must stay."""

    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    readers: list[Reader] = field(default_factory=list)
    # Data files that a slow writer has written, when, and for which line.
    slow: list[tuple[float, str | None, Transaction]] = field(default_factory=list)
    clones: list[str] = field(default_factory=list)
    gaps: bool = False
    longest: float = 0.0

    def __post_init__(self) -> None:
        self.store, self.clock = simulated()
        self.made = MadeUpTable(self.store, seed=self.seed, clock=self.clock)
        self.runtime = self.made.runtime
        self.random = Runtime.seeded(self.seed).random
        self.made.append(blobs=1)

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def branches(self) -> list[str | None]:
        return [None, *sorted(self.made.table.branches())]

    def roots(self) -> list[str]:
        """The directories of all tables and branches."""
        return [self.root(branch) for branch in self.branches()] + self.clones

    @staticmethod
    def root(branch: str | None) -> str:
        return "table" if branch is None else f"table/tree/{branch}"

    def line(self, store: Store | None = None) -> Table:
        """Some line, as a process of its own opens it."""
        branch = self.random.choice(self.branches())
        return Table.open(below(store or self.store, "table"), branch=branch or "main", runtime=self.runtime)

    def step(self) -> None:
        name, act = self.random.choice(_STEPS)
        try:
            act(self)
            self.outcomes[name] += 1
        except Stopped:
            self.outcomes["died"] += 1
        self.check()

    def check(self) -> None:
        """Nothing that is needed is missing."""
        problems = missing_files(self.store, self.roots())
        there = paths_below(self.store)
        for reader in self.readers:
            problems += [f"reader of {reader.root} at {reader.version}: {one}" for one in reader.files - there]
        for name, tag in self.made.table.tags().items():
            if f"{self.root(tag.branch)}/{Naming.V2.path(tag.version)}" not in there:
                problems.append(f"tag {name} is for a version that is gone")
        if not self.gaps:
            problems += [problem for root in self.roots() if (problem := self._gap(root))]
        if problems:
            raise Broken(problems[:5])

    def _gap(self, root: str) -> str:
        names = (path.rpartition("/")[2] for path in paths_below(self.store, f"{root}/_versions"))
        versions = sorted(found[1] for name in names if (found := parse(name)))
        whole = not versions or versions[-1] - versions[0] + 1 == len(versions)
        return "" if whole else f"{root} has a gap: {versions}"

    def settle(self) -> None:
        """Everybody closes, time passes, all lines are cleaned up: nothing is left that no version needs."""
        self.readers.clear()
        self.slow.clear()
        self.clock.advance(self.longest + 2 * GRACE)
        # More than once, because a branch may be cleaned up after the one that it came from.
        for branch in self.branches() * 4:
            table = Table.open(below(self.store, "table"), branch=branch or "main", runtime=self.runtime)
            table.cleanup(retain=1, dry_run=False, grace=GRACE, gaps=self.gaps)
        self.check()
        needed = {
            path
            for root in self.roots()
            for manifest in manifests_at(self.store, root).values()
            for path in (
                *needed_by(manifest, root, self.store),
                f"{root}/_transactions/{manifest.header.transaction_file}",
            )
        }
        folders = ("data", "_deletions", "_indices", "_transactions")
        own = (path for root in self.roots() if root not in self.clones for path in paths_below(self.store, root))
        left = {path for path in own if any(f"/{folder}/" in path for folder in folders)} - needed
        left |= {path for path in paths_below(self.store, "table") if ".manifest-" in path or "#" in path}
        if left:
            raise Broken(f"left behind: {sorted(left)[:5]}")


def _change(act: Callable[[MadeUpTable, Table], object]) -> Callable[[World], None]:
    def step(world: World) -> None:
        table = world.line()
        if not len(table.manifest.fragments):
            world.made.append(table)
        act(world.made, table)

    return step


def _crash(world: World) -> None:
    """A writer dies at some call of its commit, or before it comes to that."""
    store = SimulatedStore(world.store, plan={world.random.randrange(4, 16): world.random.choice(CRASHES)})
    table = world.line(store)
    store.calls.clear()
    act = world.random.choice([world.made.append, world.made.index, world.made.overwrite, world.made.compact])
    act(table)


def _garbage(world: World) -> None:
    """What others leave: manifests under private names, files of pylance that never got their name."""
    table = world.line()
    version = world.random.randrange(1, table.version + 1)
    table.store.put(f"{Naming.V2.path(version)}-{world.runtime.uuid()}", b"staged")
    table.store.put(f"{Naming.V2.path(version)}#7", b"temporary")
    table.store.put(f"data/{world.runtime.uuid().hex}.lance#1", b"temporary")


def _prepare(world: World) -> None:
    table = world.line()
    fragment = world.made.fragment(table, blobs=world.random.randrange(2))
    branch = table.manifest.header.branch or None
    world.slow.append((world.now, branch, Transaction(table.version, str(world.runtime.uuid()), Append((fragment,)))))


def _commit_slowly(world: World) -> None:
    """A writer commits what it prepared long ago, but not longer ago than the grace time."""
    if not world.slow:
        return
    prepared, branch, transaction = world.slow.pop(0)
    if world.now - prepared > GRACE - HOUR or branch not in world.branches():
        return
    table = Table.open(below(world.store, "table"), branch=branch or "main", runtime=world.runtime)
    try:
        table.commit(transaction.encode())
    except SeicheError as error:
        world.outcomes[f"slow commit: {error.kind}"] += 1


def _read(world: World) -> None:
    table = world.line()
    root = table.uri.removeprefix("dict://test/")
    files = frozenset(needed_by(table.manifest, root, world.store))
    world.readers.append(Reader(root, table.version, world.now, files))


def _tag(world: World) -> None:
    table = world.line()
    version = world.random.choice(table.versions()).version
    table.tag(world.random.choice("ab"), version, replace=True)


def _untag(world: World) -> None:
    tags = world.made.table.tags()
    if not tags:
        return
    name = world.random.choice(sorted(tags))
    world.made.table.untag(name)
    clone = tags[name].metadata.get(CLONE_PROPERTY, "").removeprefix("dict://test/")
    if clone in world.clones:
        for path in paths_below(world.store, clone):
            world.store.delete(path)
        world.clones.remove(clone)


def _branch(world: World) -> None:
    if len(world.branches()) > 3:
        return
    store = world.store if world.random.random() < 0.7 else _mortal(world)
    table = world.line(store)
    version = world.random.choice(table.versions()).version
    names = [name for name in ("x", "x/y", "z") if name not in world.branches()]
    try:
        table.branch(world.random.choice(names), version)
    except SeicheError as error:
        world.outcomes[f"branch: {error.kind}"] += 1


def _delete_branch(world: World) -> None:
    names = [name for name in world.branches() if name is not None]
    if not names:
        return
    name = world.random.choice(names)
    store = world.store if world.random.random() < 0.7 else _mortal(world)
    try:
        Table.open(below(store, "table"), runtime=world.runtime).delete_branch(name)
    except InvalidInput:
        world.outcomes["branch in use"] += 1
    finally:
        gone = world.root(name)
        if name not in world.branches():
            world.readers = [reader for reader in world.readers if reader.root != gone]
            world.readers = [
                reader for reader in world.readers if not any(one.startswith(f"{gone}/") for one in reader.files)
            ]


def _clone(world: World) -> None:
    if len(world.clones) > 2:
        return
    table = world.line()
    version = world.random.choice(table.versions()).version
    target = f"clone{world.runtime.u64():x}"
    table.clone(below(world.store, target), shallow=world.random.random() < 0.7, version=version)
    world.clones.append(target)


def _restore(world: World) -> None:
    table = world.line()
    table.restore(world.random.choice(table.versions()).version)


def _time(world: World) -> None:
    world.clock.advance(world.random.choice([0.01, 0.1, 1, 10, 30]) * HOUR)


def _clean(world: World) -> None:
    hours = world.random.choice([0, 1, 24, 48])
    retain = world.random.choice([None, 1, 3])
    gaps = world.gaps and world.random.random() < 0.5
    crash = world.random.random() < 0.3
    table = world.line(_mortal(world, 60) if crash else None)
    root = table.uri.removeprefix("dict://test/")
    # Promised is what was the latest within `hours`, and at least within the last two minutes.
    since = world.now - max(hours * HOUR, 60.0)
    world.readers = [reader for reader in world.readers if reader.root != root or reader.opened > since]
    world.longest = max(world.longest, hours * HOUR)
    newest = table.version
    done = table.cleanup(f"{hours}h", retain, dry_run=False, grace=GRACE, gaps=gaps)
    if newest not in done.kept or (retain and len(done.kept) < min(retain, len(done.versions))):
        raise Broken(f"{done} of {newest}")
    world.outcomes["versions dropped"] += len(done.dropped)
    world.outcomes["files removed"] += done.files


def _mortal(world: World, calls: int = 20) -> SimulatedStore:
    return SimulatedStore(world.store, plan={world.random.randrange(1, calls): world.random.choice(CRASHES)})


def _detach(world: World) -> None:
    world.made.detached(world.line())


_STEPS: list[tuple[str, Callable[[World], None]]] = [
    *[("append", _change(lambda made, table: made.append(table, blobs=made.runtime.random.randrange(2))))] * 3,
    *[("delete", _change(lambda made, table: made.delete(table)))] * 3,
    ("overwrite", _change(lambda made, table: made.overwrite(table))),
    ("compact", _change(lambda made, table: made.compact(table))),
    *[("index", _change(lambda made, table: made.index(table)))] * 2,
    ("restore", _restore),
    *[("crash", _crash)] * 2,
    ("garbage", _garbage),
    *[("prepare", _prepare)] * 2,
    *[("commit slowly", _commit_slowly)] * 2,
    *[("read", _read)] * 2,
    ("tag", _tag),
    *[("untag", _untag)] * 2,
    ("branch", _branch),
    ("delete branch", _delete_branch),
    ("clone", _clone),
    ("detach", _detach),
    *[("time", _time)] * 4,
    *[("clean", _clean)] * 6,
]

__all__ = ["Broken", "NotFound", "World"]
