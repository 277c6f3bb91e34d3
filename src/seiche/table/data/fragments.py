"""Fragments that pylance wrote, as the messages that operations are made of."""

from collections.abc import Mapping
from typing import Any

from lance.fragment import FragmentMetadata

from seiche.errors import InvalidInput
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile

__all__ = ["fragment_from_lance"]

_DELETION_TYPES = {"array": DeletionFile.ARROW, "bitmap": DeletionFile.BITMAP}
_SEQUENCES = {
    "row_id_meta": "inline_row_ids",
    "created_at_version_meta": "inline_created",
    "last_updated_at_version_meta": "inline_last_updated",
}


def fragment_from_lance(fragment: FragmentMetadata) -> DataFragment:
    """The same fragment: files, deletions, row ids and versions."""
    given: Mapping[str, Any] = fragment.to_json()
    made = DataFragment(
        id=given["id"],
        files=[DataFile(**file) for file in given["files"]],
        physical_rows=given["physical_rows"],
    )
    if given.get("overlays"):
        raise InvalidInput(f"fragment {made.id} has data overlays, which are not supported")
    if deletions := given["deletion_file"]:
        made.deletion_file.CopyFrom(
            DeletionFile(
                file_type=_DELETION_TYPES[deletions["file_type"]],
                read_version=deletions["read_version"],
                id=deletions["id"],
                num_deleted_rows=deletions["num_deleted_rows"],
                base_id=deletions["base_id"],
            )
        )
    for name, field in _SEQUENCES.items():
        if sequence := given.get(name):
            ((kind, content),) = sequence.items()
            if kind.lower() != "inline":
                raise InvalidInput(f"fragment {made.id} keeps its {name} outside of the manifest, in a file ({kind})")
            setattr(made, field, bytes(content))
    return made
