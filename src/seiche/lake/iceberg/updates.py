"""What a commit to an Iceberg table asks for: whether it may, and the metadata that it makes.

PyIceberg's own functions apply updates and check requirements. Where they would let something through that breaks a
table, or trip over something harmless, it is caught here and by the guards of `applying`; the list is in
docs/design/016-iceberg.md.
"""

import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.exceptions import ValidationError as IcebergValidationError
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV3
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)

from seiche.errors import InvalidInput
from seiche.lake.iceberg.applying import Applying
from seiche.lake.iceberg.columns import retyped
from seiche.lake.iceberg.metadata import Metadata, json_of
from seiche.lake.iceberg.soundness import check_paths, lateness

__all__ = ["apply", "empty_metadata", "previewed", "too_late", "unmet"]

# What these leave is what reading it back would give: their parts were looked at when the request was read, and no
# schema, partition spec or sort order moves. Reading back is most of what a commit to a table would cost.
_SIMPLE: Final = frozenset(
    {
        AddSnapshotUpdate,
        RemovePropertiesUpdate,
        RemoveSnapshotRefUpdate,
        RemoveSnapshotsUpdate,
        SetPropertiesUpdate,
        SetSnapshotRefUpdate,
    }
)


def empty_metadata() -> Metadata:
    """What the updates that make a table begin with."""
    found: Metadata = MetastoreCatalog._empty_table_metadata()
    return found


def unmet(requirements: Iterable[Any], metadata: Metadata | None) -> str:
    """Why the requirements do not hold for this metadata (`None`: there is no table); empty if they hold."""
    for one in requirements:
        if isinstance(one, AssertRefSnapshotId) and metadata is not None and one.snapshot_id is None:
            # PyIceberg wants a first snapshot before any branch; the specification only wants the branch to be new.
            if one.ref in metadata.refs:
                return f"{one.ref} was created concurrently"
            continue
        try:
            one.validate(metadata)
        except CommitFailedException as error:
            return str(error).removeprefix("Requirement failed: ")
    return ""


def too_late(updates: Iterable[Any], metadata: Metadata) -> str:
    """Which snapshot was numbered before others were committed; empty if there is none. Who replaces a table requires
    nothing of its branches: that is how he meets them.
    """
    added = (update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate))
    return next((why for one in added if (why := lateness(one, metadata))), "")


def apply(base: Metadata | None, updates: Sequence[Any], *, now_millis: int) -> Metadata:
    """The metadata that the updates make of `base`, or of nothing; its log of earlier files is not touched.

    `InvalidInput` if an update cannot be applied or would leave a table that nobody can use.
    """
    before = empty_metadata() if base is None else base
    applying = Applying(before, created=base is None)
    try:
        for update in updates:
            applying.apply(update)
        made = applying.metadata
        if base is None:
            _check_complete(made)
            check_paths(made.properties, made.location)
        _check_types(before, made, applying.added)
        # PyIceberg copies what version 1 has no place for, which only reading it back drops.
        simple = base is not None and base.format_version > 1 and all(type(one) in _SIMPLE for one in updates)
        if not simple:
            made.schema().check_format_version_compatibility(made.format_version)
            _check_defaults(before, made)
            _check_names(base, made)
            for spec in (made.spec(), *applying.specs):
                spec.check_compatible(made.schema())
            made.sort_order().check_compatible(made.schema())
        if base is not None and made is base:
            return base
        timed = _timed(before, made, applying.added, now_millis)
        return timed if simple else _read_back(timed)
    except (ValueError, KeyError, NotImplementedError, ValidationException, IcebergValidationError) as error:
        raise InvalidInput(f"the update cannot be applied: {error}", remedy="Nothing was written.") from error


def previewed(base: Metadata, updates: Iterable[Any]) -> Metadata:
    """The metadata as PyIceberg shows it inside of a transaction, with updates that are not committed.

    As its own function for that, but what the updates leave is shared with `base`: a copy of it would be one of all
    snapshots that the table has, for every statement, and take longer than the rest of an append once there are
    hundreds. And the time of the change is left to the commit.
    """
    context, made = _TableMetadataUpdateContext(), base
    for update in updates:
        made = _apply_table_update(update, made, context)
    made.spec().check_compatible(made.schema())
    made.sort_order().check_compatible(made.schema())
    return made


def _check_complete(made: Metadata) -> None:
    """Refuse a new table of which its updates have not said what there is no table without."""
    if not getattr(made, "location", ""):
        raise ValueError("a new table has to be given a location")
    if made.current_schema_id not in {one.schema_id for one in made.schemas}:
        raise ValueError("a new table has to be given its current schema")
    if made.default_spec_id not in {one.spec_id for one in made.partition_specs}:
        raise ValueError("a new table has to be given a partition spec; one without fields will do")


def _check_defaults(before: Metadata, made: Metadata) -> None:
    """Refuse new columns that rows without them have a value of, where readers need not know of such values: some would
    show it, and others null. Of columns that have one already nothing can be refused any more.
    """
    new = {} if made.format_version >= 3 else _defaults(made)
    for number in new.keys() - _defaults(before).keys():
        raise ValueError(f"column {new[number]!r} has an initial default, which there is from format version 3 on")


def _check_names(before: Metadata | None, made: Metadata) -> None:
    """Refuse partitions that are called as a column is which they are not of: Java opens no such table. Of those that
    are there nothing can be refused any more.
    """
    for spec, name in sorted(_misnamed(made) - (set() if before is None else _misnamed(before))):
        raise ValueError(f"a partition of spec {spec} and a column that it is not of are both called {name!r}")


def _misnamed(metadata: Metadata) -> set[tuple[int, str]]:
    columns, there = metadata.schema()._name_to_id, metadata.schema().field_ids
    fields = ((spec.spec_id, one) for spec in metadata.partition_specs for one in spec.fields)
    return {
        (spec, one.name)
        for spec, one in fields
        if one.source_id in there and columns.get(one.name, one.source_id) != one.source_id
    }


def _check_types(before: Metadata, made: Metadata, added: Collection[int]) -> None:
    """Refuse types of columns by which the rows of a snapshot that was there before could not be read. Those of new
    snapshots their manifests tell (`columns`).
    """
    snapshot, schema = made.current_snapshot(), made.schema()
    if snapshot is None or snapshot.snapshot_id in added:
        return
    if snapshot.snapshot_id == before.current_snapshot_id and made.current_schema_id == before.current_schema_id:
        return
    written = made.schema_by_id(snapshot.schema_id) if snapshot.schema_id is not None else None
    why = retyped(written or before.schema(), schema)
    if why:
        raise ValueError(why)


def _defaults(metadata: Metadata) -> dict[int, str]:
    columns = [column for schema in metadata.schemas for column in schema._lazy_id_to_field.values()]
    return {one.field_id: one.name for one in columns if one.initial_default is not None}


def _timed(before: Metadata, made: Metadata, added: Sequence[int], now_millis: int) -> Metadata:
    """The metadata with the time of its change by the lake's clock; that of a new snapshot is in the snapshot.

    It never goes back, whatever the clock does.
    """
    since = getattr(before, "last_updated_ms", 0) or 0
    snapshots = [one.timestamp_ms for one in made.snapshots if one.snapshot_id in added]
    changed = max(since, *snapshots) if snapshots else max(since, now_millis)
    log = list(made.snapshot_log)
    if log and not snapshots and len(log) > len(getattr(before, "snapshot_log", ())):
        log[-1] = log[-1].model_copy(update={"timestamp_ms": changed})
    values: dict[str, Any] = {"last_updated_ms": changed, "snapshot_log": _in_order(log, changed)}
    if isinstance(made, TableMetadataV3) and made.next_row_id is None:
        values["next_row_id"] = 0
    timed: Metadata = made.model_copy(update=values)
    return timed


def _in_order(log: list[Any], changed: int) -> list[Any]:
    """The log of what was current since when, with no time before the one above it, or after the last change.

    Snapshots have the times of their writers, whose clocks differ; Java opens no table whose log goes back by more than
    a minute.
    """
    latest, found = 0, []
    for one in log:
        latest = min(max(latest, one.timestamp_ms), changed)
        found.append(one if one.timestamp_ms == latest else one.model_copy(update={"timestamp_ms": latest}))
    return found


def _read_back(made: Metadata) -> Metadata:
    """As it would be read from its file: PyIceberg copies without looking whether the parts fit together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyIceberg warns of summaries that other engines write
        found: Metadata = TableMetadataUtil.parse_raw(json_of(made).decode())
    return found
