"""What an error is called on the wire."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

import grpc

from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    ConflictError,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)
from seiche.service import common_pb2 as pb

__all__ = ["DETAILS", "TYPES", "error_in", "error_of", "status_message", "status_of"]

DETAILS: Final = "grpc-status-details-bin"
# The same message under the name that clients of the catalog protocol look for.
TYPES: Final = ("seiche.transaction.v1.Error", "ai.floedb.floecat.common.Error")

_BY_REASON: Final = {
    "idempotency.mismatch": (grpc.StatusCode.ABORTED, pb.MC_CONFLICT),
    "idempotency.pending": (grpc.StatusCode.ABORTED, pb.MC_ABORT_RETRYABLE),
    **dict.fromkeys(
        ("queue.full", "answers.unread", "watch.too-many", "transactions.too-many"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, pb.MC_RATE_LIMITED),
    ),
    "target.locked": (grpc.StatusCode.FAILED_PRECONDITION, pb.MC_PRECONDITION_FAILED),
    "precondition.version": (grpc.StatusCode.FAILED_PRECONDITION, pb.MC_PRECONDITION_FAILED),
    "unauthenticated": (grpc.StatusCode.UNAUTHENTICATED, pb.MC_UNAUTHENTICATED),
}
# An error has the status of its nearest class in this table.
_BY_KIND: Final[dict[type, tuple[grpc.StatusCode, pb.ErrorCode]]] = {
    SeicheError: (grpc.StatusCode.INTERNAL, pb.MC_INTERNAL),
    InvalidInput: (grpc.StatusCode.INVALID_ARGUMENT, pb.MC_INVALID_ARGUMENT),
    NotFound: (grpc.StatusCode.INVALID_ARGUMENT, pb.MC_INVALID_ARGUMENT),
    AlreadyExists: (grpc.StatusCode.ABORTED, pb.MC_CONFLICT),
    ConflictError: (grpc.StatusCode.ABORTED, pb.MC_CONFLICT),
    PermissionDenied: (grpc.StatusCode.PERMISSION_DENIED, pb.MC_PERMISSION_DENIED),
    Corrupt: (grpc.StatusCode.INTERNAL, pb.MC_INTERNAL),
    CommitUnknown: (grpc.StatusCode.ABORTED, pb.MC_ABORT_RETRYABLE),
    Unavailable: (grpc.StatusCode.UNAVAILABLE, pb.MC_UNAVAILABLE),
}
# All of it travels in headers, of which clients take 8 kB: bytes as text, and the message as text with escapes besides.
_HEADERS: Final = 7 << 10
# So many bytes of each text are told; fewer if there are too many of them.
_LONGEST: Final = (500, 200, 50)
_NEVER_SENT: Final = frozenset({"reason", "path", "uri"})


def status_of(error: SeicheError) -> tuple[grpc.StatusCode, "pb.ErrorCode"]:
    """The status of the call, and the code in its details."""
    by_reason = _BY_REASON.get(str(error.details.get("reason")))
    if by_reason is not None:
        return by_reason
    return next(_BY_KIND[kind] for kind in type(error).__mro__ if kind in _BY_KIND)


def status_message(error: SeicheError, request_id: str = "") -> pb.Status:
    """What a refused request is told: the status with its details, under both names. It fits into headers."""
    for longest in _LONGEST:
        told = _status_message(error, request_id, longest)
        if told.ByteSize() * 4 // 3 + len(quote(told.message)) <= _HEADERS:
            break
    return told


def _status_message(error: SeicheError, request_id: str, longest: int) -> pb.Status:
    status, code = status_of(error)
    params = {name: _cut(str(value), longest) for name, value in error.details.items() if name not in _NEVER_SENT}
    detail = pb.Error(
        code=code,
        message=_cut(error.message, longest),
        params=params,
        context={"kind": error.kind, "remedy": _cut(error.remedy, longest)},
        message_key=str(error.details.get("reason") or error.kind),
        correlation_id=request_id,
    ).SerializeToString()
    message = pb.Status(code=status.value[0], message=_cut(error.message, longest))
    for name in TYPES:
        message.details.add(type_url=f"type.googleapis.com/{name}", value=detail)
    return message


def _cut(text: str, longest: int) -> str:
    """As much of the text as fits into so many bytes."""
    return text.encode(errors="replace")[:longest].decode(errors="ignore")


def error_of(trailers: Iterable[tuple[str, bytes]] | None) -> pb.Error | None:
    """The details of a failed call, if it has any."""
    for name, value in trailers or ():
        if name == DETAILS:
            return error_in(pb.Status.FromString(value))
    return None


def error_in(status: pb.Status) -> pb.Error | None:
    """The details in a status, if it has any."""
    for detail in status.details:
        if detail.type_url.endswith(TYPES[0]):
            return pb.Error.FromString(detail.value)
    return None
