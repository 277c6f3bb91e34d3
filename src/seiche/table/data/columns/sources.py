"""Where the values of new columns come from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from seiche.core.given import names
from seiche.errors import IncompatibleConflict, InvalidInput
from seiche.table.data.columns.given_rows import GivenRows
from seiche.table.data.columns.new_files import Part, values_key
from seiche.table.data.fitting import left_out
from seiche.table.data.merge.matching import KeyIndex, key_values
from seiche.table.data.scanning import ADDRESS, BATCH_ROWS, batches, quoted, scanner, types_of
from seiche.table.data.source import Rows, Source
from seiche.table.data.values import check_kept, spelled
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

__all__ = ["ColumnSource", "Computed", "Expressions", "InOrder", "Joined", "column_source"]

Function = Callable[[pa.RecordBatch], Any]

# Values are computed from what is in blobs, not from where it lies.
_BLOBS = "all_binary"


class ColumnSource(Protocol):
    """Gives the columns, then their values fragment by fragment."""

    # Whether several fragments may be asked for at the same time.
    parallel: bool
    # Whether the values are made from columns of the table, by their names.
    reads_columns: bool

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """The new columns; `InvalidInput` if they cannot be had. Called once for each version that is tried."""
        ...

    def values(self, snapshot: Snapshot, fragment: DataFragment) -> Iterator[Part]:
        """The values in one fragment, in the order of its rows."""
        ...

    def key(self, fragment: DataFragment) -> bytes:
        """What the values in the fragment depend on: the same again means that they need not be asked for again."""
        ...


def column_source(
    given: Any, *, on: str | Sequence[str] | None, read_columns: Sequence[str] | None, schema: pa.Schema | None
) -> ColumnSource:
    """What a caller gives: SQL by column name, a function of batches, or rows."""
    if isinstance(given, Mapping) and given and all(isinstance(one, str) for one in given.values()):
        return Expressions(given)
    if callable(given):
        return Computed(given, read_columns, schema)
    if read_columns is not None or schema is not None:
        raise InvalidInput(
            "`read_columns` and `schema` are for a function that computes columns, and"
            f" {type(given).__name__} is given",
            remedy="Leave them out, or give a function of record batches: `add_columns(lambda batch: ...)`.",
        )
    if on is None:
        return InOrder(given)
    keys = names(on, "the key of a join", 'Give columns: on="id", or on=["day", "id"].')
    if not keys or len(set(keys)) < len(keys):
        raise InvalidInput(
            f"the key {keys!r} must be one or more different columns",
            remedy='Say on="id", for example, or leave `on` out for rows in the table\'s order.',
        )
    return Joined(given, keys)


class Expressions:
    """SQL over the columns that are there."""

    parallel = True
    reads_columns = True

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._expressions = dict(expressions)

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        for name, expression in self._expressions.items():
            if not expression.strip():
                raise InvalidInput(
                    f"the expression {expression!r} for column {name!r} is empty",
                    remedy="Give SQL over the columns of the table, such as 'price * 2', or a constant such as '0'.",
                    column=name,
                )
        return pa.schema(types_of(snapshot.dataset, self._expressions, blob_handling=_BLOBS))

    def values(self, snapshot: Snapshot, fragment: DataFragment) -> Iterator[Part]:
        return scanned(snapshot, fragment, self._expressions, "the expressions")

    def key(self, fragment: DataFragment) -> bytes:
        return values_key(fragment)


class Computed:
    """A Python function of batches, called once for each, in the order of the rows."""

    parallel = False
    reads_columns = True

    def __init__(self, function: Function, read_columns: Sequence[str] | None, schema: pa.Schema | None) -> None:
        self._function = function
        self._read_columns = read_columns
        self._given = schema
        self._schema = schema
        # What came of the first batch, which had to be computed to know the columns.
        self._begun: tuple[int, Iterator[Part]] | None = None

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        unknown = [one for one in self._read_columns or () if one not in snapshot.schema.names]
        if unknown:
            raise InvalidInput(
                f"the table has no column {unknown[0]!r} to compute from",
                remedy=f"It has {', '.join(map(repr, snapshot.schema.names))}.",
                column=unknown[0],
            )
        if self._given is not None:
            return self._given
        first = next(iter(snapshot.manifest.fragments), None)
        if self._schema is None and first is not None:
            parts = self._parts(snapshot, first)
            part = next(parts, None)
            self._begun = None if part is None else (first.id, chain([part], parts))
        if self._schema is None:
            nothing = pa.RecordBatch.from_pylist([], self._input(snapshot.schema))
            self._schema = self._applied(nothing).schema
        return self._schema

    def values(self, snapshot: Snapshot, fragment: DataFragment) -> Iterator[Part]:
        begun, self._begun = self._begun, None
        return begun[1] if begun is not None and begun[0] == fragment.id else self._parts(snapshot, fragment)

    def key(self, fragment: DataFragment) -> bytes:
        return values_key(fragment)

    def _parts(self, snapshot: Snapshot, fragment: DataFragment) -> Iterator[Part]:
        schema = self._input(snapshot.schema)
        columns = {name: quoted(name) for name in schema.names}
        for offsets, values in scanned(snapshot, fragment, columns, "the function's columns"):
            made = self._applied(pa.RecordBatch.from_arrays(list(values), names=schema.names))
            yield offsets, made.columns

    def _input(self, schema: pa.Schema) -> pa.Schema:
        return schema if self._read_columns is None else pa.schema([schema.field(one) for one in self._read_columns])

    def _applied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What the function makes of a batch: as many rows, under one schema."""
        opened = Source(self._function(batch)).open(self._schema)
        made = pa.Table.from_batches(list(opened.batches), opened.schema).combine_chunks()
        if made.num_rows != batch.num_rows:
            raise InvalidInput(
                f"the function made {made.num_rows} rows of {batch.num_rows}",
                remedy="It must give a row for each row, in the same order.",
            )
        if self._schema is None:
            self._schema = made.schema.remove_metadata()
        if made.schema.names != self._schema.names:
            raise InvalidInput(
                f"the function gave the columns {made.schema.names}, expected {self._schema.names}",
                remedy="It must give the same columns each time.",
            )
        columns = [_under(column, field) for column, field in zip(made.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays([column.combine_chunks() for column in columns], schema=self._schema)


def _under(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """What a function gave, under the type of its column."""
    # Not cast if it is of that type already: Arrow takes the nulls inside of a struct that is null for values of its
    # fields, which may have to be there.
    if column.type == field.type:
        return column
    try:
        if lost := left_out(column.type, field.type):
            raise pa.ArrowInvalid(f"{field.type} has no {lost!r}, which is in {column.type}")
        made = spelled(column, field.type).cast(field.type)
        check_kept(column, made)
        return made
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(
            f"what the function gave does not fit its columns: {error}",
            remedy="Say with `schema=` of which types the columns are.",
        ) from error


class InOrder:
    """Rows that come in the order of the table's rows, one for each that is not deleted.

    They are for the version that was read first. A row keeps its place in a fragment while it is there, so they stay
    right when others delete; but fragments that came or went meanwhile, and rows that came back, have nothing to do
    with them.
    """

    parallel = False
    reads_columns = False

    def __init__(self, rows: Rows) -> None:
        self._source = Source(rows)
        self._schema: pa.Schema | None = None
        self._feed: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.RecordBatch | None = None
        self._fragments: tuple[int, ...] = ()
        self._rows = GivenRows()

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        fragments = tuple(snapshot.manifest.fragments.ids())
        if self._schema is None:
            opened = self._source.open()
            self._schema, self._feed, self._fragments = opened.schema.remove_metadata(), opened.batches, fragments
            if not fragments and self._next(1) is not None:
                raise self._count("there are rows, and the table has none")
        elif fragments != self._fragments:
            raise IncompatibleConflict(
                "rows were added or moved by others, and the given ones are in the order of those before.",
                remedy="Nothing was written. Read the table again, and give rows in its order; or give them by key.",
                fragments=sorted(set(fragments) ^ set(self._fragments)),
            )
        self._rows.check(snapshot)
        return self._schema

    def forget(self) -> None:
        """Begin with the first row again, for the same fragments as before; refused if the rows were a stream."""
        if self._schema is not None:
            self._feed, self._rest = self._source.open().batches, None

    def values(self, snapshot: Snapshot, fragment: DataFragment) -> Iterator[Part]:
        offsets = self._rows.offsets(snapshot, fragment)
        start = 0
        while start < len(offsets):
            batch = self._next(len(offsets) - start)
            if batch is None:
                raise self._count(f"there are fewer rows than the table has: none is left for fragment {fragment.id}")
            yield offsets[start : start + batch.num_rows], batch.columns
            start += batch.num_rows
        if fragment.id == self._fragments[-1] and self._next(1) is not None:
            raise self._count("there are more rows than the table has")

    def key(self, fragment: DataFragment) -> bytes:
        return b""

    def _next(self, most: int) -> pa.RecordBatch | None:
        batch = next(self._feed, None) if self._rest is None else self._rest
        if batch is None:
            return None
        self._rest = batch.slice(most) if batch.num_rows > most else None
        return batch.slice(0, most)

    def _count(self, what: str) -> InvalidInput:
        return InvalidInput(what, remedy="Give one row for each row of the table, in its order; or give them by key.")


class Joined:
    """Rows that are found by key. Where the table has a key that they have not, the new columns are null."""

    parallel = True
    reads_columns = True

    def __init__(self, rows: Rows, on: Sequence[str]) -> None:
        self._source = Source(rows)
        self._on = on
        self._table: pa.Table | None = None
        self._index: KeyIndex | None = None
        self._types: list[pa.DataType] = []

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        if self._table is None:
            opened = self._source.open(snapshot.schema)
            self._table = pa.Table.from_batches(list(opened.batches), opened.schema).combine_chunks()
        for name in self._on:
            for where, there in (("the table has", snapshot.schema.names), ("the rows have", self._table.schema.names)):
                if name not in there:
                    raise InvalidInput(
                        f"{where} no column {name!r} to join on",
                        remedy=f"It must be on both sides; here are {', '.join(map(repr, there))}.",
                        column=name,
                    )
        types = [snapshot.schema.field(name).type for name in self._on]
        if self._index is None or self._types != types:
            keys = [_as_key(self._table[name], name, kind) for name, kind in zip(self._on, types, strict=True)]
            self._index, self._types = KeyIndex(keys, self._on), types
        return pa.schema([one.with_nullable(True) for one in self._table.schema if one.name not in self._on])

    def values(self, snapshot: Snapshot, fragment: DataFragment) -> Iterator[Part]:
        if self._table is None or self._index is None:
            raise InvalidInput("the rows to join were not looked at")
        columns = [self._table[name].combine_chunks() for name in self._table.schema.names if name not in self._on]
        for offsets, keys in scanned(snapshot, fragment, {name: quoted(name) for name in self._on}, "the join"):
            at, rows = self._index.find([key_values(key, name) for key, name in zip(keys, self._on, strict=True)])
            found = np.full(len(offsets), -1, np.int64)
            found[at] = rows
            places = pa.array(found, mask=found < 0)
            yield offsets, [column.take(places) for column in columns]

    def key(self, fragment: DataFragment) -> bytes:
        return values_key(fragment)


def scanned(snapshot: Snapshot, fragment: DataFragment, columns: Mapping[str, str], what: str) -> Iterator[Part]:
    """Expressions over one fragment, in the order of its rows."""
    scan = scanner(
        snapshot.dataset,
        columns={**columns, ADDRESS: ADDRESS},
        what=what,
        fragments=[snapshot.dataset.get_fragment(fragment.id)],
        batch_size=BATCH_ROWS,
        blob_handling=_BLOBS,
    )
    for batch in batches(scan, what=what):
        offsets = (batch.column(ADDRESS).to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        yield offsets, [batch.column(name) for name in columns]


def _as_key(column: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.Array:
    """Keys of the given rows, as the table has them."""
    try:
        return key_values(column.combine_chunks().cast(kind), name)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(
            f"column {name!r} of the table has the type {kind}, and the rows have {column.type}, which cannot be made"
            f" that: {error}",
            remedy="Join on a column of the same type.",
            column=name,
        ) from error
