"""Commits that put up a fence: whoever began before it cannot commit behind it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from seiche.core.runtime import Runtime
from seiche.lake.commit.edits import Planned
from seiche.lake.commit.intent import Intent
from seiche.lake.state import State

__all__ = ["Fence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence(Intent):
    """Raises `min_base`, and writes what follows from it in the same root.

    What is written is made from whatever version is the newest when the fence is put up: nothing that others commit
    until then can be missed.
    """

    write: Callable[[State], Mapping[bytes, bytes | None]]

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        yield Planned(self.write(state))
