"""What there is of a table, who refers to its versions, and which files are needed: the reading half of a clean-up."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TypeVar

from seiche.errors import Corrupt, NotFound, SeicheError
from seiche.store.base import ObjectInfo, Store
from seiche.table.branches import is_inside, is_of
from seiche.table.clone import CLONE_PROPERTY
from seiche.table.format import file, refs, transactions
from seiche.table.format.manifest import Manifest
from seiche.table.format.refs import Branch, Tag
from seiche.table.format.transaction_pb2 import Transaction
from seiche.table.reachable import SHADOWS, Reach
from seiche.table.refs import LEASE_PROPERTY, References
from seiche.table.version_folder import VersionFolder

__all__ = ["FOLDERS", "Names", "Needs", "Protection", "expired", "in_batches", "listed", "look_at_names"]

# The directories in which every file belongs to some version, or to nobody for long, and what files there are called in
# a plan. Whatever lies elsewhere is not touched: a newer writer may keep there what we know nothing of.
FOLDERS = {
    "data": "data file",
    "_deletions": "deletion file",
    "_indices": "index file",
    "_transactions": "transaction",
    SHADOWS: "work on indices",
}

# Manifests that are in memory at a time.
_BATCH = 32
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Protection:
    """What a user wants to be left alone, and what cannot be seen from the table: versions by number, transactions that
    wait to be committed, and the roots of shallow clones.
    """

    versions: frozenset[int] = frozenset()
    transactions: tuple[Transaction, ...] = ()
    clones: tuple[Store, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """The tags and branches of a table, at one moment; and the files of tags that hold a version for a moment only."""

    tags: Mapping[str, Tag]
    branches: Mapping[str, Branch]
    leases: Mapping[str, ObjectInfo]

    def own(self, path: str) -> bool:
        """Whether a file below `tree` is one of a branch that exists.

        The files of a branch `a/b` lie inside the directory of a branch `a`; which has others only in `data` and in
        directories that begin with an underscore.
        """
        inside = path.removeprefix("tree/").split("/")
        for end in range(1, len(inside)):
            if (inside[end] == "data" or inside[end].startswith("_")) and "/".join(inside[:end]) in self.branches:
                return True
        return False

    def nested(self, paths: Iterable[str], branch: str | None) -> set[str]:
        """Those in the directory of a branch that are of another whose name goes on from it: pylance lets one be called
        `a/data` beside `a`, and keeps it where `a` has its data files.
        """
        inner = [name for name in self.branches if branch is not None and is_inside(name, branch)]
        return {path for path in paths if any(is_of(f"{branch}/{path}", name) for name in inner)} if inner else set()

    def left_leases(self, since: datetime) -> dict[str, ObjectInfo]:
        """Those from before `since`: whoever held them is dead."""
        return {name: info for name, info in self.leases.items() if info.modified <= since}

    def check_kept(self, branch: str | None, folder: VersionFolder) -> None:
        """`Corrupt` if a tag is for a version of this line that is not there: clean-ups leave what has a tag, so its
        manifest was lost, and which files would be needed if it is brought back from a copy nobody can tell.
        """
        for name, tag in self.tags.items():
            known = tag.version in folder.manifests or tag.version in folder.detached
            if tag.branch == branch and not known and name not in self.leases:
                raise Corrupt(
                    f"{refs.tag_path(name)}: the manifest of version {tag.version}, which the tag is for, is missing",
                    remedy="Nothing is removed, as files that the version needs cannot be told from others. Put its"
                    f" manifest back from a copy; if it is lost for good, take the tag away: `untag({name!r})`.",
                    path=refs.tag_path(name),
                    tag=name,
                    branch=branch,
                    version=tag.version,
                )

    def protected(self, here: References, since: datetime) -> dict[int, str]:
        """The versions of this line that are referred to by number, and by what."""
        found: dict[int, str] = {}
        left = self.left_leases(since)
        for name, tag in self.tags.items():
            if tag.branch == here.branch and name not in left:
                clone = tag.metadata.get(CLONE_PROPERTY)
                found[tag.version] = f"needed by the clone at {clone} (tag {name!r})" if clone else f"tag {name!r}"
        for name, branch in self.branches.items():
            # A branch needs files, not the version that it began at; until it has a version of its own.
            if branch.parent_branch == here.branch and not VersionFolder.of(here.open_line(name).store).manifests:
                found[branch.parent_version] = f"the branch {name!r} is about to begin there"
        return found


def look_at_names(here: References) -> Names:
    """All tags and branches that there are now."""
    tags = here.tags()
    held = {refs.tag_path(name): name for name, tag in tags.items() if LEASE_PROPERTY in tag.metadata}
    leases = {held[info.path]: info for info in here.root.list(refs.TAGS) if info.path in held} if held else {}
    return Names(tags, here.branches(), leases)


def listed(store: Store) -> list[ObjectInfo]:
    """The files of a table that belong, or once belonged, to some version."""
    return [info for folder in FOLDERS for info in store.list(folder)]


@dataclass(slots=True)
class Needs:
    """Which files are needed. Grows only: what was looked at before is not read again."""

    here: References
    reach: Reach = field(default_factory=Reach)
    _seen: set[tuple[str | None, int]] = field(default_factory=set)
    _pending: set[str] = field(default_factory=set)

    def add_own(self, folder: VersionFolder, going: Iterable[int]) -> None:
        """The versions of this line but for those that are going, detached ones too."""
        self._add_folder(self.here.branch, self.here.versions.store, folder, frozenset(going))

    def add_others(self, names: Names) -> None:
        """All versions of all other lines: none of those goes."""
        for branch in (None, *names.branches):
            if branch != self.here.branch:
                line = self.here.open_line(branch)
                with suppress(NotFound):  # a branch that is just being made
                    line.all()  # where a manifest store decides, this brings the latest into the directory, or refuses
                folder = VersionFolder.of(line.store)
                names.check_kept(branch, folder)
                self._add_folder(branch, line.store, folder, frozenset())

    def add_pending(self, files: Iterable[ObjectInfo], since: datetime, gone: Reach) -> None:
        """Transactions that no version came from yet, nor one of the `gone`: their writers may be about to commit.

        One that tells nothing yet is read again when this is asked again: it may be just being written.
        """
        for info in files:
            if (
                is_inside(info.path, "_transactions")
                and info.path.endswith(".txn")
                and info.path not in self._pending
                and info.modified > since
                and not self.reach.holds(info.path)
                and not gone.holds(info.path)
            ):
                with suppress(NotFound, Corrupt):
                    data = self.here.versions.store.get_listed(info)
                    transaction = transactions.decode(data, path=info.path)
                    self.reach.add_transaction(transaction)
                    if transaction.WhichOneof("operation") is not None:
                        self._pending.add(info.path)

    def add_protection(self, protection: Protection) -> None:
        """Count in what the user says is needed: transactions that wait, clones."""
        for transaction in protection.transactions:
            self.reach.add_transaction(transaction)
        for clone in protection.clones:
            folder = VersionFolder.of(clone)
            if not folder.manifests:
                raise NotFound(
                    f"there is no table at {clone.uri}, whose files were to be kept",
                    remedy="Check the address in `protect`.",
                    table=clone.uri,
                )
            self._add_all(clone, [info.path for info in (*folder.manifests.values(), *folder.detached.values())])

    def _add_folder(self, branch: str | None, store: Store, folder: VersionFolder, going: frozenset[int]) -> None:
        new = {
            number: info.path
            for number, info in (*folder.manifests.items(), *folder.detached.items())
            if number not in going and (branch, number) not in self._seen
        }
        self._add_all(store, new.values())
        self._seen.update((branch, number) for number in new)

    def _add_all(self, store: Store, paths: Iterable[str]) -> None:
        for batch in in_batches(paths, _BATCH):
            for manifest in store.in_parallel(lambda path: _read(store, path), batch):
                if manifest is not None:
                    self.reach.add_manifest(manifest)


def expired(store: Store, paths: Iterable[str]) -> Reach:
    """What versions that are going needed. One that cannot be read says nothing: its files are left until they are
    old.
    """
    reach = Reach()
    for path in paths:
        with suppress(SeicheError):
            if (manifest := _read(store, path)) is not None:
                reach.add_manifest(manifest)
    return reach


def in_batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """The items in order, in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _read(store: Store, path: str) -> Manifest | None:
    """A manifest, `None` if somebody else has just removed it."""
    try:
        return file.decode(store.get(path), path=path).manifest
    except NotFound:
        return None
