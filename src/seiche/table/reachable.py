"""Which files a version, or a transaction that waits to be committed, needs.

Files are told by their names only, whatever base path they are said to lie under: names are unique, and a base may be
written in many ways or be another place by now. So too much is taken for needed rather than too little.
"""

from collections.abc import Iterable
from typing import Final, Protocol
from uuid import UUID

from google.protobuf.message import Message

from seiche.errors import InvalidInput
from seiche.table.affected import FILE_PROPERTY
from seiche.table.format import deletions, flags
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, IndexMetadata
from seiche.table.format.transaction_pb2 import Rewrite, Transaction
from seiche.table.format.unknown import unknown_fields

__all__ = ["SHADOWS", "Names", "Reach", "index_folder", "side_folder"]

# Where work on indices is done before it is taken over: no version ever leads there.
SHADOWS: Final = "_shadow"

_EXTERNAL = ("external_row_ids", "external_last_updated", "external_created")


def index_folder(uuid: bytes) -> str:
    """Where the files of an index segment lie, relative to the root of the table."""
    return f"_indices/{UUID(bytes=uuid)}"


def side_folder(data_path: str) -> str:
    """Where large values that were left out of a data file lie: beside it, in a directory that is called like it."""
    return data_path.removesuffix(".lance")


class Names(Protocol):
    """Where names are collected."""

    def add(self, name: str, /) -> None: ...

    def __contains__(self, name: object, /) -> bool: ...


class Reach:
    """Everything that some versions and transactions need, as paths relative to the root that the files lie under."""

    def __init__(self, files: Names | None = None, folders: Names | None = None) -> None:
        """Files, and folders whose files are all needed, are collected in sets unless others are given."""
        self._files: Names = set() if files is None else files
        self._folders: Names = set() if folders is None else folders
        # Most fragments of a version are those of the one before: each is looked at once.
        self._known: set[bytes] = set()

    def add_manifest(self, manifest: Manifest) -> None:
        """Count in what a version needs; `InvalidInput` if something in it may name files in a way unknown here."""
        header = manifest.header
        flags.require_writable(header, managed=True)
        if header.fragment_tree or any(unknown_fields(header)):
            raise _not_understood(f"version {manifest.version}")
        for fragment in manifest.fragments.unseen(self._known):
            self._add_fragment(fragment, manifest.version)
        self._add_indices(manifest.indices, manifest.version)
        if header.transaction_file:
            self._files.add(f"_transactions/{header.transaction_file}")

    def add_transaction(self, transaction: Transaction) -> None:
        """Count in the files that a transaction brings or keeps; whatever it has that is not known here is passed over.

        It is not committed yet, so its files are young, and there is no version that a wrong guess could break.
        """
        self._add_message(transaction)
        # Where the rows that it touches are many.
        if FILE_PROPERTY in transaction.properties:
            self._files.add(transaction.properties[FILE_PROPERTY])

    def holds(self, path: str) -> bool:
        """Whether the file at `path` is needed."""
        if path in self._files:
            return True
        folder = path.rpartition("/")[0]
        while folder:
            if folder in self._folders:
                return True
            folder = folder.rpartition("/")[0]
        return False

    def _add_fragment(self, fragment: DataFragment, version: int) -> None:
        if fragment.overlays or any(unknown_fields(fragment)):
            raise _not_understood(f"fragment {fragment.id} of version {version}")
        self._add_files(fragment)

    def _add_files(self, fragment: DataFragment) -> None:
        for file in fragment.files:
            self._add_path(file.path)
        if fragment.HasField("deletion_file"):
            self._files.add(deletions.path(fragment.id, fragment.deletion_file))
        for name in _EXTERNAL:
            if fragment.HasField(name):
                self._add_path(getattr(fragment, name).path)

    def _add_path(self, path: str) -> None:
        # In a base that is no table, files lie in the base itself; and that may be the `data` of this table, too.
        for place in (f"data/{path}", path) if path.startswith("data/") else (f"data/{path}",):
            self._files.add(place)
            self._folders.add(side_folder(place))

    def _add_indices(self, indices: Iterable[IndexMetadata], version: int) -> None:
        for index in indices:
            if len(index.uuid.uuid) != 16 or any(unknown_fields(index)):
                raise _not_understood(f"the index {index.name!r} of version {version}")
            self._folders.add(index_folder(index.uuid.uuid))

    def _add_message(self, message: Message) -> None:
        match message:
            case DataFragment():
                self._add_files(message)
            case DataFile():
                self._add_path(message.path)
            case IndexMetadata() if len(message.uuid.uuid) == 16:
                self._folders.add(index_folder(message.uuid.uuid))
            case Rewrite.RewrittenIndex() if len(message.new_id.uuid) == 16:
                self._folders.add(index_folder(message.new_id.uuid))
            case _:
                for descriptor, value in message.ListFields():
                    if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
                        continue
                    for inner in [value] if isinstance(value, Message) else value:
                        self._add_message(inner)


def _not_understood(what: str) -> InvalidInput:
    return InvalidInput(
        f"{what} has parts that are not understood here, and may name files by them",
        remedy="A newer writer made it: clean up with that. Nothing was removed.",
    )
