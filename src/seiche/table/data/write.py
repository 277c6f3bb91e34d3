"""Writing rows natively into data files that belong to no version yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import lance  # before its parts, which do not wait until another thread has imported all of it
import pyarrow as pa
from lance.fragment import write_fragments

from seiche.core.given import number
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.store.base import Store
from seiche.table.blob_files import data_files, large_files
from seiche.table.data.first_format import whole_rows
from seiche.table.data.fragments import fragment_from_lance
from seiche.table.data.native import open_staged
from seiche.table.data.native_errors import (
    CHECK_ACCESS,
    FREE_SPACE,
    Panic,
    is_forbidden,
    is_full,
    is_no_value,
    is_refusal,
    is_unsupported,
    native_message,
    without_panics,
)
from seiche.table.data.single import encoded, write_single
from seiche.table.format.flags import FIRST_FORMAT, require_writable
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.format.schema import to_arrow

__all__ = ["UNLIMITED", "Limits", "Written", "fields_of", "write_rows"]

_LISTS = (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)
_USUAL_ROWS = 1 << 20
_USUAL_BYTES = 90 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """When a new data file is begun. The number of rows is exact, that of bytes is looked at now and then."""

    rows: int
    size: int

    @classmethod
    def of(cls, rows: int | None = None, size: int | None = None) -> "Limits":
        """The limits that a caller asked for, and the usual ones where nothing was said."""
        for name, value in (("max_rows_per_file", rows), ("max_bytes_per_file", size)):
            remedy = f"Leave it out for the usual size of files, or give one, as in `{name}=1_000_000`."
            if value is not None and number(value, name, remedy) < 1:
                raise InvalidInput(f"{name} must be a whole number from 1 on, not {value!r}", remedy=remedy)
        return cls(rows or _USUAL_ROWS, size or _USUAL_BYTES)


# All rows of a fragment in one file.
UNLIMITED = Limits((1 << 32) - 1, 1 << 62)


@dataclass(frozen=True, slots=True)
class Written:
    """Fragments with new data files; their ids are given when a manifest is built."""

    fragments: tuple[DataFragment, ...] = ()
    # The sizes of the files beside them, with large values of blob columns, which no fragment names.
    large: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        return sum(fragment.physical_rows for fragment in self.fragments)

    @property
    def files(self) -> int:
        return sum(len(fragment.files) for fragment in self.fragments) + len(self.large)

    @property
    def bytes(self) -> int:
        named = sum(file.file_size_bytes for fragment in self.fragments for file in fragment.files)
        return named + sum(self.large)


def write_rows(
    store: Store,
    header: Header,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    limits: Limits,
    runtime: Runtime = SYSTEM,
) -> Written:
    """Write rows as they come into as many data files as need be; durable when this returns, and seen by nobody.

    `header` says under which field ids and in which version of the format. An error that `batches` raises comes out as
    it is; if it comes with the first batch, nothing has been written.
    """
    batches = map(_from_the_start, batches)
    if header.data_format.version in FIRST_FORMAT:
        require_writable(header, managed=True)
        schema, batches = whole_rows(to_arrow(header.fields), schema, batches)
    first = next(batches, None)
    if first is None:
        return Written()
    ids = [field.id for field in fields_of(header, schema.names)]
    second = next(batches, None)
    whole = second is None and first.num_rows <= limits.rows
    directly = _written_directly(store, header, ids, first, runtime) if whole else None
    if directly is not None:
        written = Written((directly,))
    else:
        rows = _Watched(chain([first], () if second is None else [second], batches))
        written = _written_natively(store, header, schema, rows, limits, ids)
    beside = list(large_files(store, written.fragments, header.fields))
    store.flush([*data_files(written.fragments), *(info.path for info in beside)])
    return replace(written, large=tuple(info.size for info in beside))


def _written_directly(
    store: Store, header: Header, ids: list[int], batch: pa.RecordBatch, runtime: Runtime
) -> DataFragment | None:
    try:
        data = encoded(header.data_format.version, batch)
        return None if data is None else write_single(store, ids, data, batch.num_rows, runtime)
    except (OSError, ValueError) as error:
        raise _unwritten(store, error) from error


def _written_natively(
    store: Store, header: Header, schema: pa.Schema, rows: "_Watched", limits: Limits, ids: Sequence[int]
) -> Written:
    reader = pa.RecordBatchReader.from_batches(schema, iter(rows))
    version = header.data_format.version
    first = version in FIRST_FORMAT
    # Files of the first format say themselves which fields they have: there the table's ids are needed at once.
    fields = fields_of(header, schema.names) if first else ()
    try:
        with without_panics():
            made = write_fragments(
                reader,
                _nothing(store, header, fields),
                mode="append" if first else "overwrite",
                data_storage_version="legacy" if first else version,
                max_rows_per_file=limits.rows,
                max_bytes_per_file=limits.size,
            )
    except Exception as error:
        if rows.failure is not None:
            raise rows.failure from None
        raise _unwritten(store, error) from error
    fragments = map(fragment_from_lance, made)
    return Written(tuple(fragments if first else (_renumbered(one, ids) for one in fragments)))


def _unwritten(store: Store, error: Exception) -> SeicheError:
    message = f"{store.uri}: data files could not be written: {native_message(error)}"
    if isinstance(error, Panic) or is_refusal(error) or is_unsupported(error) or is_no_value(error):
        return InvalidInput(message, remedy="Check the rows; nothing of them was written.", table=store.uri)
    if is_forbidden(error):
        return PermissionDenied(message, remedy=CHECK_ACCESS, table=store.uri)
    return Unavailable(message, remedy=FREE_SPACE if is_full(error) else "", table=store.uri)


def _nothing(store: Store, header: Header, fields: Sequence[Field]) -> "lance.LanceDataset":
    """A dataset at the place of the table, with these columns and nothing in it.

    The native writer wants one. Given the version that is being changed it would cost as much as that has fragments, be
    refused for what only concerns commits, and not open at all where a column has dictionaries and the version is not
    published.
    """
    # Of its bases, below which values of blobs may be that are given by an address.
    bases = header.base_paths
    empty = Header(version=header.version, data_format=header.data_format, base_paths=bases, fields=fields)
    return open_staged(store, Manifest(empty, Fragments()))


def _renumbered(fragment: DataFragment, ids: Sequence[int]) -> DataFragment:
    """The fragment under the table's field ids: written for a table of its own, its fields are numbered from 0 on."""
    for file in fragment.files:
        file.fields[:] = [ids[one] for one in file.fields]
    return fragment


def fields_of(header: Header, columns: Sequence[str]) -> list[Field]:
    """The fields of these columns and all that is inside them, depth first, in the order in which they are given."""
    below: dict[int, list[Field]] = {}
    for field in header.fields:
        below.setdefault(field.parent_id, []).append(field)
    tops = {field.name: field for field in below.get(-1, [])}
    found: list[Field] = []
    waiting = [tops[name] for name in reversed(columns)]
    while waiting:
        field = waiting.pop()
        found.append(field)
        waiting.extend(reversed(below.get(field.id, [])))
    return found


def _from_the_start(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, in memory where native code finds them.

    Of a struct inside a struct that is a slice of a longer one it looks for rows behind the end, and panics.
    """
    if not any(map(_is_late, batch.columns)):
        return batch
    every = pa.array(range(batch.num_rows), pa.int64())
    columns = [column.take(every) if _is_late(column) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_late(column: pa.Array) -> bool:
    if isinstance(column, pa.ExtensionArray):
        return _is_late(column.storage)
    if isinstance(column, pa.StructArray):
        inside = [column.field(at) for at in range(column.type.num_fields)]
        late = column.offset > 0 and any(map(_has_struct, column.type))
        return bool(late or any(map(_is_late, inside)))
    return isinstance(column, _LISTS) and _is_late(column.values)


def _has_struct(field: pa.Field) -> bool:
    return bool(pa.types.is_struct(field.type))


class _Watched:
    """An iterator that remembers the error it ended with: on its way through native code an error loses its type."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except Exception as error:
            self.failure = error
            raise
