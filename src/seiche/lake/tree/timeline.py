"""Which version was the latest at a time.

The time of a version is the storage's own time of its root. Storage times can go back, and change when a lake is
copied; so each root records the greatest one up to its predecessor, and only the newest root has to be asked for.
"""

from datetime import datetime

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import NotFound
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.root import Root, micros
from seiche.store.base import Store

__all__ = ["version_at"]


def version_at(store: Store, latest: Root, time: datetime, *, runtime: Runtime = SYSTEM) -> int:
    """The greatest version that was there at `time`, for a lake whose newest root is `latest`.

    `NotFound` if the lake did not exist yet. Reads a number of roots that grows with the logarithm of the versions. The
    version may have expired since; who opens it finds out.
    """
    wanted = micros(time)
    written = min(store.head(latest.name).modified, runtime.clock.now())
    if wanted >= max(latest.prev_eff_micros or 0, micros(written)):
        return latest.version
    low, high = -1, latest.version
    while high - low > 1:
        middle = (low + high) // 2
        if (_time_before(store, middle + 1) or 0) <= wanted:
            low = middle
        else:
            high = middle
    if low < 0:
        raise NotFound(
            f"the lake did not exist yet at {time.isoformat()}",
            remedy="Ask for a later time, or for a version by its number.",
            time=time,
        )
    return low


def _time_before(store: Store, version: int) -> int | None:
    """The time of the version before this one. A lake that began as an export has no roots below its first: whatever
    was asked for, those are too old to be opened.
    """
    try:
        return read_root(store, version).prev_eff_micros
    except NotFound:
        return None
