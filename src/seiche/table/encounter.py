"""Two transactions that meet: ours, and one that was committed first."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from seiche.errors import NotFound, SeicheError
from seiche.table.conflicts import Committed, Dispute, conflict, forgotten
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Operation
from seiche.table.transaction import Transaction

__all__ = ["Encounter", "listed"]


@dataclass(frozen=True, slots=True)
class Encounter:
    """The transaction being committed, a commit that came first, and the version that ours was made from."""

    transaction: Transaction
    other: Committed
    load: Callable[[], Manifest]
    table: str = "table"

    @property
    def ours(self) -> Operation:
        return self.transaction.operation

    @property
    def theirs(self) -> Operation:
        return self.other.transaction.operation

    def read(self) -> Manifest:
        """The version that ours was made from. If it is no longer kept, nothing can be compared: a retry."""
        try:
            return self.load()
        except NotFound as error:
            raise forgotten(self.transaction, self.table) from error

    def conflict(self, outcome: str, dispute: Dispute) -> SeicheError:
        return conflict(outcome, dispute, self.transaction, self.other, self.table)

    def retry(self, what: str, *fragments: int) -> SeicheError:
        """The conflict that is over when ours is run again; `what` the other one did, to which fragments."""
        return self.conflict("retry", Dispute(what, fragments))


def listed(noun: str, ids: Iterable[int]) -> str:
    """`fragments 3, 4`: the first few, and how many more."""
    everything = list(ids)
    shown = ", ".join(map(str, everything[:10]))
    more = f" and {len(everything) - 10} more" if len(everything) > 10 else ""
    return f"{noun}{'' if len(everything) == 1 else 's'} {shown}{more}"
