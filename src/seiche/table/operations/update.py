"""Update: rows get other values, and in a merge-insert new ones come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["REWRITE_COLUMNS", "REWRITE_ROWS", "KeyExistenceFilter", "MergedGeneration", "Update"]

REWRITE_ROWS = pb.Update.REWRITE_ROWS
REWRITE_COLUMNS = pb.Update.REWRITE_COLUMNS
KeyExistenceFilter = pb.KeyExistenceFilter
MergedGeneration = pb.MergedGeneration


@dataclass(frozen=True, slots=True)
class Update(Values):
    """Changes rows in one of two ways.

    `REWRITE_ROWS` deletes the rows from their fragments and writes them anew, into fragments whose ids are given when
    the manifest is built. `REWRITE_COLUMNS` writes the changed columns of a fragment into a file beside the others.
    """

    name: ClassVar[str] = "Update"
    field_name: ClassVar[str] = "update"

    removed_fragment_ids: tuple[int, ...] = ()
    updated_fragments: tuple[DataFragment, ...] = ()
    new_fragments: tuple[DataFragment, ...] = ()
    # Fields whose values changed inside updated fragments: indices on them no longer cover those fragments.
    fields_modified: tuple[int, ...] = ()
    # Generations of the write-ahead log that this commit brings into the table.
    merged_generations: tuple[MergedGeneration, ...] = ()
    # Fields whose values moved unchanged into the new fragments: indices on nothing else go on covering the rows.
    fields_for_preserving_frag_bitmap: tuple[int, ...] = ()
    update_mode: pb.Update.Mode = REWRITE_ROWS
    # The keys of rows that were inserted, so that two inserts of one key are noticed.
    inserted_rows: KeyExistenceFilter | None = None
    old_offsets: Mapping[int, bytes] = field(default_factory=dict)
    # Fragment id to the Roaring bitmap of the rows whose columns were rewritten.
    updated_offsets: Mapping[int, bytes] = field(default_factory=dict)

    def to_proto(self) -> pb.Update:
        message = pb.Update(
            removed_fragment_ids=self.removed_fragment_ids,
            updated_fragments=self.updated_fragments,
            new_fragments=self.new_fragments,
            fields_modified=self.fields_modified,
            merged_generations=self.merged_generations,
            fields_for_preserving_frag_bitmap=self.fields_for_preserving_frag_bitmap,
            update_mode=self.update_mode,
            inserted_rows=self.inserted_rows,
            old_offsets=self.old_offsets,
            updated_offsets=self.updated_offsets,
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Update) -> Self:
        return cls(
            tuple(message.removed_fragment_ids),
            tuple(message.updated_fragments),
            tuple(message.new_fragments),
            tuple(message.fields_modified),
            tuple(message.merged_generations),
            tuple(message.fields_for_preserving_frag_bitmap),
            message.update_mode,
            message.inserted_rows if message.HasField("inserted_rows") else None,
            dict(message.old_offsets),
            dict(message.updated_offsets),
            unknown=unknown_fields(message),
        )
