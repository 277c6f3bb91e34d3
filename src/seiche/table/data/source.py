"""Rows that a caller hands in, whatever they come as: batches of one Arrow schema."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from itertools import islice
from types import GeneratorType
from typing import Any, TypeAlias
from weakref import WeakSet

import pyarrow as pa
import pyarrow.dataset

from seiche.core.given import text
from seiche.errors import SPENT, InvalidInput, RetryableConflict
from seiche.table.data.blobs import is_blob
from seiche.table.data.values import typed
from seiche.table.format.schema import check_names

__all__ = ["Opened", "Rows", "Source"]

# An Arrow table, batch, reader, dataset or scanner; an iterable of batches or tables; a pandas or Polars data frame;
# anything with Arrow's interface for streams or arrays; dictionaries, named tuples or objects of dataclasses of one row
# each, in a list or as they come.
Rows: TypeAlias = Any

# How many rows that come one by one are put into a batch.
_ROWS = 8192
_END = object()
# Readers of which nothing is left: they do not say so themselves.
_SPENT: WeakSet[pa.RecordBatchReader] = WeakSet()

_REMEDY = (
    "Give an Arrow table, record batches, a reader, an iterator of batches, a pandas or Polars data frame,"
    " or dictionaries: one for each row (or a named tuple, or an object of a dataclass), or one with a list of values"
    " for each column."
)


@dataclass(frozen=True, slots=True)
class Opened:
    """The rows, ready to be read once. No batch is empty, and all have the schema."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Source:
    """Rows that can be read once, or as often as need be if they lie in memory.

    A stream cannot be read again: whoever needs its rows a second time, after a conflict, must have kept them.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._again = not _is_stream(rows)
        self._taken = False

    @property
    def stays(self) -> bool:
        """Whether the rows can be read again."""
        return self._again

    def open(self, wanted: pa.Schema | None = None) -> Opened:
        """Begin to read. `wanted` guides what has no Arrow types of its own, such as dictionaries and pandas frames."""
        if self._taken and not self._again:
            raise RetryableConflict(
                "the rows came from a stream that has been read, and must be written anew because the table changed",
                remedy="Nothing was written. Run the operation again with a new stream, or with rows in memory.",
                reason=SPENT,
            )
        if not self._taken and _is_spent(self._rows):
            raise InvalidInput(
                f"the rows come from a {type(self._rows).__name__} that has been read to its end already",
                remedy="Make it anew each time, in the function that `lake.run` calls, or give rows in memory.",
            )
        self._taken = True
        opened = _opened(self._rows, wanted)
        check_names(opened.schema)
        return Opened(opened.schema, _full(opened.schema, opened.batches, self._rows))


def _is_stream(rows: Rows) -> bool:
    """Whether reading uses the rows up. What is not known to stay counts as a stream."""
    stays = isinstance(rows, pa.Table | pa.RecordBatch | pa.dataset.Dataset | Sequence | Mapping)
    return not (stays or _is_pandas(rows) or _is_polars(rows))


def _is_spent(rows: Rows) -> bool:
    """Whether they were all read before: whoever runs a transaction a second time would write nothing, in silence."""
    if isinstance(rows, GeneratorType):
        return rows.gi_frame is None
    return isinstance(rows, pa.RecordBatchReader) and rows in _SPENT


def _opened(rows: Rows, wanted: pa.Schema | None) -> Opened:
    if isinstance(rows, str | bytes):  # an empty one would be no rows, with which an Iceberg table is overwritten
        raise _unknown(rows)
    made = _arrow(rows, wanted)
    if isinstance(made, pa.RecordBatch | pa.Table) and made.num_rows and not made.num_columns:
        raise _without_columns()
    if isinstance(made, pa.RecordBatch):
        return Opened(made.schema, iter([made]))
    if isinstance(made, pa.Table):
        return Opened(made.schema, iter(made.to_batches()))
    if isinstance(made, pa.RecordBatchReader):
        return Opened(made.schema, iter(made))
    if isinstance(made, Iterable):
        return _from_iterable(made, wanted)
    raise _unknown(rows)


def _arrow(rows: Rows, wanted: pa.Schema | None) -> Any:
    """The rows as an Arrow table, batch or reader if they are, or are made of, something that has columns."""
    made = rows
    if isinstance(rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return rows
    if isinstance(rows, pa.dataset.Dataset):
        made = rows.scanner().to_reader()
    elif isinstance(rows, pa.dataset.Scanner):
        made = rows.to_reader()
    elif _is_pandas(rows):
        made = _from_pandas(rows, wanted)
    elif isinstance(rows, Mapping):
        made = _from_columns(rows, wanted)
    elif isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        made = _from_dictionaries(rows, wanted)
    elif _is_polars(rows) and hasattr(rows, "collect"):
        made = pa.RecordBatchReader.from_stream(rows.collect())
    elif hasattr(rows, "__arrow_c_stream__"):
        try:
            made = pa.RecordBatchReader.from_stream(rows)
        except pa.ArrowInvalid as error:  # values without a name, such as a series of Polars
            raise _unknown(rows) from error
    elif hasattr(rows, "__arrow_c_array__"):
        try:
            made = pa.record_batch(rows)
        except (pa.ArrowInvalid, TypeError) as error:
            raise _unknown(rows) from error
    return made


def _from_iterable(rows: Iterable[Any], wanted: pa.Schema | None) -> Opened:
    rest = iter(rows)
    first = next(rest, _END)
    if first is _END:
        return Opened(pa.schema([]), iter(()))
    if (row := _row(first)) is not None:
        return _from_rows(row, rest, wanted)
    if not isinstance(first, pa.RecordBatch | pa.Table):
        raise _unknown(rows, first)
    return Opened(first.schema, _flat(first, rest))


def _from_rows(first: Mapping[str, Any], rest: Iterator[Any], wanted: pa.Schema | None) -> Opened:
    """Rows that come one by one, put together to batches: those in the first one say which columns there are.

    Columns of the table that none of them has are not given, which is not the same as null: a merge leaves them alone.
    """
    head = _from_dictionaries([first, *_rows_of(islice(rest, _ROWS - 1))], wanted)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from head.to_batches()
        while more := _rows_of(islice(rest, _ROWS)):
            gone = sorted({name for row in more for name in row} - set(head.schema.names))
            if gone:
                remedy = "Name every column in the first rows, or give batches of one schema."
                raise InvalidInput(f"a later row has a column {gone[0]!r}, which no row before it had", remedy=remedy)
            columns = {name: [row.get(name) for row in more] for name in head.schema.names}
            yield from _from_columns(columns, head.schema).to_batches()

    return Opened(head.schema, batches())


def _rows_of(given: Iterable[Any]) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    for one in given:
        if (row := _row(one)) is None:
            raise _unknown(rows, one)
        rows.append(row)
    return rows


def _row(given: Any) -> Mapping[str, Any] | None:
    """The values of a row by name, if it has names for them: a dictionary, a named tuple, an object of a dataclass."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, tuple) and hasattr(given, "_asdict"):
        return dict(given._asdict())
    return asdict(given) if is_dataclass(given) and not isinstance(given, type) else None


def _flat(first: Any, rest: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    one: Any = first
    # Not until the first `None`: where one is given by mistake, what comes after it must not be left out in silence.
    while one is not _END:
        if isinstance(one, pa.RecordBatch):
            yield one
        elif isinstance(one, pa.Table):
            yield from one.to_batches()
        else:
            raise _unknown(rest, one)
        one = next(rest, _END)


def _full(schema: pa.Schema, batches: Iterator[pa.RecordBatch], rows: Rows) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches, 1):
        if not batch.schema.equals(schema):
            raise InvalidInput(
                f"batch {number} has the columns {_described(batch.schema)}, the first had {_described(schema)}",
                remedy="Give batches of one schema.",
            )
        if batch.num_rows:
            yield batch
    if isinstance(rows, pa.RecordBatchReader):
        _SPENT.add(rows)


def _from_dictionaries(rows: Sequence[Mapping[str, Any]], wanted: pa.Schema | None) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if rows and not names:
        raise _without_columns()
    columns = {name: [row.get(name) for row in rows] for name in names}
    return _from_columns(columns, wanted)


def _from_columns(columns: Mapping[str, Any], wanted: pa.Schema | None) -> pa.Table:
    made = {}
    for name, values in columns.items():
        text(name, "the name of a column", "Name columns by texts.")
        kind = _type_of(wanted, name)
        if not hasattr(values, "__iter__") or isinstance(values, str | bytes):
            remedy = "Give a list of values for each column, or a list of rows: [{...}]."
            raise InvalidInput(f"column {name!r} has one value instead of a list of them", remedy=remedy, column=name)
        try:
            # The array may be longer than its offsets can count, or come as several pieces: a table takes both.
            made[name] = values if isinstance(values, pa.Array | pa.ChunkedArray) else typed(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _misfit(name, kind, error) from error
    try:
        return pa.table(made)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(f"the columns do not make a table: {error}", remedy=_REMEDY) from error


def _from_pandas(frame: Any, wanted: pa.Schema | None) -> pa.Table:
    columns = [*_named_index(frame), *((str(name), frame[name]) for name in _once(frame.columns))]
    _once(name for name, _ in columns)
    made = {}
    for name, column in columns:
        text(name, "the name of a column")
        kind = _type_of(wanted, name)
        try:
            given = column
            if column.dtype == object:
                given = [None if gone else value for value, gone in zip(column, column.isna(), strict=True)]
            made[name] = typed(given, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _misfit(name, kind, error) from error
    return pa.table(made)


def _named_index(frame: Any) -> Iterator[tuple[str, Any]]:
    """The parts of the index that have names, as after `groupby` and `set_index`: no column has what stands there.

    Without a name it only numbers the rows. One that is called as a column is that column, as after
    `set_index(drop=False)`.
    """
    known = set(frame.columns)
    for level, name in enumerate(frame.index.names):
        if name is not None and name not in known:
            yield str(name), frame.index.get_level_values(level).to_series()


def _once(names: Iterable[Any]) -> list[Any]:
    """The names of columns; `InvalidInput` if there are two of one."""
    found = list(names)
    texts = [str(name) for name in found]
    if len(set(texts)) < len(texts):
        twice = next(name for name in texts if texts.count(name) > 1)
        raise InvalidInput(f"column {twice!r} is given twice", remedy="Give each column once.", column=twice)
    return found


def _type_of(wanted: pa.Schema | None, name: str) -> pa.DataType | None:
    """The type that plain Python values of this column are to become; `None` if Arrow shall find out."""
    at = -1 if wanted is None else wanted.get_field_index(name)
    if wanted is None or at < 0:
        return None
    kind = wanted.field(at).type
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) and not is_blob(kind) else kind


def _is_pandas(rows: Rows) -> bool:
    return type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns")


def _is_polars(rows: Rows) -> bool:
    return type(rows).__module__.partition(".")[0] == "polars"


def _misfit(name: str, kind: pa.DataType | None, error: Exception) -> InvalidInput:
    wanted = "one Arrow type" if kind is None else str(kind)
    return InvalidInput(
        f"the values of column {name!r} are not all of {wanted}: {error}",
        remedy="Give values that fit the column.",
        column=name,
    )


def _without_columns() -> InvalidInput:
    return InvalidInput("the rows have no columns", remedy="Give what each row has by the name of the column.")


def _unknown(rows: Rows, first: Any = _END) -> InvalidInput:
    inside = "" if first is _END else f" of {type(first).__name__}"
    return InvalidInput(f"rows cannot be taken from a {type(rows).__name__}{inside}", remedy=_REMEDY)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
