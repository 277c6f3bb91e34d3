"""Sixteen writers at one lake: nobody starves, nothing is lost, and nothing is there twice.

Four processes with four threads each, every one with a handle of its own. They write into a table each, all into one,
or both in one transaction; with the turns that local disk can arrange, and without, as on object storage.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pytest

import seiche
from seiche import ConflictError, Lake
from seiche.core.retry import Patience
from seiche.store.local import LocalStore
from tests.processes import CONTEXT

SCHEMA = pa.schema([("writer", pa.int64()), ("number", pa.int64())])
PROCESSES, THREADS = 4, 4
WRITERS = range(PROCESSES * THREADS)
SHARED = "crowd.all"
DISK: dict[str, Any] = {"durability": "os"}

Where: TypeAlias = Literal["a table each", "one table", "both"]
Turns: TypeAlias = Literal["turns", "no turns"]

_meeting: Any = None


@dataclass(frozen=True, slots=True)
class Job:
    """What the writers of one process do."""

    uri: str
    process: int
    commits: int
    where: Where
    turns: Turns
    # Whether a writer gives up when it loses a race.
    hasty: bool = False

    def tables(self, writer: int) -> list[str]:
        own = f"crowd.w{writer}"
        return {"a table each": [own], "one table": [SHARED], "both": [own, SHARED]}[self.where]


@dataclass(frozen=True, slots=True)
class Report:
    """How one writer fared: the versions that it made, how often it was refused, and how long it took."""

    writer: int
    versions: tuple[int, ...]
    refused: int
    seconds: float


def meet(barrier: Any) -> None:
    """Where the processes of this pool wait for each other."""
    global _meeting  # noqa: PLW0603 - a barrier cannot be sent along with a job
    _meeting = barrier


@pytest.fixture(scope="module")
def processes() -> Iterator[Pool]:
    with CONTEXT.Pool(PROCESSES, meet, (CONTEXT.Barrier(PROCESSES),)) as pool:
        yield pool


def work(job: Job) -> list[Report]:
    """The writers of one process."""
    reports: list[Report] = []
    begin = threading.Barrier(THREADS)

    def writer(number: int) -> None:
        lake = opened(job)
        begin.wait(120)
        reports.append(write(lake, job, number))

    with pytest.MonkeyPatch.context() as patch:
        if job.turns == "no turns":
            patch.setattr(LocalStore, "turn", lambda *_: nullcontext(False))
        numbers = range(job.process * THREADS, (job.process + 1) * THREADS)
        threads = [threading.Thread(target=writer, args=(number,)) for number in numbers]
        _meeting.wait(120)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return reports


def opened(job: Job) -> Lake:
    lake = seiche.open(job.uri, **DISK)
    if job.hasty:
        lake._committer = replace(lake._committer, patience=Patience(attempts=1))
    return lake


def write(lake: Lake, job: Job, writer: int) -> Report:
    versions: list[int] = []
    refused = 0
    began = time.monotonic()
    for number in range(job.commits):
        tx = lake.transaction()
        for name in job.tables(writer):
            tx.append(name, pa.table({"writer": [writer], "number": [number]}, schema=SCHEMA))
        try:
            versions.append(tx.commit())
        except ConflictError:
            refused += 1
    return Report(writer, tuple(versions), refused, time.monotonic() - began)


def crowd(pool: Pool, folder: Path, commits: int, where: Where, turns: Turns, *, hasty: bool = False) -> list[Report]:
    """What became of all writers; whatever was acknowledged is there, once and in order."""
    uri = str(folder / f"{where} {turns}")
    lake = seiche.create(uri, **DISK)
    lake.create_namespace("crowd")
    with lake.transaction() as tx:
        for name in (SHARED, *(f"crowd.w{writer}" for writer in WRITERS)):
            tx.create_table(name, SCHEMA)
    before = lake.version
    jobs = [Job(uri, process, commits, where, turns, hasty) for process in range(PROCESSES)]
    reports = [report for done in pool.map(work, jobs, chunksize=1) for report in done]
    assert sorted(report.writer for report in reports) == list(WRITERS)
    made = sorted(version for report in reports for version in report.versions)
    assert made == list(range(before + 1, lake.version + 1)), "every commit made a version of its own"
    if not hasty:
        check_rows(lake, jobs[0], {report.writer: commits for report in reports})
    return reports


def check_rows(lake: Lake, job: Job, expected: dict[int, int]) -> None:
    for writer, commits in expected.items():
        for name in job.tables(writer):
            rows = lake.table(name).to_arrow(filter=f"writer = {writer}")
            assert rows["number"].to_pylist() == list(range(commits)), f"{name}: what writer {writer} wrote, in order"


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("turns", ["turns", "no turns"])
@pytest.mark.parametrize("where", ["a table each", "one table", "both"])
def test_everybody_makes_progress(
    processes: Pool,
    tmp_path: Path,
    where: Where,
    turns: Turns,
    effort: Callable[[int, int], int],
    record_property: Callable[[str, object], None],
) -> None:
    commits = effort(3, 100)
    reports = crowd(processes, tmp_path, commits, where, turns)
    seconds = [report.seconds for report in reports]
    record_property("quickest", round(min(seconds), 2))
    record_property("slowest", round(max(seconds), 2))
    assert [len(report.versions) for report in reports] == [commits] * len(WRITERS)
    assert [report.refused for report in reports] == [0] * len(WRITERS)


def test_writers_that_give_up_at_once_do_starve(processes: Pool, tmp_path: Path) -> None:
    """The crowd is one: without turns and with a single attempt many a commit is lost."""
    reports = crowd(processes, tmp_path, 5, "a table each", "no turns", hasty=True)
    assert sum(report.refused for report in reports) > 0
