"""How a transaction was decided before: by an earlier attempt, another process, or an operator."""

from typing import Final

from seiche.errors import NotFound
from seiche.lake.objects.rows import TransactionRow
from seiche.lake.state import State
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.root import Root
from seiche.store.base import Store

__all__ = ["check_not_done", "decided", "recorded", "root_if_any"]

_AT_ONCE: Final = 256
# How many versions behind the fence are looked through. Whoever is in the same group waits for that.
_FARTHEST: Final = 10_000


def decided(transaction_id: str, base: int, state: State) -> TransactionRow | None:
    """How a transaction that began at `base` or later ended; `None` if nobody has decided it.

    The tree forgets a transaction when its version expires, and that of one that began behind the fence may have. What
    is left of the roots tells: otherwise whoever slept meanwhile would hear that nothing was written, and do it again.
    Of very many, the last ones are asked.
    """
    found = state.outcome(transaction_id)
    if found is not None or base >= state.root.min_base:
        return found
    fence = state.root.min_base
    return recorded(transaction_id, range(max(base + 1, fence - _FARTHEST), fence), state.store)


def check_not_done(transaction_id: str, base: int, state: State) -> None:
    """`NotFound` if a transaction that cannot be gone on with is committed: who begins it anew would do it twice."""
    found = decided(transaction_id, base, state)
    if found is not None and found.outcome == "committed":
        raise NotFound(
            f"of transaction {transaction_id} nothing is left to go on with: it was committed in version"
            f" {found.version}",
            remedy="It is done. Do not begin it anew.",
            transaction_id=transaction_id,
            version=found.version,
        )


def recorded(transaction_id: str, versions: range, store: Store) -> TransactionRow | None:
    """How a transaction ended, if the root of one of these versions, or what is left of it, says so."""
    for first in range(versions.start, versions.stop, _AT_ONCE):
        some = range(first, min(first + _AT_ONCE, versions.stop))
        for root in store.in_parallel(lambda version: root_if_any(store, version), some):
            for record in () if root is None else root.transactions:
                if root is not None and record.id == transaction_id:
                    return TransactionRow(version=root.version, outcome=record.outcome)
    return None


def root_if_any(store: Store, version: int) -> Root | None:
    """A root, or what is left of it; `None` where there is none: a lake that was an export begins later."""
    try:
        return read_root(store, version)
    except NotFound:
        return None
