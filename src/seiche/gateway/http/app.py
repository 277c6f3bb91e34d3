"""From routes to an ASGI application: lets callers in, keeps to the limits, and answers every failure in its protocol.

The engine is synchronous. Each call runs in a thread of the application's own pool; the event loop only reads and
writes.
"""

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import SeicheError
from seiche.gateway.http.auth import Auth, Caller, bearer
from seiche.gateway.http.calls import Answer, Call, Joint, Route
from seiche.gateway.http.limits import Limits
from seiche.gateway.http.together import Together

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Protocol", "Server", "application"]

log = logging.getLogger("seiche.gateway")

REQUEST_ID = "x-request-id"
_SAFE_ID = re.compile(r"[\x21-\x7e]{1,128}")


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
    def busy(self) -> Answer:
        """Too many requests are waiting; this one was not begun."""

    @abstractmethod
    def late(self, route: Route, seconds: float) -> Answer:
        """The time is up, and the outcome is open."""

    @abstractmethod
    def no_route(self, method: str, path: str, allowed: Sequence[str]) -> Answer:
        """There is no such operation; `allowed` are methods that the path has."""


@dataclass(frozen=True)
class Server:
    """What an application is made with."""

    protocol: Protocol
    auth: Auth
    limits: Limits
    runtime: Runtime = SYSTEM


class _TooLarge(Exception):
    pass


def application(routes: Sequence[Route], server: Server) -> "Starlette":
    """An ASGI application that serves `routes`. Its threads end with it."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route as StarletteRoute

    pool = ThreadPoolExecutor(server.limits.at_once, "seiche-gateway")
    gate = _Gate(server, pool)

    @asynccontextmanager
    async def lifespan(_: "Starlette") -> "AsyncIterator[None]":
        yield
        pool.shutdown(wait=False, cancel_futures=True)

    async def elsewhere(request: "Request", error: Exception) -> "Response":
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "")
        methods = sorted(one.strip() for one in allowed.split(",") if one.strip())
        answer = server.protocol.no_route(request.method, request.url.path, methods)
        return _response(answer, _request_id(request, server.runtime), request.method)

    made: dict[str, dict[str, Route]] = {}
    for route in routes:
        made.setdefault(route.path, {})[route.method] = route
    # Every method of a path in one place: a wrong one is answered with those that are right.
    listed = [StarletteRoute(path, gate.endpoint(methods), methods=sorted(methods)) for path, methods in made.items()]
    for one, methods in zip(listed, made.values(), strict=True):
        # Starlette adds HEAD to every GET; here it is a route of its own where there is one.
        one.methods = set(methods)
    return Starlette(routes=listed, lifespan=lifespan, exception_handlers={HTTPException: elsewhere})


class _Gate:
    """Takes a request in, has it worked on, and sends the answer."""

    def __init__(self, server: Server, pool: ThreadPoolExecutor) -> None:
        self._server = server
        self._pool = pool
        self._inside = 0
        self._together: dict[Joint, Together] = {}

    def endpoint(self, methods: dict[str, Route]) -> "Callable[[Request], Awaitable[Response]]":
        async def serve(request: "Request") -> "Response":
            request_id = _request_id(request, self._server.runtime)
            answer = await self._serve(request, methods[request.method], request_id)
            return _response(answer, request_id, request.method)

        return serve

    async def _serve(self, request: "Request", route: Route, request_id: str) -> Answer:
        protocol, limits = self._server.protocol, self._server.limits
        try:
            headers = {name.lower(): value for name, value in request.headers.items()}
            caller = Caller() if route.public else self._server.auth.admit(bearer(headers))
            if route.commits:
                caller.check_writes()
            body = await _body(request, limits.body_bytes)
            call = Call(
                path=dict(request.path_params),
                query=dict(request.query_params),
                headers=headers,
                body=body,
                caller=caller,
                request_id=request_id,
            )
        except _TooLarge:
            return protocol.too_large(limits.body_bytes)
        except SeicheError as error:
            return protocol.problem(error, route, request_id)
        # A commit is never turned away: not every client can tell "not begun" from "unknown".
        if self._inside >= limits.at_once + limits.waiting and not route.commits:
            return protocol.busy()
        return await self._work(route, call)

    async def _work(self, route: Route, call: Call) -> Answer:
        self._inside += 1
        if route.together is not None and route.together.takes(call):
            work = self._joint(route, route.together).ask(call)
        else:
            work = asyncio.get_running_loop().run_in_executor(self._pool, self._run, route, call)
        work.add_done_callback(self._left)
        done, _ = await asyncio.wait([work], timeout=self._server.limits.seconds)
        if not done:
            log.warning("%s %s takes longer than it may (%s)", route.method, route.path, call.request_id)
            return self._server.protocol.late(route, self._server.limits.seconds)
        return work.result()

    def _left(self, _: object) -> None:
        self._inside -= 1

    def _joint(self, route: Route, joint: Joint) -> Together:
        found = self._together.get(joint)
        if found is None:
            work, alone = partial(self._run_all, route, joint), partial(self._run, route)
            found = self._together[joint] = Together(self._pool, work, alone)
        return found

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


async def _body(request: "Request", most: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most:
        raise _TooLarge
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            raise _TooLarge
    return bytes(found)


def _request_id(request: "Request", runtime: Runtime) -> str:
    given = request.headers.get(REQUEST_ID, "")
    return given if _SAFE_ID.fullmatch(given) else str(runtime.uuid())


def _response(answer: Answer, request_id: str, method: str) -> "Response":
    from starlette.responses import Response

    body = answer.encoded()
    headers = {**answer.headers, REQUEST_ID: request_id}
    if not body or method == "HEAD" or answer.status in (204, 304):
        return Response(status_code=answer.status, headers=headers)
    return Response(body, answer.status, headers, answer.media_type)
