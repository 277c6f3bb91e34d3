"""Rewrite: the same rows in other fragments. Compaction and reordering are this."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from pyroaring import BitMap

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.deletions import is_counted, rows_left
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field, IndexMetadata
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.changes import check_unchanged, existing, only_once
from seiche.table.operations.context import Build
from seiche.table.operations.coverage import Indices, follow, is_system, knows_row_ids, moves_by_id, replaced
from seiche.table.operations.files import check_apart, check_counted, check_files, live_fields
from seiche.table.operations.numbering import clear_rows, raise_max_fragment_id

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

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        grouped = self.with_ids(manifest)
        header = manifest.copy_header()
        only_once(fragment.id for group in grouped.groups for fragment in group.old_fragments)
        changes: dict[int, DataFragment | None] = {}
        made: list[DataFragment] = []
        for group in grouped.groups:
            if not group.old_fragments:
                raise InvalidInput("a group of a Rewrite replaces nothing", remedy="Add rows with an Append.")
            old = [existing(manifest, fragment.id) for fragment in group.old_fragments]
            for now, read in zip(old, group.old_fragments, strict=True):
                check_unchanged(now, read)
            changes.update(dict.fromkeys(fragment.id for fragment in old))
            made += _in_place_of(old, group.new_fragments, manifest)
        raise_max_fragment_id(header, max([manifest.max_fragment_id, *(fragment.id for fragment in made)]))
        if not self.flat:
            _check_reserved(made, manifest)
        made.sort(key=lambda fragment: fragment.id)
        kept = manifest.fragments.replaced(changes)
        # Reserved ids are usually the largest, but others may have appended since they were.
        fragments = kept.extended(made) if made and made[0].id > kept.last_id else Fragments([*kept, *made])
        return Manifest(header, fragments, grouped._indices(manifest))

    def with_ids(self, manifest: Manifest) -> "Rewrite":
        """As groups whose new fragments have ids: those that they came with, or in the flat form the next free ones."""
        if not self.flat:
            return self
        following = manifest.max_fragment_id
        groups = []
        for group in self.groups:
            numbered = RewriteGroup()
            numbered.CopyFrom(group)
            for fragment in numbered.new_fragments:
                following += 1
                fragment.id = following
            groups.append(numbered)
        return replace(self, groups=tuple(groups))

    def _indices(self, manifest: Manifest) -> Indices:
        rewritten = {index.old_id.uuid: index for index in self.rewritten_indices}
        if len(rewritten) != len(self.rewritten_indices):
            twice = sorted(one.old_id.uuid.hex() for one in self.rewritten_indices)
            raise InvalidInput(
                f"a Rewrite replaces one index twice: {', '.join(twice)}",
                remedy="Name each `old_id` once in `rewritten_indices`.",
            )
        _check_renewed(self.rewritten_indices, manifest)
        moves = [(_ids(group.old_fragments), _ids(group.new_fragments)) for group in self.groups]
        stable = manifest.has_stable_row_ids
        made: list[IndexMetadata] = []
        for index in manifest.indices:
            new = rewritten.get(index.uuid.uuid)
            if new is not None:
                made.append(_swapped(follow(index, moves, may_split=stable), new))
            elif stable and not is_system(index):
                # Rows keep their ids, so an index by row id goes on knowing them; one by address does not.
                lost = [(old, BitMap()) for old, _ in moves]
                made.append(follow(index, moves_by_id(self.groups) if knows_row_ids(index) else lost, may_split=True))
            else:
                # Coverage that names only fragments which are gone covers nothing, unless the fragment-reuse index says
                # where their rows went: so it stays as it is.
                made.append(index)
        entry = self.frag_reuse_index
        return tuple(made) if entry is None else replaced(tuple(made), entry)

    def to_proto(self) -> pb.Rewrite:
        return with_unknown(pb.Rewrite(groups=self.groups, rewritten_indices=self.rewritten_indices), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Rewrite) -> Self:
        flat = bool(message.old_fragments or message.new_fragments)
        if flat and message.groups:
            raise Corrupt(
                "a Rewrite has both groups and the flat form from before there were groups",
                remedy="The writer must say it in one of the two: all of it in `groups`.",
            )
        groups = tuple(message.groups)
        if flat:
            groups = (RewriteGroup(old_fragments=message.old_fragments, new_fragments=message.new_fragments),)
        return cls(groups, tuple(message.rewritten_indices), flat=flat, unknown=unknown_fields(message))


def _in_place_of(old: Sequence[DataFragment], new: Sequence[DataFragment], manifest: Manifest) -> list[DataFragment]:
    """Copies of the new fragments, checked to hold the rows that are left of the old ones."""
    made = []
    for fragment in new:
        check_apart(fragment, check_files(fragment, manifest.header))
        check_counted(fragment)
        copy = DataFragment()
        copy.CopyFrom(fragment)
        made.append(copy)
    before, after = sum(map(rows_left, old)), sum(map(rows_left, made))
    if before != after and all(map(is_counted, (*old, *made))):
        raise InvalidInput(
            f"fragments {[one.id for one in old]} have {before} rows, those in their place {after}",
            remedy="A Rewrite must not add or lose rows.",
            fragments=[one.id for one in old],
        )
    _check_columns(old, made, manifest.header.fields)
    if manifest.has_stable_row_ids:
        from seiche.table.operations.rows import concat_rows

        concat_rows(made, old)
    else:
        for fragment in made:
            clear_rows(fragment)
    return made


def _check_columns(old: Sequence[DataFragment], new: Sequence[DataFragment], schema: Sequence[Field]) -> None:
    """Refuse new fragments without a column that old ones have values for: its values would be gone.

    Only columns of plain values are looked at. Whether a file lists what others are inside of depends on its version.
    """
    inner = {one.parent_id for one in schema}
    plain = {one.id for one in schema} - inner
    had = {one for fragment in old for one in live_fields(fragment)} & plain
    for fragment in new:
        if lost := had - live_fields(fragment):
            names = ", ".join(repr(one.name) for one in schema if one.id in lost)
            raise InvalidInput(
                f"fragments {[one.id for one in old]} have values of {names}, those in their place have none",
                remedy="A Rewrite must not lose columns: read the old fragments with the schema of the table.",
                fragments=[one.id for one in old],
                fields=sorted(lost),
            )


def _check_reserved(made: Sequence[DataFragment], manifest: Manifest) -> None:
    only_once(fragment.id for fragment in made)
    for fragment in made:
        if not 0 < fragment.id <= manifest.max_fragment_id or manifest.fragments.get(fragment.id) is not None:
            raise InvalidInput(
                f"the id {fragment.id} of a rewritten fragment was never reserved",
                remedy="Commit a ReserveFragments first, and use the ids that it passes over.",
                fragments=[fragment.id],
            )


def _check_renewed(renewed: Sequence[RewrittenIndex], manifest: Manifest) -> None:
    """Refuse ids that no index can have, or that another has: nobody could open the table with such indices."""
    taken = {index.uuid.uuid for index in manifest.indices} - {one.old_id.uuid for one in renewed}
    for one in renewed:
        if len(one.old_id.uuid) != 16 or len(one.new_id.uuid) != 16 or one.new_id.uuid in taken:
            raise InvalidInput(
                f"a Rewrite gives the index {one.old_id.uuid.hex()!r} the id {one.new_id.uuid.hex()!r}, which is not 16"
                " bytes or is taken",
                remedy="Give the bytes of the UUIDs after which the directories of its old and new files are named.",
            )
        taken.add(one.new_id.uuid)


def _swapped(index: IndexMetadata, new: RewrittenIndex) -> IndexMetadata:
    """The segment as it was built anew: other files under another id, the rest as before."""
    copy = IndexMetadata()
    copy.CopyFrom(index)
    copy.uuid.CopyFrom(new.new_id)
    if new.HasField("new_index_details"):
        copy.index_details.CopyFrom(new.new_index_details)
        copy.index_version = new.new_index_version
    # Sizes of the old files would be wrong for the new ones; none at all are looked up by whoever reads them.
    del copy.files[:]
    copy.files.extend(new.new_index_files)
    copy.ClearField("base_id")
    return copy


def _ids(fragments: Sequence[DataFragment]) -> BitMap:
    return BitMap(fragment.id for fragment in fragments)
