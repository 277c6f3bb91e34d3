"""Clone: a new table, or a branch, that begins as a copy of another."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from seiche.errors import InvalidInput
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.fields import has_blobs
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile, IndexMetadata
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.bases import unused_base_id
from seiche.table.operations.context import Build

__all__ = ["Clone"]

_EXTERNAL: tuple[Literal["external_row_ids"], Literal["external_last_updated"], Literal["external_created"]] = (
    "external_row_ids",
    "external_last_updated",
    "external_created",
)


@dataclass(frozen=True, slots=True)
class Clone(Values):
    """The first version of a new root, made of version `ref_version` of the table at `ref_path`.

    Shallow: its files stay where they are and are referred to. Deep: they have been copied to the new root before.
    """

    name: ClassVar[str] = "Clone"
    field_name: ClassVar[str] = "clone"

    is_shallow: bool = True
    # The branch or tag of the source by which it was named.
    ref_name: str | None = None
    ref_version: int = 0
    ref_path: str = ""
    # Set when the new root is a branch of the source.
    branch_name: str | None = None

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        """The first version of the new root; `manifest` is that of the source, whose number it keeps."""
        if manifest.version != self.ref_version:
            raise InvalidInput(
                f"the clone is of version {self.ref_version}, the manifest is of version {manifest.version}",
                remedy="`table.clone(target, version=...)` takes the manifest of the version that it names.",
                version=manifest.version,
            )
        header = manifest.copy_header()
        header.ClearField("branch")
        if self.branch_name is not None:
            header.branch = self.branch_name
        base_id = None
        if self.is_shallow:
            base_id = self._add_source(header)
        else:
            _leave_bases(header)
        fragments = Fragments(_moved_fragment(fragment, base_id) for fragment in manifest.fragments)
        return Manifest(header, fragments, (_moved_index(index, base_id) for index in manifest.indices))

    def _add_source(self, header: Header) -> int:
        """Make the source one of the bases, if it is not one already, and return its id."""
        if not self.ref_path:
            raise InvalidInput(
                "a shallow clone needs the path of the table that its files stay in, and `ref_path` is empty",
                remedy="Give the address of the source as `ref_path`, or use `table.clone(target)`, which does.",
            )
        base_id = unused_base_id(header.base_paths) if header.base_paths else 0
        taken = {base.name for base in header.base_paths if base.HasField("name")}
        name = None if self.ref_name in taken else self.ref_name
        header.base_paths.add(id=base_id, name=name, is_dataset_root=True, path=self.ref_path)
        return base_id

    def to_proto(self) -> pb.Clone:
        message = pb.Clone(
            is_shallow=self.is_shallow,
            ref_name=self.ref_name,
            ref_version=self.ref_version,
            ref_path=self.ref_path,
            branch_name=self.branch_name,
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Clone) -> Self:
        return cls(
            message.is_shallow,
            message.ref_name if message.HasField("ref_name") else None,
            message.ref_version,
            message.ref_path,
            message.branch_name if message.HasField("branch_name") else None,
            unknown=unknown_fields(message),
        )


def _leave_bases(header: Header) -> None:
    """All files are below the new root, so that no base is needed but for values that are none of the table's own.

    Blobs that were given by an address below a base are kept as the id of that base and the rest of the address. It is
    never the root of a table.
    """
    kept = [base for base in header.base_paths if has_blobs(header.fields) and not base.is_dataset_root]
    del header.base_paths[:]
    header.base_paths.extend(kept)


def _moved_fragment(fragment: DataFragment, base_id: int | None) -> DataFragment:
    """As seen from another root: files of the source itself lie in the base, or with no base in the new root too."""
    outside = [name for name in _EXTERNAL if fragment.HasField(name)]
    if outside:
        raise InvalidInput(
            f"fragment {fragment.id} keeps {outside[0]} in a file, which a clone cannot refer to",
            remedy="Compact the source with the writer that made it, which puts them into the manifest.",
            fragments=[fragment.id],
        )
    made = DataFragment()
    made.CopyFrom(fragment)
    for file in made.files:
        _move(file, base_id)
    if made.HasField("deletion_file"):
        _move(made.deletion_file, base_id)
    return made


def _moved_index(index: IndexMetadata, base_id: int | None) -> IndexMetadata:
    made = IndexMetadata()
    made.CopyFrom(index)
    _move(made, base_id)
    return made


def _move(file: DataFile | DeletionFile | IndexMetadata, base_id: int | None) -> None:
    if base_id is None:
        file.ClearField("base_id")
    elif not file.HasField("base_id"):
        file.base_id = base_id
