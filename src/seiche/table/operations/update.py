"""Update: rows get other values, and in a merge-insert new ones come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seiche.errors import InvalidInput
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.changes import existing, masked, only_once
from seiche.table.operations.context import Build
from seiche.table.operations.coverage import Indices, extended, trimmed, trimmed_where_rewritten
from seiche.table.operations.fields import check_fit, check_same_meaning
from seiche.table.operations.files import check_files, check_nothing_lost, settle
from seiche.table.operations.mem_wal import check_newer, mark_generations
from seiche.table.operations.numbering import add_new, renumbered

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
    # Whether it was read from a message. By the name of the field and by our word, `fields_for_preserving_frag_bitmap`
    # are fields that did not change. pylance 14 lists those that did. From a stored message it cannot be told which was
    # meant, so there the list is only kept, never acted on: unindexed rows are merely slow.
    decoded: bool = field(default=False, compare=False, kw_only=True, repr=False)

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        only_once([*(fragment.id for fragment in self.updated_fragments), *self.removed_fragment_ids])
        check_fit(self.new_fragments, manifest, build)
        check_newer(manifest.indices, self.merged_generations)
        changes: dict[int, DataFragment | None] = {}
        for fragment in self.updated_fragments:
            changes[fragment.id] = self._updated(existing(manifest, fragment.id), fragment, manifest, build)
        for fragment_id in self.removed_fragment_ids:
            changes[existing(manifest, fragment_id).id] = None
        header = manifest.copy_header()
        new, unmixed = self._added(header, manifest, build)
        indices = self._trimmed(changes, manifest)
        if indices and new:
            kept = self.fields_for_preserving_frag_bitmap if unmixed and not self.decoded else ()
            indices = extended(indices, changes.keys(), [fragment.id for fragment in new], unmixed, kept)
        indices = mark_generations(indices, self.merged_generations, build)
        return Manifest(header, manifest.fragments.replaced(changes).extended(new), indices)

    def _updated(self, now: DataFragment, fragment: DataFragment, manifest: Manifest, build: Build) -> DataFragment:
        """The fragment as it is now, with the deletions of the update and the columns that it wrote anew."""
        made = masked(now, fragment, manifest.header)
        known = {file.path for file in now.files}
        written = {one for file in fragment.files if file.path not in known for one in file.fields if one >= 0}
        if written:
            then = build.schema_read(manifest)
            there = {field.id for field in then}
            if not written <= there:
                raise InvalidInput(
                    f"an update has fields that do not exist: {sorted(written - there)}",
                    remedy=f"The version that it read has the fields {sorted(there)}; a Merge adds columns.",
                    fields=sorted(written - there),
                )
            check_same_meaning(written, then, manifest.header.fields)
            check_files(fragment, manifest.header)
            del made.files[:]
            made.files.extend(fragment.files)
            settle(made, {field.id for field in manifest.header.fields})
            check_nothing_lost(now, made, manifest.header.fields)
        offsets = self.updated_offsets.get(now.id)
        if manifest.has_stable_row_ids and (written or offsets is not None):
            from seiche.table.operations.rows import mark_updated

            mark_updated(made, build.version, offsets)
        return made

    def _added(self, header: Header, manifest: Manifest, build: Build) -> tuple[list[DataFragment], list[int]]:
        """The new fragments, and the ids of those that hold nothing but rows which moved and kept their row ids."""
        if not manifest.has_stable_row_ids or not self.new_fragments:
            return add_new(self.new_fragments, header, manifest, build.version), []
        from seiche.table.operations.rows import stamp_moved

        origin_ids = [*(fragment.id for fragment in self.updated_fragments), *self.removed_fragment_ids]
        origins = [existing(manifest, fragment_id) for fragment_id in origin_ids]
        new = renumbered(self.new_fragments, header, manifest)
        return new, stamp_moved(new, header, build.version, origins, manifest.fragments)

    def _trimmed(self, changes: Mapping[int, DataFragment | None], manifest: Manifest) -> Indices:
        """Indices without the fragments in which their columns have other values now."""
        updated = [fragment for fragment in changes.values() if fragment is not None]
        schema = manifest.header.fields
        indices = trimmed(manifest.indices, schema, [fragment.id for fragment in updated], self.fields_modified)
        return trimmed_where_rewritten(indices, schema, ((existing(manifest, one.id), one) for one in updated))

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
            decoded=True,
            unknown=unknown_fields(message),
        )
