"""Processes of Seiche and of pylance that commit to one table at the same time: nothing is lost or comes twice."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from seiche.table.table import Table
from tests import table_writers
from tests.processes import CONTEXT
from tests.servers import S3Server
from tests.table_writers import SPAN, Report, write


def race(kinds: Sequence[str], deed: str, commits: int, uri: str, **options: Any) -> list[Report]:
    """Let one process of each kind work on the table, all at the same time; what each was told."""
    begin, reports = CONTEXT.Barrier(len(kinds)), CONTEXT.Queue()
    writers = [
        CONTEXT.Process(target=write, args=(kind, deed, number, commits, uri, options, begin, reports))
        for number, kind in enumerate(kinds)
    ]
    for writer in writers:
        writer.start()
    try:
        told = dict(reports.get(timeout=600) for _ in writers)
        return [told[number] for number in range(len(kinds))]
    finally:
        for writer in writers:
            writer.kill()
            writer.join()


def check_appends(table: Table, kinds: Sequence[str], reports: Sequence[Report]) -> None:
    """Versions without a gap, each made once; acknowledged rows there once; nothing that Seiche said failed."""
    dataset: Any = table.to_lance()
    dataset.validate()
    found = Counter(dataset.to_table(columns=["id"])["id"].to_pylist())
    for report in reports:
        assert all(found[one] == 1 for one in report.done), "an acknowledged row is missing, or there twice"
    for kind, report in zip(kinds, reports, strict=True):
        if kind == "seiche":
            assert not report.errors
    assert set(found) <= {one for report in reports for one in (*report.done, *report.failed)}
    transactions = table.transactions()
    assert [version for version, _ in transactions] == list(range(1, table.version + 1))
    assert len({transaction.uuid for _, transaction in transactions}) == table.version
    # Only the first version made no rows; each of the others made one.
    assert table.version == 1 + len(found)
    assert len(table.manifest.fragments) == len(found)
    libraries = [table.checkout(one).manifest.header.writer_version.library for one in range(2, table.version + 1)]
    turns = sum(one != other for one, other in pairwise(libraries))
    print(f"{table.version} versions, in {turns + 1} turns")
    assert set(libraries) == {"seiche", "lance"}


def summary(kinds: Sequence[str], reports: Sequence[Report]) -> str:
    parts = []
    for kind in dict.fromkeys(kinds):
        mine = [report for name, report in zip(kinds, reports, strict=True) if name == kind]
        done, failed = sum(len(one.done) for one in mine), sum(len(one.failed) for one in mine)
        parts.append(f"{kind}: {done} commits, {failed} failed, slowest {max(one.slowest for one in mine):.2f} s")
    return "; ".join(parts)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_four_of_each_append_to_one_local_table(tmp_path: Path, effort: Callable[[int, int], int]) -> None:
    kinds = ["seiche", "pylance"] * 4
    commits = effort(20, 100)
    table = Table.create(str(tmp_path / "t"), table_writers.SCHEMA)
    reports = race(kinds, "append", commits, str(tmp_path / "t"))
    print(summary(kinds, reports))
    check_appends(table, kinds, reports)
    assert sum(len(report.done) for report in reports) == 8 * commits


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_of_each_append_to_one_table_on_s3(seaweedfs: S3Server, effort: Callable[[int, int], int]) -> None:
    kinds = ["seiche", "pylance"] * 2
    commits = effort(10, 100)
    uri = seaweedfs.uri()
    table = Table.create(uri, table_writers.SCHEMA, **seaweedfs.options)
    reports = race(kinds, "append", commits, uri, **seaweedfs.options)
    print(summary(kinds, reports))
    check_appends(table, kinds, reports)
    assert sum(len(report.done) for report in reports) == 4 * commits


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_of_each_delete_rows_of_one_fragment(tmp_path: Path, effort: Callable[[int, int], int]) -> None:
    """Each its own rows, all in one fragment: every commit merges its deletion vector with those of both engines."""
    kinds = ["seiche", "pylance"] * 2
    commits = effort(8, 60)
    ids = [number * SPAN + one for number in range(4) for one in range(commits)]
    stays = [10 * SPAN, 10 * SPAN + 1]
    table = Table.create(str(tmp_path / "t"), table_writers.SCHEMA)
    table.append(table_writers.rows([*ids, *stays], 9))
    reports = race(kinds, "delete", commits, str(tmp_path / "t"))
    print(summary(kinds, reports))
    dataset: Any = table.to_lance()
    dataset.validate()
    assert sorted(dataset.to_table(columns=["id"])["id"].to_pylist()) == stays
    assert [version for version, _ in table.transactions()] == list(range(1, table.version + 1))
    assert table.version == 2 + len(ids), "a row was deleted twice, or two rows with one commit"
    (fragment,) = table.manifest.fragments
    assert fragment.deletion_file.num_deleted_rows == len(ids)
