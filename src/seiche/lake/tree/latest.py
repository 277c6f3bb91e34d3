"""Finding roots: the latest one, and the one of a version.

Roots form a range without gaps, because a name is never freed: expired roots leave tombstones. So the end of the
range can be found by doubling steps and halving them, wherever one begins.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from seiche.errors import Corrupt, NotFound, SeicheError
from seiche.lake.tree.names import HINT, HINT_FALLBACK, OLDEST, root_name, root_version
from seiche.lake.tree.root import Root
from seiche.store.base import Store

__all__ = ["latest_root", "read_hint", "read_root", "stored_root", "write_hint", "write_oldest"]

_LONGEST_HINT: Final = 64


def latest_root(store: Store) -> Root:
    """The newest root there was at some moment during this call; `NotFound` if the store holds no lake.

    Two requests to find it if the hint is right, and one to read it. Whatever the hint says, or if there is none, the
    answer is the same and takes a number of requests that grows with the logarithm of the versions.
    """
    hint = read_hint(store)
    if hint is not None:
        data, is_late = store.together(partial(_data, store, hint), partial(_exists, store, hint + 1))
        if is_late:
            return read_root(store, _last(store, hint + 1))
        if data is not None:
            return Root.decode(data, hint)
        # The hint is ahead of the lake: a restored copy, or nonsense that looks like a number.
    return read_root(store, _last(store, _first(store)))


def read_root(store: Store, version: int) -> Root:
    """The root of a version, which may be a tombstone; `NotFound` if there is none yet, `Corrupt` if it was lost."""
    try:
        return stored_root(store, version)
    except NotFound as error:
        # No version is ever skipped, and an expired one leaves a tombstone.
        if version > 0 and all(store.exists(root_name(one)) for one in (version - 1, version + 1)):
            path = root_name(version)
            raise Corrupt(
                f"{path}, the root of version {version} of the lake, is missing, while its neighbours exist",
                remedy="Restore this file from a copy of the lake; `seiche fsck` names all that is missing.",
                path=path,
                version=version,
            ) from error
        raise NotFound(
            f"version {version} of the lake does not exist", remedy="Take one that `lake.log()` lists.", version=version
        ) from error


def stored_root(store: Store, version: int) -> Root:
    """The root under the name of a version, in one request; `NotFound` if there is none, for whatever reason."""
    return Root.decode(store.get(root_name(version)), version)


def _data(store: Store, version: int) -> bytes | None:
    try:
        return store.get(root_name(version))
    except NotFound:
        return None


def read_hint(store: Store) -> int | None:
    """What the hint says, or None: whatever is wrong with a hint, it is only a hint."""
    for name in (HINT, HINT_FALLBACK):
        version = _number(store, name)
        if version is not None:
            return version
    return None


def write_hint(store: Store, version: int) -> None:
    """Leave a hint for later readers, if the store takes it. It may be overtaken by a slower writer's older one."""
    _note(store, HINT, version)


def write_oldest(store: Store, version: int) -> None:
    """Leave a note of a version that exists, for readers of a store whose first versions are missing."""
    _note(store, OLDEST, version)


def _note(store: Store, name: str, version: int) -> None:
    # The commit that it speaks of is done: a failed hint must not make it look otherwise.
    with suppress(SeicheError):
        store.note(name, b"%d" % version)


def _number(store: Store, name: str) -> int | None:
    """What a hint says; `None` if there is none that can be read: then one has to look for longer."""
    try:
        text = store.get_range(name, 0, _LONGEST_HINT).strip()
    except SeicheError:
        return None
    return int(text) if text.isdigit() else None


def _exists(store: Store, version: int) -> bool:
    return store.exists(root_name(version))


def _first(store: Store) -> int:
    """Some version that exists: 0 in every lake that has all its files."""
    if _exists(store, 0):
        return 0
    oldest = _number(store, OLDEST)
    if oldest is not None and _exists(store, oldest):
        return oldest
    found = [root_version(info.path) for info in store.list(recursive=False)]
    versions = [version for version in found if version is not None]
    if not versions:
        raise NotFound(
            f"{store.uri} holds no lake",
            remedy="Check the address, or make one there: `seiche.create(...)`, or `seiche init`.",
            uri=store.uri,
        )
    return max(versions)


def _last(store: Store, known: int) -> int:
    return last(known, lambda version: _exists(store, version))


def last(known: int, exists: Callable[[int], bool]) -> int:
    """The end of the range without gaps that `known` is in: doubling steps to a miss, then halving the gap."""
    step = 1
    while exists(known + step):
        step *= 2
    low, high = known + step // 2, known + step
    while high - low > 1:
        middle = (low + high) // 2
        if exists(middle):
            low = middle
        else:
            high = middle
    return low
