"""Time, chance and identity: real ones that are sane, simulated ones that repeat."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_URL, RFC_4122

from seiche.core.clock import SimulatedClock, SystemClock
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime


def test_simulated_clock_moves_only_when_told() -> None:
    clock = SimulatedClock(datetime(2030, 1, 1, tzinfo=UTC))
    assert clock.now() == clock.now() == datetime(2030, 1, 1, tzinfo=UTC)
    clock.sleep(1.5)
    clock.sleep(-9)
    clock.advance(0.5)
    assert clock.now() == datetime(2030, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert clock.monotonic() == 2.0
    clock.advance(-60)
    assert clock.now() < datetime(2030, 1, 1, tzinfo=UTC)


def test_system_clock_is_in_utc_and_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    first = clock.monotonic()
    clock.sleep(0)
    assert clock.monotonic() >= first


def test_seeded_runtime_repeats_everything() -> None:
    def draws(seed: int) -> list[object]:
        runtime = Runtime.seeded(seed)
        return [runtime.uuid(), runtime.u64(), runtime.random.random(), runtime.clock.now(), runtime.uuid()]

    assert draws(7) == draws(7)
    assert draws(7) != draws(8)


def test_uuids_are_random_version_4() -> None:
    made = {SYSTEM.uuid() for _ in range(1000)}
    assert len(made) == 1000
    assert {(uuid.version, uuid.variant) for uuid in made} == {(4, RFC_4122)}


def test_the_text_of_a_uuid_is_that_of_the_same_draw() -> None:
    ids, texts = Runtime.seeded(7), Runtime.seeded(7)
    assert [texts.uuid_text() for _ in range(100)] == [str(ids.uuid()) for _ in range(100)]


def test_u64_uses_all_64_bits() -> None:
    runtime = Runtime.seeded(1)
    seen = 0
    for _ in range(200):
        drawn = runtime.u64()
        assert 0 <= drawn < 1 << 64
        seen |= drawn
    assert seen == (1 << 64) - 1


def test_ordered_uuids_sort_by_the_time_they_were_made() -> None:
    runtime = Runtime.seeded(1)
    made = []
    for _ in range(300):
        made.append(runtime.ordered_uuid())
        runtime.clock.sleep(0.001)
    assert made == sorted(made, key=str)
    assert {(uuid.version, uuid.variant) for uuid in made} == {(7, RFC_4122)}
    assert made[0].int >> 80 == 1_893_456_000_000, "milliseconds since 1970"
    together = {SYSTEM.ordered_uuid() for _ in range(1000)}
    assert len(together) == 1000, "those of one moment differ as well"


def test_derived_uuid_is_the_same_for_everybody() -> None:
    first = Runtime.seeded(1).derived_uuid(NAMESPACE_URL, "key")
    assert first == SYSTEM.derived_uuid(NAMESPACE_URL, "key")
    assert first != SYSTEM.derived_uuid(NAMESPACE_URL, "other")


# In a process of its own: a fork of this one would carry along whatever libraries other tests have loaded.
FORKING = """
import os
from seiche.core.runtime import SYSTEM

SYSTEM.uuid()
for _ in range(4):
    if os.fork() == 0:
        os.write(1, f"{SYSTEM.uuid()}\\n".encode())
        os._exit(0)
for _ in range(4):
    os.wait()
"""


def test_forked_processes_do_not_repeat_each_others_ids() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    assert len(set(done.stdout.split())) == 4


def test_patience_gives_up_after_its_attempts() -> None:
    assert list(Patience(attempts=5).tries(Runtime.seeded(1))) == [1, 2, 3, 4, 5]


def test_patience_gives_up_after_its_timeout_but_always_tries_once() -> None:
    runtime = Runtime.seeded(1)
    tried = 0
    for _ in Patience(attempts=1000, timeout=10).tries(runtime):
        tried += 1
        runtime.clock.sleep(3)
    assert tried == 4
    assert list(Patience(timeout=0).tries(Runtime.seeded(1))) == [1]


def test_patience_waits_a_random_part_of_a_doubling_delay() -> None:
    class Recorder(SimulatedClock):
        waits: tuple[float, ...] = ()

        def sleep(self, seconds: float) -> None:
            self.waits += (seconds,)

    def waits(seed: int) -> tuple[float, ...]:
        clock = Recorder()
        patience = Patience(attempts=7, first_delay=1, longest_delay=8)
        for _ in patience.tries(Runtime(clock, Runtime.seeded(seed).random)):
            pass
        return clock.waits

    bounds = (1, 2, 4, 8, 8, 8)
    many = [waits(seed) for seed in range(200)]
    assert all(0 <= wait < bound for run in many for wait, bound in zip(run, bounds, strict=True))
    # Full jitter: every wait comes near zero and near its bound in some run, so that losers do not come back together.
    for position, bound in enumerate(bounds):
        drawn = [run[position] for run in many]
        assert min(drawn) < 0.1 * bound
        assert max(drawn) > 0.9 * bound
