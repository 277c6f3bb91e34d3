"""Pipelines on storage that is full, that this user may not write to, and that is an object store: as it really is."""

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import seiche
from seiche.cli import main
from seiche.spark.pipeline import Pipeline
from seiche.spark.pipeline.records import record, runs
from seiche.spark.pipeline.run import run
from tests.servers import S3Server
from tests.spark.pipeline.test_kills import python_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = """\
lake: lake
steps:
  - {{table: shop.small, sql: SELECT 1 AS id}}
  - {{table: shop.numbers, sql: "SELECT explode(sequence(1, {rows})) AS id, rand(1) AS x"}}
"""
NOBODY = 65534
# Enough for everything but the numbers.
ROOM = 2 << 20
MANY, FEW = 400_000, 10


class Numbers:
    """A pipeline whose table is as large as one likes, and the command that runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, rows: int) -> int:
        (self.folder / "numbers.yaml").write_text(NUMBERS.format(rows=rows))
        return main(["run", str(self.folder / "numbers.yaml")])

    @property
    def lake(self) -> seiche.Lake:
        return seiche.open(str(self.folder / "lake"))

    def changed_since(self, version: int) -> set[str]:
        return {one.name for one in self.lake.diff(version, self.lake.version).objects if one.name.startswith("shop")}


@contextmanager
def small_disk(folder: Path, spark: "SparkSession") -> Iterator[Callable[[], object]]:
    """A file system of its own that has no room for many numbers; gives what makes it larger."""
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", f"size={ROOM}", "none", str(folder)]
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system")
    try:
        yield lambda: subprocess.run([mount, "-o", f"remount,size={64 * ROOM}", folder], check=True)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def small_files(folder: Path, spark: "SparkSession") -> Iterator[Callable[[], object]]:
    """The kernel lets the workers of Spark write no large files; gives what makes it let them."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(soft: int) -> None:
        for one in python_workers(spark):
            resource.prlimit(one, resource.RLIMIT_FSIZE, (soft, before[1]))

    spark.range(1).mapInArrow(lambda batches: batches, "id bigint").collect()  # there are workers
    limit(ROOM)
    try:
        yield lambda: limit(before[0])
    finally:
        limit(before[0])


@pytest.mark.parametrize(
    ("full", "said"), [(small_disk, "No space left on device"), (small_files, "File too large")], ids=["disk", "files"]
)
def test_a_full_disk(
    full: Any, said: str, tmp_path: Path, spark: "SparkSession", capfd: pytest.CaptureFixture[str]
) -> None:
    """The kernel refuses what workers write: one line says so and where, nothing is published, later it goes on."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with full(folder, spark) as grow:
        shop = Numbers(folder)
        assert shop.run(FEW) == 0
        before = shop.lake.version
        capfd.readouterr()
        assert shop.run(MANY) == 5
        *_, last = capfd.readouterr().err.splitlines()
        assert last.startswith("seiche: unavailable: ")
        assert "numbers.yaml:4: step shop.numbers: " in last
        assert said in last
        assert shop.changed_since(before) == set()
        grow()
        assert shop.run(MANY) == 0
        assert shop.lake.table("shop.numbers").to_arrow().num_rows == MANY


@contextmanager
def without_rights(lake: Path) -> Iterator[None]:
    """This process may not write to the lake; if it is the administrator, to whom modes mean nothing, as another."""
    administrator = os.geteuid() == 0
    folders = [lake, *(path for path in lake.rglob("*") if path.is_dir())]
    modes = {path: path.stat().st_mode for path in folders}
    for path in folders:
        path.chmod(0o555)
    if administrator:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if administrator:
            os.seteuid(0)
        for path in folders:
            path.chmod(modes[path])


def test_no_permission(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Said before Spark is asked for anything; and by the commit itself, should the right be taken away meanwhile."""
    with tempfile.TemporaryDirectory() as made:  # one that others can look into
        folder = Path(made)
        folder.chmod(0o755)
        shop = Numbers(folder)
        assert shop.run(FEW) == 0
        before = shop.lake.version
        (folder / "numbers.yaml").chmod(0o666)
        capfd.readouterr()
        with without_rights(folder / "lake"):
            assert shop.run(FEW) == 2
            said = capfd.readouterr().err.splitlines()
            assert len(said) == 1, said
            assert said[0].startswith("seiche: permission_denied: ")
            assert "this user may not write there" in said[0]
        with ExitStack() as stack, monkeypatch.context() as patch:

            def recorded(*given: Any) -> None:
                record(*given)
                stack.enter_context(without_rights(folder / "lake"))

            patch.setattr("seiche.spark.pipeline.run.record", recorded)
            assert shop.run(FEW) == 2
        *_, last = capfd.readouterr().err.splitlines()
        assert last.startswith("seiche: permission_denied: ")
        assert shop.lake.version == before
        assert shop.run(FEW) == 0


def test_a_disk_that_is_full_at_the_last_moment(tmp_path: Path, spark: "SparkSession", monkeypatch: Any) -> None:
    """Everything is built, and the kernel refuses what would publish it: nothing is, and the next run does it all."""
    pipeline = Pipeline("last", str(tmp_path / "lake"))
    pipeline.source("words", format="text", path=str(tmp_path / "*.txt"), new=True)
    pipeline.step("shop.words", mode="append", sql="SELECT value FROM words")
    (tmp_path / "one.txt").write_text("one\n")
    assert pipeline.run(spark).published
    lake = seiche.open(str(tmp_path / "lake"))
    before, limits = lake.version, resource.getrlimit(resource.RLIMIT_FSIZE)
    (tmp_path / "two.txt").write_text("two\n")

    def recorded(*given: Any) -> None:
        record(*given)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))

    with monkeypatch.context() as patch:
        patch.setattr("seiche.spark.pipeline.run.record", recorded)
        try:
            with pytest.raises(seiche.Unavailable, match="File too large"):
                pipeline.run(spark)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert lake.version == before
    assert pipeline.run(spark).published
    assert sorted(lake.table("shop.words").to_arrow()["value"].to_pylist()) == ["one", "two"]


def test_two_pipelines_on_an_object_store(seaweedfs: S3Server, spark: "SparkSession") -> None:
    """There is no gate there; both make progress all the same, and each version fits together."""
    lake = seiche.create(seaweedfs.uri(), **seaweedfs.options)
    done: dict[str, int] = {}

    def publish(name: str) -> None:
        pipeline = Pipeline(name, lake.uri)
        pipeline.step(f"shop.{name}", mode="append", sql="SELECT explode(sequence(1, 5)) AS id")
        pipeline.step("shop.total", mode="append", sql=f"SELECT '{name}' AS who, count(*) AS rows FROM shop.{name}")
        pipeline.step("shop.last", sql="SELECT who, max(rows) AS rows FROM shop.total GROUP BY who")
        for _ in range(2):
            made = run(pipeline.definition, spark, lake=seiche.open(lake.store), attempts=50)
            done[name] = done.get(name, 0) + made.published

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(publish, ("one", "other")))
    assert done == {"one": 2, "other": 2}
    assert len(runs(lake)) == 4
    for version in range(1, seiche.open(lake.store).version + 1):
        then = seiche.open(lake.store, version=version)
        if ("shop", "last") not in then.tables("shop"):
            continue
        totals = then.table("shop.total").to_arrow().to_pylist()
        last = {row["who"]: row["rows"] for row in then.table("shop.last").to_arrow().to_pylist()}
        assert last == {who: max(row["rows"] for row in totals if row["who"] == who) for who in last}
        for who, rows in last.items():
            assert then.table(f"shop.{who}").to_arrow().num_rows == rows
