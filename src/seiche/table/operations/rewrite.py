"""Rewrite: the same rows in other fragments. Compaction and reordering are this."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.errors import Corrupt
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["Rewrite", "RewriteGroup", "RewrittenIndex"]

RewriteGroup = pb.Rewrite.RewriteGroup
RewrittenIndex = pb.Rewrite.RewrittenIndex


@dataclass(frozen=True, slots=True)
class Rewrite(Values):
    """Puts new fragments in the place of old ones that hold the same rows, group by group.

    New fragments carry ids that an earlier ReserveFragments set aside. Only in the flat form, from before there were
    groups, they have none yet: it is read as one group with `flat` set, and written as a group like any other.
    """

    name: ClassVar[str] = "Rewrite"
    field_name: ClassVar[str] = "rewrite"

    groups: tuple[RewriteGroup, ...] = ()
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    # The new entry of the fragment-reuse index. No field of the message holds it: it is found only in the index section
    # of the version that the rewrite made, so it is lost when the operation is written and read again.
    frag_reuse_index: IndexMetadata | None = None
    flat: bool = False

    def to_proto(self) -> pb.Rewrite:
        return with_unknown(pb.Rewrite(groups=self.groups, rewritten_indices=self.rewritten_indices), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Rewrite) -> Self:
        flat = bool(message.old_fragments or message.new_fragments)
        if flat and message.groups:
            raise Corrupt("a Rewrite has both groups and the flat form from before there were groups")
        groups = tuple(message.groups)
        if flat:
            groups = (RewriteGroup(old_fragments=message.old_fragments, new_fragments=message.new_fragments),)
        return cls(groups, tuple(message.rewritten_indices), flat=flat, unknown=unknown_fields(message))
