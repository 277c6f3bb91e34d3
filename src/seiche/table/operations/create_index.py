"""CreateIndex: index segments come, and others go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.errors import Corrupt, InvalidInput, RetryableConflict
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.context import Build
from seiche.table.operations.coverage import covered, is_system
from seiche.table.operations.fields import check_same_meaning

__all__ = ["CreateIndex"]


@dataclass(frozen=True, slots=True)
class CreateIndex(Values):
    """Removes index segments by their ids and adds new ones. With nothing new, it drops an index."""

    name: ClassVar[str] = "CreateIndex"
    field_name: ClassVar[str] = "create_index"

    new_indices: tuple[IndexMetadata, ...] = ()
    removed_indices: tuple[IndexMetadata, ...] = ()

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        for index in (*self.new_indices, *self.removed_indices):
            _check_id(index)
        _check_different(self.new_indices)
        for index in self.new_indices:
            _check_new(index, manifest, build)
        gone = {index.uuid.uuid for index in (*self.removed_indices, *self.new_indices)}
        singletons = {index.name for index in self.new_indices if is_system(index)}
        kept = [index for index in manifest.indices if index.uuid.uuid not in gone and index.name not in singletons]
        self._check_removed(manifest, {index.name for index in kept})
        return Manifest(manifest.copy_header(), manifest.fragments, (*kept, *self.new_indices))

    def _check_removed(self, manifest: Manifest, kept_names: set[str]) -> None:
        """`RetryableConflict` if a segment to be removed went on under another id: both would answer for its rows."""
        there = {index.uuid.uuid for index in manifest.indices}
        for index in self.removed_indices:
            if index.uuid.uuid not in there and index.name in kept_names:
                raise RetryableConflict(
                    f"the segment {index.uuid.uuid.hex()} of index {index.name!r} has been replaced by somebody else",
                    index=index.name,
                )

    def to_proto(self) -> pb.CreateIndex:
        message = pb.CreateIndex(new_indices=self.new_indices, removed_indices=self.removed_indices)
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.CreateIndex) -> Self:
        return cls(tuple(message.new_indices), tuple(message.removed_indices), unknown=unknown_fields(message))


def _check_id(index: IndexMetadata) -> None:
    """Without an id nothing would be removed, and other writers could not read the transaction."""
    if len(index.uuid.uuid) != 16:
        raise InvalidInput(
            f"the index {index.name!r} has an id that is not 16 bytes but {len(index.uuid.uuid)}",
            remedy="Give the bytes of the UUID after which its directory is named; one to be removed is told by it.",
            index=index.name,
        )


def _check_different(indices: Sequence[IndexMetadata]) -> None:
    seen: set[bytes | str] = set()
    for index in indices:
        key = index.name if is_system(index) else index.uuid.uuid
        if key in seen:
            raise InvalidInput(
                f"the index {index.name!r} is given twice",
                remedy="Segments of one index have ids of their own; of an index of the format there is only one.",
                index=index.name,
            )
        seen.add(key)


def _check_new(index: IndexMetadata, manifest: Manifest, build: Build) -> None:
    if not index.name:
        raise InvalidInput(f"the index {index.uuid.uuid.hex()} has no name", remedy="Give it one.")
    if not index.fields and not is_system(index):
        raise InvalidInput(
            f"the index {index.name!r} is on no field",
            remedy="Put the id of the column's field into `fields`; only indices of the format itself have none.",
            index=index.name,
        )
    now, then = manifest.header.fields, build.schema_read(manifest)
    used = {*index.fields, *index.covering_fields}
    if not used.issubset({field.id for field in then}):
        known = {field.id for field in then}
        raise InvalidInput(
            f"the index {index.name!r} is on fields that do not exist: {sorted(used - known)}",
            remedy=f"The version that it was built from has the fields {sorted(known)}.",
            index=index.name,
        )
    if not used.issubset({field.id for field in now}):
        raise RetryableConflict(f"a column of the index {index.name!r} does not exist any more", index=index.name)
    check_same_meaning(used, then, now, values=False)
    try:
        coverage = covered(index)
    except Corrupt as error:
        remedy = "Give the ids of the fragments in `fragment_bitmap`, as a portable Roaring bitmap of 32 bits."
        raise InvalidInput(error.message, remedy=remedy, index=index.name) from error
    if coverage and coverage.max() > manifest.max_fragment_id:
        # A fragment that gets this id later would be taken for indexed.
        raise InvalidInput(
            f"the index {index.name!r} covers fragment {coverage.max()}, which never existed",
            remedy=f"Leave ids above {manifest.max_fragment_id} out of its `fragment_bitmap`.",
            index=index.name,
            fragments=[coverage.max()],
        )
