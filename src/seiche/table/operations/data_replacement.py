"""DataReplacement: columns of some fragments get a new file."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.errors import InvalidInput, RetryableConflict
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.changes import existing
from seiche.table.operations.context import Build
from seiche.table.operations.coverage import trimmed
from seiche.table.operations.fields import check_same_meaning
from seiche.table.operations.files import check_files, settle

__all__ = ["DataReplacement", "DataReplacementGroup"]

DataReplacementGroup = pb.DataReplacement.Group


@dataclass(frozen=True, slots=True)
class DataReplacement(Values):
    """Puts one new file into each of the fragments named; it takes over its fields from the files that had them."""

    name: ClassVar[str] = "DataReplacement"
    field_name: ClassVar[str] = "data_replacement"

    replacements: tuple[DataReplacementGroup, ...] = ()

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        schema = manifest.header.fields
        changes: dict[int, DataFragment | None] = {}
        indices = manifest.indices
        for replacement in self.replacements:
            fields = _replaced_fields(replacement, manifest, build)
            fragment = DataFragment()
            fragment.CopyFrom(changes.get(replacement.fragment_id) or existing(manifest, replacement.fragment_id))
            fragment.files.append(replacement.new_file)
            check_files(fragment, manifest.header)
            settle(fragment, {field.id for field in schema})
            if manifest.has_stable_row_ids:
                from seiche.table.operations.rows import mark_updated

                mark_updated(fragment, build.version)
            changes[fragment.id] = fragment
            indices = trimmed(indices, schema, [fragment.id], fields)
        return Manifest(manifest.copy_header(), manifest.fragments.replaced(changes), indices)

    def to_proto(self) -> pb.DataReplacement:
        return with_unknown(pb.DataReplacement(replacements=self.replacements), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.DataReplacement) -> Self:
        return cls(tuple(message.replacements), unknown=unknown_fields(message))


def _replaced_fields(replacement: DataReplacementGroup, manifest: Manifest, build: Build) -> set[int]:
    """The fields that the new file has values for; they must mean what they meant when it was written."""
    fields = set(replacement.new_file.fields)
    now, then = manifest.header.fields, build.schema_read(manifest)
    if not fields or not fields.issubset({field.id for field in then}):
        raise InvalidInput(
            f"{replacement.new_file.path} has the fields {sorted(fields)}, not all of which are in the schema",
            remedy=f"It has {sorted(field.id for field in then)}; a file must be for at least one of them.",
            fields=sorted(fields),
        )
    if not fields.issubset({field.id for field in now}):
        raise RetryableConflict(
            f"a column of {replacement.new_file.path} does not exist any more", fields=sorted(fields)
        )
    check_same_meaning(fields, then, now)
    if not replacement.new_file.file_major_version:
        raise InvalidInput(
            "columns cannot be replaced one by one in files of the first format version",
            remedy="Write the table anew with a current format version.",
        )
    return fields
