"""Proving that the roots of a lake form one line."""

from collections.abc import Iterator
from typing import Final

from seiche.core.runtime import SYSTEM
from seiche.errors import SeicheError
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.problems import Findings
from seiche.lake.states import States
from seiche.lake.tree.names import root_name, root_version
from seiche.lake.tree.root import Root
from seiche.store.base import Store

__all__ = ["check_roots"]

_AT_ONCE: Final = 32


def check_roots(store: Store, findings: Findings) -> Iterator[Root]:
    """All roots that can be read, ascending, each checked against the one before it."""
    listed = (root_version(info.path) for info in store.list(recursive=False))
    versions = sorted(version for version in listed if version is not None)
    if not versions:
        findings.add("root.missing", root_name(0), f"{store.uri} has no root: it is no lake, or all is lost")
        return
    newest = versions[-1]
    _check_gaps(versions, _first(store, newest), findings)
    before: Root | None = None
    for first in range(0, len(versions), _AT_ONCE):
        some = versions[first : first + _AT_ONCE]
        for version, data in zip(some, store.in_parallel(lambda one: _read(store, one), some), strict=True):
            with findings.looking_at("root", root_name(version)):
                if isinstance(data, SeicheError):
                    raise data
                root = Root.decode(data, version)
                _check_line(root, before, newest, findings)
                before = root
                yield root


def _read(store: Store, version: int) -> bytes | SeicheError:
    try:
        return store.get(root_name(version))
    except SeicheError as error:
        return error


def _first(store: Store, newest: int) -> int:
    """The version that the lake began with: not 0 if it began as an export. 0 if that cannot be known."""
    try:
        return GivenUp.of(States(store, SYSTEM).at(newest)).first
    except SeicheError:
        return 0


def _check_gaps(versions: list[int], first: int, findings: Findings) -> None:
    known = set(versions)
    for version in range(first, versions[-1]):
        if version not in known:
            findings.add(
                "root.missing",
                root_name(version),
                f"version {version} has no root although later ones have; a slow writer could take its name",
            )


def _check_line(root: Root, before: Root | None, newest: int, findings: Findings) -> None:
    """What never falls from one version to the next."""
    wrong = {}
    if root.expired_at_millis is not None and root.version == newest:
        wrong["it is a tombstone, and the newest root never is one"] = True
    if root.min_base > root.version:
        wrong[f"its fence {root.min_base} is ahead of it"] = True
    if before is not None:
        wrong |= {
            "its fence is lower than that of an earlier version": root.min_base < before.min_base,
            "it says that it was made before an earlier version": root.created_at_millis <= before.created_at_millis,
            "its timeline goes back": (root.prev_eff_micros or 0) < (before.prev_eff_micros or 0),
            "it decides a transaction again": not root.ids.isdisjoint(before.ids),
        }
    for what, found in wrong.items():
        if found:
            findings.add("root.order", root.name, f"version {root.version}: {what}")
