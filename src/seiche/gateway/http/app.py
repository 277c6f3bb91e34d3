"""From routes to an ASGI application: lets callers in, keeps to the limits, and answers every failure in its protocol.

The engine is synchronous. Calls are worked on in threads; the event loop only reads and writes.
"""

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, SeicheError
from seiche.gateway.http.auth import Auth, Caller, bearer
from seiche.gateway.http.calls import Answer, Call, Counted, Joint, Route
from seiche.gateway.http.headers import check_headers, headers_of
from seiche.gateway.http.limits import Limits
from seiche.gateway.http.paths import Paths
from seiche.gateway.http.work import Promise, Together, Workers

__all__ = ["Application", "Protocol", "Server"]

log = logging.getLogger("seiche.gateway")

REQUEST_ID = "x-request-id"
_SAFE_ID = re.compile(r"[\x21-\x7e]{1,128}")
_WITHOUT_BODY = (204, 304)
_REPLACED = "\ufffd"

T = TypeVar("T")
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Protocol(ABC):
    """How one protocol says no."""

    @abstractmethod
    def problem(self, error: Exception, route: Route | None, request_id: str) -> Answer:
        """The answer that says what went wrong; `route` is `None` if there is none for the request.

        Whatever the error is: anything that is not a `SeicheError` is a defect, and says so without details.
        """

    @abstractmethod
    def too_large(self, limit: int) -> Answer:
        """The body is larger than the server takes."""

    @abstractmethod
    def slow(self, seconds: float) -> Answer:
        """The body did not arrive in time; nothing was begun."""

    @abstractmethod
    def busy(self) -> Answer:
        """Too many requests are waiting; this one was not begun."""

    @abstractmethod
    def late(self, route: Route, why: str) -> Answer:
        """Nobody waits for it any longer, and the outcome is open."""

    @abstractmethod
    def no_route(self, method: str, path: str, allowed: Sequence[str]) -> Answer:
        """There is no such operation; `allowed` are methods that the path has."""


@dataclass(frozen=True)
class Server:
    """What an application is made with. `name` is that of its protocol, for whoever counts what it answers."""

    protocol: Protocol
    auth: Auth
    limits: Limits
    runtime: Runtime = SYSTEM
    name: str = ""
    counted: Counted | None = None


class _TooLarge(Exception):
    pass


class _Slow(Exception):
    pass


class _Gone(Exception):
    """The client went away before it had said all."""


class Application:
    """An ASGI application that serves `routes`. Its threads end with it.

    Of a framework it would use little and pay for all of it: what a request passes through here is half of the work of
    a small one.
    """

    def __init__(self, routes: Sequence[Route], server: Server) -> None:
        self.routes = tuple(routes)
        self.limits = server.limits
        self._server = server
        self._paths = Paths(routes)
        self._workers = Workers(server.limits.at_once)
        # Whether to find out who calls may take long; most know at once, and have nothing to say about that.
        self._waits: Callable[[str | None], bool] | None = getattr(server.auth, "waits", None)
        # Anybody can send something that makes us ask who that is, and must not keep more than this one busy.
        self._asking = ThreadPoolExecutor(1, "seiche-gateway-admission")
        self._together = {one.together: self._joint(one, one.together) for one in routes if one.together is not None}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            headers = headers_of(scope["headers"])
            request_id = _request_id(headers, self._server.runtime)
            began = self._server.runtime.clock.monotonic()
            found: tuple[Route, Mapping[str, str]] | list[str] = []
            try:
                found = self._paths.find(scope["method"], _sent_path(scope).decode("latin-1"))
                answer = await self._answer(found, scope, headers, request_id, receive)
            except _Gone:
                return
            except Exception as error:
                log.exception("%s %s failed (%s)", scope["method"], scope["path"], request_id)
                answer = self._server.protocol.problem(error, None, request_id)
            if self._server.counted is not None:
                # Before it is sent: who has an answer finds it counted.
                took = self._server.runtime.clock.monotonic() - began
                self._server.counted(self._operation(found), str(answer.status), took)
            await _send(answer, request_id, scope["method"], send)

    def _operation(self, found: tuple[Route, Mapping[str, str]] | list[str]) -> str:
        """What a request asked for, as it is counted: all that nobody knows as one, or there would be no end of it."""
        name = "unknown" if isinstance(found, list) else found[0].about.get("operationId", "unknown")
        return f"{self._server.name}.{name}"

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            told = (await receive())["type"]
            if told == "lifespan.shutdown":
                self._workers.stop()
                self._asking.shutdown(wait=False)
            await send({"type": f"{told}.complete"})
            if told == "lifespan.shutdown":
                return

    async def _answer(
        self,
        found: tuple[Route, Mapping[str, str]] | list[str],
        scope: Scope,
        headers: Mapping[str, str],
        request_id: str,
        receive: Receive,
    ) -> Answer:
        protocol, limits = self._server.protocol, self.limits
        if isinstance(found, list):
            return protocol.no_route(scope["method"], scope["path"], found)
        route, places = found
        most = limits.public_bytes if route.public else limits.body_bytes
        try:
            _check_utf8(scope)
            check_headers(headers, scope["headers"])
            caller = Caller() if route.public else await self._admitted(bearer(headers))
            if route.commits:
                caller.check_writes()
            call = Call(
                path=places,
                query=_query(scope["query_string"]),
                headers=headers,
                body=await _body(headers, receive, most, limits.seconds),
                caller=caller,
                request_id=request_id,
                route=f"{route.method} {route.path}",
            )
        except _TooLarge:
            return protocol.too_large(most)
        except _Slow:
            # Whatever comes of it later is not the next request.
            told = protocol.slow(limits.seconds)
            return replace(told, headers={**told.headers, "Connection": "close"})
        except SeicheError as error:
            return protocol.problem(error, route, request_id)
        if route.public:
            return await self._aside(partial(self._run, route, call))
        # A commit is never turned away: not every client can tell "not begun" from "unknown".
        if self._workers.inside >= limits.at_once + limits.waiting and not route.commits:
            return protocol.busy()
        return await self._work(route, call)

    async def _admitted(self, token: str | None) -> Caller:
        """Who calls. Nobody else waits while it is asked who that is."""
        admit = self._server.auth.admit
        if self._waits is not None and self._waits(token):
            return await self._aside(partial(admit, token))
        return admit(token)

    async def _aside(self, do: Callable[[], T]) -> T:
        """What anybody can ask for, in the one thread that it may keep busy."""
        return await asyncio.get_running_loop().run_in_executor(self._asking, do)

    async def _work(self, route: Route, call: Call) -> Answer:
        promise = self._workers.promise()
        seconds = self.limits.seconds
        timer = asyncio.get_running_loop().call_later(seconds, self._late, promise, route, call)
        if route.together is not None and route.together.takes(call):
            self._together[route.together].ask(call, promise)
        else:
            self._workers.alone(call, promise, partial(self._run, route))
        try:
            return await promise
        except asyncio.CancelledError:
            # The server stops, and has waited as long as it does. Whatever comes of the work, the client must hear in
            # its own protocol that it is open.
            return self._server.protocol.late(route, "the server stops before it is done")
        finally:
            timer.cancel()

    def _late(self, promise: Promise, route: Route, call: Call) -> None:
        if not promise.done():
            seconds = self.limits.seconds
            log.warning("%s %s takes longer than it may (%s)", route.method, route.path, call.request_id)
            promise.set_result(self._server.protocol.late(route, f"it takes longer than {seconds:g} seconds"))

    def _joint(self, route: Route, joint: Joint) -> Together:
        return Together(self._workers, partial(self._run_all, route, joint), partial(self._run, route))

    def _run(self, route: Route, call: Call) -> Answer:
        try:
            return route.handler(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes an answer
            return self._problem(route, call, error)

    def _run_all(self, route: Route, joint: Joint, calls: Sequence[Call]) -> list[Answer | None]:
        try:
            found = joint.work(calls)
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes an answer
            found = [error] * len(calls)
        return [
            self._problem(route, call, one) if isinstance(one, Exception) else one
            for call, one in zip(calls, found, strict=True)
        ]

    def _problem(self, route: Route, call: Call, error: Exception) -> Answer:
        answer = self._server.protocol.problem(error, route, call.request_id)
        if answer.status >= 500:
            log.error("%s %s failed (%s)", route.method, route.path, call.request_id, exc_info=error)
        return answer


async def _body(headers: Mapping[str, str], receive: Receive, most: int, seconds: float) -> bytes:
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most:
        raise _TooLarge
    try:
        # Without a limit, what a client has sent would stay in memory for good if it stops in the middle.
        async with asyncio.timeout(seconds):
            return await _received(receive, most)
    except TimeoutError as error:
        raise _Slow from error


async def _received(receive: Receive, most: int) -> bytes:
    found = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        found += message.get("body", b"")
        if len(found) > most:
            raise _TooLarge
        if not message.get("more_body"):
            return bytes(found)


def _sent_path(scope: Scope) -> bytes:
    """The path as it was sent, where the server tells."""
    return bytes(scope.get("raw_path") or quote(scope["path"]).encode())


def _check_utf8(scope: Scope) -> None:
    """Refuse a path whose bytes are no text: servers put a mark in their place, which would become part of a name."""
    if _REPLACED in scope["path"] and _REPLACED.encode() not in unquote_to_bytes(_sent_path(scope)):
        raise InvalidInput("the path is not UTF-8", remedy="Encode names as UTF-8, and then with percent signs.")


def _query(given: bytes) -> Mapping[str, str]:
    return dict(parse_qsl(given.decode("latin-1"), keep_blank_values=True)) if given else {}


def _request_id(headers: Mapping[str, str], runtime: Runtime) -> str:
    given = headers.get(REQUEST_ID, "")
    return given if _SAFE_ID.fullmatch(given) else str(runtime.uuid())


async def _send(answer: Answer, request_id: str, method: str, send: Send) -> None:
    body = b"" if method == "HEAD" or answer.status in _WITHOUT_BODY else answer.encoded()
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]
    headers.append((REQUEST_ID.encode(), request_id.encode()))
    if body:
        headers.append((b"content-type", answer.media_type.encode("latin-1")))
    if answer.status not in _WITHOUT_BODY:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
