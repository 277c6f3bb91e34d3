"""The conditions of the conflict matrix: each answers whether, and where, two operations meet.

A condition is a function of an `Encounter` and returns a `Dispute`, or `None` if the two leave each other alone. All
are pure. Some look at the manifest of the read version or of the other commit, which are loaded only then.
"""

from collections.abc import Callable, Iterable, Mapping

from seiche.table import footprint
from seiche.table.conflicts import Dispute
from seiche.table.encounter import Encounter, listed
from seiche.table.format.index_details import MEM_WAL, mem_wal_details
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field
from seiche.table.index_conditions import index, indexed, reuse
from seiche.table.keys import is_empty, shared_keys
from seiche.table.operations import (
    CreateIndex,
    DataReplacement,
    Opaque,
    Operation,
    Restore,
    Update,
    UpdateConfig,
    UpdateMemWalState,
)

__all__ = ["CONDITIONS"]


def always(meeting: Encounter) -> Dispute:
    """Whatever the two are about."""
    theirs = meeting.theirs
    touched = tuple(sorted(footprint.fragments(theirs)))
    if isinstance(theirs, Opaque):
        return Dispute(f"is an operation that this release cannot judge: {theirs.name}")
    if isinstance(theirs, Restore):
        return Dispute(f"restored version {theirs.version}")
    return Dispute(_DEEDS.get(theirs.name, f"changed {listed('fragment', touched)}"), touched)


_DEEDS = {
    "Append": "added rows",
    "Overwrite": "replaced all rows and the schema",
    "Merge": "replaced all fragments and the schema",
    "Project": "changed the schema",
    "Clone": "is the table's first version",
    "UpdateMemWalState": "changed the state of the write-ahead log",
}
_VERBS = {
    "Delete": "deleted rows of",
    "Update": "changed rows of",
    "Rewrite": "rewrote",
    "DataReplacement": "replaced columns of",
    "Merge": "replaced",
}


def fragments(meeting: Encounter) -> Dispute | None:
    """Both change or remove the same fragment."""
    shared = sorted(footprint.fragments(meeting.ours) & footprint.fragments(meeting.theirs))
    if not shared:
        return None
    return Dispute(f"{_VERBS.get(meeting.theirs.name, 'changed')} {listed('fragment', shared)}", tuple(shared))


def gone(meeting: Encounter) -> Dispute | None:
    """They removed a fragment that we put a column into."""
    shared = sorted(footprint.fragments(meeting.ours) & footprint.removed_fragments(meeting.theirs))
    return Dispute(f"removed {listed('fragment', shared)}", tuple(shared)) if shared else None


def cells(meeting: Encounter) -> Dispute | None:
    """Both replace the same field of the same fragment."""
    theirs = footprint.cells(meeting.theirs)
    shared = sorted(footprint.cells(meeting.ours) & theirs)
    if not shared:
        return None
    ids = tuple(dict.fromkeys(fragment for fragment, _ in shared))
    field_ids = sorted({field_id for _, field_id in shared})
    return Dispute(f"replaced {listed('field', field_ids)} of {listed('fragment', ids)}", ids)


def dropped(meeting: Encounter) -> Dispute | None:
    """They left a schema without a field that we index, replace, or set metadata of.

    For an index, also one in which the field has another name or type: it may be another column under a reused id.
    """
    after = {one.id: one for one in footprint.schema(meeting.theirs)}
    needed = _needed(meeting.ours)
    if missing := sorted(needed - after.keys()):
        return Dispute(f"dropped {listed('field', missing)}", keys=tuple(map(str, missing)))
    return _redefined(needed, _fields(meeting.read()), after) if isinstance(meeting.ours, CreateIndex) else None


def _needed(operation: Operation) -> frozenset[int]:
    if isinstance(operation, CreateIndex):
        indices = footprint.ordinary(operation.new_indices)
        return frozenset(one for index in indices for one in (*index.fields, *index.covering_fields))
    if isinstance(operation, UpdateConfig):
        return frozenset(operation.field_metadata_updates)
    return footprint.data_fields(operation)


def schema(meeting: Encounter) -> Dispute | None:
    """Our new rows or columns do not fit the schema that they left.

    A field that was merely dropped is harmless: its values stay in the files, unread. But a field id may come to stand
    for another column, a column may get another field id, under which our files have nothing, and a column may come to
    need values that our files do not have.
    """
    before, after = _fields(meeting.read()), _fields(meeting.other.load())
    newly_required = footprint.required(before, after)
    if isinstance(meeting.ours, DataReplacement):
        return _required(sorted(footprint.data_fields(meeting.ours) & newly_required))
    for fragment in footprint.new_fragments(meeting.ours):
        supplied = {one for file in fragment.files for one in file.fields if one >= 0}
        if dispute := _redefined(supplied, before, after) or _required(sorted(newly_required)):
            return dispute
    return None


def _fields(manifest: Manifest) -> dict[int, Field]:
    return {one.id: one for one in manifest.header.fields}


def _redefined(field_ids: Iterable[int], before: Mapping[int, Field], after: Mapping[int, Field]) -> Dispute | None:
    """One of the fields stands for another column now, or its column is another field."""
    by_path = {footprint.path_of(one, after): one for one in after}
    for field_id in sorted(set(field_ids)):
        was, now = footprint.path_of(field_id, before), footprint.path_of(field_id, after)
        if field_id not in after and was in by_path:
            what = f"put field {by_path[was]} in the place of field {field_id}, {'.'.join(was)}"
            return Dispute(what, keys=(str(field_id),))
        if field_id in after and (was != now or before[field_id].logical_type != after[field_id].logical_type):
            old, new = _described(was, before.get(field_id)), _described(now, after[field_id])
            return Dispute(f"made field {field_id}, which was {old}, {new}", keys=(str(field_id),))
    return None


def _required(field_ids: list[int]) -> Dispute | None:
    if not field_ids:
        return None
    return Dispute(f"made {listed('field', field_ids)} required", keys=tuple(map(str, field_ids)))


def _described(path: tuple[str, ...], field: Field | None) -> str:
    return f"{'.'.join(path)} ({field.logical_type})" if field is not None else "nothing"


def nulls(meeting: Encounter) -> Dispute | None:
    """We made a column required after looking at its values, and they wrote others."""
    after = {one.id: one for one in footprint.schema(meeting.ours)}
    read = meeting.read()
    tightened = footprint.required(_fields(read), after)
    written = tightened
    if tightened and not footprint.new_fragments(meeting.theirs):
        written &= footprint.rewritten_fields(meeting.theirs, read)
    if not written:
        return None
    return Dispute(f"wrote values of {listed('field', sorted(written))}", keys=tuple(map(str, sorted(written))))


def keys(meeting: Encounter) -> Dispute | None:
    """Both change the same key of the configuration or of some metadata."""
    shared = tuple(sorted(footprint.keys(meeting.ours) & footprint.keys(meeting.theirs)))
    return Dispute(f"changed {', '.join(shared)}", keys=shared) if shared else None


def metadata(meeting: Encounter) -> Dispute | None:
    """One changes metadata of the schema or of fields, and the other replaces the schema."""
    if footprint.changes_schema_metadata(meeting.theirs):
        return Dispute("changed metadata of the schema or of fields")
    return always(meeting) if footprint.changes_schema_metadata(meeting.ours) else None


def inserted(meeting: Encounter) -> Dispute | None:
    """Our merge inserted rows by key, and they may have inserted the same key."""
    ours = meeting.ours.inserted_rows if isinstance(meeting.ours, Update) else None
    if ours is None or is_empty(ours):  # a merge that only updates has nothing to lose to a new row
        return None
    if not isinstance(meeting.theirs, Update):
        return Dispute("added rows whose keys are not known")
    if meeting.theirs.inserted_rows is None:
        return Dispute("changed rows whose keys are not known")
    shared = shared_keys(ours, meeting.theirs.inserted_rows)
    return None if shared is None else Dispute(shared.why, keys=tuple(map(str, shared.hashes)))


def log(meeting: Encounter) -> Dispute | None:
    """One attaches a write-ahead log, and the other changes the columns: rows in the log would lack the new ones."""
    if footprint.of_name(meeting.theirs, MEM_WAL) is not None:
        return Dispute("wrote the MemWAL index", keys=(MEM_WAL,))
    return always(meeting) if footprint.of_name(meeting.ours, MEM_WAL) is not None else None


def no_mem_wal(meeting: Encounter) -> Dispute | None:
    """We do not write the MemWAL index, so there is nothing in which both could be held."""
    return None if footprint.of_name(meeting.ours, MEM_WAL) is not None else always(meeting)


def generations(meeting: Encounter) -> Dispute | None:
    """Both say how far the same shard of the write-ahead log has been merged, or they did away with the log."""
    ours, theirs = _generations(meeting.ours), _generations(meeting.theirs)
    if ours and footprint.drops(meeting.theirs, MEM_WAL):
        return Dispute("dropped the MemWAL index", keys=(MEM_WAL,), outcome="incompatible")
    for shard in sorted(ours.keys() & theirs.keys()):
        merged = theirs[shard] >= ours[shard]
        return Dispute(
            f"merged generation {theirs[shard]} of log shard {shard.hex()}, ours is {ours[shard]}",
            keys=(shard.hex(),),
            outcome="incompatible" if merged else "retry",
        )
    return None


def _generations(operation: Operation) -> dict[bytes, int]:
    if isinstance(operation, Update | UpdateMemWalState):
        return {one.shard.uuid: one.generation for one in operation.merged_generations}
    entry = footprint.of_name(operation, MEM_WAL)
    sstables = () if entry is None else mem_wal_details(entry).compacted_sstables
    return {one.shard.uuid: one.generation for one in sstables}


def bases(meeting: Encounter) -> Dispute | None:
    """Both add a base path of the same id, name or path; an id that was left open counts as the one it was given."""
    added = {one.path for one in footprint.bases(meeting.theirs)}
    if not added:
        return None
    given = [one for one in meeting.other.load().header.base_paths if one.path in added]
    shared: list[str] = []
    for one in footprint.bases(meeting.ours):
        for other in given:
            if one.id and one.id == other.id:
                shared.append(f"id {one.id}")
            if one.HasField("name") and other.HasField("name") and one.name == other.name:
                shared.append(f"name {one.name}")
            if one.path == other.path:
                shared.append(f"path {one.path}")
    return Dispute(f"added a base path with {', '.join(shared)}", keys=tuple(shared)) if shared else None


CONDITIONS: dict[str, Callable[[Encounter], Dispute | None]] = {
    "": always,
    "bases": bases,
    "cells": cells,
    "dropped": dropped,
    "fragments": fragments,
    "generations": generations,
    "gone": gone,
    "index": index,
    "indexed": indexed,
    "inserted": inserted,
    "keys": keys,
    "log": log,
    "metadata": metadata,
    "no_mem_wal": no_mem_wal,
    "nulls": nulls,
    "reuse": reuse,
    "schema": schema,
}
