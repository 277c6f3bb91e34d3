"""How old the files are that a transaction brings.

A clean-up notes files that nothing needs, and takes them some time later, behind a fence: whoever began before the note
cannot commit any more. A client may write files first and begin later, behind the fence. So a transaction is never
younger than its files. That is told by the storage, in the order of its own times, and not by any clock of ours.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from seiche.core.runtime import Runtime
from seiche.errors import NotFound
from seiche.lake.state import State
from seiche.lake.tree.names import root_name
from seiche.lake.tree.timeline import version_at

__all__ = ["BLUR", "written_since"]

# Stores tell times in whole seconds, and a file has that of its last byte, not that of its name: within this, a file
# may have been there before a root that seems older.
BLUR: Final = timedelta(seconds=1)


def written_since(files: Sequence[str], base: int, state: State, runtime: Runtime) -> int:
    """The version of the lake after which all of these files were written: `base`, or an older one.

    `state` is where to begin to look; with one that is older than `base`, the answer may be older than need be.
    `NotFound` if one of the files is not there.
    """
    if not files:
        return base
    store = state.store
    oldest = min(store.in_parallel(lambda path: store.head(path).modified, files)) - BLUR
    if store.head(root_name(base)).modified <= oldest:
        return base
    try:
        return min(base, version_at(store, state.root, oldest, runtime=runtime))
    except NotFound:
        return 0  # they are older than the lake
