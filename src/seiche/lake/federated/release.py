"""Giving a table of the lake back to plain writers.

First a root says that the table is not the lake's own any more, and remembers that its place must never be cleared
away. Then its published manifests are opened to plain writers, the newest last. A transaction of the lake that was
under way meets that root. Interrupted in between, the table can be read by everybody and written by nobody, until
`release` is run again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from seiche.core.given import a_flag
from seiche.core.insisting import insist
from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, RetryableConflict
from seiche.lake.commit.edits import Planned
from seiche.lake.commit.intent import Intent
from seiche.lake.objects import rows
from seiche.lake.objects.keys import RETENTION, KeyRange, retention_key, table_key
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import RetentionRow, TableRow
from seiche.lake.publish import opened
from seiche.lake.state import State
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.versions.naming import Naming, named

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["left_alone", "release", "released", "taken_back"]

_RELEASED: Final = "released/"
_ROWS: Final = KeyRange(RETENTION + _RELEASED.encode(), RETENTION + b"released0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Releasing(Intent):
    """Makes a managed table a federated one: that which was looked at, not another that has its name by now."""

    name: Name
    table_id: str

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        row = state.table(self.name)
        if row.id != self.table_id:
            raise RetryableConflict(
                f"{text(self.name)}: another table has the name by now (the lake is at version {state.version}).",
                remedy="Nothing was written. Release it again if that one is meant.",
                table=text(self.name),
                version=state.version,
            )
        if not row.is_own("lance"):
            raise InvalidInput(
                f"{text(self.name)} is a table of type {row.type} and format {row.format}: it cannot be released",
                remedy="Only Lance tables of the lake's own can.",
                table=text(self.name),
            )
        key, kept = left_alone(row)
        yield Planned({key: kept, table_key(self.name): rows.encode(_given_away(row, state.store))})


def release(lake: "Lake", name: str | Sequence[str], *, drop: bool = False) -> str:
    """Give a table to plain writers; returns its address. See `lake.release`."""
    a_flag(drop, "drop")
    full = parts(name, what="table")
    states = lake.states
    row = states.latest().table(full)
    location = row.location
    if row.type == "federated" and row.source.get("released"):
        location = row.source["released"]  # it was begun before
    else:
        latest = states.latest().version
        lake.decide(Releasing(str(states.runtime.uuid()), latest, name=full, table_id=row.id))
    place = below(lake.store, location)
    _open(place, states.runtime)
    if drop:
        # Last: as long as plain writers are kept out, whoever finishes this must find the table.
        lake.run(lambda tx: _forget(tx, full, row.id))
    return place.native_uri()


def _forget(tx: "Transaction", name: Name, table_id: str) -> None:
    if tx.named(name).row.id == table_id:  # another table may have the name by now
        tx.drop_table(name)


def released(state: State) -> dict[str, str]:
    """The places in the lake that are not its own any more, with the ids of the tables that were there."""
    found = (rows.decode(value, RetentionRow).properties for _, value in state.scan(_ROWS))
    return {one["location"]: one["table"] for one in found}


def left_alone(row: TableRow) -> tuple[bytes, bytes]:
    """The key and the row that say of a table's place that it must never be cleared away."""
    kept = RetentionRow(maximum_age_millis=0, properties={"location": row.location, "table": row.id})
    return retention_key(f"{_RELEASED}{row.id}"), rows.encode(kept)


def taken_back(location: str, state: State) -> bytes | None:
    """The key of the row that says so, if a place of the lake has been left alone: without it, it is the lake's own."""
    table = released(state).get(location)
    return None if table is None else retention_key(f"{_RELEASED}{table}")


def _given_away(row: TableRow, lake: Store) -> TableRow:
    return replace(
        row,
        type="federated",
        location=below(lake, row.location).native_uri(),
        manifest=None,
        earlier=(),
        pointer_version=row.pointer_version + 1,
        logical_version=row.logical_version + 1,
        source={**row.source, "released": row.location},
    )


def _open(place: Store, runtime: Runtime) -> None:
    """Let plain writers in: oldest version first, since they look at the newest."""
    for version in sorted(number for naming, number in named(place) if naming is Naming.V2):
        path = Naming.V2.path(version)
        data = place.get(path)
        free = opened(data, path)
        if free != data:
            insist(lambda: place.put(path, free), runtime)  # noqa: B023 - called at once
