"""Keys of requests: which transaction stands for one, and whether that was this request or another one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from seiche.errors import CommitUnknown, RetryableConflict, SeicheError
from seiche.gateway.iceberg_rest.problems import Refusal
from seiche.gateway.sessions import Session
from seiche.lake.state import State
from seiche.lake.tree.latest import read_root

if TYPE_CHECKING:
    from seiche.lake.lake import Lake

__all__ = ["HASH", "attempts", "check_applied", "check_same_request", "said_under", "too_many", "version_of"]

# The property of a transaction that says what was asked for.
HASH: Final = "iceberg.commit.request-hash"

# How many times the same request is told apart from its earlier ones.
_MOST_ATTEMPTS: Final = 10_000


def attempts(base: str) -> Iterator[str]:
    """The keys of a request and of its repetitions that are meant anew: what was decided against stays so."""
    yield base
    for attempt in range(1, _MOST_ATTEMPTS):
        yield f"{base}:tx-attempt-{attempt}"


def too_many() -> RetryableConflict:
    return RetryableConflict(f"the same request came {_MOST_ATTEMPTS} times", remedy="Send another Idempotency-Key.")


def version_of(lake: "Lake", version: int) -> State | None:
    """A version of the past; `None` if it has expired: that was long ago."""
    try:
        return lake.states.at(version)
    except SeicheError:
        return None


def check_same_request(lake: "Lake", transaction_id: str, version: int, wanted: str) -> None:
    """Refuse a key that has been used for another request, which was applied in `version`."""
    for record in read_root(lake.store, version).transactions:
        if record.id == transaction_id and record.properties.get(HASH) != wanted:
            raise _another()


def said_under(session: Session, key: str, wanted: str) -> bool:
    """Whether a request was made part of a session under this key; a key that was used for another one is refused."""
    known = session.noted(key)
    if known not in (None, wanted):
        raise _another()
    return known is not None


def check_applied(lake: "Lake", state: State, transaction_id: str, wanted: str) -> None:
    """The same right after a commit that ended in `state`: another request may have come under the key at the same
    time, and been first. Then this one was not applied, although its id was.
    """
    own = [one for one in state.root.transactions if one.id == transaction_id]
    if own and own[0].properties.get(HASH) == wanted:
        return  # which costs nothing
    try:
        decided = state.outcome(transaction_id)
        if decided is not None:
            check_same_request(lake, transaction_id, decided.version, wanted)
    except SeicheError as error:
        raise CommitUnknown(
            f"storage does not say by which request transaction {transaction_id} was applied: {error.message}",
            transaction_id=transaction_id,
        ) from error


def _another() -> Refusal:
    why = "the Idempotency-Key, or the name of the transaction, was used before, for another request"
    return Refusal(409, "CommitFailedException", why)
