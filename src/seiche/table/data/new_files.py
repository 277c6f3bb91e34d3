"""Files with further columns for fragments that stay as they are, written once however often they are asked for."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from seiche.errors import Corrupt, InvalidInput
from seiche.table.data.advice import NO_ROW_COUNT, OTHER_ROWS_READ
from seiche.table.data.column_files import patched
from seiche.table.data.write import UNLIMITED, write_rows
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.snapshot import Snapshot

__all__ = ["NewFiles", "Part", "Values", "require_columns_apart"]

# Offsets in a fragment, ascending, and the values of the columns there.
Part: TypeAlias = tuple["np.ndarray[tuple[int], np.dtype[np.uint32]]", Sequence[pa.Array]]
# The values of the columns in a fragment: of all rows that are not deleted, in their order.
Values: TypeAlias = Callable[[DataFragment], Iterator[Part]]

# Fragments that are worked on at the same time, each with one batch of rows in memory.
_PARALLEL = 4


class NewFiles:
    """Column files by fragment. What has been written for a fragment is given again, under other field ids if need be.

    So after a conflict only the fragments that changed, or came, cost anything.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, bytes], tuple[int, tuple[DataFile, ...]]] = {}

    def knows(self, fragment: DataFragment, key: bytes) -> bool:
        """Whether the files for a fragment are there already; `key` stands for what their values depend on."""
        return (fragment.id, key) in self._made

    def write(
        self,
        snapshot: Snapshot,
        fragments: Sequence[DataFragment],
        fields: Sequence[Field],
        schema: pa.Schema,
        values: Values,
        key: Callable[[DataFragment], bytes],
        *,
        parallel: bool,
    ) -> dict[int, tuple[DataFile, ...]]:
        """The files of the fragments, with the columns of `schema` under the ids of `fields`.

        Fragments are worked on in their order, or several at a time if `parallel`.
        """
        header = Header(version=snapshot.version, data_format=snapshot.manifest.header.data_format, fields=fields)

        def write(fragment: DataFragment) -> None:
            if not self.knows(fragment, key(fragment)):
                files = _write(snapshot, header, fragment, schema, values(fragment))
                self._made[fragment.id, key(fragment)] = fields[0].id, files

        if parallel and len(fragments) > 1:
            with ThreadPoolExecutor(min(_PARALLEL, len(fragments)), "seiche-columns") as pool:
                list(pool.map(write, fragments))
        else:
            for fragment in fragments:
                write(fragment)
        return {one.id: self._under(one, key(one), fields[0].id) for one in fragments}

    def _under(self, fragment: DataFragment, key: bytes, first_id: int) -> tuple[DataFile, ...]:
        """The files with their field ids counted from another one: readers go by what the manifest says."""
        written_for, files = self._made[fragment.id, key]
        if written_for == first_id:
            return files
        made = []
        for file in files:
            copy = DataFile()
            copy.CopyFrom(file)
            copy.fields[:] = [one - written_for + first_id for one in file.fields]
            made.append(copy)
        return tuple(made)


def require_columns_apart(header: Header) -> None:
    """`InvalidInput` for a table whose data files are of the first generation: all columns are in one file there."""
    if header.data_format.version in ("", "0.1"):
        raise InvalidInput(
            "columns cannot be written one by one in files of the first format version",
            remedy="Write the table anew with a current format version.",
        )


def _write(
    snapshot: Snapshot, header: Header, fragment: DataFragment, schema: pa.Schema, parts: Iterator[Part]
) -> tuple[DataFile, ...]:
    if not fragment.physical_rows:
        raise Corrupt(
            f"fragment {fragment.id} does not say how many rows it has",
            remedy=NO_ROW_COUNT,
            fragments=[fragment.id],
        )
    rows = _batches(fragment.physical_rows, schema, parts)
    written = write_rows(snapshot.store, header, schema, rows, UNLIMITED, snapshot.runtime)
    if len(written.fragments) != 1 or written.rows != fragment.physical_rows:
        raise Corrupt(
            f"{written.rows} rows in {written.files} files were written for the {fragment.physical_rows} rows of"
            f" fragment {fragment.id}",
            remedy=OTHER_ROWS_READ,
            fragments=[fragment.id],
        )
    return tuple(written.fragments[0].files)


def _batches(rows: int, schema: pa.Schema, parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
    """All rows of a fragment; where a row is deleted, any value stands."""
    first = next(parts, None)
    if first is None:
        yield pa.RecordBatch.from_arrays([pa.nulls(rows, one.type) for one in schema], schema=schema)
        return
    for values in patched(rows, chain((first,), parts), iter(())):
        yield pa.RecordBatch.from_arrays(list(values), schema=schema)
