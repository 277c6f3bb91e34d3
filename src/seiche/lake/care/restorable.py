"""Which versions a table can go back to."""

from bisect import bisect_left

from seiche.errors import NotFound
from seiche.lake.care.given_up import GivenUp
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import manifests

__all__ = ["check_restorable"]


def check_restorable(state: State, row: TableRow, version: int, *, table: str = "") -> None:
    """`NotFound` if a commit on top of `state` must not make `version` of a table its newest again.

    Its manifest may still stand there, and be on its way out: what counts is whether a version of the lake that was not
    given up needs it. That is so from the version on that the table has in the oldest of them.
    """
    kept = list(GivenUp.of(state).versions.missing(state.version + 1))
    first = bisect_left(kept, True, key=lambda one: state.table_at(one, row.id) is not None)
    oldest = state.table_at(kept[first], row.id) if first < len(kept) else None
    made = [] if oldest is None else manifests(oldest)
    if not made or version < made[0][0]:
        since = f"; since version {made[0][0]} all are kept" if made else ""
        raise NotFound(
            f"version {version} of {table or 'the table'} belongs to versions of the lake that have expired{since}",
            remedy="Go back to a version that is kept; `lake.log()` lists those of the lake.",
            table=table,
            version=version,
        )
