"""UpdateMemWalState: what of the write-ahead log has arrived in the table."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.context import Build
from seiche.table.operations.mem_wal import mark_generations
from seiche.table.operations.update import MergedGeneration

__all__ = ["UpdateMemWalState"]


@dataclass(frozen=True, slots=True)
class UpdateMemWalState(Values):
    """Marks generations of the log's shards as merged, in the table's MemWAL index."""

    name: ClassVar[str] = "UpdateMemWalState"
    field_name: ClassVar[str] = "update_mem_wal_state"

    merged_generations: tuple[MergedGeneration, ...] = ()

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        indices = mark_generations(manifest.indices, self.merged_generations, build)
        return Manifest(manifest.copy_header(), manifest.fragments, indices)

    def to_proto(self) -> pb.UpdateMemWalState:
        return with_unknown(pb.UpdateMemWalState(merged_generations=self.merged_generations), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.UpdateMemWalState) -> Self:
        return cls(tuple(message.merged_generations), unknown=unknown_fields(message))
