"""Requests as they arrive: who sent them, what they say, and that they are what they seem to be."""

from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from seiche.service import transactions_pb2 as pb
from seiche.service.changes import digest
from seiche.service.core import Service
from seiche.service.properties import FLUSHED
from seiche.service.refusals import refused
from seiche.service.wire import messages as wire
from seiche.service.wire.answers import Answer
from seiche.table.format.varint import read_varint

__all__ = ["Context", "arrived", "is_large", "metadata", "parts_in", "submitting", "takes_long"]

Request = TypeVar("Request", bound=Message)
# grpc has no types, and descriptors have two.
Context: TypeAlias = Any
Descriptor: TypeAlias = Any

# Smaller messages cannot become large in memory, nor take long, whatever they are made of.
_LARGE: Final = 256 << 10
# For each message within a message so many other fields, which take time as well; ours have three.
_FIELDS: Final = 8


def metadata(context: Context, wanted: str) -> str | None:
    """A header of the call."""
    for name, value in context.invocation_metadata() or ():
        if name == wanted:
            return value if isinstance(value, str) else value.decode()
    return None


def is_large(size: int) -> bool:
    """Whether to see what a message of so many bytes is about may take so long that others must not wait for it."""
    return size > _LARGE


async def arrived(
    data: bytes, kind: type[Request], most_parts: int, run: Callable[[Callable[[], Request]], Awaitable[Request]]
) -> Request:
    """The message in these bytes; refused if there is none, or if it has more parts than anybody needs.

    A large one is looked through by a thread, in `run`: all others would have to wait for it.
    """
    if is_large(len(data)):
        return await run(partial(_decoded, data, kind, most_parts))
    return _decoded(data, kind, most_parts)


def _decoded(data: bytes, kind: type[Request], most_parts: int) -> Request:
    if is_large(len(data)) and parts_in(data, kind.DESCRIPTOR, most_parts) > most_parts:
        raise refused(f"the request has more than {most_parts} parts", "request.too-many-parts", "Send several.")
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise refused("the request cannot be read", "request.invalid") from error


def parts_in(data: bytes, kind: Descriptor, most: int) -> int:
    """How many messages there are within a message, counted up to `most` and one more, without making any of them.

    Fields that are none count as too many where there are very many of them. What cannot be read is not counted: that
    is for whoever decodes it.
    """
    count, fields = 0, _FIELDS * most
    waiting = [(0, len(data), kind)]
    try:
        while waiting and count <= most:
            at, end, kind = waiting.pop()
            inner = _inner(kind)
            while at < end and count <= most:
                fields -= 1
                if fields < 0:
                    return most + 1
                tag, at = read_varint(data, at)
                match tag & 7:
                    case 2:
                        size, at = read_varint(data, at)
                        found = inner.get(tag >> 3)
                        if found is not None:
                            count += 1
                            waiting.append((at, min(at + size, end), found))
                        at += size
                    case 0:
                        _, at = read_varint(data, at)
                    case 1:
                        at += 8
                    case 5:
                        at += 4
                    case _:
                        break
    except (IndexError, ValueError):
        pass
    return count


@lru_cache(maxsize=100)
def _inner(kind: Descriptor) -> dict[int, Descriptor]:
    """Which fields of a message are messages themselves."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def takes_long(request: pb.ExecuteTransactionRequest, *, proven: bool) -> bool:
    """Whether storage has to be looked at, or much gone through, before a request can be taken in."""
    believed = bool(request.work) or FLUSHED in request.properties
    return is_large(request.ByteSize()) or (believed and not proven)


def submitting(
    service: Service, request: pb.ExecuteTransactionRequest, done: Callable[[Answer], None], *, proven: bool
) -> Callable[..., bool]:
    """What to call to have a transaction in one call decided; `done` gets the answer, from another thread.

    `proven` as in `Service.submit`.
    """
    properties = request.properties

    def submit(*, look: bool = True) -> bool:
        return service.submit(
            [wire.change(one) for one in request.changes],
            done,
            base_version=request.base_version if request.HasField("base_version") else None,
            key=request.idempotency.key,
            tx=request.tx_id,
            ttl=wire.ttl(request),
            properties={name: properties[name] for name in properties},
            work=request.work,
            request_hash="" if request.tx_id else _request_hash(request),
            look=look,
            proven=proven,
        )

    return submit


def _request_hash(request: pb.ExecuteTransactionRequest) -> str:
    """What tells one request from another: not where in an open call it was, nor blanks around its key."""
    request.number = 0
    key = request.idempotency.key
    if key != key.strip():
        request.idempotency.key = key.strip()
    return digest(request.SerializeToString(deterministic=True))
