"""Merge: the fragments and the schema as they shall be, all of them. Adding and casting columns are this."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.changes import check_same_rows, existing, only_once
from seiche.table.operations.columns import check_merged_schema
from seiche.table.operations.context import Build
from seiche.table.operations.coverage import Indices, on_fields_of, trimmed_where_rewritten
from seiche.table.operations.fields import check_schema
from seiche.table.operations.files import check_apart, check_files, check_nothing_lost, settle, speaking
from seiche.table.operations.numbering import add_new, clear_rows

__all__ = ["Merge"]


@dataclass(frozen=True, slots=True)
class Merge(Values):
    """Replaces the whole list of fragments, whose ids must exist, and the schema."""

    name: ClassVar[str] = "Merge"
    field_name: ClassVar[str] = "merge"

    fragments: tuple[DataFragment, ...] = ()
    schema: tuple[Field, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    # A promise of the writer: no column became non-nullable, so rows that others append meanwhile still fit.
    preserves_nullability: bool = False
    # How many fragments, the last ones, are new. No field of the message holds it: in what was read from storage they
    # are told by their id, which is not possible where the fragment 0 is left out.
    added: int | None = None

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        check_schema(self.schema, manifest.header.fields)
        header = manifest.copy_header()
        del header.fields[:]
        header.fields.extend(self.schema)
        if self.schema_metadata:
            # Not when there is none: pylance leaves it out of the message and means what the table has.
            header.schema_metadata.clear()
            header.schema_metadata.update(self.schema_metadata)
        merged, new = self._sorted_out(manifest)
        kept = [self._merged(fragment, manifest, header, build) for fragment in merged]
        for fragment in new:
            check_apart(fragment, check_files(fragment, header))
        added = add_new(new, header, manifest, build.version)
        check_merged_schema(self.schema, [*kept, *added], manifest)
        return Manifest(header, Fragments([*kept, *added]), self._indices(kept, manifest))

    def _sorted_out(self, manifest: Manifest) -> tuple[list[DataFragment], list[DataFragment]]:
        """The fragments that exist, and the new ones: their id is 0, and they come after the one that really has it."""
        if self.added is not None:
            split = len(self.fragments) - self.added
            return list(self.fragments[:split]), list(self.fragments[split:])
        merged: list[DataFragment] = []
        new = []
        zero_is_met = manifest.fragments.get(0) is None
        for fragment in self.fragments:
            if not fragment.id and zero_is_met:
                new.append(fragment)
            else:
                merged.append(fragment)
                zero_is_met |= not fragment.id
        only_once(fragment.id for fragment in merged)
        return merged, new

    def _merged(self, fragment: DataFragment, manifest: Manifest, header: Header, build: Build) -> DataFragment:
        now = existing(manifest, fragment.id)
        check_files(fragment, header)
        check_same_rows(now, fragment)
        made = DataFragment()
        made.CopyFrom(fragment)
        made.physical_rows = now.physical_rows or fragment.physical_rows
        settle(made, {field.id for field in self.schema})
        check_nothing_lost(now, made, self.schema)
        if manifest.has_stable_row_ids:
            from seiche.table.operations.rows import keep_rows, mark_updated

            keep_rows(made, now)
            if speaking(made) != speaking(now):
                mark_updated(made, build.version)
        else:
            clear_rows(made)
        return made

    def _indices(self, kept: Iterable[DataFragment], manifest: Manifest) -> Indices:
        """Indices on columns that are still there, without the fragments in which their columns were written anew."""
        pairs = ((existing(manifest, fragment.id), fragment) for fragment in kept)
        return trimmed_where_rewritten(on_fields_of(manifest.indices, self.schema), self.schema, pairs)

    def to_proto(self) -> pb.Merge:
        message = pb.Merge(
            fragments=self.fragments,
            schema=self.schema,
            schema_metadata=self.schema_metadata,
            preserves_nullability=self.preserves_nullability,
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Merge) -> Self:
        return cls(
            tuple(message.fragments),
            tuple(message.schema),
            dict(message.schema_metadata),
            message.preserves_nullability,
            unknown=unknown_fields(message),
        )
