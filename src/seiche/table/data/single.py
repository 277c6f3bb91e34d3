"""The quick way to write a few rows: one data file, encoded natively in memory and written by the store.

The native writer for whole datasets opens one first and prepares for any number of files; for ten rows that costs three
times as much as the file itself. And its way to a local disk leads through other threads and a temporary file, which
takes seven times as long as to encode the rows.
"""

from threading import local

import pyarrow as pa
from lance.file import LanceFileSession

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.table.format.manifest_pb2 import DataFile, DataFragment
from seiche.table.format.manifest_pb2 import Manifest as Header

__all__ = ["fits", "write_single"]

_MOST_BYTES = 1 << 20
_MAJOR, _MINOR = 2, 2
_VERSION = f"{_MAJOR}.{_MINOR}"
_NOT_PLAIN = frozenset({pa.null().id, pa.dictionary(pa.int8(), pa.string()).id})


def fits(store: Store, header: Header, schema: pa.Schema, batch: pa.RecordBatch) -> bool:
    """Whether the batch is small, and its columns are of the plain kind: one column in the file for each field."""
    return (
        store.lists_in_one_request
        and header.data_format.version == _VERSION
        and batch.num_rows > 0
        and batch.nbytes <= _MOST_BYTES
        and all(_plain(field) for field in schema)
    )


def write_single(store: Store, field_ids: list[int], batch: pa.RecordBatch, runtime: Runtime) -> DataFragment:
    """Write the rows into one new file; the fragment names it under the table's field ids."""
    data = _encoded(batch)
    name = f"{runtime.uuid().hex}.lance"
    # Whoever names the file flushes it first: several are then waited for at once.
    store.put_if_absent(f"data/{name}", data, durable=False)
    file = DataFile(
        path=name,
        fields=field_ids,
        column_indices=range(len(field_ids)),
        file_major_version=_MAJOR,
        file_minor_version=_MINOR,
        file_size_bytes=len(data),
    )
    return DataFragment(files=[file], physical_rows=batch.num_rows)


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


def _encoded(batch: pa.RecordBatch) -> bytes:
    """The bytes of a data file."""
    session = _desk.session
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
