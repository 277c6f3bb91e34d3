"""Making and deleting branches.

A branch exists when its file in `_refs/branches` does: creating that file decides who gets the name, and protects the
version that the branch begins at. Its first manifest follows. Whoever opens a branch that has none yet finishes it, so
a crash in between leaves a whole branch.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from seiche.core.retry import Patience
from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.store.base import ObjectInfo, Store
from seiche.table.build import build
from seiche.table.commit import Committer
from seiche.table.format import refs
from seiche.table.format.refs import Branch
from seiche.table.operations import Clone
from seiche.table.reachable import SHADOWS
from seiche.table.refs import References
from seiche.table.transaction import Transaction
from seiche.table.versions.base import Versions

__all__ = ["create_branch", "delete_branch", "files_below", "finished", "is_inside", "is_of"]

# Directories of a table. A branch whose name led into one would mix its files with those of another branch.
_OCCUPIED = frozenset(
    {"data", "tree", "_versions", "_transactions", "_deletions", "_indices", "_refs", "_fri", "_bt", "_mem_wal"}
    | {SHADOWS}
)


def create_branch(here: References, name: str, version: int) -> Versions:
    """A new branch that begins at this version of the line that one stands on; returns its versions.

    `AlreadyExists` if there is one of that name, or files of one. No data is copied: the branch refers to it.
    """
    _check_name(name)
    base = here.versions.read(version)
    parent = here.find_branch(here.branch) if here.branch is not None else None
    made = here.open_line(name, new=True)
    _refuse_existing(here, name, made)
    mark = here.runtime.uuid().hex
    branch = Branch(
        parent_branch=here.branch,
        parent_version=version,
        identifier=((parent.identifier if parent is not None else ()) + ((version, mark),)),
        created_at=int(here.runtime.clock.now().timestamp()),
        manifest_size=here.manifest_size(version),
    )
    # Built before anything is written: what cannot be branched from shows now.
    build(base.manifest, _transaction(here, name, version), runtime=here.runtime)
    if not here.create(refs.branch_path(name), branch.encode()):
        raise _taken(here, name)
    try:
        here.check_still_there(version)
    except NotFound:
        here.remove(refs.branch_path(name))
        raise
    _write(here, name, version, made)
    return made


def finished(here: References, name: str) -> Versions:
    """The versions of a branch, whose first manifest is written now if whoever made the branch did not come to it."""
    branch = here.find_branch(name)
    versions = here.open_line(name, new=True)
    try:
        versions.newest()
    except NotFound:
        _write(here.on(branch.parent_branch), name, branch.parent_version, versions)
    return versions


def delete_branch(here: References, name: str) -> None:
    """Remove a branch and its files. `InvalidInput` if it has tags, or other branches began at it.

    The branch is gone when its file in `_refs` is. What a crash leaves behind that is removed by deleting it again, or
    by the clean-up of the table.
    """
    refs.check_branch_name(name)
    path = refs.branch_path(name)
    found = here.branches().get(name)
    if found is not None:
        _refuse_used(here, name, found)
        here.remove(path)
        try:
            # Somebody may have put a tag or a branch on it just before; who does so later sees that the branch is gone.
            _refuse_used(here, name, found)
        except InvalidInput:
            here.create(path, found.encode())
            raise
    left = list(files_below(here.root, name, here.branches()))
    if found is None and not left:
        here.find_branch(name)
    here.open_line(name).forget_all()
    here.root.in_parallel(here.root.delete, [info.path for info in left])
    here.root.prune(refs.branch_root(name))


def files_below(root: Store, name: str, branches: Iterable[str]) -> Iterator[ObjectInfo]:
    """The files of a branch, without those of branches whose names continue its own: `a` without `a/b`.

    Nor those of one around it: pylance lets a branch be called `a/data`, and `a` has its data files there.
    """
    folder = refs.branch_root(name)
    known = list(branches)
    others = [refs.branch_root(other) for other in known if is_inside(other, name)]
    around = [other for other in known if is_inside(name, other)]
    for info in root.list(folder):
        inside = info.path[len(folder) + 1 :].split("/")
        path = f"{name}/{'/'.join(inside)}"
        if not is_of(path, name) and any(is_of(path, other) for other in around):
            continue
        # A branch that somebody is just making has a manifest but may not be listed yet.
        nested = "_versions" in inside[1:-1]
        if not nested and not any(is_inside(info.path, other) for other in others):
            yield info


def is_inside(path: str, folder: str) -> bool:
    """Whether a path lies below a directory."""
    return path.startswith(f"{folder}/")


def is_of(path: str, branch: str) -> bool:
    """Whether a file, by its path below the directory of all branches, is one that a branch has: others than in `data`
    and in directories that begin with an underscore it has none.
    """
    first = path[len(branch) + 1 :].partition("/")[0] if is_inside(path, branch) else ""
    return first == "data" or first.startswith("_")


def _write(parent: References, name: str, version: int, made: Versions) -> None:
    """Write the first manifest of the branch, which any number of processes may do: one is taken, all mean the same."""
    source = parent.versions.read(version).manifest
    with suppress(AlreadyExists):
        Committer(made, parent.runtime, Patience()).create(_transaction(parent, name, version), source)


def _transaction(parent: References, name: str, version: int) -> Transaction:
    operation = Clone(
        is_shallow=True,
        ref_name=parent.branch,
        ref_version=version,
        ref_path=parent.versions.store.native_uri(),
        branch_name=name,
    )
    return Transaction(version, str(parent.runtime.uuid()), operation)


def _check_name(name: str) -> None:
    refs.check_branch_name(name)
    occupied = _OCCUPIED.intersection(name.split("/")[1:])
    if occupied:
        raise InvalidInput(
            f"{name!r} cannot be the name of a branch: a table keeps files of its own under {min(occupied)!r}",
            remedy="Choose another name.",
            name=name,
        )


def _refuse_existing(here: References, name: str, made: Versions) -> None:
    with suppress(NotFound):
        here.find_branch(name)
        raise _taken(here, name)
    with suppress(NotFound):
        made.newest()
        raise AlreadyExists(
            f"{here.root.uri} has no branch {name!r}, but files of one",
            remedy="Somebody is just making it, or died while making or deleting it. In that case remove the files with"
            f" `delete_branch({name!r})`.",
            table=here.root.uri,
            branch=name,
        )


def _refuse_used(here: References, name: str, branch: Branch) -> None:
    tags = sorted(tag for tag, found in here.tags().items() if found.branch == name)
    # Also branches of branches of it: they refer to its files.
    children = sorted(
        other
        for other, found in here.branches().items()
        if other != name
        and (found.parent_branch == name or (branch.identifier and branch.identifier[-1] in found.identifier))
    )
    if tags or children:
        what = f"tags {tags}" if tags else f"branches {children}"
        raise InvalidInput(
            f"the branch {name!r} cannot be deleted: there are {what} that begin at it or stand for a version of it",
            remedy="Delete those first.",
            branch=name,
            tags=tags,
            branches=children,
        )


def _taken(here: References, name: str) -> AlreadyExists:
    return AlreadyExists(
        f"{here.root.uri} has a branch {name!r} already",
        remedy="Open it with `branch=`, or choose another name.",
        table=here.root.uri,
        branch=name,
    )
