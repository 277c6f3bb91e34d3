"""Clock, randomness and ids in one value that is passed down, so that a whole run can be replayed from a seed."""

import random
from dataclasses import dataclass
from uuid import UUID, uuid5

from seiche.core.clock import Clock, SimulatedClock, SystemClock

__all__ = ["SYSTEM", "Runtime"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """The only source of time, chance and identity in the engine (lint forbids every other)."""

    clock: Clock
    random: random.Random

    @classmethod
    def seeded(cls, seed: int) -> "Runtime":
        """A runtime in simulated time whose every draw follows from `seed`."""
        return cls(SimulatedClock(), random.Random(seed))

    def uuid(self) -> UUID:
        """A fresh random id."""
        return UUID(int=self.random.getrandbits(128), version=4)

    def u64(self) -> int:
        """A random 64-bit number, for names that only need to differ."""
        return self.random.getrandbits(64)

    @staticmethod
    def derived_uuid(namespace: UUID, name: str) -> UUID:
        """The id that follows from `name`: the same for everybody who asks."""
        return uuid5(namespace, name)


# SystemRandom draws from the operating system at each call: forked workers never repeat each other's ids.
SYSTEM = Runtime(SystemClock(), random.SystemRandom())
