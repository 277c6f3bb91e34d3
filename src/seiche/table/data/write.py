"""Writing rows natively into data files that belong to no version yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from lance.fragment import write_fragments

from seiche.errors import InvalidInput, Unavailable
from seiche.store.base import Store
from seiche.table.data.fragments import fragment_from_lance
from seiche.table.data.native import open_staged
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header

__all__ = ["UNLIMITED", "Limits", "Written", "subset", "write_rows"]

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
            if value is not None and value < 1:
                raise InvalidInput(f"{name} must be a positive number, not {value!r}")
        return cls(rows or _USUAL_ROWS, size or _USUAL_BYTES)


# All rows of a fragment in one file.
UNLIMITED = Limits((1 << 32) - 1, 1 << 62)


@dataclass(frozen=True, slots=True)
class Written:
    """Fragments with new data files; their ids are given when a manifest is built."""

    fragments: tuple[DataFragment, ...] = ()

    @property
    def rows(self) -> int:
        return sum(fragment.physical_rows for fragment in self.fragments)

    @property
    def files(self) -> int:
        return sum(len(fragment.files) for fragment in self.fragments)

    @property
    def bytes(self) -> int:
        return sum(file.file_size_bytes for fragment in self.fragments for file in fragment.files)


def write_rows(
    store: Store,
    header: Header,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    limits: Limits,
) -> Written:
    """Write rows as they come into as many data files as need be; durable when this returns, and seen by nobody.

    `header` says under which field ids and in which version of the format. An error that `batches` raises comes out as
    it is; if it comes with the first batch, nothing has been written.
    """
    first = next(batches, None)
    if first is None:
        return Written()
    rows = _Watched(chain([first], batches))
    # The native writer wants a dataset. One without fragments does, and costs the same however many the table has.
    target = open_staged(store, Manifest(header, Fragments()))
    reader = pa.RecordBatchReader.from_batches(schema, iter(rows))
    try:
        made = write_fragments(
            reader, target, mode="append", max_rows_per_file=limits.rows, max_bytes_per_file=limits.size
        )
    except Exception as error:
        if rows.failure is not None:
            raise rows.failure from None
        raise Unavailable(f"{store.uri}: data files could not be written: {error}", table=store.uri) from error
    written = Written(tuple(map(fragment_from_lance, made)))
    store.flush(f"data/{file.path}" for fragment in written.fragments for file in fragment.files)
    return written


def subset(header: Header, columns: Sequence[str]) -> Header:
    """A header that knows these columns only, under the ids that they have."""
    made = Header()
    made.CopyFrom(header)
    del made.fields[:]
    made.fields.extend(fields_of(header, columns))
    return made


def fields_of(header: Header, columns: Sequence[str]) -> list[Field]:
    """The fields of these columns and all that is inside them, in the order of the schema."""
    kept: set[int] = set()
    found = []
    for field in header.fields:  # parents come before what is inside them
        if field.parent_id in kept or (field.parent_id == -1 and field.name in columns):
            kept.add(field.id)
            found.append(field)
    return found


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
