"""Clock, randomness and ids in one value that is passed down, so that a whole run can be replayed from a seed."""

import random
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from seiche.core.clock import Clock, SimulatedClock, SystemClock

__all__ = ["SYSTEM", "Runtime"]

_MILLIS: Final = (1 << 48) - 1
_LOW: Final = (1 << 62) - 1
# The bits of a random id that say that it is one, and all others.
_VERSION_4: Final = 4 << 76 | 2 << 62
_NOT_FIXED: Final = ~(0xF << 76 | 3 << 62)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The only source of time, chance and identity in the engine (lint forbids every other)."""

    clock: Clock
    random: random.Random

    @classmethod
    def seeded(cls, seed: int) -> "Runtime":
        """A runtime in simulated time whose every draw follows from `seed`."""
        return cls(SimulatedClock(), random.Random(seed))

    def __repr__(self) -> str:
        """Short, because it is part of many signatures."""
        return f"Runtime({type(self.clock).__name__}, {type(self.random).__name__})"

    def __reduce__(self) -> str | tuple[object, ...]:
        # That of the system is the same in every process, and draws from what cannot be sent.
        return "SYSTEM" if self is SYSTEM else (Runtime, (self.clock, self.random))

    def uuid(self) -> UUID:
        """A fresh random id."""
        return UUID(int=self.random.getrandbits(128), version=4)

    def ordered_uuid(self) -> UUID:
        """A fresh id (version 7) that sorts behind those of earlier milliseconds.

        For what is kept in the order of its ids: what is made together stands together, so that writing it touches one
        place of the tree and not as many as there are ids, and looking whether it is there touches what is in memory.
        """
        millis = int(self.clock.now().timestamp() * 1000) & _MILLIS
        drawn = self.random.getrandbits(74)
        return UUID(int=millis << 80 | 7 << 76 | (drawn >> 62) << 64 | 2 << 62 | drawn & _LOW)

    def uuid_text(self) -> str:
        """The same as `str(uuid())`: the same draw, without the object between."""
        drawn = self.random.getrandbits(128) & _NOT_FIXED | _VERSION_4
        digits = f"{drawn:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def u64(self) -> int:
        """A random 64-bit number, for names that only need to differ."""
        return self.random.getrandbits(64)

    @staticmethod
    def derived_uuid(namespace: UUID, name: str) -> UUID:
        """The id that follows from `name`: the same for everybody who asks."""
        return uuid5(namespace, name)


# SystemRandom draws from the operating system at each call: forked workers never repeat each other's ids.
SYSTEM = Runtime(SystemClock(), random.SystemRandom())
