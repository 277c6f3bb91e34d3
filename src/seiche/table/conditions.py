"""The conditions of the conflict matrix: each answers whether, and where, two operations meet.

A condition is a function of an `Encounter` and returns a `Dispute`, or `None` if the two leave each other alone. All
are pure. Some look at the manifest of the read version or of the other commit, which are loaded only then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from seiche.table import footprint
from seiche.table.conflicts import Committed, Dispute
from seiche.table.format.index_details import FRAGMENT_REUSE, MEM_WAL, find, mem_wal_details
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field, IndexMetadata
from seiche.table.keys import is_empty, shared_keys
from seiche.table.operations import (
    CreateIndex,
    DataReplacement,
    Opaque,
    Operation,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateConfig,
    UpdateMemWalState,
)
from seiche.table.operations.coverage import covered as covered_by
from seiche.table.operations.coverage import reads_addresses
from seiche.table.operations.fields import related

__all__ = ["CONDITIONS", "Encounter", "listed", "reuse_written"]


@dataclass(frozen=True, slots=True)
class Encounter:
    """The operation being committed, a commit that came first, and the version that ours was made from."""

    ours: Operation
    other: Committed
    read: Callable[[], Manifest]

    @property
    def theirs(self) -> Operation:
        return self.other.transaction.operation


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
    theirs = set(_cells(meeting.theirs))
    shared = sorted(cell for cell in _cells(meeting.ours) if cell in theirs)
    if not shared:
        return None
    ids = tuple(dict.fromkeys(fragment for fragment, _ in shared))
    field_ids = sorted({field_id for _, field_id in shared})
    return Dispute(f"replaced {listed('field', field_ids)} of {listed('fragment', ids)}", ids)


def _cells(operation: Operation) -> Iterator[tuple[int, int]]:
    if isinstance(operation, DataReplacement):
        for group in operation.replacements:
            yield from ((group.fragment_id, field_id) for field_id in group.new_file.fields if field_id >= 0)


def indexed(meeting: Encounter) -> Dispute | None:
    """One builds an index on a field that the other replaces, in a fragment that the index covers.

    If the index was first, any fragment counts.
    """
    building, replacing = meeting.ours, meeting.theirs
    index_first = isinstance(building, DataReplacement)
    if index_first:
        building, replacing = replacing, building
    if not isinstance(building, CreateIndex):
        return None
    schema = meeting.read().header.fields
    for index in footprint.ordinary(building.new_indices):
        covered = None if index_first else covered_by(index)
        fields = related(schema, {*index.fields, *index.covering_fields})
        replaced = {one for one, field_id in _cells(replacing) if field_id in fields}
        hit = replaced if covered is None else {one for one in replaced if one in covered}
        if hit:
            theirs = f"built index {index.name} on" if index_first else f"replaced, under index {index.name},"
            return Dispute(f"{theirs} a field of {listed('fragment', sorted(hit))}", tuple(sorted(hit)), (index.name,))
    return None


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
    tightened = footprint.required(_fields(meeting.read()), after)
    written = (
        tightened if footprint.new_fragments(meeting.theirs) else tightened & footprint.data_fields(meeting.theirs)
    )
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


def index(meeting: Encounter) -> Dispute | None:
    """One moves rows that the other's index points to, and nothing leads from the old places to the new ones.

    Stable row ids do, or at least tell which rows the index no longer covers. So does a fragment-reuse index, but not
    for an index that covers only a part of fragments rewritten together: older readers refuse that as damaged.
    """
    rewriting, building = meeting.ours, meeting.theirs
    if isinstance(meeting.theirs, Rewrite):
        rewriting, building = building, rewriting
    if not (isinstance(building, CreateIndex) and isinstance(rewriting, Rewrite)):
        return None
    if not meeting.read().has_stable_row_ids:
        for index in footprint.ordinary(building.new_indices):
            if lost := _lost(meeting, rewriting, index):
                return _moved(meeting, index, lost)
    return _rewritten_twice(rewriting, building) if rewriting is meeting.ours else None


def _lost(meeting: Encounter, rewriting: Rewrite, index: IndexMetadata) -> list[int]:
    """The first fragments whose rows the index would point to in vain."""
    covered = covered_by(index)
    for group in rewriting.groups:
        old = [one.id for one in group.old_fragments]
        hit = [one for one in old if covered is None or one in covered]
        if hit and not (covered is not None and len(hit) == len(old) and _leads_on(meeting, group, index)):
            return hit
    return []


def _leads_on(meeting: Encounter, group: RewriteGroup, index: IndexMetadata) -> bool:
    """Whether a fragment-reuse index tells where the rows of the group went, in a way that the index can follow."""
    carried = isinstance(meeting.ours, Rewrite)
    entry = footprint.of_name(meeting.ours, FRAGMENT_REUSE) if carried else reuse_written(meeting.other)
    if entry is None or not group.new_fragments or reads_addresses(index) or _is_ngram(index):
        return False
    made = covered_by(entry)
    return made is not None and all(one.id in made for one in group.new_fragments)


def _is_ngram(index: IndexMetadata) -> bool:
    # Its postings cannot be led on: the native code refuses such an index beside a fragment-reuse index.
    return index.index_details.type_url.endswith("NGramIndexDetails")


def _moved(meeting: Encounter, index: IndexMetadata, hit: list[int]) -> Dispute:
    if isinstance(meeting.theirs, Rewrite):
        return Dispute(f"rewrote {listed('fragment', hit)}, which index {index.name} covers", tuple(hit), (index.name,))
    return Dispute(f"built index {index.name}, which covers {listed('fragment', hit)}", tuple(hit), (index.name,))


def _rewritten_twice(rewriting: Rewrite, building: CreateIndex) -> Dispute | None:
    """We made a new form of an index that they removed or replaced meanwhile."""
    ours = {one.old_id.uuid for one in rewriting.rewritten_indices}
    names = tuple(sorted({one.name for one in building.removed_indices if one.uuid.uuid in ours}))
    return Dispute(f"removed or replaced index {', '.join(names)}", keys=names) if names else None


def reuse(meeting: Encounter) -> Dispute | None:
    """Both rewrites carry a fragment-reuse index."""
    ours = footprint.of_name(meeting.ours, FRAGMENT_REUSE)
    if ours is None or reuse_written(meeting.other) is None:
        return None
    return Dispute("also wrote the fragment-reuse index", keys=(FRAGMENT_REUSE,))


def reuse_written(other: Committed) -> IndexMetadata | None:
    """The fragment-reuse index that the other commit wrote, if it did.

    The message of a Rewrite does not hold it. It stands in the index section of the version that the Rewrite made,
    where an older one may stand as well: it is the Rewrite's if it knows the new fragments.
    """
    operation = other.transaction.operation
    if not isinstance(operation, Rewrite):
        return footprint.of_name(operation, FRAGMENT_REUSE)
    entry = find(other.load().indices, FRAGMENT_REUSE)
    known = covered_by(entry) if entry is not None else None
    made = [one.id for group in operation.groups for one in group.new_fragments]
    return entry if known and any(one in known for one in made) else None


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


def listed(noun: str, ids: Iterable[int]) -> str:
    """`fragments 3, 4`: the first few, and how many more."""
    everything = list(ids)
    shown = ", ".join(map(str, everything[:10]))
    more = f" and {len(everything) - 10} more" if len(everything) > 10 else ""
    return f"{noun}{'' if len(everything) == 1 else 's'} {shown}{more}"


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
