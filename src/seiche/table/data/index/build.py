"""Building index segments natively, by one or by many, without committing them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import lance  # before its parts, which do not wait until another thread has imported all of it
from lance.dataset import Index, IndexFile
from lance.indices import IndexConfig
from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput
from seiche.store.base import Store
from seiche.table.data.native_errors import from_storage, native_message, trouble, without_panics
from seiche.table.data.portion import Portion
from seiche.table.data.shadow import shadow
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format import roaring
from seiche.table.format.manifest_pb2 import IndexMetadata

__all__ = ["NEEDING_ALL", "SCALAR", "VECTOR", "IndexTask", "Segment", "build_segment", "configured", "joined"]

SCALAR = ("BTREE", "BITMAP", "LABEL_LIST", "INVERTED", "NGRAM", "ZONEMAP", "BLOOMFILTER", "RTREE", "MINHASHLSH")
VECTOR = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
# Segments of these cannot be read before they have been put together, even if there is only one: then their files get
# other names.
_PARTIAL = ("INVERTED",)

# Segments of these are put together natively only if all fragments that they were built over are still there.
NEEDING_ALL = ("NGRAM",)

# What pylance takes only inside of a configuration; where it is given as other options are, it is passed over.
_CONFIGURED = {
    "BTREE": ("zone_size",),
    "ZONEMAP": ("rows_per_zone",),
    "BLOOMFILTER": ("number_of_items", "probability"),
}

_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A segment to be built: of which fragments, on which column, of which kind. Can be pickled."""

    portion: Portion
    column: str
    index_type: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{self.index_type} index {self.name!r} on {self.column!r}, {self.portion!r}>"


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment whose files are on disk, and which belongs to no version yet. Can be pickled."""

    portion: Portion
    index_type: str
    encoded: bytes

    @property
    def index(self) -> IndexMetadata:
        return IndexMetadata.FromString(self.encoded)

    def __repr__(self) -> str:
        return f"<segment {UUID(bytes=self.index.uuid.uuid)} of index {self.index.name!r}, {self.portion!r}>"


def build_segment(task: IndexTask, store: Store, runtime: Runtime) -> Segment:
    """Build the segment; its files are seen by nobody. They are durable when this returns, or else when it is `joined`.

    A column that does not exist, or has values that this kind of index is not for, is `InvalidInput`.
    """
    if task.index_type == "BITMAP" and not task.portion.ids:
        return _empty_bitmap(task, store, runtime)
    dataset: Any = task.portion.snapshot(store, runtime).dataset
    kind, options = configured(task.index_type, task.options)
    made = _asked(
        store,
        f"index {task.name!r} of type {task.index_type} on column {task.column!r}",
        lambda: dataset.create_index_uncommitted(
            task.column, kind, name=task.name, fragment_ids=list(task.portion.ids), **options
        ),
    )
    index = _to_message(made)
    if task.portion.ids and not index.files:
        # An entry that claims to cover rows and has nothing to look them up in: every search would fail.
        raise InvalidInput(
            f"index {task.name!r} of type {task.index_type} cannot be built over {task.portion.rows} rows: they are too"
            " few to learn from",
            remedy="Use another kind of index, or build it over more rows at once.",
        )
    if task.index_type not in _PARTIAL:
        _flush(store, index)
    return Segment(task.portion, task.index_type, index.SerializeToString())


def configured(index_type: str, options: Mapping[str, Any]) -> tuple[str | IndexConfig, dict[str, Any]]:
    """The kind of a scalar index with its configuration, as pylance takes them, and the options that are left."""
    inside = {name: options[name] for name in _CONFIGURED.get(index_type, ()) if name in options}
    kind = IndexConfig(index_type.lower(), inside) if inside else index_type
    return kind, {name: value for name, value in options.items() if name not in inside}


def joined(segments: Sequence[Segment], dataset: "lance.LanceDataset", store: Store) -> list[IndexMetadata]:
    """Entries for the segments: one for all of them where their kind allows that, else one for each.

    Segments of a vector index have each learned their own partitions, and are searched one by one. Whoever commits the
    entries flushes their files, also those that were flushed when they were built: where a transaction of a lake
    flushes later, that may have been another one, which was never committed.
    """
    entries = [segment.index for segment in segments]
    if all(segment.index_type in VECTOR for segment in segments) or (
        len(segments) == 1 and segments[0].index_type not in _PARTIAL
    ):
        for entry in entries:
            _flush(store, entry)
        return entries
    native = [_to_native(entry) for entry in entries]
    what = f"the segments of index {entries[0].name!r}"
    made = _to_message(_asked(store, what, lambda: dataset.merge_existing_index_segments(native)))
    _flush(store, made)
    return [made]


def _empty_bitmap(task: IndexTask, store: Store, runtime: Runtime) -> Segment:
    """The index of a table without rows. Of all kinds this one cannot be built natively without being committed."""
    with shadow(task.portion.snapshot(store, runtime)) as table:
        dataset: Any = table.dataset
        _asked(
            store,
            f"index {task.name!r} of type BITMAP on column {task.column!r}",
            lambda: dataset.create_scalar_index(task.column, "BITMAP", name=task.name, replace=True, **task.options),
        )
        made = next(one for one in table.newest()[0].indices if one.name == task.name)
        table.take_over([made])
    made.ClearField("base_id")
    return Segment(task.portion, task.index_type, made.SerializeToString())


def _asked(store: Store, what: str, do: Callable[[], _Done]) -> _Done:
    """Do it natively, and say whose fault it is if it cannot be done."""
    try:
        with without_panics():
            return do()
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if from_storage(error):
            raise trouble(f"{store.uri}: {what} could not be built", error, table=store.uri) from error
        raise InvalidInput(
            f"{what} cannot be built: {native_message(error)}",
            remedy="Check the column, the kind of index and its options.",
        ) from error
    except OSError as error:
        raise trouble(f"{store.uri}: {what} could not be built", error, table=store.uri) from error


def _flush(store: Store, index: IndexMetadata) -> None:
    place = f"_indices/{UUID(bytes=index.uuid.uuid)}"
    store.flush(f"{place}/{one.path}" for one in index.files)


def _to_message(index: Index) -> IndexMetadata:
    """The entry of a segment that native code built."""
    made = IndexMetadata(
        uuid=pb.UUID(uuid=UUID(index.uuid).bytes),
        fields=index.fields,
        name=index.name,
        dataset_version=index.dataset_version,
        fragment_bitmap=roaring.encode(BitMap(index.fragment_ids)),
        index_version=index.index_version,
        covering_fields=index.covering_fields,
        files=[pb.IndexFile(path=one.path, size_bytes=one.size_bytes) for one in index.files or ()],
    )
    if index.created_at is not None:
        made.created_at = int(index.created_at.timestamp() * 1000)
    if index.index_details is not None:
        made.index_details.type_url, made.index_details.value = index.index_details
    return made


def _to_native(index: IndexMetadata) -> Index:
    # It takes any set of numbers; only its annotations ask for a bitmap of its own.
    fragments: Any = set(roaring.decode(index.fragment_bitmap, what=f"the coverage of index {index.name}"))
    return Index(
        uuid=str(UUID(bytes=index.uuid.uuid)),
        name=index.name,
        fields=list(index.fields),
        dataset_version=index.dataset_version,
        fragment_ids=fragments,
        index_version=index.index_version,
        files=[IndexFile(one.path, one.size_bytes) for one in index.files],
        index_details=(index.index_details.type_url, index.index_details.value),
        covering_fields=list(index.covering_fields),
    )
