"""All verbs of a lake on real rows, in any order, each met by a failure or by another process at any storage call.

What others show of each verb by itself is looked at here together, on a disk whose files are flushed as they are by
default: statements, operators and clean-ups without any grace. After every step each kept version has the rows that a
dictionary says, `fsck` finds nothing, and what was acknowledged is there.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import Lake, SeicheError
from seiche.errors import Corrupt
from seiche.lake.care.given_up import GivenUp
from seiche.store.base import Store
from seiche.store.local import LocalStore
from seiche.testing import SimulatedStore
from seiche.testing.simulated import Fault, Stopped
from seiche.testing.wrapping import Call

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
TABLES: dict[str, dict[str, Any]] = {"shop.a": {"stable_row_ids": True}, "shop.b": {}, "shop.i": {"format": "iceberg"}}
FAULTS: tuple[Fault, ...] = ("stop_before", "stop_after", "before", "lost", "after", "late")
SMALL = {"order": 4, "node_file_max_size_bytes": 4096, "root_buffer_max_size_bytes": 1500}

Content = dict[str, dict[int, int]]
# What is done to the lake, and what that makes of its content.
Step = tuple[Callable[[Lake], object], Callable[[Content], Content]]


class Disk(SimulatedStore):
    """A disk on which nobody waits for his turn: the other process would wait for a call of this one."""

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        return nullcontext(False)


class World:
    """A lake, and what must be in each of its versions."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.ids = 0
        self.met = 0
        self.past: dict[int, Content] = {}
        lake = seiche.create(folder, settings=SMALL)
        lake.create_namespace("shop")
        for name, options in TABLES.items():
            lake.create_table(name, SCHEMA, **options)
        self.past[lake.version] = {name: {} for name in TABLES}

    def step(self) -> None:
        """One verb by one process, which may die, and in the middle of which another may come."""
        mine, other = self.any_step(), self.any_step()
        store = Disk(LocalStore(self.folder), plan=self._plan())
        comes_at = self.chance.randrange(1, 40) if self.chance.random() < 0.4 else 0
        waiting, steps = ([other] if comes_at else []), [mine]

        def met(_call: Call) -> None:
            # Native readers ask from several threads: whoever takes it out of the list lets it in.
            if len(store.calls) + 1 < comes_at:
                return
            try:
                steps.append(waiting.pop())
            except IndexError:
                return
            self.met += 1
            self._done(self.folder, other)

        store.on_call = met
        acknowledged = False
        with suppress(Stopped):
            acknowledged = self._done(store, mine)
        store.on_call = None
        store.deliver()
        self.look(steps, mine if acknowledged else None)

    @staticmethod
    def _done(place: Path | Store, step: Step) -> bool:
        try:
            step[0](seiche.open(place))
        except Corrupt:
            raise
        except SeicheError:
            return False
        return True

    def _plan(self) -> dict[int, Fault]:
        return {self.chance.randrange(1, 50): self.chance.choice(FAULTS)} if self.chance.random() < 0.4 else {}

    def any_step(self) -> Step:
        """Some verb on some table, by the rows that are there now."""
        now = self.past[max(self.past)]
        name = self.chance.choice(list(TABLES))
        some = self.chance.sample(sorted(now[name]), min(len(now[name]), self.chance.randrange(1, 4)))
        chosen = f"id IN ({', '.join(map(str, some or [-1]))})"
        self.ids += 2
        new, value = [self.ids, self.ids + 1], self.ids
        lance = name != "shop.i"
        kept = [version for version in self.past if version not in self.given_up()]
        target = self.chance.choice(kept)

        def same(content: Content) -> Content:
            return content

        verbs: list[Step] = [
            (lambda lake: lake.table(name).append([{"id": one, "n": value} for one in new]), _put(name, new, value)),
            (lambda lake: lake.table(name).delete(chosen), _without(name, some)),
            (lambda lake: lake.table(name).update({"n": str(value)}, where=chosen), _changed(name, some, value)),
            (lambda lake: lake.rollback(target), lambda _: self.past[target]),
            (lambda lake: lake.expire(older_than=0, keep=self.chance.randrange(1, 4)), same),
            (lambda lake: lake.gc(dry_run=False, grace=0, window=self.chance.choice(["0s", "7d"])), same),
            (lambda lake: lake.tag(f"tag-{value}", target), same),
            (untagged, same),
            (lambda lake: lake.fsck(repair=True), same),
        ]
        if lance:
            verbs += [
                (lambda lake: lake.table(name).create_index("n", replace=True), same),
                (lambda lake: lake.table(name).compact(), same),
            ]
        return self.chance.choice([*verbs[:3] * 2, *verbs])

    def given_up(self) -> set[int]:
        """The versions that cannot be read any more."""
        return set(GivenUp.of(seiche.open(self.folder).state()).versions)

    def look(self, steps: list[Step], acknowledged: Step | None) -> None:
        """Each new version is what one of the steps, each at most once, makes of the one before, or the same again."""
        lake = seiche.open(self.folder)
        before = max(self.past)
        left = list(steps)
        for version in range(before + 1, lake.version + 1):
            was = self.past[version - 1]
            expired = version in self.given_up()
            found = next(self._explained(left, was, None if expired else rows(version, self.folder)), None)
            assert found is not None, f"version {version} has rows that nobody asked for"
            step, self.past[version] = found
            if step is not None:
                left.remove(step)
        if acknowledged in left and acknowledged is not None:
            do_nothing = [acknowledged[1](self.past[one]) == self.past[one] for one in range(before, lake.version + 1)]
            assert any(do_nothing), "it was acknowledged, and is not there"
        assert lake.fsck(deep=True).ok
        gone = self.given_up()
        for version in self.chance.sample(sorted(self.past), min(len(self.past), 3)):
            assert version in gone or rows(version, self.folder) == self.past[version]

    @staticmethod
    def _explained(steps: list[Step], was: Content, found: Content | None) -> Iterator[tuple[Step | None, Content]]:
        if found in (None, was):
            yield None, was
        for step in steps:
            if step[1](was) == found:
                yield step, step[1](was)


def untagged(lake: Lake) -> None:
    """Take all tags away."""
    for one in lake.tags():
        lake.untag(one)


def _put(name: str, ids: list[int], value: int) -> Callable[[Content], Content]:
    return lambda content: {**content, name: content[name] | dict.fromkeys(ids, value)}


def _without(name: str, ids: list[int]) -> Callable[[Content], Content]:
    return lambda content: {**content, name: {one: n for one, n in content[name].items() if one not in ids}}


def _changed(name: str, ids: list[int], value: int) -> Callable[[Content], Content]:
    return lambda content: {**content, name: {one: value if one in ids else n for one, n in content[name].items()}}


def rows(version: int, folder: Path) -> Content:
    """What is in a version."""
    lake = seiche.open(folder, version=version)
    found = {name: lake.table(name).to_arrow().to_pylist() for name in TABLES}
    assert all(len({one["id"] for one in some}) == len(some) for some in found.values()), "a row is there twice"
    return {name: {one["id"]: one["n"] for one in some} for name, some in found.items()}


def run(folder: Path, seed: int, steps: int) -> World:
    """So many steps on a lake of its own."""
    world = World(folder, seed)
    for number in range(steps):
        try:
            world.step()
        except BaseException as error:
            error.add_note(f"seed {seed}, step {number}")
            raise
    return world


@pytest.mark.soak
def test_any_verbs_in_any_order_met_by_anything(tmp_path: Path, effort: Callable[[int, int], int]) -> None:
    worlds = [run(tmp_path / str(seed), seed, effort(15, 40)) for seed in range(effort(2, 60))]
    made, met = sum(len(world.past) for world in worlds), sum(world.met for world in worlds)
    print(f"{len(worlds)} lakes, {made} versions, {met} meetings")
    assert made >= effort(8, 900)
    assert met >= effort(1, 120)
