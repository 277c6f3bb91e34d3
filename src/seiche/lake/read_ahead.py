"""Manifests of several tables that are about to be needed, read in one wave instead of one after the other."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from seiche.errors import SeicheError
from seiche.lake.manifest_cache import CACHE_BYTES
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import newest_manifest

__all__ = ["read_ahead"]

# More would drive each other out before they are used.
_MOST_BYTES: Final = CACHE_BYTES // 4


def read_ahead(state: State, keys: Iterable[bytes]) -> None:
    """Have the newest manifests of the tables with these keys at hand, where reading means to wait for a network.

    Best effort: what cannot be read is told to whoever needs it.
    """
    if state.store.lists_in_one_request:  # a disk of this machine
        return
    with suppress(SeicheError):
        state.store.in_parallel(
            lambda row: newest_manifest(state.store, row, state.manifests), list(_missing(state, keys))
        )


def _missing(state: State, keys: Iterable[bytes]) -> Iterator[TableRow]:
    left = _MOST_BYTES
    for row in map(state.behind, keys):
        if isinstance(row, TableRow) and row.manifest is not None and not state.manifests.holds(row.manifest):
            left -= row.manifest.size
            if left < 0:
                return
            yield row
