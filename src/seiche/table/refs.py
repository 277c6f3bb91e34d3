"""Tags and branches of a table: names for versions, and further lines of versions inside the table.

Whoever gives a name to a version that may be cleaned up meanwhile does it in this order: write the reference, then look
whether the version is still there. Clean-up removes a version first and then looks at the references. So at least one
of the two notices the other.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from seiche.core.given import texts
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput, NotFound, SeicheError, Unavailable
from seiche.store.base import Store
from seiche.store.beside import open_beside
from seiche.store.paths import as_uri_path
from seiche.store.prefix import PrefixStore, below
from seiche.table.format import refs
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.format.refs import Branch, Tag
from seiche.table.versions.base import Versions
from seiche.table.versions.naming import Naming
from seiche.table.versions.opening import open_versions

__all__ = ["LEASE_PROPERTY", "References", "branch_of", "find_tag", "root_of"]

# Metadata of a tag that somebody holds a version with for a moment.
LEASE_PROPERTY = "seiche.lease"

_PATIENCE = Patience(attempts=6, timeout=30.0)
_Ref = TypeVar("_Ref", Tag, Branch)


def branch_of(header: Header) -> str | None:
    """The branch that a version belongs to, `None` for the main line."""
    return header.branch if header.HasField("branch") else None


def root_of(store: Store, branch: str | None, runtime: Runtime = SYSTEM) -> Store:
    """Where the tags and branches are of the table that has this branch at `store`; without one it is `store`."""
    if branch is None:
        return store
    inside = refs.branch_root(branch)
    if isinstance(store, PrefixStore) and f"/{store.prefix}".endswith(f"/{inside}"):
        return below(store.inner, store.prefix[: -len(inside)].rstrip("/"))
    address = store.native_uri().rstrip("/")
    for ending in (f"/{inside}", f"/{as_uri_path(inside)}"):
        if address.endswith(ending):
            return open_beside(store, address[: -len(ending)], runtime=runtime)
    raise InvalidInput(
        f"{store.uri} is the branch {branch!r} of a table, but does not lie in the directory {inside} of one",
        remedy="The branch was moved or copied by itself. Tags and branches are with the table that it came from.",
        branch=branch,
    )


def find_tag(store: Store, name: str, branch: str | None = None) -> int:
    """The version of the branch at `store` (`None` is the main line) that a tag stands for."""
    tag = _read(root_of(store, branch), refs.tag_path(refs.check_tag_name(name)), Tag)
    if tag is None:
        raise _no_such("tag", name, store)
    if tag.branch != branch:
        raise InvalidInput(
            f"the tag {name!r} is for a version of {_line(tag.branch)}, not of {_line(branch)}",
            remedy="Open the table at the tag, or take a version of this line.",
            tag=name,
            branch=tag.branch,
        )
    return tag.version


@dataclass(frozen=True)
class References:
    """The tags and branches of a table, whichever of its lines of versions one stands on.

    `versions` is that line, `branch` its name, `None` for the main one.
    """

    versions: Versions
    branch: str | None = None
    runtime: Runtime = SYSTEM

    @cached_property
    def root(self) -> Store:
        """The storage of the main line, in which all references are."""
        return root_of(self.versions.store, self.branch, self.runtime)

    def line(self, branch: str | None) -> Versions:
        """The versions of a branch, or of the main line; `NotFound` if there is no such branch."""
        if branch == self.branch:
            return self.versions
        if branch is not None:
            self.find_branch(branch)
        return self.open_line(branch)

    def open_line(self, branch: str | None, *, new: bool = False) -> Versions:
        """The versions of a branch without looking whether it exists, which a `new` one does not have to."""
        store = self.root if branch is None else below(self.root, refs.branch_root(branch))
        decided_by = getattr(self.versions, "manifest_store", None)
        naming = Naming.V2 if new else None
        return open_versions(store, naming=naming, manifest_store=decided_by, runtime=self.runtime, options={})

    def tags(self) -> dict[str, Tag]:
        """All tags by name."""
        return self._all(refs.TAGS, Tag)

    def branches(self) -> dict[str, Branch]:
        """All branches by name, the main line not among them."""
        return self._all(refs.BRANCHES, Branch)

    def find_tag(self, name: str) -> Tag:
        """What a tag stands for; `NotFound` if there is none of that name."""
        tag = _read(self.root, refs.tag_path(refs.check_tag_name(name)), Tag)
        if tag is None:
            raise _no_such("tag", name, self.root)
        return tag

    def find_branch(self, name: str) -> Branch:
        """Where a branch began; `NotFound` if there is none of that name."""
        branch = _read(self.root, refs.branch_path(refs.check_branch_name(name)), Branch)
        if branch is None:
            raise _no_such("branch", name, self.root)
        return branch

    def put_tag(self, name: str, version: int, *, metadata: Mapping[str, str] | None = None, move: bool = False) -> Tag:
        """Give the version of this line a name. `AlreadyExists` if the tag exists, unless it may `move`.

        `NotFound` if the version does not exist; when it was cleaned up while the tag was made, the tag is taken back.
        """
        path = refs.tag_path(refs.check_tag_name(name))
        size = self.manifest_size(version)
        before = _read(self.root, path, Tag)
        if before is not None and not move:
            raise _taken("tag", name, self.root)
        now = self.runtime.clock.now()
        tag = Tag(
            version=version,
            branch=self.branch,
            created_at=now if before is None else before.created_at,
            updated_at=now,
            manifest_size=size,
            metadata=_checked_metadata(metadata) if metadata is not None or before is None else before.metadata,
        )
        if before is not None:
            self.overwrite(path, tag.encode())
        elif not self.create(path, tag.encode()):
            raise _taken("tag", name, self.root)
        try:
            self.check_still_there(version)
        except NotFound:
            self._put_back(path, before)
            raise
        return tag

    def remove_tag(self, name: str) -> None:
        """Take the name away again; the version stays until it is cleaned up. `NotFound` if there is no such tag."""
        self.find_tag(name)
        self.remove(refs.tag_path(name))

    @contextmanager
    def held(self, version: int, purpose: str) -> Iterator[None]:
        """Keep clean-up away from a version meanwhile; `NotFound` if it is gone already.

        If the process dies the tag stays, until clean-up finds it to be old.
        """
        name = f"lease-{self.runtime.uuid()}"
        self.put_tag(name, version, metadata={LEASE_PROPERTY: purpose})
        try:
            yield
        finally:
            with suppress(SeicheError):
                self.remove(refs.tag_path(name))

    def manifest_size(self, version: int) -> int:
        """How large the manifest of a version of this line is; `NotFound` if it is not kept."""
        try:
            return self.versions.store.head(self.versions.path(version)).size
        except NotFound as error:
            raise self._no_version(version) from error

    def check_still_there(self, version: int) -> None:
        """`NotFound` if the version, or the branch that it is of, has vanished."""
        self.manifest_size(version)
        if self.branch is not None:
            self.find_branch(self.branch)

    def create(self, path: str, data: bytes) -> bool:
        """Create a reference; `False` if somebody else has. An unclear answer is settled by what is there then.

        `data` must not be what somebody else would write, too.
        """
        doubt = None
        for _ in _PATIENCE.tries(self.runtime):
            try:
                self.root.put_if_absent(path, data)
                return True
            except CommitUnknown as error:
                doubt = error
            except AlreadyExists:
                if doubt is None or not self._is(path, data):
                    return False
                self.root.flush([path])  # which the unclear answer may have been about
                return True
        raise Unavailable(f"{path}: the storage would not say whether it was written", path=path) from doubt

    def overwrite(self, path: str, data: bytes) -> None:
        """Write a reference whatever is there."""
        self._repeat(path, lambda: self.root.put(path, data))

    def remove(self, path: str) -> None:
        """Delete a reference."""
        self._repeat(path, lambda: self.root.delete(path))

    def _repeat(self, path: str, act: Callable[[], None]) -> None:
        doubt = None
        for _ in _PATIENCE.tries(self.runtime):
            try:
                act()
                return
            except CommitUnknown as error:
                doubt = error
        raise Unavailable(f"{path}: the storage would not say whether it was written", path=path) from doubt

    def _is(self, path: str, data: bytes) -> bool:
        try:
            return self.root.get(path) == data
        except NotFound:
            return False

    def _put_back(self, path: str, before: Tag | None) -> None:
        if before is None:
            self.remove(path)
        else:
            self.overwrite(path, before.encode())

    def _all(self, folder: str, kind: type[_Ref]) -> dict[str, _Ref]:
        paths = {name: info.path for info in self.root.list(folder) if (name := refs.name_of(info.path)) is not None}
        found = self.root.in_parallel(lambda path: _read(self.root, path, kind), paths.values())
        # One that was deleted since the listing is left out.
        return {name: ref for name, ref in zip(paths, found, strict=True) if ref is not None}

    def _no_version(self, version: int) -> NotFound:
        return NotFound(
            f"{self.versions.store.uri} has no version {version}",
            remedy="It never existed or was cleaned up; `versions()` lists those that are kept.",
            table=self.versions.store.uri,
            version=version,
        )

    def on(self, branch: str | None) -> "References":
        """The same references, standing on another line."""
        return self if branch == self.branch else replace(self, versions=self.line(branch), branch=branch)


def _read(root: Store, path: str, kind: type[_Ref]) -> _Ref | None:
    try:
        data = root.get(path)
    except NotFound:
        return None
    return kind.decode(data, path=path)


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    return texts(metadata, "the metadata of a reference", "Write it as text by name, for instance {'run': '17'}.")


def _line(branch: str | None) -> str:
    return "the main line" if branch is None else f"the branch {branch!r}"


def _no_such(kind: str, name: str, store: Store) -> NotFound:
    listing = "tags()" if kind == "tag" else "branches()"
    return NotFound(
        f"{store.uri} has no {kind} {name!r}",
        remedy=f"`{listing}` lists those that exist.",
        table=store.uri,
        **{kind: name},
    )


def _taken(kind: str, name: str, store: Store) -> AlreadyExists:
    remedy = "Move it with `replace=True`, or choose another name." if kind == "tag" else "Choose another name."
    return AlreadyExists(f"{store.uri} has a {kind} {name!r} already", remedy=remedy, table=store.uri, **{kind: name})
