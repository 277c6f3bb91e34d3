"""From V1 names to V2 names, once, such that an interrupted migration can be finished and nobody commits meanwhile."""

from contextlib import suppress
from functools import partial

from seiche.core.insisting import insist
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, Corrupt, NotFound, RetryableConflict
from seiche.store.base import Store
from seiche.table.versions import hint
from seiche.table.versions.naming import BARRIER, Naming, named

__all__ = ["migrate_to_v2"]


def migrate_to_v2(store: Store, runtime: Runtime = SYSTEM) -> int:
    """Rename every manifest of the table at `store` to its V2 name; returns how many were renamed now.

    First the name of the next V1 version is taken by a marker, so that writers, who must claim exactly that name,
    refuse from then on; then the manifests are renamed, oldest first; at last the marker goes. Run again after a
    crash, it goes on where it stopped. A table with V2 names is left as it is. What the storage does not answer is done
    again, since nobody can open the table before all of it is done.
    """
    v1, v2 = _versions(store, Naming.V1), _versions(store, Naming.V2)
    if not v1:
        if not v2:
            raise NotFound(f"there is no table at {store.uri}", remedy="Check the address.", table=store.uri)
        return 0
    last = v1[-1]
    begun = _is_barrier(store, last)
    for version in sorted({*(v1[:-1] if begun else v1)} & {*v2}):
        _check_same(store, version)
    if not begun:
        last += 1
        with suppress(AlreadyExists):
            insist(lambda: store.put_if_absent(Naming.V1.path(last), BARRIER), runtime)
        if not _is_barrier(store, last):
            raise RetryableConflict(
                f"{store.uri}: version {last} was committed while the migration was about to begin",
                table=store.uri,
                version=last,
            )
    renamed = 0
    for version in _versions(store, Naming.V1):
        if version != last:
            insist(partial(_rename, store, version), runtime)
            renamed += 1
    insist(lambda: store.delete(Naming.V1.path(last)), runtime)
    hint.write(store, last - 1)
    return renamed


def _rename(store: Store, version: int) -> None:
    """A crash may leave both names of a version, with the same bytes: then the new one stays.

    A writer that came too late may have given up the old name itself: then there is nothing to rename.
    """
    source = Naming.V1.path(version)
    try:
        store.rename_if_absent(source, Naming.V2.path(version))
    except AlreadyExists:
        _check_same(store, version)
        store.delete(source)
    except NotFound:
        return


def _check_same(store: Store, version: int) -> None:
    """`Corrupt` if the two names of a version are two commits: somebody who knew only old names came after a migration.

    Whoever made either of them may have been told that it is done, so none is removed here.
    """
    old, new = Naming.V1.path(version), Naming.V2.path(version)
    try:
        same = store.get(old) == store.get(new)
    except NotFound:
        return  # given up by its writer, or cleaned up, since it was listed
    if not same:
        raise Corrupt(
            f"{store.uri}: {old} and {new} are two different commits of version {version}",
            remedy=f"A writer that did not know of the migration has made {old}. Move it out of `_versions`, see what"
            " it holds, and make those changes again; then finish with `Table.migrate_naming`.",
            table=store.uri,
            version=version,
            path=old,
        )


def _versions(store: Store, naming: Naming) -> list[int]:
    return sorted(number for scheme, number in named(store) if scheme is naming)


def _is_barrier(store: Store, version: int) -> bool:
    try:
        return store.get_range(Naming.V1.path(version), 0, len(BARRIER)) == BARRIER
    except NotFound:
        return False
