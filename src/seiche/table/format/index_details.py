"""The two system indices: where rows went when fragments were rewritten, and how much of the write-ahead log is merged.

Either exists once in a table, so two commits that both change it are merged, not decided.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from uuid import UUID

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message
from pyroaring import BitMap

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.store import paths
from seiche.store.base import Store
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format import roaring
from seiche.table.format.index_details_pb2 import FragmentReuseIndexDetails, MemWalIndexDetails
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.format.side_files import put_new
from seiche.table.format.transaction_pb2 import MergedGeneration

__all__ = [
    "FRAGMENT_REUSE",
    "MEM_WAL",
    "ReuseContent",
    "ReuseIndexFiles",
    "content_file",
    "find",
    "mark_merged",
    "mem_wal_details",
    "mem_wal_index",
    "merge_mem_wal",
    "merge_reuse",
    "reuse_details",
]

FRAGMENT_REUSE = "__lance_frag_reuse"
MEM_WAL = "__lance_mem_wal"
SINGLETONS = frozenset({FRAGMENT_REUSE, MEM_WAL})

FRAGMENT_REUSE_URL = "/lance.table.FragmentReuseIndexDetails"
MEM_WAL_URL = "/lance.table.MemWalIndexDetails"

ReuseContent = FragmentReuseIndexDetails.InlineContent

# Above this pylance keeps the content in a file of its own, so that not every manifest carries it.
_LARGEST_INLINE = 204_800
_EXTERNAL_NAME = "details.binpb"
_LARGEST_FILE = (1 << 63) - 1


def find(indices: Iterable[IndexMetadata], name: str) -> IndexMetadata | None:
    """The index entry of that name, if there is one."""
    return next((index for index in indices if index.name == name), None)


def reuse_details(index: IndexMetadata) -> FragmentReuseIndexDetails:
    """The details of a fragment-reuse entry; the content may be in a file, see `ReuseIndexFiles.read`."""
    details = FragmentReuseIndexDetails()
    _unpack(index, details, FRAGMENT_REUSE_URL)
    if details.WhichOneof("content") is None:
        raise _broken(index, "has neither inline nor external content")
    return details


def content_file(index: IndexMetadata) -> str | None:
    """The file in the folder of a fragment-reuse entry that has its content, if that is not inline.

    It is not among the entry's files, of which it has none. What is wrong with an entry is said when it is read.
    """
    if index.name == FRAGMENT_REUSE:
        with suppress(Corrupt):
            details = reuse_details(index)
            return details.external.path if details.WhichOneof("content") == "external" else None
    return None


def mem_wal_details(index: IndexMetadata) -> MemWalIndexDetails:
    """The details of a MemWAL entry."""
    details = MemWalIndexDetails()
    _unpack(index, details, MEM_WAL_URL)
    return details


def merge_reuse(one: ReuseContent, other: ReuseContent) -> ReuseContent:
    """The rewrites of both, oldest first; what both know is there once.

    Two rewrites of different fragments may be built on the same version: they become groups of one entry.
    """
    if one.transitions or other.transitions:
        raise InvalidInput(
            "the fragment-reuse index has tagged maps, which cannot be merged",
            remedy="Wait until the indices have caught up with the rewritten fragments, then try again.",
        )
    groups: dict[int, list[FragmentReuseIndexDetails.Group]] = {}
    for version in (*one.versions, *other.versions):
        known = groups.setdefault(version.dataset_version, [])
        known += [group for group in version.groups if group not in known]
    return ReuseContent(
        versions=[
            FragmentReuseIndexDetails.Version(dataset_version=version, groups=groups[version])
            for version in sorted(groups)
        ]
    )


def merge_mem_wal(ours: MemWalIndexDetails, theirs: MemWalIndexDetails) -> MemWalIndexDetails:
    """Our settings, with the newest generation of each shard that either side has merged or indexed."""
    merged = mark_merged(ours, theirs.compacted_sstables)
    progress = {entry.index_name: entry for entry in merged.index_catchup}
    for entry in theirs.index_catchup:
        if entry.index_name in progress:
            newest = _newest(progress[entry.index_name].caught_up_generations, entry.caught_up_generations)
            del progress[entry.index_name].caught_up_generations[:]
            progress[entry.index_name].caught_up_generations.extend(newest)
        else:
            merged.index_catchup.append(entry)
    return merged


def mark_merged(details: MemWalIndexDetails, generations: Iterable[MergedGeneration]) -> MemWalIndexDetails:
    """The details with these generations recorded as merged; a shard's generation never falls."""
    marked = MemWalIndexDetails()
    marked.CopyFrom(details)
    newest = _newest(details.compacted_sstables, generations)
    del marked.compacted_sstables[:]
    marked.compacted_sstables.extend(newest)
    return marked


def mem_wal_index(details: MemWalIndexDetails, *, uuid: UUID, dataset_version: int, created_at: int) -> IndexMetadata:
    """The entry for such details; a new uuid each time, `created_at` in milliseconds."""
    return IndexMetadata(
        uuid=pb.UUID(uuid=uuid.bytes),
        name=MEM_WAL,
        dataset_version=dataset_version,
        index_details=Any(type_url=MEM_WAL_URL, value=details.SerializeToString()),
        index_version=0,
        created_at=created_at,
    )


class ReuseIndexFiles:
    """Reads and writes the content of fragment-reuse indices, inline or in its file under `_indices/`.

    `bases` maps the ids of the manifest's base paths to their stores.
    """

    def __init__(self, store: Store, runtime: Runtime = SYSTEM, *, bases: Mapping[int, Store] | None = None) -> None:
        self._store = store
        self._runtime = runtime
        self._bases = bases or {}

    def read(self, index: IndexMetadata) -> ReuseContent:
        """The content of the entry, wherever it is."""
        details = reuse_details(index)
        if details.WhichOneof("content") == "inline":
            return details.inline
        file = details.external
        path = f"_indices/{_uuid(index)}/{file.path}"
        if not paths.valid(path):
            raise _broken(index, f"names a file outside the table, {path!r}")
        if file.offset + file.size > _LARGEST_FILE:
            raise _broken(
                index, f"says that {path} has {file.size} bytes from {file.offset} on, more than a file can have"
            )
        data = self._base(index, path).get_range(path, file.offset, file.size)
        if len(data) != file.size:
            raise _broken(index, f"says that {path} has {file.size} bytes from {file.offset} on; there are {len(data)}")
        try:
            return ReuseContent.FromString(data)
        except DecodeError as error:
            raise _broken(index, f"has a file that cannot be decoded, {path}: {error}") from error

    def write(self, content: ReuseContent, *, uuid: UUID, dataset_version: int, created_at: int) -> IndexMetadata:
        """The entry for this content. If it is large, its file is on disk when this returns."""
        encoded = content.SerializeToString()
        if len(encoded) <= _LARGEST_INLINE:
            details = FragmentReuseIndexDetails(inline=content)
        else:
            put_new(self._store, f"_indices/{uuid}/{_EXTERNAL_NAME}", encoded, self._runtime)
            details = FragmentReuseIndexDetails()
            details.external.path, details.external.size = _EXTERNAL_NAME, len(encoded)
        return IndexMetadata(
            uuid=pb.UUID(uuid=uuid.bytes),
            name=FRAGMENT_REUSE,
            dataset_version=dataset_version,
            fragment_bitmap=roaring.encode(_new_fragments(content)),
            index_details=Any(type_url=FRAGMENT_REUSE_URL, value=details.SerializeToString()),
            index_version=0,
            created_at=created_at,
        )

    def _base(self, index: IndexMetadata, path: str) -> Store:
        if not index.HasField("base_id"):
            return self._store
        try:
            return self._bases[index.base_id]
        except KeyError:
            raise NotFound(
                f"{path} lies under base path {index.base_id}, which is not among {sorted(self._bases)}",
                remedy="The manifest does not list it: restore that from a copy, or open an older version.",
                path=path,
                base_id=index.base_id,
            ) from None


def _new_fragments(content: ReuseContent) -> BitMap:
    return BitMap(new.id for version in content.versions for group in version.groups for new in group.new_fragments)


def _newest(known: Iterable[MergedGeneration], more: Iterable[MergedGeneration]) -> list[MergedGeneration]:
    newest: dict[bytes, int] = {}
    for entry in (*known, *more):
        shard = entry.shard.uuid
        newest[shard] = max(entry.generation, newest.get(shard, 0))
    return [MergedGeneration(shard=pb.UUID(uuid=shard), generation=generation) for shard, generation in newest.items()]


def _unpack(index: IndexMetadata, details: Message, url: str) -> None:
    if index.index_details.type_url != url:
        raise _broken(index, f"has details of the type {index.index_details.type_url!r}, expected {url!r}")
    try:
        details.ParseFromString(index.index_details.value)
    except DecodeError as error:
        raise _broken(index, f"has details that cannot be decoded: {error}") from error


def _uuid(index: IndexMetadata) -> UUID:
    if len(index.uuid.uuid) != 16:
        raise _broken(index, f"has an id of {len(index.uuid.uuid)} bytes, expected 16")
    return UUID(bytes=index.uuid.uuid)


def _broken(index: IndexMetadata, problem: str) -> Corrupt:
    return Corrupt(
        f"the index {index.name!r} {problem}",
        remedy="The index section is damaged. Drop the index, or open an older version.",
        index=index.name,
    )
