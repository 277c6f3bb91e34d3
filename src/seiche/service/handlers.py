"""The calls of the protocol as gRPC sees them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import SeicheError
from seiche.service import common_pb2, wire
from seiche.service import transactions_pb2 as pb
from seiche.service.answers import Answer, Answers
from seiche.service.auth import READ, WRITE
from seiche.service.changes import digest
from seiche.service.core import Service
from seiche.service.host import Host
from seiche.service.metrics import Call, Metrics
from seiche.service.parts import part
from seiche.service.refusals import refused
from seiche.service.state.records import Record
from seiche.service.statuses import DETAILS, status_message, status_of
from seiche.service.streams import Stream, Streams

__all__ = ["NAMES", "Handlers"]

log = logging.getLogger("seiche.service")

T = TypeVar("T")
Request = TypeVar("Request", bound=Message)
# grpc has no types.
Context: TypeAlias = Any

# Ours, and that of the catalog protocol whose messages these are.
NAMES: Final = ("seiche.transaction.v1.Transactions", "ai.floedb.floecat.transaction.Transactions")
_LOOK_SECONDS: Final = 0.1
_LONGEST_ID: Final = 200
# What whoever runs the server should know of; of all else only the one who calls.
_LEVELS: Final = {
    grpc.StatusCode.INTERNAL: logging.WARNING,
    grpc.StatusCode.UNAUTHENTICATED: logging.INFO,
    grpc.StatusCode.PERMISSION_DENIED: logging.INFO,
}


class Handlers:
    """All calls. What waits for SQL or storage runs in threads; transactions in one call do not need any."""

    def __init__(
        self,
        host: Host,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
        *,
        threads: int = 64,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._host = host
        self._metrics = metrics
        self._loop = loop
        self._runtime = runtime
        self._answers = Answers(loop)
        self.streams = Streams()
        self._threads = ThreadPoolExecutor(threads, "seiche-call")
        self._closing = asyncio.Event()
        self._looking: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        self._closing.set()
        self._threads.shutdown(wait=False)

    def generic(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """The same methods under both names."""
        methods = {
            "BeginTransaction": self._unary(self.begin, pb.BeginTransactionRequest),
            "PrepareTransaction": self._unary(self.prepare, pb.PrepareTransactionRequest),
            "CommitTransaction": self._unary(self.commit, pb.CommitTransactionRequest),
            "AbortTransaction": self._unary(self.abort, pb.AbortTransactionRequest),
            "GetTransaction": self._unary(self.get, pb.GetTransactionRequest, READ),
            "ReserveTransactionTableId": self._unary(self.reserve, pb.ReserveTransactionTableIdRequest),
            "ExecuteTransaction": self._unary(self.execute, pb.ExecuteTransactionRequest),
            "DescribeLake": self._unary(self.describe, pb.DescribeLakeRequest, READ),
            "ExecuteTransactions": grpc.stream_stream_rpc_method_handler(self._execute_many),
            "WatchTransaction": grpc.unary_stream_rpc_method_handler(self._watch, response_serializer=_encoded),
        }
        return tuple(grpc.method_handlers_generic_handler(name, methods) for name in NAMES)

    async def begin(self, service: Service, request: pb.BeginTransactionRequest) -> Message:
        ttl = wire.seconds(request.ttl) if request.HasField("ttl") else None
        act = partial(service.begin, ttl=ttl, key=request.idempotency.key, properties=dict(request.properties))
        return pb.BeginTransactionResponse(transaction=wire.transaction(await self._run(act)))

    async def prepare(self, service: Service, request: pb.PrepareTransactionRequest) -> Message:
        changes = [wire.change(one) for one in request.changes]
        act = partial(service.prepare, request.tx_id, changes, key=request.idempotency.key)
        return pb.PrepareTransactionResponse(transaction=wire.transaction(await self._run(act)))

    async def commit(self, service: Service, request: pb.CommitTransactionRequest) -> Message:
        act = partial(service.commit, request.tx_id, key=request.idempotency.key)
        return pb.CommitTransactionResponse(transaction=wire.transaction(await self._run(act)))

    async def abort(self, service: Service, request: pb.AbortTransactionRequest) -> Message:
        act = partial(service.abort, request.tx_id, request.reason)
        return pb.AbortTransactionResponse(transaction=wire.transaction(await self._run(act)))

    async def get(self, service: Service, request: pb.GetTransactionRequest) -> Message:
        record = await self._run(partial(service.get, request.tx_id))
        return pb.GetTransactionResponse(transaction=wire.transaction(record))

    async def reserve(self, service: Service, request: pb.ReserveTransactionTableIdRequest) -> Message:
        table = await self._run(partial(service.reserve, request.tx_id, request.table_fq))
        found = common_pb2.ResourceId(account_id=service.account, id=table, kind=common_pb2.RK_TABLE)
        return pb.ReserveTransactionTableIdResponse(table_id=found)

    async def execute(self, service: Service, request: pb.ExecuteTransactionRequest) -> Message:
        future, done = self._answers.expect()
        submit = _submitting(service, request, done)
        try:
            submit(look=False)
        except SeicheError:
            # Perhaps only because this server has not looked at the lake for a while. Looking may take long.
            await self._run(submit)
        return wire.executed(await future)

    async def _execute_many(self, _: object, context: Context) -> None:
        header = _metadata(context, "authorization")
        id_ = self._request_id(context)

        def take(data: bytes, stream: Stream) -> None:
            # Who was let in when the call began may not be any more.
            service = self._host.service(header, WRITE)
            requests = _decoded(data, pb.ExecuteTransactionsRequest).requests
            if not requests:
                raise refused("the message has no requests", "request.empty")
            for request in requests:
                self._take(service, request, stream, id_)

        try:
            await self.streams.serve(context, take)
        except SeicheError as error:
            with self._metrics.call("execute") as call:
                call.id = id_
                await self._refuse(error, context, call)

    def _take(self, service: Service, request: pb.ExecuteTransactionRequest, stream: Stream, id_: str) -> None:
        """See to it that one request of an open call is answered, whatever is wrong with it."""
        call = self._metrics.call("execute").begin()
        number = request.number
        call.id = f"{id_}/{number}"

        def answered(answer: Answer) -> None:
            if isinstance(answer, SeicheError):
                response = pb.ExecuteTransactionResponse(status=_refused(answer, call))
            else:
                response = wire.executed(answer)
            response.number = number
            call.finish()
            stream.answer(part(response.SerializeToString()))

        async def look(submit: Callable[[], None]) -> None:
            try:
                await self._run(submit)
            except Exception as error:  # noqa: BLE001 - logged, and told as a failure of the server
                answered(_as_told(error, call))

        stream.expect()
        try:
            submit = _submitting(service, request, self._answers.then(answered))
            try:
                submit(look=False)
            except SeicheError:
                # As in `execute`.
                task = self._loop.create_task(look(submit))
                self._looking.add(task)
                task.add_done_callback(self._looking.discard)
        except Exception as error:  # noqa: BLE001 - as above
            answered(_as_told(error, call))

    async def describe(self, service: Service, _: pb.DescribeLakeRequest) -> Message:
        state = await self._run(service.lake.state)
        return pb.DescribeLakeResponse(
            uri=service.lake.uri,
            catalog=service.settings.catalog,
            version=state.version,
            account_id=service.account,
            lake_id=state.definition.id,
        )

    async def watch(self, service: Service, tx: str) -> AsyncIterator[Record]:
        """The states as they come. Those of other servers are seen by looking now and then."""
        seen: Record | None = None
        while (seen is None or not seen.final) and not self._closing.is_set():
            record = await self._run(partial(service.get, tx))
            if seen is None or record.state is not seen.state:
                yield record
                seen = record
            elif not record.final:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), _LOOK_SECONDS)

    async def _watch(self, data: bytes, context: Context) -> AsyncIterator[pb.WatchTransactionResponse]:
        with self._metrics.call("watch") as call:
            try:
                call.id = self._request_id(context)
                service = self._host.service(_metadata(context, "authorization"), READ)
                request = _decoded(data, pb.WatchTransactionRequest)
                async for record in self.watch(service, request.tx_id):
                    yield pb.WatchTransactionResponse(transaction=wire.transaction(record))
            except SeicheError as error:
                await self._refuse(error, context, call)

    def _unary(
        self, act: Callable[[Service, Any], Awaitable[Message]], request: type[Message], permission: str = WRITE
    ) -> grpc.RpcMethodHandler:
        name = act.__name__

        async def handle(data: bytes, context: Context) -> Message:
            with self._metrics.call(name) as call:
                call.id = self._request_id(context)
                try:
                    # Who may not call learns nothing about the request, not even whether it can be read.
                    service = self._host.service(_metadata(context, "authorization"), permission)
                    return await act(service, _decoded(data, request))
                except SeicheError as error:
                    await self._refuse(error, context, call)
                    raise
                except Exception as error:
                    await self._refuse(_as_told(error, call), context, call)
                    raise

        return grpc.unary_unary_rpc_method_handler(handle, response_serializer=_encoded)

    async def _refuse(self, error: SeicheError, context: Context, call: Call) -> None:
        told = _refused(error, call)
        await context.abort(status_of(error)[0], error.message, ((DETAILS, told.SerializeToString()),))

    def _request_id(self, context: Context) -> str:
        """What the one who calls has called the request; else it gets a name here."""
        given = _metadata(context, "x-request-id")
        return given[:_LONGEST_ID] if given else str(self._runtime.uuid())

    async def _run(self, act: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, act)


def _submitting(
    service: Service, request: pb.ExecuteTransactionRequest, done: Callable[[Answer], None]
) -> Callable[..., None]:
    return partial(
        service.submit,
        [wire.change(one) for one in request.changes],
        done,
        base_version=request.base_version if request.HasField("base_version") else None,
        key=request.idempotency.key,
        tx=request.tx_id,
        ttl=wire.seconds(request.ttl) if request.HasField("ttl") else None,
        properties=dict(request.properties),
        work=request.work,
        request_hash="" if request.tx_id else _request_hash(request),
    )


def _request_hash(request: pb.ExecuteTransactionRequest) -> str:
    """What tells one request from another; where in an open call it was is no part of that."""
    request.number = 0
    return digest(request.SerializeToString(deterministic=True))


def _as_told(error: Exception, call: Call) -> SeicheError:
    """What a client is told about a failure. What nobody thought of is written to the log, and not told."""
    if isinstance(error, SeicheError):
        return error
    log.error("a call failed", extra={"method": call.method, "request_id": call.id}, exc_info=error)
    return SeicheError(f"the server failed: {type(error).__name__}", remedy="Report it.")


def _refused(error: SeicheError, call: Call) -> common_pb2.Status:
    """Note that a call was refused; returns what the client is told."""
    status, _ = status_of(error)
    call.ended(status.name)
    facts = {"method": call.method, "kind": error.kind, "status": status.name, "request_id": call.id}
    log.log(_LEVELS.get(status, logging.DEBUG), "refused: %s", error.message, extra=facts)
    return status_message(error, call.id)


def _metadata(context: Context, wanted: str) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == wanted:
            return value if isinstance(value, str) else value.decode()
    return None


def _decoded(data: bytes, kind: type[Request]) -> Request:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise refused("the request cannot be read", "request.invalid") from error


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()
