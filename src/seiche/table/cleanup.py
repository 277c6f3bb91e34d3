"""Removing versions that nobody wants any more, and files that no version needs.

In this order, so that a crash at any point leaves a table whose every version can be read, and nobody who refers to a
version can be overtaken:

    1. list the files that there are
    2. look at references and versions; decide which versions go, and which of the listed files nobody needs
    3. remove the manifests of those versions, oldest first; look at the references again, and put back what somebody
       refers to by now. From here on nobody can begin to use such a version
    4. look at the versions of all lines again, and count in what they need
    5. remove the files
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from seiche.core.insisting import insist
from seiche.core.retry import Patience
from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput, NotFound, SeicheError, Unavailable
from seiche.store.base import ObjectInfo
from seiche.store.paths import parent
from seiche.table.cleanup_plan import Cleanup, Policy, Removal, choose
from seiche.table.cleanup_survey import FOLDERS, Names, Needs, Protection, expired, in_batches, listed, look_at_names
from seiche.table.format import refs
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.reachable import SHADOWS, Reach
from seiche.table.refs import References
from seiche.table.version_folder import VersionFolder

__all__ = ["Cleaner"]

# Versions that are removed between two looks at the references.
_BATCH = 64
_PATIENCE = Patience(attempts=6, timeout=30.0)
_LEFT_BEHIND = "branch left behind"


@dataclass(frozen=True, slots=True)
class _Survey:
    """What was found, and what follows from it."""

    now: datetime
    folder: VersionFolder
    needs: Needs
    theirs: Reach
    going: tuple[int, ...]
    manifests: tuple[Removal, ...]
    files: tuple[Removal, ...]
    cleanup: Cleanup


class Cleaner:
    """Cleans up one line of a table, by a policy: the main line or a branch."""

    def __init__(self, here: References, policy: Policy, protection: Protection | None = None) -> None:
        self._here = here
        self._policy = policy
        self._protection = protection or Protection()
        self._store = here.versions.store

    def plan(self) -> Cleanup:
        """What would be removed. Nothing is written."""
        return self._survey(self._here.runtime.clock.now()).cleanup

    def run(self) -> Cleanup:
        """Remove it. If this fails or dies in between, doing it again goes on."""
        survey = self._survey(self._storage_time())
        self._here.versions.announce(max(survey.folder.manifests))
        gone = self._remove_versions(survey)
        files = self._still_unneeded(survey, gone)
        self._store.in_parallel(lambda removal: self._delete(removal.path), files)
        for folder in {_emptied(removal.path) for removal in files} - {*FOLDERS, "_versions", refs.TAGS}:
            self._store.prune(folder)
        manifests = [removal for number, removal in zip(survey.going, survey.manifests, strict=True) if number in gone]
        return replace(
            survey.cleanup,
            dropped=tuple(number for number in survey.cleanup.dropped if number in gone),
            removals=(*manifests, *files),
            temporary=self._store.sweep(self._policy.grace),
            done=True,
        )

    def _survey(self, now: datetime) -> _Survey:
        files = listed(self._store)
        trees = list(self._store.list("tree")) if self._here.branch is None else []
        names = look_at_names(self._here)
        nested = names.nested((info.path for info in files), self._here.branch)
        files = [info for info in files if info.path not in nested]
        versions = self._here.versions.all()
        self._refuse_managed(versions[-1])
        folder = VersionFolder.of(self._store)
        names.check_kept(self._here.branch, folder)
        dropped, detached, held = self._chosen(folder, names, now)
        going = (*dropped, *detached)
        manifests = tuple(self._manifest_removals(folder, going))
        needs = Needs(self._here)
        needs.add_own(folder, going)
        needs.add_others(names)
        needs.add_protection(self._protection)
        theirs = self._theirs(files, needs, manifests, now)
        needs.add_pending(files, now - self._policy.grace, theirs)
        unneeded, young = self._sorted_out(files, needs, theirs, now)
        left, left_young = self._left_behind(trees, names, now)
        others = (*unneeded, *self._half_made(folder, now), *self._left_leases(names, now), *left)
        cleanup = Cleanup(
            table=self._store.uri,
            versions=tuple(versions),
            dropped=tuple(dropped),
            removals=(*manifests, *others),
            held=held,
            young=young + left_young,
        )
        return _Survey(now, folder, needs, theirs, going, manifests, others, cleanup)

    def _chosen(
        self, folder: VersionFolder, names: Names, now: datetime
    ) -> tuple[Sequence[int], Sequence[int], Mapping[int, str]]:
        """The versions of the line that go, the detached ones that go, and why others stay that are old enough."""
        referred = names.protected(self._here, now - self._policy.grace)
        protected = dict.fromkeys(self._protection.versions, "asked for") | referred
        self._check_exist(folder)
        stored = {number: info.modified for number, info in folder.manifests.items()}
        dropped, held = choose(stored, self._policy, now, protected)
        detached = [
            number
            for number, info in folder.detached.items()
            if number not in protected and info.modified <= now - self._policy.detached_age
        ]
        return dropped, detached, held

    def _manifest_removals(self, folder: VersionFolder, going: Iterable[int]) -> Iterator[Removal]:
        following = dict(zip(sorted(folder.manifests), sorted(folder.manifests)[1:], strict=False))
        for number in going:
            if number in following:
                info, after = folder.manifests[number], folder.manifests[following[number]]
                reason = f"version {number} was followed by {following[number]} at {after.modified:%Y-%m-%d %H:%M:%S}"
            else:
                info = folder.detached[number]
                reason = f"detached version {number} is from {info.modified:%Y-%m-%d %H:%M:%S}"
            yield Removal(info.path, info.size, "manifest", reason)

    def _theirs(self, files: Iterable[ObjectInfo], needs: Needs, manifests: Sequence[Removal], now: datetime) -> Reach:
        """What the versions that go needed; nothing, unread, if no file is so young that it matters whose it was."""
        cutoff = now - self._policy.grace
        matters = any(info.modified > cutoff and not needs.reach.holds(info.path) for info in files)
        return expired(self._store, (removal.path for removal in manifests if matters))

    def _sorted_out(
        self, files: Iterable[ObjectInfo], needs: Needs, theirs: Reach, now: datetime
    ) -> tuple[list[Removal], int]:
        """The files that nobody needs, and how many more are too young to say so."""
        found, young = [], 0
        for info in files:
            if needs.reach.holds(info.path):
                continue
            kind = FOLDERS[info.path.partition("/")[0]]
            if theirs.holds(info.path):
                found.append(Removal(info.path, info.size, kind, "only versions that go need it"))
            elif info.modified <= now - self._policy.grace:
                found.append(Removal(info.path, info.size, kind, "no version needs it"))
            else:
                young += 1
        return found, young

    def _half_made(self, folder: VersionFolder, now: datetime) -> list[Removal]:
        """Staged manifests whose version is long decided, and temporary files of writers that died."""
        newest = max(folder.manifests)
        found = [
            Removal(path, info.size, "staged manifest", f"version {version} is made")
            for path, (version, info) in folder.staged.items()
            if version <= newest and info.modified <= now - self._policy.grace
        ]
        found += [
            Removal(info.path, info.size, "temporary file", "its writer never finished it")
            for info in folder.temporary
            if info.modified <= now - self._policy.grace
        ]
        return found

    def _left_leases(self, names: Names, now: datetime) -> list[Removal]:
        """Leases of readers that are dead; they lie with the main line, for all lines."""
        if self._here.branch is not None:
            return []
        left = names.left_leases(now - self._policy.grace).values()
        return [Removal(info.path, info.size, "lease", "whoever held a version with it is dead") for info in left]

    def _left_behind(self, trees: Iterable[ObjectInfo], names: Names, now: datetime) -> tuple[list[Removal], int]:
        """Files of branches that do not exist: half made, or half deleted."""
        orphans = [info for info in trees if not names.own(info.path)]
        old = [info for info in orphans if info.modified <= now - self._policy.grace]
        reason = "there is no such branch"
        return [Removal(info.path, info.size, _LEFT_BEHIND, reason) for info in old], len(orphans) - len(old)

    def _remove_versions(self, survey: _Survey) -> frozenset[int]:
        """Remove manifests, oldest first; returns the versions that are really gone."""
        gone: set[int] = set()
        paths = dict(zip(survey.going, (removal.path for removal in survey.manifests), strict=True))
        for batch in in_batches(survey.going, _BATCH):
            content = {number: data for number in batch if (data := self._take_away(number, paths[number])) is not None}
            gone.update(content)
            protected = look_at_names(self._here).protected(self._here, survey.now - self._policy.grace)
            wanted = [number for number in content if number in protected]
            if wanted:
                back = wanted if self._policy.gaps else [number for number in content if number >= wanted[0]]
                # From the newest down, so that no gap shows in between.
                for number in reversed(back):
                    self._put_back(paths[number], content[number])
                    gone.discard(number)
                break
        return frozenset(gone)

    def _take_away(self, number: int, path: str) -> bytes | None:
        """Remove a manifest and return what was in it, `None` if somebody else removed it."""
        try:
            data = self._store.get(path)
        except NotFound:
            return None
        insist(lambda: self._here.versions.forget(number), self._here.runtime)
        self._delete(path)
        return data

    def _delete(self, path: str) -> None:
        """As often as it takes: a connection that was cut, of which an object store tells at once, is no reason to stop
        among thousands of files.
        """
        insist(lambda: self._store.delete(path), self._here.runtime)

    def _put_back(self, path: str, data: bytes) -> None:
        with suppress(AlreadyExists):
            insist(lambda: self._store.put_if_absent(path, data), self._here.runtime)

    def _still_unneeded(self, survey: _Survey, gone: frozenset[int]) -> list[Removal]:
        """The files of the plan that nobody has begun to need since it was made."""
        self._here.versions.all()
        names = look_at_names(self._here)
        survey.needs.add_own(VersionFolder.of(self._store), gone)
        survey.needs.add_others(names)
        survey.needs.add_pending(self._store.list("_transactions"), survey.now - self._policy.grace, survey.theirs)
        nested = names.nested((removal.path for removal in survey.files), self._here.branch)
        return [
            removal
            for removal in survey.files
            if removal.path not in nested
            and not survey.needs.reach.holds(removal.path)
            and not (removal.kind == _LEFT_BEHIND and names.own(removal.path))
        ]

    def _storage_time(self) -> datetime:
        """What time it is for the storage, by which the files are dated; the clock of this machine may be wrong."""
        path = f"_transactions/{self._here.runtime.uuid()}.clock"
        failure: SeicheError | None = None
        for _ in _PATIENCE.tries(self._here.runtime):
            try:
                self._store.put(path, b"", durable=False)
                now = self._store.head(path).modified
                self._store.delete(path)
                return now
            except (CommitUnknown, NotFound, Unavailable) as error:
                failure = error
        raise Unavailable(f"{self._store.uri}: the storage would not say what time it is", path=path) from failure

    def _check_exist(self, folder: VersionFolder) -> None:
        missing = [
            one for one in self._protection.versions if one not in folder.manifests and one not in folder.detached
        ]
        if missing:
            raise NotFound(
                f"{self._store.uri} has no version {min(missing)}, which was to be kept",
                remedy="`versions()` lists those that exist.",
                version=min(missing),
            )

    def _refuse_managed(self, newest: int) -> None:
        if self._here.versions.read(newest).manifest.header.writer_feature_flags & SEICHE_FENCE:
            raise InvalidInput(
                f"{self._store.uri} is managed by a lake, whose older versions need files that the table does not show",
                remedy="Use `lake.expire(...)` and `lake.gc(...)`.",
                table=self._store.uri,
            )


def _emptied(path: str) -> str:
    """The directory that may be of no use when the file is gone: of work on indices, all of it."""
    top, _, inside = path.partition("/")
    return f"{top}/{inside.partition('/')[0]}" if top == SHADOWS else parent(path)
