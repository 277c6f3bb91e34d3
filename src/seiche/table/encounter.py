"""Two operations that meet: ours, and one that was committed first."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from seiche.table.conflicts import Committed
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Operation

__all__ = ["Encounter", "listed"]


@dataclass(frozen=True, slots=True)
class Encounter:
    """The operation being committed, a commit that came first, and the version that ours was made from."""

    ours: Operation
    other: Committed
    read: Callable[[], Manifest]

    @property
    def theirs(self) -> Operation:
        return self.other.transaction.operation


def listed(noun: str, ids: Iterable[int]) -> str:
    """`fragments 3, 4`: the first few, and how many more."""
    everything = list(ids)
    shown = ", ".join(map(str, everything[:10]))
    more = f" and {len(everything) - 10} more" if len(everything) > 10 else ""
    return f"{noun}{'' if len(everything) == 1 else 's'} {shown}{more}"
