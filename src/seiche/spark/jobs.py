"""Work done by Spark's workers: values go out with the job, small values come back to the driver.

An error of ours that trying again cannot help comes back as a value too, and is raised on the driver as what it is. One
that may pass is raised in the worker, where Spark tries the task again.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from seiche.errors import SeicheError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Batches", "collected", "frame_of", "run_each"]

Task = TypeVar("Task")
Done = TypeVar("Done")
Batches = Iterator[pa.RecordBatch]

_RESULT = "result binary"
_RESULT_SCHEMA = pa.schema([pa.field("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class _Failed:
    """An error on its way to the driver."""

    error: SeicheError


def run_each(session: "SparkSession", work: Callable[[Task], Done], tasks: Sequence[Task]) -> list[Done]:
    """`work` done to each task by some worker; the results in the order of the tasks.

    `work` is a function of a module, and tasks and results can be pickled. A task that is run twice, because it failed
    or was slow, counts once.
    """
    if not tasks:
        return []
    numbers = session.range(0, len(tasks), 1, len(tasks))
    found = collected(numbers, partial(_each, work, tuple(tasks)))
    return [done for _, done in sorted(found, key=lambda item: item[0])]


def collected(frame: "DataFrame", work: Callable[[Batches], Iterator[Done]]) -> list[Done]:
    """What `work` makes of the rows of each partition, from all partitions, in no particular order."""
    rows = frame.mapInArrow(partial(_pickled, work), _RESULT).collect()
    found: list[Done] = []
    failed: list[SeicheError] = []
    for row in rows:
        done: Any = pickle.loads(bytes(row[0]))  # noqa: S301 - it comes from our own workers
        if isinstance(done, _Failed):
            failed.append(done.error)
        else:
            found.append(done)
    if failed:
        raise failed[0]
    return found


def frame_of(
    session: "SparkSession",
    read: "Callable[[Task, int], Batches]",
    tasks: Sequence[Task],
    schema: "StructType",
) -> "DataFrame":
    """The rows that `read(task, number)` gives for each task, as a data frame with a partition for each.

    What is read is in the plan: the frame can be used again, and after a failure, and gives the same rows.
    """
    if not tasks:
        return session.createDataFrame([], schema)
    numbers = session.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(partial(_read, read, tuple(tasks)), schema)


def _read(read: "Callable[[Task, int], Batches]", tasks: Sequence[Task], batches: Batches) -> Batches:
    for number in _numbers(batches):
        yield from read(tasks[number], number)


def _each(work: Callable[[Task], Done], tasks: Sequence[Task], batches: Batches) -> Iterator[tuple[int, Done]]:
    for number in _numbers(batches):
        yield number, work(tasks[number])


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _pickled(work: Callable[[Batches], Iterator[object]], batches: Batches) -> Batches:
    try:
        for done in work(batches):
            yield _result(done)
    except SeicheError as error:
        if error.retryable:
            raise
        # The rest of the input is read, since Spark takes an unread stream for a worker that died.
        for _ in batches:
            pass
        yield _result(_Failed(error))


def _result(done: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(done)], pa.binary())], schema=_RESULT_SCHEMA)
