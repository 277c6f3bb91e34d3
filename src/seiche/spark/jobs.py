"""Work done by Spark's workers: values go out with the job, small values come back to the driver.

An error of ours that trying again cannot help comes back as a value too, and is raised on the driver as what it is. One
that may pass is raised in the worker, where Spark tries the task again, until its last try.
"""

import os
import pickle
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from seiche.errors import SeicheError
from seiche.spark.raised import as_raised

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Batches", "Progress", "Readable", "collected", "executor", "frame_of", "parallelism", "run_each", "watched"]

Task = TypeVar("Task")
Done = TypeVar("Done")
Batches = Iterator[pa.RecordBatch]
# Told how many tasks are done, and how many there are.
Progress = Callable[[int, int], object]

_LOOK_EVERY = 0.5
# More than Spark sends to all workers by itself, and what it counts for a number.
_LARGE = 16 << 20
_NUMBER_BYTES = 8

# Spark on one machine tries a task once, unless the address of its master says how often.
_LOCAL_MASTER = re.compile(r"local(\[[^],]*(,\s*(?P<tries>\d+))?\])?")
_RESULT = "result binary"
_RESULT_SCHEMA = pa.schema([pa.field("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class _Failed:
    """An error on its way to the driver."""

    error: SeicheError


def run_each(
    session: "SparkSession", work: Callable[[Task], Done], tasks: Sequence[Task], progress: Progress | None = None
) -> list[Done]:
    """`work` done to each task by some worker; the results in the order of the tasks.

    `work` is a function of a module, and tasks and results can be pickled. A task that is run twice, because it failed
    or was slow, counts once. `progress` is told now and then how many tasks are done.
    """
    if not tasks:
        return []
    numbers = session.range(0, len(tasks), 1, len(tasks))
    with watched(session, len(tasks), progress):
        found = collected(numbers, partial(_each, work, tuple(tasks)))
    return [done for _, done in sorted(found, key=lambda item: item[0])]


def collected(frame: "DataFrame", work: Callable[[Batches], Iterator[Done]]) -> list[Done]:
    """What `work` makes of the rows of each partition, from all partitions, in no particular order."""
    with as_raised():  # by who reads the frame
        rows = frame.mapInArrow(partial(_pickled, work, _tries(frame.sparkSession)), _RESULT).collect()
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


class Readable(Protocol):
    """A task that gives rows. Can be pickled."""

    def read(self, number: int) -> Batches:
        """The rows, as Spark takes them; `number` is that of the task."""


def frame_of(session: "SparkSession", tasks: "Sequence[Readable]", schema: "StructType", size: int = 0) -> "DataFrame":
    """The rows that each task gives, as a data frame with a partition for each; `size` is about how many bytes.

    What is read is in the plan: the frame can be used again, and after a failure, and gives the same rows.

    Spark takes the result of a function for as large as what goes in, and brings what it takes for small through the
    driver to everywhere: a table of any size, if only the numbers of the tasks went in. So as many numbers go in as
    make it too large for that, and are left out at once but for one of each task.
    """
    from seiche.spark.packing import packed_schema, unpacked
    from seiche.spark.types import shown_schema

    if not tasks:
        return session.createDataFrame([], schema)
    each = max(1, min(size, _LARGE) // _NUMBER_BYTES // len(tasks))
    if size >= _LARGE:
        # There are millions to look at then; of a power of two it is soon said whether it divides them.
        each = 1 << (each - 1).bit_length()
    numbers = session.range(0, each * len(tasks), 1, len(tasks))
    chosen = numbers if each == 1 else numbers.where(f"id % {each} = 0")
    packed = packed_schema(session, schema)
    if packed is None:
        return chosen.mapInArrow(partial(_read, tuple(tasks), each), schema)
    read = partial(_read_packed, tuple(tasks), each, shown_schema(packed))
    return unpacked(chosen.mapInArrow(read, packed), schema)


@contextmanager
def watched(session: "SparkSession", tasks: int, progress: Progress | None) -> Iterator[None]:
    """While the block runs, `progress` is told how many of the tasks of its jobs are done; at the end, that all are."""
    if progress is None:
        yield
        return
    context = session.sparkContext
    group = f"seiche-{threading.get_ident()}-{id(progress)}"
    context.setJobGroup(group, "seiche")
    ended = threading.Event()

    def look() -> None:
        tracker = context.statusTracker()
        while not ended.wait(_LOOK_EVERY):
            with suppress(Exception):  # what is shown must not break what is done
                jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
                known = filter(None, (tracker.getStageInfo(one) for job in jobs for one in job.stageIds))
                progress(min(tasks, sum(one.numCompletedTasks for one in known)), tasks)

    watcher = threading.Thread(target=look, name="seiche-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    progress(tasks, tasks)


def parallelism(session: "SparkSession") -> int:
    """How many tasks the workers do at a time; through Spark Connect, what `spark.default.parallelism` says, or 16."""
    try:
        return max(1, session.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - through Spark Connect there is no context, and no type for saying so
        said = str(session.conf.get("spark.default.parallelism", ""))
        return max(1, int(said)) if said.isdigit() else 16


def _tries(session: "SparkSession") -> int:
    """How often Spark begins a task at most; through Spark Connect that is not known, and none counts as the last."""
    try:
        context = session.sparkContext
        local = _LOCAL_MASTER.fullmatch(context.master or "")
        return int(local["tries"] or 1) if local else int(context.getConf().get("spark.task.maxFailures", "4") or 4)
    except Exception:  # noqa: BLE001 - no context, and no type for saying so
        return 1 << 30


def executor() -> str:
    """In a worker: which executor of Spark it works for. All Python workers of one are forked from one process."""
    return f"{socket.gethostname()}/{os.getppid()}"


def _read(tasks: Sequence[Readable], each: int, batches: Batches) -> Batches:
    for number in (one // each for one in _numbers(batches)):
        yield from tasks[number].read(number)


def _read_packed(tasks: Sequence[Readable], each: int, arrays: pa.Schema, batches: Batches) -> Batches:
    from seiche.spark.packing import pack

    return pack(_read(tasks, each, batches), arrays)


def _each(work: Callable[[Task], Done], tasks: Sequence[Task], batches: Batches) -> Iterator[tuple[int, Done]]:
    for number in _numbers(batches):
        yield number, work(tasks[number])


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _pickled(work: Callable[[Batches], Iterator[object]], tries: int, batches: Batches) -> Batches:
    try:
        for done in work(batches):
            yield _result(done)
    except SeicheError as error:
        if error.retryable and not _last_try(tries):
            raise
        # The rest of the input is read, since Spark takes an unread stream for a worker that died.
        for _ in batches:
            pass
        yield _result(_Failed(error))


def _last_try(tries: int) -> bool:
    """In a worker: whether Spark would give up after this one, and say so in its own words."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() + 1 >= tries


def _result(done: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(done)], pa.binary())], schema=_RESULT_SCHEMA)
