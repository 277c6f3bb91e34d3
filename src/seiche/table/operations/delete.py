"""Delete: rows are marked as gone, or whole fragments are left out."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.changes import existing, masked, only_once
from seiche.table.operations.context import Build

__all__ = ["Delete"]


@dataclass(frozen=True, slots=True)
class Delete(Values):
    """Gives fragments new deletion files, and drops those of which no row is left.

    An updated fragment is the whole fragment as it shall be: its deletion file holds the earlier deletions too.
    """

    name: ClassVar[str] = "Delete"
    field_name: ClassVar[str] = "delete"

    updated_fragments: tuple[DataFragment, ...] = ()
    deleted_fragment_ids: tuple[int, ...] = ()
    # The condition that was evaluated, for whoever wants to know whether it could match concurrent writes.
    predicate: str = ""

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        only_once([*(fragment.id for fragment in self.updated_fragments), *self.deleted_fragment_ids])
        changes: dict[int, DataFragment | None] = {}
        for fragment in self.updated_fragments:
            changes[fragment.id] = masked(existing(manifest, fragment.id), fragment, manifest.header)
        for fragment_id in self.deleted_fragment_ids:
            changes[existing(manifest, fragment_id).id] = None
        # Indices keep naming deleted rows and fragments: readers take out of an answer what is not there any more.
        return Manifest(manifest.copy_header(), manifest.fragments.replaced(changes), manifest.index_section)

    def to_proto(self) -> pb.Delete:
        message = pb.Delete(
            updated_fragments=self.updated_fragments,
            deleted_fragment_ids=self.deleted_fragment_ids,
            predicate=self.predicate,
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Delete) -> Self:
        return cls(
            tuple(message.updated_fragments),
            tuple(message.deleted_fragment_ids),
            message.predicate,
            unknown=unknown_fields(message),
        )
