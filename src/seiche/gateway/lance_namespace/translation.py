"""A version of a table as the lake has it, and as a desk shows it: the same version, seen from another directory.

On a desk every file of the table lies in a *base*, the table's own directory; what pylance writes there lies on the
desk itself until it is committed. Pure: bytes in, bytes out.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

from google.protobuf.message import Message

from seiche.lake.engines.native_manifest import NativeManifest
from seiche.table.format import file
from seiche.table.format.file import ManifestFile
from seiche.table.format.flags import BASE_PATHS, SEICHE_FENCE, UNNAMED_11
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DeletionFile, IndexMetadata
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.format.transaction_pb2 import Transaction as TransactionMessage

__all__ = ["HOME", "from_desk", "to_desk"]

# The id of the table's own directory on a desk. Far from those that tables give to bases of theirs.
HOME: Final = 4_000_000_000

Located = DataFile | DeletionFile | IndexMetadata
M = TypeVar("M", bound=Message)


def to_desk(stored: ManifestFile, home: str) -> bytes:
    """The manifest file that shows a version of the lake on a desk; `home` is the address of the table's directory.

    Writers that pass the server by must not take it for a table of their own. Releases of Lance that do not commit
    through a namespace do not know the flag that is set here for writers; pylance 14 accepts it.
    """
    header = stored.manifest.copy_header()
    header.base_paths.add(id=HOME, is_dataset_root=True, path=home)
    header.reader_feature_flags |= BASE_PATHS
    header.writer_feature_flags = header.writer_feature_flags & ~SEICHE_FENCE | BASE_PATHS | UNNAMED_11
    fragments = Fragments(_at_home(_copy(one)) for one in stored.manifest.fragments)
    indices = [_at_home(_copy(one)) for one in stored.manifest.indices]
    message = TransactionMessage() if stored.transaction is None else _at_home(_copy(stored.transaction))
    encoded = message.SerializeToString(deterministic=True)
    return b"".join(file.encode(Manifest(header, fragments, indices), encoded))


def from_desk(native: NativeManifest) -> NativeManifest:
    """What pylance has written on a desk, as a version of the lake's table: all files are the table's own.

    The same bytes make the same bytes: told twice, it is the same version.
    """
    header = _from_home(native.manifest.copy_header())
    fragments = Fragments(_from_home(_copy(one)) for one in native.manifest.fragments)
    indices = [_from_home(_copy(one)) for one in native.manifest.indices]
    message = _from_home(_copy(native.message))
    made = Manifest(header, fragments, indices)
    data = b"".join(file.encode(made, message.SerializeToString(deterministic=True)))
    read = file.decode(data, path="desk")
    return NativeManifest(data, read.manifest, message)


def _at_home(message: M) -> M:
    for one in _located(message):
        if not one.HasField("base_id"):
            one.base_id = HOME
    return message


def _from_home(message: M) -> M:
    for one in _located(message):
        if one.HasField("base_id") and one.base_id == HOME:
            one.ClearField("base_id")
    if isinstance(message, Header):
        others = [base for base in message.base_paths if base.id != HOME]
        del message.base_paths[:]
        message.base_paths.extend(others)
        gone = UNNAMED_11 if others else UNNAMED_11 | BASE_PATHS
        message.reader_feature_flags &= ~gone
        message.writer_feature_flags &= ~gone
    return message


def _located(message: Message) -> Iterator[Located]:
    """Everything in a message, at any depth, that says in which base a file lies."""
    if isinstance(message, Located):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in value if field.is_repeated else [value]:
            yield from _located(part)


def _copy(message: M) -> M:
    made = type(message)()
    made.CopyFrom(message)
    return made
