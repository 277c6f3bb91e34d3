"""Calls to a server, made again where that is safe."""

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from weakref import WeakMethod

import grpc
from google.protobuf.message import Message

from seiche.core import given
from seiche.core.forked import renew_in_children
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import CommitUnknown, InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.service import common_pb2
from seiche.service import transactions_pb2 as pb
from seiche.service.client.calls import Call, Ended, Failed, Unreached
from seiche.service.client.certificates import Certificates
from seiche.service.client.direct import DirectCall
from seiche.service.client.lines import Line
from seiche.service.client.tokens import Token, checked, shown
from seiche.service.client.wires import connected
from seiche.service.failures import KINDS
from seiche.service.properties import LAKE
from seiche.service.wire.statuses import error_in, error_of

__all__ = ["Address", "Channel"]

Answer = TypeVar("Answer", bound=Message)

SERVICE: Final = "seiche.transaction.v1.Transactions"
_PATIENCE: Final = Patience(attempts=12, timeout=60.0, first_delay=0.05, longest_delay=2.0)
_CALL_SECONDS: Final = 60.0
_MOST_BYTES: Final = 64 << 20
# What is larger goes by itself: it would hold up the others, and if it is too large it would take them along.
_LARGE: Final = 1 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", _MOST_BYTES),
    # A server that is started again is found at once, not after the minutes that gRPC would come to wait.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A server that is stopped or cut off is noticed long before the call's time is up.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # While gRPC waits for a ping of its own it sends no other, and that it would do for a minute.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Each process has a connection of its own, also if another one talks to the same server with the same settings.
    ("grpc.use_local_subchannel_pool", 1),
)
# Whoever has answered so, on the way or at its end, has not done anything. All else may be about the answer.
_TURNED_AWAY: Final[Mapping[Any, type[SeicheError]]] = {
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNAUTHENTICATED: PermissionDenied,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.UNIMPLEMENTED: InvalidInput,
}
# Where a connection would have to go through one, calls are gRPC's, which knows how to.
_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
# What is worth asking for again.
_PASSING: Final = frozenset({"idempotency.pending", "queue.full", "stopping"})
_CODES: Final[Mapping[int, Any]] = {code.value[0]: code for code in grpc.StatusCode}


class _Refused(Exception):
    """A request in an open call was refused."""

    def __init__(self, status: common_pb2.Status) -> None:
        super().__init__()
        self.status = status


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: `grpc://host:port`, or `grpcs://` over TLS."""

    host: str
    token: Token = ""
    # Over TLS.
    certificates: Certificates | None = None
    # The id of the lake that it has, once that is known: another one that is served there later is not meant.
    lake: str = ""

    @classmethod
    def parse(cls, text: str, *, token: Token = "", certificates: Certificates | None = None) -> "Address":
        remedy = "Write grpc://host:port."
        text = given.text(text, "the address of a server", remedy)
        try:
            parts = urlsplit(text)
            name = parts.hostname if parts.scheme in ("grpc", "grpcs") and parts.port else None
        except ValueError:  # a port that is no number, or brackets that do not close
            name = None
        if not name:
            raise InvalidInput(f"{text!r} is not the address of a server", remedy=remedy)
        if "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
            # Whoever has written a token there would be taken for one without any.
            raise InvalidInput(
                "the address of a server has a host and a port, and nothing else",
                remedy=f"{remedy} A token is given as `token=`.",
            )
        token = checked(token)
        host = f"[{name}]" if ":" in name else name
        given_files = (certificates or Certificates()) if parts.scheme == "grpcs" else None
        return cls(f"{host}:{parts.port}", token, given_files)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...] | None:
        """What is sent with a call that is made now."""
        token = shown(self.token)
        found = (("authorization", f"Bearer {token}"),) if token else ()
        return (*found, (LAKE, self.lake)) if self.lake else found or None

    def stamp(self) -> tuple[object, ...]:
        """What tells whether files that a connection is made with are others than they were."""
        return () if self.certificates is None else self.certificates.stamp()

    def open(self) -> Any:
        if self.certificates is None:
            return grpc.insecure_channel(self.host, options=_OPTIONS)
        found = self.certificates
        # Looked at again: they may be other files by now, or this another machine, which has none.
        credentials = Certificates.of(found.ca, found.certificate, found.key).credentials()
        return grpc.secure_channel(self.host, credentials, options=_OPTIONS)


class Channel:
    """Calls to one server. Opened when first used, and anew in a process that was forked from this one."""

    def __init__(self, address: Address, *, runtime: Runtime = SYSTEM, patience: Patience = _PATIENCE) -> None:
        self._address = address
        self._runtime = runtime
        self._patience = patience
        self._lock = Lock()
        self._open: Any = None
        # That of the files that it was opened with.
        self._stamp: tuple[object, ...] = ()
        self._calls: dict[str, Any] = {}
        self._line: Line | None = None
        self._direct = _no_proxy()
        self._inherited: list[object] = []
        renew_in_children(self)

    def mean(self, lake: str) -> None:
        """Speak of this lake from now on, by its id; a server that has another one refuses."""
        self._address = replace(self._address, lake=lake)

    def forked(self) -> None:
        # What gRPC has made must not be touched, not even to be closed or let go of: its threads are not here.
        self._inherited.append((self._open, self._calls))
        self._lock, self._open, self._calls, self._line = Lock(), None, {}, None

    def call(self, method: str, request: Message, answer: type[Answer]) -> Answer:
        """Call a method that may be called twice. Raises what the server raised.

        `CommitUnknown` if calls were sent and none was answered: it may or may not have happened.
        """
        return self._insist(partial(self._once, method, request, answer))

    def execute(self, request: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        """`ExecuteTransaction` over a call that stays open, which all threads share; else as `call`.

        The request must have an id or a key.
        """
        size = request.ByteSize()
        if size > _MOST_BYTES:
            # gRPC would say so as of something that may pass, and it would be tried for a minute, and called unknown.
            raise InvalidInput(
                f"the transaction takes {size} bytes, and {_MOST_BYTES} can be sent to a server",
                remedy="Nothing was written. Do it in several, or without the server: `seiche.open(...)`.",
                reason="request.too-large",
            )
        large = size > _LARGE

        def act() -> pb.ExecuteTransactionResponse:
            line = None if large else self._opened_line()
            if line is None:
                return self._once("ExecuteTransaction", request, pb.ExecuteTransactionResponse)
            answer = line.ask(request)
            if answer.HasField("status"):
                raise _Refused(answer.status)
            return answer

        return self._insist(act, doubts=True)

    def _once(self, method: str, request: Message, answer: type[Answer]) -> Answer:
        metadata = self._address.metadata
        call = self._method(method, answer)
        try:
            made: Answer = call(request, timeout=_CALL_SECONDS, metadata=metadata)
        except ValueError as error:
            if self._calls.get(method) is call:
                raise
            # So gRPC says that somebody has closed it meanwhile.
            raise Unreached(grpc.StatusCode.UNAVAILABLE, str(error), ()) from error
        return made

    def _insist(self, act: Callable[[], Answer], *, doubts: bool = False) -> Answer:
        """Do it until there is an answer.

        With `doubts`, a refusal is none if an earlier request was not answered: it may have been granted, and what is
        refused now may be refused because of what happened since.
        """
        said: SeicheError | None = None
        failure: Exception = Ended()
        unanswered = False
        # An open call shows the token that it was opened with, which may have been good then.
        renewable = callable(self._address.token)
        for _ in self._patience.tries(self._runtime):
            try:
                return act()
            except (_Refused, grpc.RpcError, Failed, Ended, SeicheError) as error:
                failure = error
                said, code = _heard(error)
            if renewable and code is grpc.StatusCode.UNAUTHENTICATED:
                renewable = False
            elif said is not None and said.details.get("reason") not in _PASSING:
                break
            unanswered = unanswered or (said is None and not isinstance(failure, Unreached))
        if said is None and self._address.certificates is not None:
            # It may be that one does not trust the other. Next time the files are read anew.
            self.close()
        if said is None and not unanswered:
            remedy = "Nothing was sent. See that `seiche serve` runs there, and try again."
            raise Unavailable(f"{self._address.host} cannot be reached: {_text(failure)}", remedy=remedy) from failure
        if said is None:
            raise CommitUnknown(f"{self._address.host} did not answer: {_text(failure)}", code=code.name) from failure
        if doubts and unanswered:
            raise CommitUnknown(
                f"{self._address.host} did not answer at first, and then refused: {said.message}", code=code.name
            ) from said
        if said is failure:
            raise said
        raise said from failure

    def close(self) -> None:
        with self._lock:
            if self._line is not None:
                self._line.close()
            if self._open is not None:
                self._open.close()
            self._open = self._line = None
            self._calls = {}
            self._direct = _no_proxy()

    def _opened(self) -> Any:
        """What calls are made over. If certificates were renewed it is made anew: gRPC goes on with those that it has
        read. Calls that are under way over the old one are not broken off.
        """
        stamp = self._address.stamp()
        if self._open is None or stamp != self._stamp:
            try:
                self._open = self._address.open()
            except SeicheError:
                if self._open is None:
                    raise
                # They are just being replaced. Whom one trusted before may still be there.
                return self._open
            self._stamp, self._calls, self._direct = stamp, {}, _no_proxy()
        return self._open

    def _method(self, name: str, answer: type[Message]) -> Any:
        with self._lock:
            channel = self._opened()
            found = self._calls.get(name)
            if found is None:
                found = self._calls[name] = channel.unary_unary(
                    f"/{SERVICE}/{name}", request_serializer=_encoded, response_deserializer=answer.FromString
                )
            return found

    def _opened_line(self) -> Line | None:
        """The call that stays open; none where gRPC has to find the way."""
        with self._lock:
            self._opened()
            if self._line is None and self._direct:
                # Its thread must not keep this: one that nobody has any more is let go of, with its connection.
                this = WeakMethod(self._new_call)
                self._line = Line(partial(_called, this), self._runtime.clock, _CALL_SECONDS, this)
            return self._line if self._direct else None

    def _new_call(self) -> Call:
        at = self._address
        metadata = at.metadata
        try:
            wire = connected(at.host, at.certificates)
        except OSError as error:
            # Whom to trust is gRPC's to say, which brings authorities of its own.
            self._direct = not isinstance(error, ssl.SSLError)
            raise Unreached(grpc.StatusCode.UNAVAILABLE, error.strerror or str(error), ()) from error
        return DirectCall(wire, at.host, f"/{SERVICE}/ExecuteTransactions", metadata)

    def __getstate__(self) -> dict[str, Any]:
        return {"_address": self._address, "_patience": self._patience}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_address"], patience=state["_patience"])  # type: ignore[misc]


def _called(make: "WeakMethod[Callable[[], Call]]") -> Call:
    """A new call of a channel that is still there."""
    found = make()
    if found is None:
        raise Ended
    return found()


def _no_proxy() -> bool:
    return not any(os.environ.get(name) for name in _PROXIES)


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()


def _heard(failure: Exception) -> tuple[SeicheError | None, Any]:
    """What was said about a call that has failed, if anything was, and its status."""
    said, code = _told(failure)
    if said is None and code in _TURNED_AWAY:
        said = _TURNED_AWAY[code](f"the server refused the call: {code.name}: {_text(failure)}")
    return said, code


def _told(failure: Exception) -> tuple[SeicheError | None, Any]:
    match failure:
        case _Refused():
            return _said(error_in(failure.status)), _CODES.get(failure.status.code, grpc.StatusCode.UNKNOWN)
        case grpc.RpcError():
            return _said(error_of(failure.trailing_metadata())), failure.code()
        case Failed():
            return _said(error_of(failure.trailers)), failure.code
        case SeicheError():  # our own: what a connection is made with is not there any more
            return failure, grpc.StatusCode.UNAVAILABLE
    return None, grpc.StatusCode.UNAVAILABLE


def _said(detail: common_pb2.Error | None) -> SeicheError | None:
    """What the server raised, if it was the server who said so."""
    if detail is None:
        return None
    kind = KINDS.get(detail.context.get("kind", ""), SeicheError)
    params = {name: value for name, value in detail.params.items() if name not in ("message", "remedy")}
    return kind(detail.message, remedy=detail.context.get("remedy", ""), reason=detail.message_key, **params)


def _text(failure: Any) -> str:
    if isinstance(failure, Failed):
        return failure.details
    return str(failure.details()) if isinstance(failure, grpc.RpcError) else "the call was ended"
