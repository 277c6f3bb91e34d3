"""What changes when others commit first: the numbers that a transaction gave to its own fragments and rows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from pyroaring import BitMap

from seiche.core.insisting import insist
from seiche.core.runtime import SYSTEM
from seiche.errors import AlreadyExists, RetryableConflict
from seiche.lake.commit.work import Folded, Work
from seiche.store.base import Store
from seiche.table.format import deletions
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.operations import CreateIndex, Operation, Rewrite, RewriteGroup
from seiche.table.operations.coverage import covered, is_system, with_coverage
from seiche.table.operations.numbering import raise_max_fragment_id

__all__ = ["renumbered", "reserved", "restamped", "trimmed"]

# Where a fragment went that there is no more.
_NOWHERE = -1


def renumbered(built: Manifest, folded: Folded, work: Work, store: Store) -> tuple[Manifest, dict[int, int]]:
    """The built version with everything that depends on the final numbers put right, and which fragments were moved.

    The transaction's own fragments are the last ones of the built version, in their order. Where it had deleted rows of
    them again, the deletion file is named after the fragment and gets a copy under the new name. Row ids that it gave
    out follow the table's counter, and row versions say the version that is really made. Numbers of fragments that the
    transaction made and removed again are among those moved: they may stand for others now. Where operations follow
    that name the fragments, and nobody else was given a number, they keep those that they had.
    """
    built = _with_own_numbers(built, folded, work)
    final = _own(built, folded)
    same = {old.id for old, new in zip(folded.added, final, strict=True) if old.id == new.id}
    moved = dict.fromkeys(_given(work, folded) - same, _NOWHERE)
    moved |= {old.id: new.id for old, new in zip(folded.added, final, strict=True) if old.id != new.id}
    if built.has_stable_row_ids:
        _check_indices(folded.followers, moved, built)
    if not folded.added or not folded.bare:
        return built, moved
    shift = built.header.next_row_id - _rows(folded.added) - work.base.header.next_row_id
    changes: dict[int, DataFragment | None] = {}
    for old, new in zip(folded.added, final, strict=True):
        made = DataFragment()
        made.CopyFrom(new)
        if old.HasField("deletion_file"):
            made.deletion_file.CopyFrom(old.deletion_file)
            _copy_deletions(old, new.id, store)
        if built.has_stable_row_ids:
            _restore_rows(made, old, work.base, shift, built.version)
        changes[new.id] = made
    header = built.copy_header()
    # Also ids of rows that the transaction added and took away again have been given out.
    header.next_row_id = max(header.next_row_id, work.settled.header.next_row_id + shift)
    fragments = built.fragments.replaced(changes)
    if fragments.has_deletions:
        header.reader_feature_flags |= 1
        header.writer_feature_flags |= 1
    return Manifest(header, fragments, built.index_section), moved


def trimmed(followers: Sequence[Operation], moved: Mapping[int, int]) -> list[Operation]:
    """Operations that follow the change of content, without a claim to fragments that have other numbers now.

    An index that the transaction built over its own rows knows them by the old numbers: it must not be asked about
    those fragments, which are scanned instead. A compaction of them cannot be put right: the transaction has to be run
    again.
    """
    return [_trimmed(one, moved) for one in followers]


def restamped(followers: Sequence[Operation], provisional: int, version: int) -> list[Operation]:
    """Operations that follow the change of content, which is version `version` and not the `provisional` one.

    A compaction has taken down of its rows when they were last updated, and the transaction may have updated them just
    before. Whoever asks for rows that were updated after somebody else's version would not be given them.
    """
    if version == provisional:
        return list(followers)
    return [_restamped_rewrite(one, provisional, version) if isinstance(one, Rewrite) else one for one in followers]


def reserved(followers: Sequence[Operation], made: Manifest, count: int) -> list[Operation]:
    """What follows a reservation of `count` fragment ids, under the ids that version `made` really set aside.

    Others may have been given those that the transaction counted on. A Rewrite takes the new ones, unless they stand in
    the files of indices already: then the transaction has to be run again.
    """
    following = list(followers)
    at = next((number for number, one in enumerate(following) if isinstance(one, Rewrite)), None)
    rewrite = None if at is None else following[at]
    if at is None or not isinstance(rewrite, Rewrite):
        return following
    counted_on = [one.id for group in rewrite.groups for one in group.new_fragments]
    shift = made.max_fragment_id - count + 1 - min(counted_on, default=0)
    if not counted_on or not shift:
        return following
    if rewrite.rewritten_indices or rewrite.frag_reuse_index is not None:
        raise RetryableConflict(
            "others were given the fragment ids that indices have been written anew for.",
            remedy="Nothing was written. Run the transaction again; compact in one of its own to avoid this.",
            fragments=counted_on,
        )
    groups = []
    for group in rewrite.groups:
        copy = RewriteGroup()
        copy.CopyFrom(group)
        for fragment in copy.new_fragments:
            fragment.id += shift
        groups.append(copy)
    moved = {one: one + shift for one in counted_on}
    return [*following[:at], replace(rewrite, groups=tuple(groups)), *trimmed(following[at + 1 :], moved)]


def _trimmed(operation: Operation, moved: Mapping[int, int]) -> Operation:
    if not moved:
        return operation
    if isinstance(operation, CreateIndex):
        return replace(operation, new_indices=tuple(_without(one, moved) for one in operation.new_indices))
    if isinstance(operation, Rewrite):
        rewritten = {one.id for group in operation.groups for one in group.old_fragments}
        if not rewritten.isdisjoint(moved):
            raise RetryableConflict(
                "the transaction compacted rows that it had added itself, and others committed first.",
                remedy="Nothing was written. Run it again; compact in a transaction of its own to avoid this.",
                fragments=sorted(rewritten & moved.keys()),
            )
    return operation


def _without(index: IndexMetadata, moved: Mapping[int, int]) -> IndexMetadata:
    own = covered(index)
    if own is None and is_system(index):
        return index  # state of the table, which covers nothing
    # One that does not say what it covers would be asked about everything.
    return with_coverage(index, (own or BitMap()) - BitMap(moved))


def _own(built: Manifest, folded: Folded) -> tuple[DataFragment, ...]:
    """The transaction's own fragments, which are the last ones of the built version."""
    return built.fragments.decoded()[-len(folded.added) :] if folded.added else ()


def _with_own_numbers(built: Manifest, folded: Folded, work: Work) -> Manifest:
    """The built version with the numbers that the statements gave, if they are still free and matter to what follows.

    Folded into one change, statements give fewer numbers than they did one by one: rows that were added and replaced
    again need none. A compaction, or an index, of the fragments as they were could otherwise never be committed.
    """
    final = _own(built, folded)
    given = built.max_fragment_id - len(final)
    if not folded.followers or not folded.bare or given != work.base.max_fragment_id:
        return built
    own = []
    for old, new in zip(folded.added, final, strict=True):
        made = DataFragment()
        made.CopyFrom(new)
        made.id = old.id
        own.append(made)
    header = built.copy_header()
    raise_max_fragment_id(header, work.settled.max_fragment_id)
    others = built.fragments.replaced(dict.fromkeys((one.id for one in final), None))
    return Manifest(header, others.extended(own), built.index_section)


def _given(work: Work, folded: Folded) -> set[int]:
    """The numbers that the transaction gave to fragments of its own."""
    return set(range(work.base.max_fragment_id + 1, work.settled.max_fragment_id + 1)) if folded.followers else set()


def _check_indices(followers: Sequence[Operation], moved: Mapping[int, int], built: Manifest) -> None:
    """Native code turns the places that an index knows into stable row ids before it leaves out those of fragments that
    are not covered, and fails where a fragment is shorter than the one that had its number.
    """
    for index in (
        one for operation in followers if isinstance(operation, CreateIndex) for one in operation.new_indices
    ):
        taken = [
            number for number in covered(index) or () if number in moved and built.fragments.get(number) is not None
        ]
        if taken:
            raise RetryableConflict(
                f"the transaction built the index {index.name!r} over rows of its own, and their fragments have other"
                " numbers now.",
                remedy="Nothing was written. Run it again; build indices last, or in a transaction of their own.",
                fragments=taken,
            )


def _copy_deletions(old: DataFragment, new_id: int, store: Store) -> None:
    source, target = deletions.path(old.id, old.deletion_file), deletions.path(new_id, old.deletion_file)
    if source != target:
        with suppress(AlreadyExists):
            # An answer that was lost says nothing about the commit, whose root is not put yet.
            insist(lambda: store.copy_if_absent(source, target), SYSTEM)


def _restore_rows(made: DataFragment, old: DataFragment, base: Manifest, shift: int, version: int) -> None:
    """Row ids and versions as the statements made them, with those that are new moved behind what others added."""
    rows = old.physical_rows
    ids = RowIds.decode(old.inline_row_ids, rows=rows).to_array()
    fresh = ids >= base.header.next_row_id
    made.inline_row_ids = RowIds(ids + np.where(fresh, np.uint64(shift), np.uint64(0))).encode()
    _restamp(made, old, base.version + 1, version)


def _restamped_rewrite(rewrite: Rewrite, provisional: int, version: int) -> Rewrite:
    groups = []
    for group in rewrite.groups:
        copy = RewriteGroup()
        copy.CopyFrom(group)
        for fragment in copy.new_fragments:
            _restamp(fragment, fragment, provisional, version)
        groups.append(copy)
    return replace(rewrite, groups=tuple(groups))


def _restamp(made: DataFragment, old: DataFragment, provisional: int, version: int) -> None:
    for name in ("inline_created", "inline_last_updated"):
        if old.HasField(name):
            versions = RowVersions.decode(getattr(old, name), rows=old.physical_rows).runs
            setattr(made, name, RowVersions(_restamped(versions, provisional, version)).encode())


def _restamped(runs: Sequence[tuple[int, int]], provisional: int, version: int) -> Iterator[tuple[int, int]]:
    for number, rows in runs:
        yield (version if number == provisional else number), rows


def _rows(fragments: Sequence[DataFragment]) -> int:
    return sum(fragment.physical_rows for fragment in fragments)
