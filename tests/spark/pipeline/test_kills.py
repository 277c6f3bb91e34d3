"""Drivers and executors that are killed at some moment: readers see complete publishes only, every row counts once."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

import seiche
from examples.cluster.cluster import Cluster
from seiche.errors import NotFound, SeicheError
from seiche.spark.pipeline.run import run
from seiche.spark.pipeline.yaml_file import load
from tests.spark.quick import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMAND = str(Path(sys.executable).parent / "seiche")
PIPELINE = """\
lake: lake
sources:
  raw: {format: csv, path: "in/*.csv", schema: "id BIGINT, customer STRING", new: true}
steps:
  - {table: shop.orders, mode: append, sql: "SELECT id, customer FROM raw"}
  - {table: shop.latest, mode: merge, key: customer, sql: "SELECT customer, max(id) AS id FROM raw GROUP BY customer"}
  - {table: shop.counts, sql: "SELECT customer, count(*) AS orders FROM shop.orders GROUP BY customer"}
checks:
  - foreign_key: {table: shop.orders, columns: customer, references: shop.counts}
"""
# Two shops at a time, since most of a run is one processor that starts Spark.
SHOPS = 2
# What the command prints while it works; it is killed when it says one of these, or a random while after.
MOMENTS = ("shop.orders: running", "shop.orders: ", "shop.counts: running", "shop.counts: ", "checking", "passed")


class Shop:
    """A folder with the pipeline, the files that come in, and everything that must be in the table at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[int] = []
        (folder / "shop.yaml").write_text(PIPELINE)
        (folder / "in").mkdir()

    def deliver(self) -> None:
        """A new file."""
        new = range(len(self.rows), len(self.rows) + 100)
        text = "".join(f"{one},customer-{one % 7}\n" for one in new)
        (self.folder / "in" / f"{len(self.rows):06}.csv").write_text(text)
        self.rows += new

    @property
    def lake(self) -> seiche.Lake:
        return seiche.open(str(self.folder / "lake"))

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """The pipeline in a process group of its own."""
        command = [COMMAND, "run", "shop.yaml", *options]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, *options: str) -> None:
        """The pipeline, left in peace."""
        process = self.start(*options)
        said = process.communicate()[1]
        assert process.returncode == 0, said


class Reader(Thread):
    """Looks at all tables of the newest version, again and again, and notes what does not fit together."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(daemon=True)
        self._shop = shop
        self.stop = Event()
        self.looks = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.stop.wait(0.1):
            self._look()
        self._look()

    def _look(self) -> None:
        try:
            lake = self._shop.lake
            pinned = seiche.open(lake.store, version=lake.version)
            orders = Counter(pinned.table("shop.orders").to_arrow()["customer"].to_pylist())
            counts = {row["customer"]: row["orders"] for row in pinned.table("shop.counts").to_arrow().to_pylist()}
            latest = set(pinned.table("shop.latest").to_arrow()["customer"].to_pylist())
        except NotFound:
            return  # nothing is published yet
        self.looks += 1
        if orders != counts or latest != set(counts):
            self.wrong.append(f"version {pinned.version}: {orders}, {counts}, {latest}")


@contextmanager
def reading(shop: Shop) -> Iterator[Reader]:
    """A reader for the length of the block; afterwards, everything that it saw must have been complete."""
    reader = Reader(shop)
    reader.start()
    try:
        yield reader
    finally:
        reader.stop.set()
        reader.join()
    assert reader.looks > 0
    assert reader.wrong == []


def waited(process: "subprocess.Popen[str]", moment: str, wait: float) -> bool:
    """Wait until the run says this, and then a while; whether it is still running."""
    assert process.stderr is not None
    for line in process.stderr:
        if moment in line:
            break
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait)
    return process.poll() is None


def descendants(pid: int, word: str) -> list[int]:
    """Processes below this one whose command line has the word."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        with suppress(OSError):
            for thread in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
            if one != pid and word in Path(f"/proc/{one}/cmdline").read_text():
                found.append(one)
    return found


def python_workers(spark: "SparkSession") -> list[int]:
    """On one machine the executor is the driver; what can die by itself are the Python processes of its tasks."""
    return descendants(spark.sparkContext._gateway.proc.pid, "daemon")  # type: ignore[union-attr]


def on_one_machine(folder: Path, spark: "SparkSession") -> None:
    """A driver dies; then the workers of a run do, which may go on; then it is left in peace."""
    shop, chance = Shop(folder), random.Random(11)
    definition = load(folder / "shop.yaml")
    with reading(shop):
        shop.deliver()
        process = shop.start(*configured(QUICK))
        assert waited(process, MOMENTS[chance.randrange(len(MOMENTS))], chance.random() / 2)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        killed: list[int] = []

        def kill_workers(what: str, state: str) -> None:
            if (what, state) in {("shop.latest", "running"), ("shop.counts", "running")}:
                for one in python_workers(spark):
                    with suppress(ProcessLookupError):
                        os.kill(one, signal.SIGKILL)
                    killed.append(one)

        shop.deliver()
        with suppress(SeicheError):  # Spark gives up a task that fails twice
            run(definition, spark, progress=kill_workers)
        assert killed
        shop.deliver()
        assert run(definition, spark).published
    assert sorted(shop.lake.table("shop.orders").to_arrow()["id"].to_pylist()) == shop.rows
    assert shop.lake.fsck().ok


def kill_executor(cluster: Cluster, chance: random.Random) -> bool:
    """Kill one executor of a cluster on this machine, whoever it works for; whether there was one."""
    workers = cluster.processes[1:]
    found = [one for worker in workers for one in descendants(worker.pid, "CoarseGrainedExecutorBackend")]
    if found:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
    return bool(found)


def killed_again_and_again(shop: Shop, cluster: Cluster, options: tuple[str, ...], kills: int) -> "Counter[str]":
    """Executors die, and then most drivers. A run that loses an executor goes on; one that loses its driver is run
    again, with the files that came meanwhile. In the end every row is there once.
    """
    chance = random.Random(shop.folder.name)
    done: Counter[str] = Counter()
    with reading(shop) as reader:
        while done["drivers killed"] + done["executors killed"] < kills:
            shop.deliver()
            process = shop.start(*options)
            if waited(process, chance.choice(MOMENTS[:3]), chance.random() / 2) and kill_executor(cluster, chance):
                done["executors killed"] += 1
            if waited(process, chance.choice(MOMENTS), chance.random() / 2) and chance.random() < 0.7:
                os.killpg(process.pid, signal.SIGKILL)
                done["drivers killed"] += 1
            said = process.communicate()[1]
            assert process.returncode in (0, -signal.SIGKILL), said
            done["runs that went on"] += process.returncode == 0
            print(shop.folder.name, dict(done), flush=True)
        shop.finish(*options)
    done["looks"] = reader.looks
    done["versions"] = shop.lake.version
    done["rows"] = len(shop.rows)
    assert sorted(shop.lake.table("shop.orders").to_arrow()["id"].to_pylist()) == shop.rows
    assert shop.lake.fsck().ok
    return done


def on_a_cluster(folder: Path, kills: int) -> None:
    """Two shops on one cluster, whose drivers and executors die at random moments."""
    shops = []
    for number in range(SHOPS):
        (folder / f"shop-{number}").mkdir()
        shops.append(Shop(folder / f"shop-{number}"))
    with ExitStack() as stack:
        cluster = Cluster(folder)
        stack.callback(cluster.stop)
        master = cluster.start_master()
        cluster.start_workers(master, 2 * SHOPS, "700m")
        settings = {
            **QUICK,
            "spark.cores.max": "2",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
        }
        # What the first driver has loaded is kept in a form that the others start from in half the time.
        java, classes = settings["spark.driver.extraJavaOptions"], folder / "classes.jsa"
        settings["spark.driver.extraJavaOptions"] = f"{java} -XX:ArchiveClassesAtExit={classes}"
        shops[0].deliver()
        shops[0].finish("--master", master, *configured(settings))
        for who in ("driver", "executor"):
            settings[f"spark.{who}.extraJavaOptions"] = f"{java} -XX:SharedArchiveFile={classes}"
        options = ("--master", master, *configured(settings))
        with ThreadPoolExecutor(SHOPS) as pool:
            done = [pool.submit(killed_again_and_again, one, cluster, options, kills // SHOPS) for one in shops]
        total = sum((one.result() for one in done), Counter[str]())
    print(dict(total))
    assert min(total["drivers killed"], total["executors killed"]) >= kills // 4


def configured(settings: dict[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_at_random_moments(tmp_path: Path, spark: "SparkSession", effort: Callable[[int, int], int]) -> None:
    for name in ("machine", "cluster"):
        (tmp_path / name).mkdir()
    on_one_machine(tmp_path / "machine", spark)
    if kills := effort(0, 50):
        on_a_cluster(tmp_path / "cluster", kills)
