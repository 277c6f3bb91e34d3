"""Rows go to Python by the batch; where they are narrow, without each being weighed first.

Spark ends a batch after so many rows or so many bytes, and to know the bytes it adds up all buffers of the batch again
after every row: half of what handing over costs. Narrow rows cannot make a batch too large, and need not be weighed. So
rows with long texts or lists are marked, and come without these; a worker that meets a marked row says so, and all is
done again the careful way, with the rows as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as kinds

from seiche.spark.jobs import Batches, collected

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

__all__ = ["collected_rows"]

Done = TypeVar("Done")

_MARK: Final = "_seiche_wide"
_LIMIT, _NONE = "spark.sql.execution.arrow.maxBytesPerBatch", str((1 << 31) - 1)
_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
# What a batch may weigh: as much as Spark allows by itself.
_BATCH_BYTES: Final = 64 << 20
# What a value of fixed length counts for, and an element of a list.
_VALUE_BYTES: Final = 16
_FIXED: Final = (
    kinds.BooleanType,
    kinds.DateType,
    kinds.DayTimeIntervalType,
    kinds.DecimalType,
    kinds.NumericType,
    kinds.TimestampNTZType,
    kinds.TimestampType,
)


class _Wide(Exception):
    """A marked row was met."""


@dataclass(frozen=True, slots=True)
class _TooWide:
    """What a worker says that met a row which was marked as wide."""


def collected_rows(frame: "DataFrame", work: Callable[[Batches], Iterator[Done]]) -> list[Done]:
    """As `jobs.collected`, for many rows: quicker if they are narrow. `work` may be begun twice; of the first time, if
    rows turned out to be wide, nothing is kept.
    """
    # Columns go by numbers: Spark looks for them by name, and takes dots and the case of letters for something else.
    numbered = frame.toDF(*map(_number, range(len(frame.columns))))
    named = partial(_named, work, tuple(frame.columns))
    narrow = _narrow(numbered)
    if narrow is not None:
        with _unweighed(frame.sparkSession.sparkContext):
            found = collected(narrow, named)
        if not any(isinstance(one, _TooWide) for one in found):
            return cast("list[Done]", found)
    return cast("list[Done]", collected(numbered, named))


def _number(column: int) -> str:
    return f"c{column}"


def _narrow(frame: "DataFrame") -> "DataFrame | None":
    """The frame, its wide rows marked and emptied; `None` if its types do not say how wide a row is."""
    try:
        frame.sparkSession.sparkContext  # noqa: B018 - through Spark Connect there is none, and no way to ask for this
        rows = int(str(frame.sparkSession.conf.get(_ROWS)))
    except Exception:  # noqa: BLE001
        return None
    sizes = {field.name: _size(field.dataType, field.name) for field in frame.schema}
    room = _BATCH_BYTES // max(1, rows) - _VALUE_BYTES * len(sizes)
    if rows < 1 or room < _VALUE_BYTES or None in sizes.values():
        return None
    long = [size for size in sizes.values() if size]
    if not long:
        return frame
    columns = [
        f"if({_MARK}, {_emptied(field)}, {field.name}) AS {field.name}" if sizes[field.name] else field.name
        for field in frame.schema
    ]
    return frame.selectExpr("*", f"{' + '.join(long)} > {room} AS {_MARK}").selectExpr(*columns, _MARK)


def _size(kind: kinds.DataType, name: str) -> str | None:
    """What a value weighs, as an expression; empty if it is short in any case, `None` if that is not known."""
    if isinstance(kind, _FIXED):
        return ""
    if isinstance(kind, kinds.StringType | kinds.BinaryType):
        return f"coalesce(CAST(octet_length({name}) AS BIGINT), 0)"
    if isinstance(kind, kinds.ArrayType) and isinstance(kind.elementType, _FIXED):
        return f"coalesce(CAST(size({name}) AS BIGINT), 0) * {_VALUE_BYTES}"
    return None


def _emptied(field: kinds.StructField) -> str:
    """Nothing, of the same type; null where the value is."""
    return f"{'slice' if isinstance(field.dataType, kinds.ArrayType) else 'substring'}({field.name}, 1, 0)"


@contextmanager
def _unweighed(context: "SparkContext") -> Iterator[None]:
    """Jobs of this thread make batches by the number of rows alone, unless the session itself says otherwise."""
    before = context.getLocalProperty(_LIMIT)
    context.setLocalProperty(_LIMIT, _NONE)
    try:
        yield
    finally:
        context.setLocalProperty(_LIMIT, before)  # type: ignore[arg-type]


def _named(
    work: Callable[[Batches], Iterator[Done]], names: tuple[str, ...], batches: Batches
) -> Iterator[Done | _TooWide]:
    try:
        yield from work(map(partial(_columns, names), batches))
    except _Wide:
        # Spark takes an unread stream for a worker that died.
        for _ in batches:
            pass
        yield _TooWide()


def _columns(names: tuple[str, ...], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of the frame, by their names."""
    if batch.schema.names[-1] == _MARK:
        if pc.any(batch.column(len(names))).as_py():
            raise _Wide
        batch = batch.select(range(len(names)))
    return batch.rename_columns(list(names))
