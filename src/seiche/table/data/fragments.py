"""Fragments as pylance describes them, and as the messages that operations are made of."""

from collections.abc import Mapping
from typing import Any

import lance  # noqa: F401 - waits until another thread has imported all of it, which its parts do not
from lance.fragment import FragmentMetadata

from seiche.errors import InvalidInput
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile

__all__ = ["fragment_from_json", "fragment_from_lance", "fragment_to_json"]

_DELETION_TYPES = {"array": DeletionFile.ARROW, "bitmap": DeletionFile.BITMAP}
_SEQUENCES = {
    "row_id_meta": "inline_row_ids",
    "created_at_version_meta": "inline_created",
    "last_updated_at_version_meta": "inline_last_updated",
}


def fragment_from_lance(fragment: FragmentMetadata) -> DataFragment:
    """A fragment of pylance as a message: files, deletions, row ids and versions."""
    return fragment_from_json(fragment.to_json())


def fragment_from_json(given: Mapping[str, Any]) -> DataFragment:
    """A fragment from the JSON in which pylance passes fragments on."""
    made = DataFragment(
        id=given["id"],
        files=[DataFile(**file) for file in given["files"]],
        physical_rows=given["physical_rows"],
    )
    if given.get("overlays"):
        raise InvalidInput(
            f"fragment {made.id} has data overlays, which are not supported",
            remedy="Write its columns anew, with pylance's own compaction.",
            fragments=[made.id],
        )
    if deletions := given.get("deletion_file"):
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
                raise InvalidInput(
                    f"fragment {made.id} keeps its {name} outside of the manifest, in a file ({kind})",
                    remedy="Compact the table with the writer that made it.",
                    fragments=[made.id],
                )
            setattr(made, field, bytes(content))
    return made


def fragment_to_json(fragment: DataFragment) -> dict[str, Any]:
    """The form in which pylance takes fragments."""
    made: dict[str, Any] = {
        "id": fragment.id,
        "files": [_file_to_json(file) for file in fragment.files],
        "physical_rows": fragment.physical_rows,
    }
    if fragment.HasField("deletion_file"):
        deletions = fragment.deletion_file
        made["deletion_file"] = {
            "read_version": deletions.read_version,
            "id": deletions.id,
            "file_type": next(name for name, kind in _DELETION_TYPES.items() if kind == deletions.file_type),
            "num_deleted_rows": deletions.num_deleted_rows,
            "base_id": _base_id(deletions),
        }
    for name, field in _SEQUENCES.items():
        if fragment.HasField(field):
            # pylance writes the first of these with a capital letter, the others without.
            made[name] = {"Inline" if name == "row_id_meta" else "inline": list(getattr(fragment, field))}
    return made


def _file_to_json(file: DataFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "fields": list(file.fields),
        "column_indices": list(file.column_indices),
        "file_major_version": file.file_major_version,
        "file_minor_version": file.file_minor_version,
        "file_size_bytes": file.file_size_bytes or None,
        "base_id": _base_id(file),
    }


def _base_id(file: DataFile | DeletionFile) -> int | None:
    return file.base_id if file.HasField("base_id") else None
