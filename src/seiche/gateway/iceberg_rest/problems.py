"""How the Iceberg REST protocol says no: a status, and a type that clients turn into an exception.

On a commit the status decides whether a client deletes the files that it wrote: after 409, 400, 404 and 503 it may,
after 500, 502 and 504 it must not. So those three are what is said whenever a commit may have happened.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    ConflictError,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)
from seiche.gateway.http.app import Protocol
from seiche.gateway.http.auth import is_expired, is_unknown
from seiche.gateway.http.calls import Answer, Route

__all__ = ["PROBLEM", "IcebergProtocol", "Refusal", "refuse"]

PROBLEM: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": "integer", "minimum": 400, "maximum": 600},
            },
        }
    },
}


class Refusal(Exception):
    """An answer that says no, for a reason that only this protocol knows. It never leaves the gateway."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.answer = refuse(status, kind, message)


class IcebergProtocol(Protocol):
    """Bodies are `{"error": {"message", "type", "code"}}`."""

    def problem(self, error: Exception, route: Route | None, request_id: str) -> Answer:
        if isinstance(error, Refusal):
            return error.answer
        if isinstance(error, SeicheError):
            status, kind = _meaning(error, route)
            answer = refuse(status, kind, str(error))
            return Answer(status, answer.body, _headers(status))
        commits = route is not None and route.commits
        kind = "CommitStateUnknownException" if commits else "InternalServerError"
        return refuse(500, kind, f"the server failed; its log says why (request {request_id})")

    def too_large(self, limit: int) -> Answer:
        return refuse(413, "ValidationException", f"the body is larger than {limit} bytes")

    def slow(self, seconds: float) -> Answer:
        return refuse(408, "RequestTimeoutException", f"the body did not arrive within {seconds:g} seconds")

    def busy(self) -> Answer:
        answer = refuse(503, "ServiceUnavailableException", "too many requests are waiting; this one was not begun")
        return Answer(503, answer.body, {"Retry-After": "1"})

    def late(self, route: Route, why: str) -> Answer:
        kind = "CommitStateUnknownException" if route.commits else "ServiceTimeoutException"
        return refuse(504, kind, why)

    def no_route(self, method: str, path: str, allowed: Sequence[str]) -> Answer:
        message = f"there is no operation {method} {path}"
        if not allowed:
            return refuse(404, "NoSuchEndpointException", message)
        return Answer(405, refuse(405, "UnsupportedOperationException", message).body, {"Allow": ", ".join(allowed)})


def refuse(status: int, kind: str, message: str) -> Answer:
    return Answer(status, {"error": {"message": message, "type": kind, "code": status}})


# The table in docs/design/021-gateways.md: status, the type, and the type on routes that commit.
_MEANINGS: Final[tuple[tuple[type[SeicheError], int, str, str], ...]] = (
    (InvalidInput, 400, "ValidationException", "ValidationException"),
    (AlreadyExists, 409, "AlreadyExistsException", "AlreadyExistsException"),
    (ConflictError, 409, "CommitFailedException", "CommitFailedException"),
    (CommitUnknown, 502, "CommitStateUnknownException", "CommitStateUnknownException"),
    (Unavailable, 503, "ServiceUnavailableException", "CommitStateUnknownException"),
    (SeicheError, 500, "InternalServerError", "CommitStateUnknownException"),
)


def _meaning(error: SeicheError, route: Route | None) -> tuple[int, str]:
    if isinstance(error, PermissionDenied):
        if is_expired(error):
            return 419, "AuthenticationTimeoutException"
        return (401, "UnauthorizedException") if is_unknown(error) else (403, "ForbiddenException")
    if isinstance(error, NotFound):
        return 404, _missing(error, route)
    if isinstance(error, AlreadyExists) and "location" in error.details:
        return 400, "ValidationException"  # clients take 409 for "there is a table of that name", and would load it
    commits = route is not None and route.commits
    _, status, plain, committing = next(one for one in _MEANINGS if isinstance(error, one[0]))
    return status, committing if commits else plain


def _missing(error: NotFound, route: Route | None) -> str:
    if "table" in error.details:
        return "NoSuchTableException"
    if "view" in error.details:
        return "NoSuchViewException"
    if "transaction" in error.details:
        return "NoSuchTransactionException"
    if route is not None and route.path.endswith("/transactions/commit"):
        return "NoSuchTableException"
    return "NoSuchNamespaceException"


def _headers(status: int) -> dict[str, str]:
    return {"WWW-Authenticate": "Bearer"} if status in (401, 419) else {}
