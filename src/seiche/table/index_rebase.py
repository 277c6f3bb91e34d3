"""How index entries are adapted to what others committed: names, coverage, and the two indices that are merged."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from google.protobuf.any_pb2 import Any
from pyroaring import BitMap

from seiche.table import footprint
from seiche.table.conflicts import Committed
from seiche.table.format.index_details import (
    FRAGMENT_REUSE,
    MEM_WAL,
    MEM_WAL_URL,
    SINGLETONS,
    ReuseContent,
    find,
    mark_merged,
    mem_wal_details,
    merge_mem_wal,
    merge_reuse,
)
from seiche.table.format.index_details_pb2 import MemWalIndexDetails
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.operations import CreateIndex, MergedGeneration, Rewrite, coverage
from seiche.table.operations.context import Schema
from seiche.table.operations.fields import related
from seiche.table.operations.files import changed_fields

__all__ = ["alone", "followed", "marked", "merged_reuse", "replacing", "trimmed", "trimmed_to", "without"]


def replacing(ours: CreateIndex, theirs: CreateIndex) -> CreateIndex:
    """Ours wins: what they added under a name that we write or drop goes, and a MemWAL index of both is merged."""
    names = {one.name for one in (*ours.new_indices, *ours.removed_indices)}
    made = without(ours, (one for one in theirs.new_indices if one.name in names))
    other = footprint.of_name(theirs, MEM_WAL)
    if other is None:
        return made
    return _with_mem_wal(made, lambda details: merge_mem_wal(details, mem_wal_details(other)))


def marked(ours: CreateIndex, generations: Iterable[MergedGeneration]) -> CreateIndex:
    """With the generations that they merged marked in the MemWAL index that we write, if we write one."""
    return _with_mem_wal(ours, lambda details: mark_merged(details, generations))


def trimmed(
    ours: CreateIndex, schema: Schema, fields: Collection[int], fragments: Collection[int], other: Committed
) -> CreateIndex:
    """Our indices on any of the fields no longer cover the fragments: values changed there after we read them.

    Ours may name the fragments where the rows were when we read them, and others have led them on to where `other`
    found them: what is struck out is found by the map that `other` had.
    """
    touched, gone = related(schema, fields), BitMap(fragments)
    named = [coverage.covered(one) for one in ours.new_indices if not touched.isdisjoint(_used(one))]
    if not named:
        return ours
    by_name = all(now is None or gone.issubset(now) for now in named)
    reuse = None if by_name else find(other.load().indices, FRAGMENT_REUSE)
    return replace(ours, new_indices=coverage.trimmed(ours.new_indices, schema, fragments, fields, reuse))


def trimmed_to(ours: CreateIndex, before: Manifest, other: Committed, after: Iterable[DataFragment]) -> CreateIndex:
    """Our indices cover only columns that are read from the same files as before: a Merge may have brought others.

    Of a fragment that we did not read, because rows were led on to it since, that cannot be told: it is left out.
    """
    everything = frozenset(one.id for one in before.header.fields)
    moved: dict[frozenset[int], set[int]] = {}
    for now in after:
        read = before.fragments.get(now.id)
        changed = everything if read is None else frozenset(changed_fields(read, now))
        if changed:
            moved.setdefault(changed, set()).add(now.id)
    for fields, fragments in moved.items():
        ours = trimmed(ours, before.header.fields, fields, fragments, other)
    return ours


def followed(ours: CreateIndex, other: Committed, *, stable_row_ids: bool) -> CreateIndex:
    """Our indices, and those that we drop, as they are after a Rewrite.

    With stable row ids an index that knows rows by these goes on pointing to them, and only has to say that they are in
    the new fragments now; one that knows their places does not cover them any more. An index that the Rewrite brought
    up to date has a new id: to drop the old one alone would leave it in place.
    """
    rewrite = other.transaction.operation
    if not isinstance(rewrite, Rewrite):
        return ours
    dropped = {one.uuid.uuid for one in ours.removed_indices}
    renewed = {one.new_id.uuid for one in rewrite.rewritten_indices if one.old_id.uuid in dropped}
    if renewed:
        ours = without(ours, (one for one in other.load().indices if one.uuid.uuid in renewed))
    if not stable_row_ids:
        return ours
    moves = coverage.moves_by_id(rewrite.groups)
    lost = [(old, BitMap()) for old, _ in moves]
    new = (
        one
        if one.name in SINGLETONS
        else coverage.follow(one, moves if coverage.knows_row_ids(one) else lost, may_split=True)
        for one in ours.new_indices
    )
    return replace(ours, new_indices=tuple(new))


def merged_reuse(before: ReuseContent, ours: ReuseContent, theirs: ReuseContent) -> ReuseContent:
    """The rewrites that either side knows, but for those that one of them has cleaned away since `before`."""
    known = [{one.dataset_version for one in content.versions} for content in (before, ours, theirs)]
    cleaned = known[0] - (known[1] & known[2])
    merged = merge_reuse(ours, theirs)
    return ReuseContent(versions=[one for one in merged.versions if one.dataset_version not in cleaned])


def alone(ours: CreateIndex, latest: Manifest) -> CreateIndex:
    """Ours, after which the singletons that it writes stand alone under their names.

    A MemWAL index that we drop is dropped also if others marked something in it, which gives it a new id.
    """
    names = {one.name for one in ours.new_indices} & SINGLETONS
    if footprint.drops(ours, MEM_WAL):
        names.add(MEM_WAL)
    return without(ours, (one for one in latest.indices if one.name in names))


def without(operation: CreateIndex, entries: Iterable[IndexMetadata]) -> CreateIndex:
    """The operation that removes these entries too."""
    gone = {one.uuid.uuid for one in (*operation.removed_indices, *operation.new_indices)}
    more = tuple(one for one in entries if one.uuid.uuid not in gone)
    return replace(operation, removed_indices=(*operation.removed_indices, *more)) if more else operation


def _used(index: IndexMetadata) -> set[int]:
    """The fields whose values the index holds."""
    return {*index.fields, *index.covering_fields}


def _with_mem_wal(operation: CreateIndex, change: Callable[[MemWalIndexDetails], MemWalIndexDetails]) -> CreateIndex:
    return replace(operation, new_indices=tuple(_with_details(one, change) for one in operation.new_indices))


def _with_details(index: IndexMetadata, change: Callable[[MemWalIndexDetails], MemWalIndexDetails]) -> IndexMetadata:
    if index.name != MEM_WAL:
        return index
    made = IndexMetadata()
    made.CopyFrom(index)
    details = change(mem_wal_details(index))
    made.index_details.CopyFrom(Any(type_url=MEM_WAL_URL, value=details.SerializeToString(deterministic=True)))
    return made
