"""Those conditions of the conflict matrix that are about indices, and rows that move away under them."""

from seiche.table import footprint
from seiche.table.conflicts import Committed, Dispute
from seiche.table.encounter import Encounter, listed
from seiche.table.format.index_details import FRAGMENT_REUSE, find
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations import CreateIndex, DataReplacement, Rewrite, RewriteGroup
from seiche.table.operations.coverage import covered as covered_by
from seiche.table.operations.coverage import reads_addresses
from seiche.table.operations.fields import related

__all__ = ["index", "indexed", "reuse", "reuse_written"]


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
        replaced = {one for one, field_id in footprint.cells(replacing) if field_id in fields}
        hit = replaced if covered is None else {one for one in replaced if one in covered}
        if hit:
            theirs = f"built index {index.name} on" if index_first else f"replaced, under index {index.name},"
            return Dispute(f"{theirs} a field of {listed('fragment', sorted(hit))}", tuple(sorted(hit)), (index.name,))
    return None


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
