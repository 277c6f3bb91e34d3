"""The scheduler itself: every schedule once, the same schedule the same run, and faults that it must find."""

from collections.abc import Callable, Sequence

from seiche.errors import AlreadyExists, NotFound
from seiche.testing import DictStore, SimulatedStore
from seiche.testing.scheduling import Process, explore, sample
from seiche.testing.wrapping import Call


def counters(increments: int, *, atomic: bool) -> Callable[[], Sequence[Process[int]]]:
    """Two processes that count up in files named by number; without atomic creation they lose counts."""

    def processes() -> Sequence[Process[int]]:
        inner = DictStore()

        def process(on_call: Callable[[Call], None]) -> int:
            store = SimulatedStore(inner, on_call=on_call)
            done = 0
            while done < increments:
                number = 0
                while store.exists(f"n/{number}"):
                    number += 1
                if atomic:
                    try:
                        store.put_if_absent(f"n/{number}", b"")
                        done += 1
                    except AlreadyExists:
                        continue
                else:
                    store.put(f"n/{number}", b"")
                    done += 1
            return len(list(inner.list("n")))

        return [process, process]

    return processes


def test_a_check_and_a_write_are_seen_to_race_and_one_atomic_call_is_not() -> None:
    lost = [run for run in explore(counters(1, atomic=False), switches=1) if max(map(int, _found(run.results))) < 2]
    assert lost, "no schedule showed the lost count"
    kept = [max(map(int, _found(run.results))) for run in explore(counters(1, atomic=True), switches=3)]
    assert set(kept) == {2}


def test_no_schedule_comes_twice_and_more_switches_are_more_schedules() -> None:
    counts = []
    for switches in (0, 1, 2):
        schedules = [run.schedule for run in explore(counters(1, atomic=True), switches=switches)]
        assert len(schedules) == len(set(schedules))
        counts.append(len(schedules))
    assert counts[0] == 2
    assert counts[0] < counts[1] < counts[2]


def test_a_seed_is_a_schedule() -> None:
    one, again = sample(counters(3, atomic=True), 7), sample(counters(3, atomic=True), 7)
    assert one.schedule == again.schedule
    assert one.results == again.results
    assert len({sample(counters(3, atomic=True), seed).schedule for seed in range(20)}) > 10


def test_what_a_process_raises_is_reported_and_the_others_go_on() -> None:
    def processes() -> Sequence[Process[str]]:
        inner = DictStore()

        def failing(on_call: Callable[[Call], None]) -> str:
            SimulatedStore(inner, on_call=on_call).get("nothing")
            return "not reached"

        def fine(on_call: Callable[[Call], None]) -> str:
            SimulatedStore(inner, on_call=on_call).put("something", b"")
            return "done"

        return [failing, fine]

    for run in explore(processes):
        assert isinstance(run.errors[0], NotFound)
        assert run.results == (None, "done")


def _found(results: Sequence[int | None]) -> list[int]:
    return [result for result in results if result is not None]
