"""Files beside data files: large values of blob columns, which no manifest names."""

from collections.abc import Iterable, Iterator
from typing import Final

from seiche.store.base import ObjectInfo, Store
from seiche.table.format.fields import has_blobs
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.reachable import side_folder

__all__ = ["data_files", "large_bytes", "large_files", "side_file", "with_blobs"]

_DATA: Final = "data/"


def data_files(fragments: Iterable[DataFragment]) -> Iterator[str]:
    """The data files of fragments that lie in the table's own directory."""
    for fragment in fragments:
        for one in fragment.files:
            if not one.HasField("base_id"):
                yield _DATA + one.path


def large_files(store: Store, fragments: Iterable[DataFragment], fields: Iterable[Field]) -> Iterator[ObjectInfo]:
    """What lies beside the data files of fragments of a table with these fields."""
    if has_blobs(fields):
        for path in data_files(fragments):
            yield from store.list(side_folder(path))


def large_bytes(store: Store, fragments: Iterable[DataFragment], fields: Iterable[Field]) -> int:
    """How many bytes that is."""
    return sum(info.size for info in large_files(store, fragments, fields))


def side_file(path: str, number: int) -> str:
    """Where large values of the data file at `path` lie: the file that their descriptions there call `number`."""
    # The digits backwards, so that files of one writer are spread over the partitions of a store.
    digits = f"{number:032b}"[::-1]
    return f"{side_folder(path)}/{digits}.blob"


def with_blobs(store: Store, paths: Iterable[str], fields: Iterable[Field]) -> Iterator[str]:
    """The files at `paths`, of a table with these fields, and with each data file the large values beside it.

    Only storage knows these, so each directory is listed; not if there is no column that could have any.
    """
    listed = has_blobs(fields)
    for path in paths:
        yield path
        if listed and path.startswith(_DATA):
            yield from (info.path for info in store.list(side_folder(path)))
