"""What callers of `Table.commit` give, looked at before anything is done with it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import index
from typing import SupportsIndex

from pyroaring import BitMap

from seiche.core.given import number, wrong
from seiche.core.retry import Patience
from seiche.errors import Corrupt, InvalidInput
from seiche.table import affected
from seiche.table.transaction import Transaction

__all__ = ["decoded", "not_an_operation", "patience", "rows"]

_ATTEMPTS = "Give `attempts=` of at least 1."
_SECONDS = "Give seconds, as in `timeout=30`; with 0 it is tried once."


def patience(usual: Patience, attempts: int | None, timeout: float | None) -> Patience:
    """The usual patience, with what was said instead."""
    if attempts is None and timeout is None:
        return usual
    if attempts is not None and number(attempts, "attempts", _ATTEMPTS) < 1:
        raise InvalidInput("no attempt was allowed", remedy=_ATTEMPTS, attempts=attempts)
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
        raise wrong("timeout", timeout, _SECONDS)
    if timeout is not None and not timeout >= 0:  # nor what is no number, by which no time is ever up
        raise InvalidInput(f"timeout cannot be {timeout!r}", remedy=_SECONDS, timeout=timeout)
    return replace(
        usual,
        attempts=usual.attempts if attempts is None else attempts,
        timeout=usual.timeout if timeout is None else timeout,
    )


def decoded(data: bytes) -> Transaction:
    """A transaction that came as bytes."""
    try:
        return Transaction.decode(data, path="the given transaction")
    except Corrupt as error:
        remedy = "Give the bytes of a serialised Lance `Transaction` message, as `pack` makes them."
        raise InvalidInput(error.message, remedy=remedy) from error


def rows(given: Mapping[int, Iterable[int]]) -> Mapping[int, BitMap]:
    """Affected rows in whatever collections they came."""
    try:
        return {_fragment_id(one): offsets for one, offsets in affected.as_rows(given).items()}
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InvalidInput(
            f"the affected rows are not what they must be: {error}",
            remedy="Give the offsets of rows inside their fragment, by the fragment's id: {3: [0, 7]}.",
        ) from error


def _fragment_id(given: object) -> int:
    """The number of a fragment, also one of NumPy: those come of taking addresses apart."""
    whole = index(given) if isinstance(given, SupportsIndex) and not isinstance(given, bool) else given
    return number(whole, "the id of a fragment", "Give whole numbers.")


def not_an_operation(given: object) -> InvalidInput:
    """The error for what is neither an operation nor bytes."""
    return InvalidInput(
        f"{type(given).__name__} cannot be committed",
        remedy="Give an operation of `seiche.table.operations`, or the bytes of a Lance transaction.",
    )
