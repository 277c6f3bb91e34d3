"""Keys of requests: which transaction stands for one, and whether that was this request or another one."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from seiche.errors import CommitUnknown, SeicheError
from seiche.gateway.iceberg_rest.problems import Refusal
from seiche.gateway.sessions import Session
from seiche.lake.state import State
from seiche.lake.tree.latest import read_root

if TYPE_CHECKING:
    from seiche.lake.lake import Lake

__all__ = ["HASH", "Times", "attempt", "check_applied", "check_same_request", "said_under", "version_of"]

# The property of a transaction that says what was asked for.
HASH: Final = "iceberg.commit.request-hash"

# Of how many requests a server knows how often each has been decided.
_HELD: Final = 1_000


def attempt(base: str, number: int) -> str:
    """The key of a request, or of one of its repetitions that are meant anew: what was decided against stays so."""
    return f"{base}:tx-attempt-{number}" if number else base


class Times:
    """How often each request has been decided, as far as this server has seen: where the next time is looked for.

    Whoever asks for the same thing again and again, such as a property that goes to and fro, would have all earlier
    times looked at, each time.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def attempts(self, base: str, is_decided: Callable[[str], bool]) -> Iterator[str]:
        """The keys of a request, from the last one on that has been decided; the one that is used comes last."""
        with self._lock:
            known = self._known.get(base, 0)
        # It may have been forgotten since, by the lake, or not be decided yet in the version that is looked at.
        first = known - 1 if known and is_decided(attempt(base, known - 1)) else 0
        for number in count(first):
            if number > known:
                self._note(base, number)
            yield attempt(base, number)

    def _note(self, base: str, number: int) -> None:
        with self._lock:
            self._known[base] = number
            self._known.move_to_end(base)
            while len(self._known) > _HELD:
                self._known.popitem(last=False)


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
