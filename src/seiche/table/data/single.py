"""The quick way to write a few rows: one data file, encoded in memory and written by the store.

The native writer for whole datasets opens one first and prepares for any number of files; for ten rows that costs three
times as much as the file itself. And its way to a local disk leads through other threads and a temporary file, which
takes seven times as long as to encode the rows. A store far away is asked once, for many such files at the same time.
"""

from dataclasses import dataclass
from threading import local
from typing import Final

import lance  # noqa: F401 - waits until another thread has imported all of it, which its parts do not
import pyarrow as pa
from lance.file import LanceFileSession

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.table.data import small_file
from seiche.table.data.native_errors import without_panics
from seiche.table.data.small_file import Kinds
from seiche.table.format.manifest_pb2 import DataFile, DataFragment
from seiche.table.format.side_files import put_new

__all__ = ["encoded", "write_single"]

_MOST_BYTES = 1 << 20
_MAJOR, _MINOR = 2, 2
_VERSION = f"{_MAJOR}.{_MINOR}"
_NOT_PLAIN = frozenset({pa.null().id, pa.dictionary(pa.int8(), pa.string()).id})
_MOST_LAYOUTS: Final = 256


def encoded(version: str, batch: pa.RecordBatch) -> bytes | None:
    """The bytes of a data file with these rows.

    `None` if there are none or too many of them, if files are of another `version`, or if a column is not of the plain
    kind: one column in the file for each field.
    """
    layout = _layout(batch.schema) if version == _VERSION and batch.num_rows else None
    if layout is None:
        return None
    if layout.kinds is not None and layout.described:
        data = small_file.encode(batch.columns, layout.kinds, layout.described, (_MAJOR, _MINOR))
        if data is not None:
            return data
    if batch.nbytes > _MOST_BYTES:
        return None
    data = _natively(batch)
    layout.described = layout.described or small_file.described(data, batch.num_rows)
    return data


def write_single(store: Store, field_ids: list[int], data: bytes, rows: int, runtime: Runtime) -> DataFragment:
    """Write encoded rows into one new file; the fragment names it under the table's field ids."""
    name = f"{runtime.uuid().hex}.lance"
    # Whoever names the file flushes it first: several are then waited for at once.
    put_new(store, f"data/{name}", data, runtime, durable=False)
    file = DataFile(
        path=name,
        fields=field_ids,
        column_indices=range(len(field_ids)),
        file_major_version=_MAJOR,
        file_minor_version=_MINOR,
        file_size_bytes=len(data),
    )
    return DataFragment(files=[file], physical_rows=rows)


@dataclass(slots=True)
class _Layout:
    """What is the same for all rows of a schema."""

    schema: pa.Schema
    kinds: Kinds | None
    # What a file says about its columns, as native code wrote it for the first rows.
    described: bytes = b""


_layouts: Final[dict[pa.Schema, _Layout]] = {}


def _layout(schema: pa.Schema) -> _Layout | None:
    """`None` if a column is not of the plain kind."""
    try:
        found = _layouts.get(schema)
    except TypeError:  # some types of extensions cannot be part of a key
        return None
    # As keys, schemas are equal that differ in their metadata.
    if found is not None and found.schema.equals(schema, check_metadata=True):
        return found
    if not all(map(_plain, schema)):
        return None
    if len(_layouts) >= _MOST_LAYOUTS:
        _layouts.clear()
    made = _layouts[schema] = _Layout(schema, small_file.kinds_of(schema))
    return made


class _Desk(local):
    """A session for each thread, with a memory of its own that holds one file at a time: the next one replaces it."""

    # Made when it is first used: what is forked after that (Spark's workers, from a process that has loaded this) would
    # have a session without the threads that serve it, and crash.
    made: LanceFileSession | None = None

    @property
    def session(self) -> LanceFileSession:
        if self.made is None:
            self.made = LanceFileSession("memory://")
        return self.made


_desk = _Desk()


def _natively(batch: pa.RecordBatch) -> bytes:
    session = _desk.session
    with without_panics():
        writer = session.open_writer("file", version=_VERSION)
        writer.write_batch(batch)
        writer.close()
        return session.read_range("file", 0, writer.size_bytes or 0)


def _plain(field: pa.Field) -> bool:
    kind = field.type
    if field.metadata or kind.id in _NOT_PLAIN or isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_fixed_size_list(kind):
        return bool(pa.types.is_floating(kind.value_type)) and not kind.value_field.metadata
    return not kind.num_fields
