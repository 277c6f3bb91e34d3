"""How the Lance Namespace protocol says no: a status, and a code that decides which error the client raises."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import lance_namespace as lance
from lance_namespace.errors import ErrorCode

from seiche.errors import NotFound, PermissionDenied, SeicheError
from seiche.gateway.http.app import Protocol
from seiche.gateway.http.auth import is_unknown
from seiche.gateway.http.calls import Answer, Route
from seiche.lake.engines.answers import About, refused

__all__ = ["PROBLEM", "LanceProtocol"]

PROBLEM: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["code"],
    "properties": {
        "error": {"type": "string"},
        "code": {"type": "integer", "minimum": 0},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
}

_STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.NAMESPACE_NOT_FOUND: 404,
    ErrorCode.NAMESPACE_ALREADY_EXISTS: 409,
    ErrorCode.NAMESPACE_NOT_EMPTY: 409,
    ErrorCode.TABLE_NOT_FOUND: 404,
    ErrorCode.TABLE_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_INDEX_NOT_FOUND: 404,
    ErrorCode.TABLE_INDEX_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_TAG_NOT_FOUND: 404,
    ErrorCode.TABLE_TAG_ALREADY_EXISTS: 409,
    ErrorCode.TRANSACTION_NOT_FOUND: 404,
    ErrorCode.TABLE_VERSION_NOT_FOUND: 404,
    ErrorCode.TABLE_COLUMN_NOT_FOUND: 404,
    ErrorCode.INVALID_INPUT: 400,
    ErrorCode.CONCURRENT_MODIFICATION: 409,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
    ErrorCode.INTERNAL: 500,
    ErrorCode.INVALID_TABLE_STATE: 409,
    ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR: 400,
    ErrorCode.THROTTLING: 429,
    ErrorCode.TABLE_BRANCH_NOT_FOUND: 404,
    ErrorCode.TABLE_BRANCH_ALREADY_EXISTS: 409,
}


class LanceProtocol(Protocol):
    """Bodies are `{"error", "code", "detail", "instance"}`; `instance` is the id of the request."""

    def problem(self, error: Exception, route: Route | None, request_id: str) -> Answer:
        said = _as_lance(error, route)
        if said is None:
            return _problem(ErrorCode.INTERNAL, "the server failed; its log says why", request_id)
        return _problem(said.code, str(said), request_id)

    def too_large(self, limit: int) -> Answer:
        return _problem(ErrorCode.INVALID_INPUT, f"the body is larger than {limit} bytes", status=413)

    def slow(self, seconds: float) -> Answer:
        return _problem(ErrorCode.INVALID_INPUT, f"the body did not arrive within {seconds:g} seconds", status=408)

    def busy(self) -> Answer:
        return _problem(ErrorCode.THROTTLING, "too many requests are waiting; this one was not begun")

    def late(self, route: Route, why: str) -> Answer:
        return _problem(ErrorCode.INTERNAL, why, status=504)

    def no_route(self, method: str, path: str, allowed: Sequence[str]) -> Answer:
        answer = _problem(ErrorCode.UNSUPPORTED, f"there is no operation {method} {path}", status=404)
        if not allowed:
            return answer
        return Answer(405, answer.body, {"Allow": ", ".join(allowed)})


def _as_lance(error: Exception, route: Route | None) -> lance.LanceNamespaceError | None:
    if isinstance(error, lance.LanceNamespaceError):
        return error
    if isinstance(error, PermissionDenied) and is_unknown(error):
        return lance.UnauthenticatedError(str(error))
    if isinstance(error, SeicheError):
        path = "" if route is None else route.path
        if isinstance(error, NotFound) and "transaction" in error.details:
            return lance.TransactionNotFoundError(str(error))
        about: About = "namespace" if "/namespace/" in path else "version" if "/version/" in path else "table"
        found = refused(error, about)
        return found if isinstance(found, lance.LanceNamespaceError) else None
    return None


def _problem(code: ErrorCode, error: str, instance: str = "", *, status: int | None = None) -> Answer:
    body = {"error": error.split("\n", maxsplit=1)[0], "code": int(code), "detail": error}
    headers = {"WWW-Authenticate": "Bearer"} if code == ErrorCode.UNAUTHENTICATED else {}
    return Answer(status or _STATUS[code], {**body, **({"instance": instance} if instance else {})}, headers)
