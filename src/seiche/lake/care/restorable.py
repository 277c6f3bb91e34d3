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
    since = _version_at(kept[first], state, row) if first < len(kept) else None
    if since is None or version < since:
        # One that was dropped and brought back is missing in between: before saying no, all are looked at.
        since = next((found for one in kept if (found := _version_at(one, state, row)) is not None), None)
    if since is None or version < since:
        known = "" if since is None else f"; since version {since} all are kept"
        raise NotFound(
            f"version {version} of {table or 'the table'} belongs to versions of the lake that have expired{known}",
            remedy="Go back to a version that is kept; `lake.log()` lists those of the lake.",
            table=table,
            version=version,
        )


def _version_at(lake_version: int, state: State, row: TableRow) -> int | None:
    """The oldest version of a table that a version of the lake names, if that has the table."""
    found = state.table_at(lake_version, row.id)
    made = [] if found is None else manifests(found)
    return made[0][0] if made else None
