"""Which fragments an index speaks for.

A fragment that is not covered is simply scanned, so too little coverage is only slow. Too much makes an index answer
wrongly, without any error. When in doubt, a fragment is left out.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from pyroaring import BitMap

from seiche.errors import InvalidInput
from seiche.table.format import roaring
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.index_details import FRAGMENT_REUSE, SINGLETONS, ReuseContent, find, reuse_details
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.operations.context import Schema
from seiche.table.operations.fields import related
from seiche.table.operations.files import changed_fields

__all__ = [
    "covered",
    "extended",
    "follow",
    "followed",
    "is_system",
    "kind_of",
    "knows_row_ids",
    "moves_by_id",
    "on_fields_of",
    "reads_addresses",
    "replaced",
    "trimmed",
    "trimmed_where_rewritten",
    "with_coverage",
]

_BY_ROW_ID = frozenset(
    {"BitmapIndexDetails", "InvertedIndexDetails", "LabelListIndexDetails", "NGramIndexDetails", "VectorIndexDetails"}
)

# The segments of a manifest, in stored order.
Indices = tuple[IndexMetadata, ...]


def is_system(index: IndexMetadata) -> bool:
    """Whether it is one of the two entries that hold state of the table instead of an index."""
    return index.name in SINGLETONS


def covered(index: IndexMetadata) -> BitMap | None:
    """The ids of the fragments that the segment covers; `None` if it does not say."""
    if not index.fragment_bitmap:
        return None
    return roaring.decode(index.fragment_bitmap, what=f"the coverage of index {index.name}")


def with_coverage(index: IndexMetadata, fragment_ids: BitMap) -> IndexMetadata:
    """A copy that covers these fragments."""
    copy = IndexMetadata()
    copy.CopyFrom(index)
    copy.fragment_bitmap = roaring.encode(fragment_ids)
    return copy


def on_fields_of(indices: Indices, schema: Schema) -> Indices:
    """Those whose fields are all in the schema; the table's own entries have none."""
    known = {field.id for field in schema}
    return tuple(index for index in indices if known.issuperset(index.fields))


def trimmed(
    indices: Indices,
    schema: Schema,
    fragment_ids: Collection[int],
    fields: Collection[int],
    reuse: IndexMetadata | None = None,
) -> Indices:
    """Without these fragments in the coverage of indices that have to do with one of the fields.

    `reuse` is the fragment-reuse index by which rows were led to those fragments, if it is not among the indices.
    """
    if not fragment_ids or not fields:
        return indices
    touched = related(schema, fields)
    gone = BitMap(fragment_ids)
    reuse = reuse or find(indices, FRAGMENT_REUSE)

    def trim(index: IndexMetadata, now: BitMap) -> BitMap:
        concerned = not touched.isdisjoint(index.fields) or not touched.isdisjoint(index.covering_fields)
        return _led_on(now, gone, reuse) - gone if concerned else now

    return _changed(indices, trim)


def _led_on(now: BitMap, fragment_ids: BitMap, reuse: IndexMetadata | None) -> BitMap:
    """Coverage that names these fragments themselves, if it covers them.

    A segment may name the fragments where its rows were before a rewrite, and cover those where they are now only
    because the fragment-reuse index says so: to strike these out as they are would strike out nothing.
    """
    if reuse is None or fragment_ids.isdisjoint(covered(reuse) or BitMap()):
        return now
    details = reuse_details(reuse)
    # What is in a file cannot be looked at here.
    return followed(now, details.inline) if details.WhichOneof("content") == "inline" else BitMap()


def followed(fragment_ids: BitMap, moves: ReuseContent) -> BitMap:
    """Where the rows of the fragments are now. Of what was rewritten together, all or nothing is covered."""
    now = fragment_ids.copy()
    for version in moves.versions:
        for group in version.groups:
            old = BitMap(one.id for one in group.old_fragments)
            if old and old.issubset(now):
                now = (now - old) | BitMap(one.id for one in group.new_fragments)
    return now


def trimmed_where_rewritten(
    indices: Indices, schema: Schema, changes: Iterable[tuple[DataFragment, DataFragment]]
) -> Indices:
    """Without those fragments, given before and after, in whose columns the indices have got other values."""
    if not indices:
        return indices
    by_fields: dict[frozenset[int], list[int]] = {}
    for before, after in changes:
        if fields := changed_fields(before, after):
            by_fields.setdefault(frozenset(fields), []).append(after.id)
    for changed, fragment_ids in by_fields.items():
        indices = trimmed(indices, schema, fragment_ids, changed)
    return indices


def extended(
    indices: Indices, sources: Collection[int], new: Collection[int], unmixed: Collection[int], kept: Collection[int]
) -> Indices:
    """After rows moved with their ids from the fragments `sources` into `new` ones.

    A segment goes on covering them if it covered all sources, all its fields are in `kept` (they moved unchanged), and
    no other rows came along (`unmixed`). From the rest of the coverage the new fragments are struck out.
    """

    def extend(index: IndexMetadata, now: BitMap) -> BitMap:
        used = {*index.fields, *index.covering_fields}
        unchanged = bool(used) and used.issubset(kept) and knows_row_ids(index)
        following: BitMap = now - BitMap(new)
        return following | BitMap(unmixed) if unchanged and sources and BitMap(sources).issubset(now) else following

    return _changed(indices, extend) if new else indices


def moves_by_id(groups: Iterable[pb.Rewrite.RewriteGroup]) -> list[tuple[BitMap, BitMap]]:
    """The fragments of each group, and those that an index by row id covers after it.

    Beside the new fragments these are the old ones that had deleted rows, which nobody carried along and the index
    still knows: as long as a fragment that is gone is covered, native code passes over such rows. Otherwise it counts
    them among the nearest or best, drops them at the end, and gives fewer rows than were asked for.
    """
    moves = []
    for group in groups:
        old = BitMap(one.id for one in group.old_fragments)
        left = BitMap(one.id for one in group.old_fragments if one.HasField("deletion_file"))
        moves.append((old, BitMap(one.id for one in group.new_fragments) | left))
    return moves


def follow(index: IndexMetadata, groups: Iterable[tuple[BitMap, BitMap]], *, may_split: bool) -> IndexMetadata:
    """Coverage that goes with rows from old to new fragments, group by group.

    A group of which only a part was covered is left out if `may_split`, otherwise it is `InvalidInput`.
    """
    now = covered(index)
    if now is None:
        return index
    following = now.copy()
    for old, new in groups:
        if old.issubset(now):
            following = (following - old) | new
        elif not old.isdisjoint(now):
            if not may_split:
                raise InvalidInput(
                    f"index {index.name} covers only a part of the fragments {list(old)}, which are rewritten together",
                    remedy="Rewrite fragments that an index covers apart from those that it does not.",
                    fragments=list(old),
                )
            following -= old
    return index if following == now else with_coverage(index, following)


def knows_row_ids(index: IndexMetadata) -> bool:
    """Whether the segment, in a table with stable row ids, speaks of rows by these and so can follow them elsewhere.

    Others speak of their place, also there: zone maps, Bloom filters, and B-trees as pylance 14 writes them. Of kinds
    that are not known here the same is assumed.
    """
    kind = kind_of(index)
    return kind in _BY_ROW_ID or (kind == "BTreeIndexDetails" and not index.index_version)


def reads_addresses(index: IndexMetadata) -> bool:
    """Whether the segment speaks of places only, so that no map of moved rows can lead it on."""
    return kind_of(index) in ("ZoneMapIndexDetails", "BloomFilterIndexDetails")


def kind_of(index: IndexMetadata) -> str:
    """The name of the message that describes it, such as `BTreeIndexDetails`."""
    return index.index_details.type_url.rpartition(".")[2]


def replaced(indices: Indices, entry: IndexMetadata) -> Indices:
    """With `entry` instead of whatever has its name."""
    return (*(index for index in indices if index.name != entry.name), entry)


def _changed(indices: Sequence[IndexMetadata], change: Callable[[IndexMetadata, BitMap], BitMap]) -> Indices:
    made = []
    for index in indices:
        now = None if is_system(index) else covered(index)
        following = now if now is None else change(index, now)
        made.append(index if following is None or following == now else with_coverage(index, following))
    return tuple(made)
