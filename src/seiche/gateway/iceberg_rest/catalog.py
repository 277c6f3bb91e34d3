"""One lake as an Iceberg catalog: what its routes share."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound, RetryableConflict
from seiche.gateway.credentials import Credentials
from seiche.gateway.grouping import Grouping
from seiche.gateway.http.calls import Answer, Call, integer
from seiche.gateway.iceberg_rest.aftercare import Aftercare
from seiche.gateway.iceberg_rest.commits import Commits
from seiche.gateway.iceberg_rest.keys import (
    HASH,
    attempt,
    check_applied,
    check_same_request,
    said_under,
    version_of,
)
from seiche.gateway.iceberg_rest.problems import Refusal
from seiche.gateway.iceberg_rest.repetitions import showing
from seiche.gateway.iceberg_rest.requests import call_hash
from seiche.gateway.sessions import HEADER, Sessions
from seiche.gateway.settling import commit_surely
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TransactionRow
from seiche.lake.state import State

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = [
    "Catalog",
    "Changed",
    "Repeated",
    "check_free",
    "key_of",
    "missing_table",
    "missing_view",
    "page",
    "paged",
    "require_namespace",
]

IDEMPOTENCY = "idempotency-key"

_TRYING = Patience(attempts=20, timeout=30.0)
T = TypeVar("T")


class Changed(NamedTuple, Generic[T]):
    """What was done, and the version of the lake that has it: none yet inside a transaction that the call names."""

    result: T
    state: State | None


class Repeated(NamedTuple):
    """That a call was applied before: the number of the version that it was applied to, the one that it made if that
    has not expired, and the latest; both are `None` inside a transaction that the call names.
    """

    before: int
    then: State | None
    state: State | None

    def showing(self, name: Name) -> State | None:
        """The version that shows what was made or changed under this name then: the latest, unless the name means
        another one by now, or none. `None` if only the transaction that the call names does.
        """
        return None if self.state is None else showing([name], self.then, self.state)


class Catalog:
    """A lake, the name that it has as a catalog, and the ways to read and change it for a call."""

    def __init__(self, lake: "Lake", name: str, sessions: Sessions, credentials: Credentials, runtime: Runtime) -> None:
        self.lake = lake
        self.name = name
        self.sessions = sessions
        self.credentials = credentials
        self.grouping = Grouping(lake)
        self.commits = Commits(lake, name, self.grouping, runtime)
        self.aftercare = Aftercare(lake, runtime)
        self.runtime = runtime

    def check_prefix(self, call: Call) -> None:
        """The path names the catalog; a server has one."""
        if call.path.get("prefix", self.name) != self.name:
            raise Refusal(404, "NoSuchWarehouseException", f"there is no catalog {call.path['prefix']}")

    @contextmanager
    def reading(self, call: Call) -> "Iterator[Transaction]":
        """To look things up in: the latest version, or what the transaction that the call names has made of it."""
        self.check_prefix(call)
        name = call.headers.get(HEADER)
        if not name:
            yield self.lake.transaction()
            return
        with self.sessions.using(name, changes=False) as session:
            yield session.transaction

    def change(self, call: Call, do: "Callable[[Transaction], T]") -> Changed[T] | Repeated:
        """Do something in a transaction and commit it, again if others were faster.

        With an `Idempotency-Key` it is applied at most once, also if the same call comes twice at the same time: then,
        and whenever it was applied before, `do` is not asked and the call is told to be a repetition.
        """
        self.check_prefix(call)
        name = call.headers.get(HEADER)
        if name:
            return self._change_in(name, call, do)
        conflict: RetryableConflict | None = None
        for _ in _TRYING.tries(self.runtime):
            transaction, decided = self._begun(call)
            if decided is not None:
                return Repeated(decided.version - 1, version_of(self.lake, decided.version), transaction.state)
            result = do(transaction)
            try:
                state = commit_surely(self.lake, transaction, self.runtime, self.grouping)
            except RetryableConflict as error:
                conflict = error
            else:
                if IDEMPOTENCY in call.headers:
                    check_applied(self.lake, state, transaction.id, call_hash(call))
                return Changed(result, state)
        raise conflict or RetryableConflict("other writers were faster each time")

    def _change_in(self, name: str, call: Call, do: "Callable[[Transaction], T]") -> Changed[T] | Repeated:
        given, wanted = self._key(call), call_hash(call)
        with self.sessions.using(name, changes=True) as session:
            if given is not None and said_under(session, given, wanted):
                return Repeated(session.transaction.base, None, None)
            result = do(session.transaction)
            if given is not None:
                session.note(given, wanted)
            return Changed(result, None)

    def _begun(self, call: Call) -> "tuple[Transaction, TransactionRow | None]":
        """The transaction of a call, by its key if it has one; and how it was committed, if it was. A key that was used
        for another request is refused.
        """
        given = self._key(call)
        if given is None:
            return self.lake.transaction(), None
        wanted = call_hash(call)
        number = 0
        while True:
            transaction = self.lake.transaction_on(self.lake.state(), attempt(given, number), {HASH: wanted})
            decided = transaction.state.outcome(transaction.id)
            if decided is None:
                return transaction, None
            if decided.outcome == "committed":
                check_same_request(self.lake, transaction.id, decided.version, wanted)
                return transaction, decided
            number += 1

    def _key(self, call: Call) -> str | None:
        given = key_of(call)
        return None if given is None else f"idempotency:{self.name}:{call.caller.account}:{given}"


def key_of(call: Call) -> str | None:
    """The `Idempotency-Key` of a call; `InvalidInput` if it is none."""
    given = call.headers.get(IDEMPOTENCY)
    if given is not None and not (0 < len(given) <= 255 and given.isprintable()):
        raise InvalidInput("the Idempotency-Key is not a short text", remedy="Send a uuid.")
    return given


def require_namespace(transaction: "Transaction", name: Name) -> None:
    """`NotFound` if there is no such namespace."""
    transaction.namespace_named(name)


def check_free(transaction: "Transaction", name: Name) -> None:
    """Refuse a name that a table or view has; its namespace has to be there."""
    try:
        transaction.check_free(name)
    except AlreadyExists as error:
        raise Refusal(409, "AlreadyExistsException", f"Table or view already exists: {text(name)}") from error


def missing_table(name: Name) -> NotFound:
    return NotFound(f"there is no table {text(name)}", table=text(name))


def missing_view(name: Name) -> NotFound:
    return NotFound(f"there is no view {text(name)}", view=text(name))


def page(names: Iterable[Name], call: Call, look: Callable[[Name], T | None]) -> tuple[Mapping[Name, T], str | None]:
    """The part of a listing that was asked for, by name, and what the next is asked for with; all if no page was.

    `look` says what is shown of a name, or `None` if it is to be left out; it is asked about no more than that needs.
    The next page begins behind the last name of this one: what comes and goes meanwhile makes it skip nothing.
    """
    size = integer(call.query.get("pageSize"), "pageSize")
    token = call.query.get("pageToken")
    last = _behind(token) if token else ()
    shown: dict[Name, T] = {}
    for name in sorted(one for one in names if one > last):
        if (found := look(name)) is None:
            continue
        if len(shown) == size:
            return shown, _token(next(reversed(shown)))
        shown[name] = found
    return shown, None


def paged(what: str, shown: list[Any], token: str | None) -> Answer:
    """The answer with a part of a listing, and what the next is asked for with."""
    body: dict[str, Any] = {what: shown}
    return Answer(body=body if token is None else {**body, "next-page-token": token})


def _token(name: Name) -> str:
    return base64.urlsafe_b64encode(json.dumps(name).encode()).decode().rstrip("=")


def _behind(token: str) -> Name:
    try:
        found = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise InvalidInput(f"{token!r} is not a page token of this server", remedy="Begin at the first page.")
    return tuple(found)
