"""Files with further columns for fragments that stay as they are, written once however often they are asked for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from seiche.core.threads import done_by_threads
from seiche.errors import Corrupt, InvalidInput
from seiche.table.data.advice import NO_ROW_COUNT, OTHER_ROWS_READ
from seiche.table.data.columns.files import patched
from seiche.table.data.removal import came_back
from seiche.table.data.write import UNLIMITED, write_rows
from seiche.table.format.flags import FIRST_FORMAT
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.snapshot import Snapshot

__all__ = ["NewFiles", "Part", "Values", "require_columns_apart", "values_key"]

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
        self._made: dict[tuple[int, bytes], _Made] = {}
        self._columns: list[tuple[int, int, str, str, bool]] | None = None

    def depend_on(self, columns: Iterable[Field]) -> None:
        """Forget what was written when these columns of the table, or what they are called, were others.

        Others may have given a name that the values are computed from to another column, or decided that a column which
        the values are for must not be null.
        """
        known = [(one.id, one.parent_id, one.name, one.logical_type, one.nullable) for one in columns]
        if self._columns not in (None, known):
            self._made.clear()
        self._columns = known

    def knows(self, snapshot: Snapshot, fragment: DataFragment, key: bytes) -> bool:
        """Whether the files for a fragment are there already; `key` stands for what their values depend on."""
        made = self._made.get((fragment.id, key))
        return made is not None and made.has_all_of(snapshot, fragment)

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
            if not self.knows(snapshot, fragment, key(fragment)):
                files = _write(snapshot, header, fragment, schema, values(fragment))
                self._made[fragment.id, key(fragment)] = _Made(fields[0].id, files, snapshot, fragment)

        if parallel and len(fragments) > 1:
            done_by_threads(_PARALLEL, "seiche-columns", write, fragments)
        else:
            for fragment in fragments:
                write(fragment)
        return {one.id: self._under(one, key(one), fields[0].id) for one in fragments}

    def _under(self, fragment: DataFragment, key: bytes, first_id: int) -> tuple[DataFile, ...]:
        """The files with their field ids counted from another one: readers go by what the manifest says."""
        made = self._made[fragment.id, key]
        if made.first_id == first_id:
            return made.files
        copies = []
        for file in made.files:
            copy = DataFile()
            copy.CopyFrom(file)
            copy.fields[:] = [one - made.first_id + first_id for one in file.fields]
            copies.append(copy)
        return tuple(copies)


@dataclass(frozen=True, slots=True)
class _Made:
    """Files for a fragment as it was in a version, and the id that their fields are counted from."""

    first_id: int
    files: tuple[DataFile, ...]
    snapshot: Snapshot
    fragment: DataFragment

    def has_all_of(self, snapshot: Snapshot, now: DataFragment) -> bool:
        """Whether each row that the fragment has now has a value in them."""
        return not came_back(self.fragment, self.snapshot, now, snapshot)


def values_key(fragment: DataFragment) -> bytes:
    """The key for values that are computed from those of a fragment: with other data files they are others."""
    return b"".join(file.SerializeToString(deterministic=True) for file in fragment.files)


def require_columns_apart(header: Header) -> None:
    """`InvalidInput` for a table whose data files are of the first generation: all columns are in one file there."""
    if header.data_format.version in FIRST_FORMAT:
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
