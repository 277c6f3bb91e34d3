"""Which snapshots a table no longer wants, by its own properties, as Iceberg's specification of retention says.

Only tables that say something about it are looked at: Iceberg has defaults, but whoever never heard of them should not
lose history to a server. Pure: metadata in, names and ids out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from seiche.lake.iceberg.metadata import Metadata

__all__ = ["YOUNGEST_MILLIS", "Outdated", "asks_for_expiry", "outdated"]

_AGE: Final = "history.expire.max-snapshot-age-ms"
_LEAST: Final = "history.expire.min-snapshots-to-keep"
_REF_AGE: Final = "history.expire.max-ref-age-ms"

_DEFAULT_AGE: Final = 5 * 24 * 3600 * 1000
_FOR_EVER: Final = 1 << 63

# A client that lost an answer may ask again for this long: by the snapshot, which is still there, it learns that its
# commit was applied. Without the snapshot it would hear "conflict", and delete files that count.
YOUNGEST_MILLIS: Final = 30 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Outdated:
    """Branches and tags by name, and snapshots by id, that can go."""

    refs: tuple[str, ...] = ()
    snapshots: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.refs or self.snapshots)


def asks_for_expiry(properties: Mapping[str, str]) -> bool:
    """Whether a table says how long its snapshots are wanted."""
    return any(name in properties for name in (_AGE, _LEAST, _REF_AGE))


def outdated(metadata: Metadata, now_millis: int) -> Outdated:
    """What the table no longer wants. What a branch or tag stands for stays, and so does everything young.

    `ValueError` if a property is not a number.
    """
    if not asks_for_expiry(metadata.properties):
        return Outdated()
    limits = {name: int(value) for name, value in metadata.properties.items() if name in (_AGE, _LEAST, _REF_AGE)}
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    gone = [
        name
        for name, ref in metadata.refs.items()
        if name != MAIN_BRANCH and ref.snapshot_id in by_id
        if _age(by_id[ref.snapshot_id], now_millis) > _first(ref.max_ref_age_ms, limits.get(_REF_AGE), _FOR_EVER)
    ]
    kept: set[int] = set()
    for name, ref in metadata.refs.items():
        if name not in gone:
            kept |= _kept_by(ref, by_id, limits, now_millis)
    longest = limits.get(_AGE, _DEFAULT_AGE)
    snapshots = [
        number
        for number, one in by_id.items()
        if number not in kept and _age(one, now_millis) > max(longest, YOUNGEST_MILLIS)
    ]
    return Outdated(tuple(gone), tuple(snapshots))


def _kept_by(ref: Any, by_id: Mapping[int, Any], limits: Mapping[str, int], now_millis: int) -> set[int]:
    """What a branch or tag stands for; of a branch also what came before, as far back as it is wanted."""
    if ref.snapshot_ref_type is SnapshotRefType.TAG:
        return {ref.snapshot_id}
    least = _first(ref.min_snapshots_to_keep, limits.get(_LEAST), 1)
    longest = _first(ref.max_snapshot_age_ms, limits.get(_AGE), _DEFAULT_AGE)
    kept: set[int] = set()
    number: int | None = ref.snapshot_id
    while number is not None and number in by_id and number not in kept:
        one = by_id[number]
        if kept and len(kept) >= least and _age(one, now_millis) > longest:
            break
        kept.add(number)
        number = one.parent_snapshot_id
    return kept


def _age(snapshot: Any, now_millis: int) -> int:
    return now_millis - int(snapshot.timestamp_ms)


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)
