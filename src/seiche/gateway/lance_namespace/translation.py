"""A version of a table as the lake has it, and as a desk shows it: the same version, seen from another directory.

On a desk every file of the table lies in a *base*, the table's own directory; what pylance writes there lies on the
desk itself until it is committed. Pure: bytes in, bytes out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from google.protobuf.message import Message

from seiche.lake.engines.native_manifest import NativeManifest
from seiche.table.format import file
from seiche.table.format.file import ManifestFile
from seiche.table.format.flags import BASE_PATHS, COVERING_INDICES, SEICHE_FENCE
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import BasePath, DataFile, DeletionFile, IndexMetadata
from seiche.table.format.transaction_pb2 import Transaction as TransactionMessage

__all__ = ["HOME", "from_desk", "to_desk"]

# The id of the table's own directory on a desk. Far from those that tables give to bases of theirs.
HOME: Final = 4_000_000_000

Located = DataFile | DeletionFile | IndexMetadata
M = TypeVar("M", bound=Message)


def to_desk(stored: ManifestFile, home: str, branch: str | None = None) -> bytes:
    """The manifest file that shows a version of the lake on a desk; `home` is the address of the table's directory.

    On the desk a `branch` is one; in the lake it is a table.

    Writers that pass the server by must not take it for a table of their own. Releases of Lance that do not commit
    through a namespace do not know the flag that is set here for writers; those from 11 on (LanceDB 0.40 has 13) accept
    it, and each of their commits finds out anew whether an index needs it. Those before 14 find the transaction where
    they look for it, and so rebase on what the lake has made.
    """
    header = stored.manifest.copy_header()
    header.base_paths.add(id=HOME, is_dataset_root=True, path=home)
    header.reader_feature_flags |= BASE_PATHS
    header.writer_feature_flags = header.writer_feature_flags & ~SEICHE_FENCE | BASE_PATHS | COVERING_INDICES
    if branch is not None:
        header.branch = branch
    fragments = Fragments(_at_home(_copy(one)) for one in stored.manifest.fragments)
    indices = [_at_home(_copy(one)) for one in stored.manifest.indices]
    message = TransactionMessage() if stored.transaction is None else _at_home(_copy(stored.transaction))
    encoded = message.SerializeToString(deterministic=True)
    return b"".join(file.encode(Manifest(header, fragments, indices), encoded, before_14=True))


def from_desk(
    native: NativeManifest,
    home: str,
    known: Sequence[BasePath] = (),
    really: Callable[[str], str] = lambda address: address,
) -> NativeManifest:
    """What pylance has written on a desk, as a version of the lake's table: files at `home` are the table's own.

    `known` are the bases that the table has in the lake. pylance may have given others ids to the same places, or know
    them by the address of a desk: `really` tells what stands behind an address. The same bytes make the same bytes:
    told twice, it is the same version.
    """
    ids = _Ids(native.manifest.header.base_paths, _plain(home), {_plain(base.path): base.id for base in known}, really)
    header = ids.translated(native.manifest.copy_header())
    header.ClearField("branch")
    others = [base for base in header.base_paths if base.id in ids.kept]
    del header.base_paths[:]
    header.base_paths.extend([*known, *others])
    gone = 0 if header.base_paths else BASE_PATHS
    if not any(index.covering_fields for index in native.manifest.indices):
        gone |= COVERING_INDICES
    header.reader_feature_flags &= ~gone
    header.writer_feature_flags &= ~gone
    fragments = Fragments(ids.translated(_copy(one)) for one in native.manifest.fragments)
    indices = [ids.translated(_copy(one)) for one in native.manifest.indices]
    message = ids.translated(_copy(native.message))
    made = Manifest(header, fragments, indices)
    data = b"".join(file.encode(made, message.SerializeToString(deterministic=True)))
    read = file.decode(data, path="desk")
    return NativeManifest(data, read.manifest, message)


class _Ids:
    """What the ids of bases on a desk are in the lake: `None` for the table's own directory."""

    def __init__(
        self, bases: Iterable[BasePath], home: str, known: Mapping[str, int], really: Callable[[str], str]
    ) -> None:
        self._new: dict[int, int | None] = {}
        self.kept: set[int] = set()
        for base in bases:
            place = _plain(really(_plain(base.path)))
            if place == home:
                self._new[base.id] = None
            elif place in known:
                self._new[base.id] = known[place]
            else:
                self.kept.add(base.id)

    def translated(self, message: M) -> M:
        for one in _located(message):
            if not one.HasField("base_id") or one.base_id not in self._new:
                continue
            new = self._new[one.base_id]
            if new is None:
                one.ClearField("base_id")
            else:
                one.base_id = new
        return message


def _plain(address: str) -> str:
    """An address in one spelling."""
    return address.removeprefix("file://").rstrip("/")


def _at_home(message: M) -> M:
    for one in _located(message):
        if not one.HasField("base_id"):
            one.base_id = HOME
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
