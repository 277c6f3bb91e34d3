"""What becomes of the indices when rows move to other fragments."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import lance  # noqa: F401 - waits until another thread has imported all of it, which its parts do not
from lance.optimize import Compaction
from lance.optimize import RewriteResult as NativeResult
from pyroaring import BitMap

from seiche.errors import Corrupt
from seiche.table.data.fragments import fragment_to_json
from seiche.table.data.index.reach import Reach
from seiche.table.data.native_errors import trouble, without_panics
from seiche.table.data.removal import all_live_rows
from seiche.table.data.shadow import Shadow, shadow
from seiche.table.format import roaring
from seiche.table.format.index_details import FRAGMENT_REUSE, find
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.operations import Rewrite, RewriteGroup, RewrittenIndex
from seiche.table.operations.coverage import knows_row_ids, reads_addresses
from seiche.table.snapshot import Snapshot

__all__ = ["IndexMode", "Led", "lead_on"]

# Its annotations leave out that it can be made of JSON.
_Result: Any = NativeResult

# Index files are written anew for the new places; or a map of where rows went is kept beside the old files; or the
# moved rows are left to be scanned until `optimize_indices`.
IndexMode: TypeAlias = Literal["remap", "reuse", "drop"]

# Kinds that were seen to give right answers through a map of moved rows, however often they move.
_LED_BY_MAP = ("BTreeIndexDetails", "BitmapIndexDetails", "LabelListIndexDetails", "InvertedIndexDetails")


@dataclass(frozen=True, slots=True)
class Led:
    """What a Rewrite says about the indices, and what is reported."""

    rewritten: tuple[RewrittenIndex, ...] = ()
    reuse: IndexMetadata | None = None
    # How large the files are that were written for it.
    sizes: tuple[int, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


def lead_on(
    snapshot: Snapshot, groups: Sequence[RewriteGroup], mode: IndexMode, *, in_order: bool, first_id: int
) -> Led:
    """See to it that indices go on knowing the rows of the groups, as far as that is possible and wanted.

    `snapshot` still has the old fragments; the new ones have ids from `first_id` on. Where an index cannot follow, its
    coverage of the moved rows is lost: they are scanned, and the answers stay right.
    """
    reach = Reach.of(snapshot)
    moved = BitMap(one.id for group in groups for one in group.old_fragments)
    touched = reach.over(moved)
    if not touched:
        return Led()
    stable = snapshot.manifest.has_stable_row_ids
    by_address = [one for one in touched if not (stable and knows_row_ids(one))]
    led = [one for one in by_address if not reads_addresses(one) and not (stable and not _is_btree(one))]
    way = _way(mode, led, reach, in_order=in_order, stable=stable)
    made = Led() if way == "drop" else _natively(snapshot, groups, first_id, reuse=way == "reuse")
    return Led(made.rewritten, made.reuse, made.sizes, _notes(touched, by_address, made, way))


def _way(mode: IndexMode, led: Sequence[IndexMetadata], reach: Reach, *, in_order: bool, stable: bool) -> IndexMode:
    """How it is done: what was asked for, unless that would make an index answer wrongly or not at all."""
    if not led or mode == "drop" or not in_order:
        return "drop"
    by_map = all(one.index_details.type_url.endswith(_LED_BY_MAP) for one, _ in reach.segments)
    if reach.led_on:
        # There is a map already, which the files need: it is continued, or the rows are left to be scanned.
        return "reuse" if by_map else "drop"
    return "reuse" if mode == "reuse" and by_map and not stable else "remap"


def _natively(snapshot: Snapshot, groups: Sequence[RewriteGroup], first_id: int, *, reuse: bool) -> Led:
    """Let native code commit the same rewrite to a shadow, and take over what it made of the indices."""
    with shadow(snapshot, last_fragment_id=first_id - 1) as table:
        results = [_Result.from_json(json.dumps(_result(snapshot, group, table))) for group in groups]
        try:
            with without_panics():
                Compaction.commit(table.dataset, results, {"defer_index_remap": reuse})
        except OSError as error:
            uri = snapshot.store.uri
            raise trouble(f"{uri}: indices could not be led on", error, table=uri) from error
        manifest, transaction = table.newest()
        operation = transaction.operation
        if not isinstance(operation, Rewrite) or _new_ids(operation.groups) != _new_ids(groups):
            raise Corrupt(
                f"native code made another rewrite than it was told: {operation.name}",
                remedy="Nothing was committed. `index='drop'` goes without it: the moved rows are scanned until"
                " `optimize_indices`.",
            )
        renewed = {one.new_id.uuid for one in operation.rewritten_indices}
        entry = find(manifest.indices, FRAGMENT_REUSE) if reuse else None
        made = [one for one in manifest.indices if one.uuid.uuid in renewed or one is entry]
        sizes = table.take_over(made)
    if entry is not None:
        ours = IndexMetadata()
        ours.CopyFrom(entry)
        ours.ClearField("base_id")
        entry = ours
    return Led(operation.rewritten_indices, entry, sizes)


def _result(snapshot: Snapshot, group: RewriteGroup, table: Shadow) -> dict[str, Any]:
    """What the native execution of the group would have answered, as seen from the shadow."""
    old = [table.first.fragments.get(one.id) for one in group.old_fragments]
    removed, added = len(group.old_fragments), len(group.new_fragments)
    return {
        "metrics": {"fragments_removed": removed, "fragments_added": added, "files_removed": 0, "files_added": 0},
        "new_fragments": [_seen_from_outside(one, table.base_id) for one in group.new_fragments],
        "read_version": table.first.version,
        "original_fragments": [fragment_to_json(one) for one in old if one is not None],
        "row_addrs": list(_addresses(snapshot, group.old_fragments)),
    }


def _seen_from_outside(fragment: DataFragment, base_id: int) -> dict[str, Any]:
    seen = fragment_to_json(fragment)
    seen["id"] = 0
    for file in seen["files"]:
        file["base_id"] = base_id if file["base_id"] is None else file["base_id"]
    return seen


def _addresses(snapshot: Snapshot, fragments: Sequence[DataFragment]) -> bytes:
    """The rows that are there, as native code writes sets of addresses; their order is that of the new fragments."""
    parts = [struct.pack("<Q", len(fragments))]
    for fragment_id, rows in sorted(all_live_rows(snapshot, fragments).items()):
        parts += (struct.pack("<I", fragment_id), roaring.encode(rows))
    return b"".join(parts)


def _notes(
    touched: Sequence[IndexMetadata], by_address: Sequence[IndexMetadata], made: Led, way: IndexMode
) -> tuple[tuple[str, str], ...]:
    """By index name what became of it; of segments that fared differently, the worst."""
    renewed = {one.old_id.uuid for one in made.rewritten}
    fates: dict[str, str] = {}
    for index in touched:
        if index not in by_address:
            fate = "kept"
        elif way == "reuse" and made.reuse is not None:
            fate = "reused"
        else:
            fate = "remapped" if index.uuid.uuid in renewed else "unindexed"
        if fates.get(index.name) != "unindexed":
            fates[index.name] = fate
    return tuple(sorted(fates.items()))


def _new_ids(groups: Sequence[RewriteGroup]) -> list[int]:
    return [one.id for group in groups for one in group.new_fragments]


def _is_btree(index: IndexMetadata) -> bool:
    return index.index_details.type_url.endswith("BTreeIndexDetails")
