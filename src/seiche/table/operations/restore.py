"""Restore: an earlier version again, as a new one."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.errors import InvalidInput
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.flags import require_writable
from seiche.table.format.manifest import Manifest
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.context import Build

__all__ = ["Restore"]


@dataclass(frozen=True, slots=True)
class Restore(Values):
    """Makes the table what it was at `version`: rows, schema, indices and configuration. The counters stay ahead."""

    name: ClassVar[str] = "Restore"
    field_name: ClassVar[str] = "restore"

    version: int = 0

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        if not 0 < self.version <= manifest.version:
            raise InvalidInput(
                f"there is no version {self.version} before {build.version}",
                remedy=f"Restore one from 1 to {manifest.version}; `versions()` lists those that are kept.",
                version=self.version,
            )
        old = manifest if self.version == manifest.version else build.load(self.version)
        require_writable(old.header, managed=True)
        if manifest.has_stable_row_ids and not old.has_stable_row_ids:
            raise InvalidInput(
                f"version {self.version} had no stable row ids yet, and the table cannot go back to having none",
                remedy="Write the rows of that version anew, with an overwrite.",
                version=self.version,
            )
        header = old.copy_header()
        # Ids that were given out since must not be given out again: caches and files are named after them.
        if manifest.max_fragment_id >= 0:
            header.max_fragment_id = max(manifest.max_fragment_id, old.max_fragment_id)
        header.next_row_id = max(manifest.header.next_row_id, header.next_row_id)
        return Manifest(header, old.fragments, old.index_section)

    def to_proto(self) -> pb.Restore:
        return with_unknown(pb.Restore(version=self.version), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Restore) -> Self:
        return cls(message.version, unknown=unknown_fields(message))
