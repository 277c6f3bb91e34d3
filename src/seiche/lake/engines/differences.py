"""Whether two manifests are the same version of a table, though two libraries built them."""

from itertools import zip_longest
from typing import Final

from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, EncodedFragments, IndexMetadata
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.operations.coverage import covered

__all__ = ["difference"]

# Who built it, when, under which number and from which place in which file.
_ASIDE: Final = (
    "version",
    "timestamp",
    "writer_version",
    "tag",
    "transaction_file",
    "index_section",
    "transaction_section",
    "old_transaction_section",
)


def difference(one: Manifest, other: Manifest) -> str | None:
    """What two versions do not have in common, in words; `None` if a reader could not tell them apart.

    Who made them, when, and under which number does not count.
    """
    mine, theirs = _header(one), _header(other)
    if mine != theirs:
        names = [field.name for field in Header.DESCRIPTOR.fields]
        apart = [name for name in names if getattr(mine, name) != getattr(theirs, name)]
        return f"they differ in {', '.join(apart)}"
    return _fragments(one, other) or _indices(one, other)


def _header(manifest: Manifest) -> Header:
    header = manifest.copy_header()
    for name in _ASIDE:
        header.ClearField(name)
    bases = sorted(header.base_paths, key=lambda base: base.id)
    del header.base_paths[:]
    header.base_paths.extend(bases)
    return header


def _fragments(one: Manifest, other: Manifest) -> str | None:
    # Both libraries encode the same message in the same bytes; only what differs there is looked at.
    mine = EncodedFragments.FromString(b"".join(one.fragments.pieces)).fragments
    theirs = EncodedFragments.FromString(b"".join(other.fragments.pieces)).fragments
    if mine == theirs:
        return None
    for own, foreign in zip_longest(mine, theirs):
        if own == foreign:
            continue
        if own is None or foreign is None:
            return f"one has {len(mine)} fragments, the other {len(theirs)}"
        left, right = DataFragment.FromString(own), DataFragment.FromString(foreign)
        _leave_out_unknown_sizes(left, right)
        if _content(left) != _content(right):
            return f"fragment {left.id} is not the same in both" if left.id == right.id else "they differ in fragments"
    return None


def _leave_out_unknown_sizes(one: DataFragment, other: DataFragment) -> None:
    """Not every writer notes how large a data file is, and pylance finds it out for the fragments that it changes."""
    for mine, theirs in zip(one.files, other.files, strict=False):
        if not mine.file_size_bytes or not theirs.file_size_bytes:
            mine.file_size_bytes = theirs.file_size_bytes = 0


def _content(fragment: DataFragment) -> tuple[object, ...]:
    """A fragment with its sequences spelled out, which can be stored in several ways."""
    rest = DataFragment()
    rest.CopyFrom(fragment)
    for name in ("row_ids", "created", "last_updated"):
        rest.ClearField(name)
    rows = fragment.physical_rows
    ids, created, updated = fragment.inline_row_ids, fragment.inline_created, fragment.inline_last_updated
    return (
        rest.SerializeToString(deterministic=True),
        RowIds.decode(ids, rows=rows).to_array().tolist() if ids else None,
        RowVersions.decode(created, rows=rows).runs if created else None,
        RowVersions.decode(updated, rows=rows).runs if updated else None,
    )


def _indices(one: Manifest, other: Manifest) -> str | None:
    mine = {index.uuid.uuid: index for index in one.indices}
    theirs = {index.uuid.uuid: index for index in other.indices}
    if mine == theirs:
        return None
    apart = {
        index.name
        for found in (mine, theirs)
        for key, index in found.items()
        if _segment(mine.get(key)) != _segment(theirs.get(key))
    }
    return f"the indices {', '.join(sorted(apart))} are not the same in both" if apart else None


def _segment(index: IndexMetadata | None) -> tuple[object, ...]:
    """A segment with its coverage spelled out: fragments in a row can be stored as a run, or one by one."""
    if index is None:
        return ()
    rest = IndexMetadata()
    rest.CopyFrom(index)
    rest.ClearField("fragment_bitmap")
    return (rest.SerializeToString(deterministic=True), covered(index))
