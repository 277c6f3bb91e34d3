"""What a client is told when its request is refused or fails, and what whoever runs the server reads about it."""

import logging
from typing import Final

import grpc

from seiche.errors import SeicheError
from seiche.service import common_pb2
from seiche.service.metrics import Call
from seiche.service.wire.arrivals import Context
from seiche.service.wire.statuses import DETAILS, status_message, status_of

__all__ = ["as_told", "refusal", "refuse"]

log = logging.getLogger("seiche.service")

# What whoever runs the server should know of; of all else only the one who calls.
_LEVELS: Final = {
    grpc.StatusCode.INTERNAL: logging.WARNING,
    grpc.StatusCode.UNAUTHENTICATED: logging.INFO,
    grpc.StatusCode.PERMISSION_DENIED: logging.INFO,
}


def as_told(error: Exception, call: Call) -> SeicheError:
    """What a client is told about a failure. What nobody thought of is written to the log, and not told."""
    if isinstance(error, SeicheError):
        return error
    log.error("a call failed", extra={"method": call.method, "request_id": call.id}, exc_info=error)
    return SeicheError(f"the server failed: {type(error).__name__}", remedy="Report it.")


def refusal(error: SeicheError, call: Call) -> common_pb2.Status:
    """Note that a call was refused; returns what the client is told."""
    status, _ = status_of(error)
    call.ended(status.name)
    facts = {"method": call.method, "kind": error.kind, "status": status.name, "request_id": call.id}
    log.log(_LEVELS.get(status, logging.DEBUG), "refused: %s", error.message, extra=facts)
    return status_message(error, call.id)


async def refuse(error: SeicheError, context: Context, call: Call) -> None:
    """End the call with what is wrong. Always raises, as gRPC wants it."""
    told = refusal(error, call)
    await context.abort(status_of(error)[0], told.message, ((DETAILS, told.SerializeToString()),))
