"""The power fails while processes commit, again and again: what was acknowledged is there afterwards, and sound."""

import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import seiche
from seiche.store.local import Durability
from tests.failing_disk import FailingDisk, failing_disk
from tests.processes import CONTEXT

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
# Ids of one process begin at a multiple of this.
SPAN = 1_000_000
# Values of a few bytes, of several pages, and of many.
LENGTHS = (1, 10_000, 300_000)
# What costs time only, and what the next commit makes up for: a version that was decided has not got its plain name.
HARMLESS = {"hint.stale", "published.missing"}


def change_a_lake(uri: str, durability: Durability) -> Callable[[int], object]:
    """Two tables of two formats in one transaction; every now and then a compaction."""
    lake = seiche.open(uri, durability=durability)

    def act(one: int) -> None:
        with lake.transaction() as tx:
            tx.append("s.lance", rows(one))
            tx.append("s.iceberg", rows(one))
        if one % 10 == 0:
            lake.table("s.lance").compact()

    return act


def change_a_table(uri: str, durability: Durability) -> Callable[[int], object]:
    """A table without a lake: appends, and upserts among them."""
    table = seiche.Table.open(uri, durability=durability)

    def act(one: int) -> None:
        if one % 5 == 0:
            table.merge(rows(one), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
        else:
            table.append(rows(one))

    return act


def rows(one: int) -> pa.Table:
    return pa.table({"id": [one], "text": ["x" * LENGTHS[one % len(LENGTHS)]]}, schema=SCHEMA)


def work(kind: str, number: int, uri: str, durability: Durability, told: Path) -> None:
    """One of the processes: write down the id of each row whose commit was acknowledged, until the disk is gone."""
    act = {"lake": change_a_lake, "table": change_a_table}[kind](uri, durability)
    with told.open("w", buffering=1, encoding="utf-8") as file:
        for one in count(number * SPAN + 1):
            try:
                act(one)
            except Exception as error:
                file.write(f"{type(error).__module__}.{type(error).__name__}: {error}"[:200].replace("\n", " "))
                return
            file.write(f"{one}\n")


class Shop:
    """A lake and a table on a disk whose power fails, and what its writers were told is there."""

    def __init__(self, disk: FailingDisk, told: Path, durability: Durability = "fsync") -> None:
        self._disk, self._told, self._durability = disk, told, durability
        self.acknowledged: dict[str, set[int]] = {"lake": set(), "table": set()}
        self._started = 0
        lake = seiche.create(str(disk.path / "lake"))
        lake.create_namespace("s")
        lake.create_table("s.lance", SCHEMA)
        lake.create_table("s.iceberg", SCHEMA, format="iceberg")
        seiche.Table.create(str(disk.path / "table"), SCHEMA)

    def work_until_the_power_fails(self, seconds: float) -> None:
        """Three processes commit; `seconds` after each of them was told of its first commit, the power fails."""
        running = []
        for kind in ("lake", "lake", "table"):
            self._started += 1
            told = self._told / str(self._started)
            arguments = (kind, self._started, str(self._disk.path / kind), self._durability, told)
            process = CONTEXT.Process(target=work, args=arguments)
            process.start()
            running.append((kind, process, told))
        begin = time.monotonic()
        while not all(told.exists() and told.stat().st_size for _, _, told in running):
            assert time.monotonic() - begin < 60, "nobody commits"
            time.sleep(0.01)
        time.sleep(seconds)
        self._disk.cut_power()
        for kind, process, told in running:
            process.join(60)
            assert process.exitcode == 0, f"{kind}: {process.exitcode}"
            *done, failed = told.read_text().splitlines()
            assert failed.startswith("seiche.errors."), "trouble with the disk is told as what it is"
            self.acknowledged[kind] |= set(map(int, done))
        self._disk.unmount()
        self._disk.mount()

    def lost(self) -> int:
        """How many commits that were acknowledged are not there. Nothing may be there twice or in one table only."""
        lake = seiche.open(str(self._disk.path / "lake"))
        table = seiche.Table.open(str(self._disk.path / "table"))
        held = {
            "lake": lake.table("s.lance").to_arrow().column("id").to_pylist(),
            "iceberg": lake.table("s.iceberg").to_arrow().column("id").to_pylist(),
            "table": table.to_arrow().column("id").to_pylist(),
        }
        assert sorted(held["lake"]) == sorted(held["iceberg"])
        assert all(len(ids) == len(set(ids)) for ids in held.values())
        assert lake.fsck(deep=True).kinds() <= HARMLESS
        return sum(len(done - set(held[kind])) for kind, done in self.acknowledged.items())


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_what_was_acknowledged_is_there(
    tmp_path: Path, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(7)
    with failing_disk(tmp_path) as disk:
        shop = Shop(disk, tmp_path)
        for _ in range(effort(1, 60)):
            shop.work_until_the_power_fails(chance.uniform(0.0, effort(1, 3)))
            assert shop.lost() == 0
    record_property("acknowledged", sum(map(len, shop.acknowledged.values())))


def test_without_flushing_it_is_not(tmp_path: Path) -> None:
    """The planted fault: this disk forgets what nobody flushed."""
    with failing_disk(tmp_path) as disk:
        shop = Shop(disk, tmp_path, durability="os")
        shop.work_until_the_power_fails(0.2)
        with pytest.raises((AssertionError, seiche.SeicheError)):
            assert shop.lost() == 0
