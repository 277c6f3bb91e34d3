"""Ids for new fragments: given when the manifest is built, because only then it is known which are free."""

from collections.abc import Iterable

from seiche.errors import InvalidInput
from seiche.table.format.manifest import STABLE_ROW_IDS, Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.operations.files import check_counted

__all__ = ["add_new", "clear_rows", "raise_max_fragment_id", "renumbered"]

_LARGEST_ID = (1 << 32) - 1


def add_new(fragments: Iterable[DataFragment], header: Header, manifest: Manifest, version: int) -> list[DataFragment]:
    """Copies of the fragments as new rows of the table: with fresh ids, row ids and versions; raises the counters."""
    made = renumbered(fragments, header, manifest)
    if header.reader_feature_flags & STABLE_ROW_IDS:
        from seiche.table.operations.rows import stamp_new

        stamp_new(made, header, version)
    else:
        for fragment in made:
            clear_rows(fragment)
    return made


def renumbered(fragments: Iterable[DataFragment], header: Header, manifest: Manifest) -> list[DataFragment]:
    """Copies of the fragments, whose files are checked, with the next free ids; those they came with mean nothing."""
    following = manifest.max_fragment_id
    made = []
    for fragment in fragments:
        if fragment.HasField("deletion_file"):
            # The name of the file holds the id of its fragment: under another id it would not be found, and the
            # deleted rows would be back.
            raise InvalidInput(
                "a new fragment has a deletion file",
                remedy="Write the fragment without the deleted rows, or commit the deletion afterwards.",
            )
        check_counted(fragment)
        following += 1
        copy = DataFragment()
        copy.CopyFrom(fragment)
        copy.id = following
        made.append(copy)
    raise_max_fragment_id(header, following)
    return made


def raise_max_fragment_id(header: Header, fragment_id: int) -> None:
    """Record that ids up to this one have been given out; the counter never falls."""
    if fragment_id > _LARGEST_ID:
        raise InvalidInput(
            f"fragment id {fragment_id} is beyond what the format can hold, which is {_LARGEST_ID}",
            remedy="Ids are never given out again: write the rows into a new table, whose ids begin at 0.",
            fragments=[fragment_id],
        )
    if fragment_id >= 0:
        header.max_fragment_id = fragment_id


def clear_rows(fragment: DataFragment) -> None:
    """Forget row ids and versions: in a table without stable row ids, one fragment that has them misleads readers."""
    fragment.ClearField("row_ids")
    fragment.ClearField("created")
    fragment.ClearField("last_updated")
