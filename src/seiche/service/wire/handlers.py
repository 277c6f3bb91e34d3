"""The calls of the protocol as gRPC sees them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import SeicheError
from seiche.service import common_pb2
from seiche.service import transactions_pb2 as pb
from seiche.service.auth import READ, WRITE
from seiche.service.core import Service
from seiche.service.host import Host
from seiche.service.metrics import Metrics
from seiche.service.properties import LAKE
from seiche.service.refusals import other_lake, stopping
from seiche.service.state.records import Record
from seiche.service.wire import messages as wire
from seiche.service.wire.answers import Answers
from seiche.service.wire.arrivals import Context, arrived, metadata, submitting, takes_long
from seiche.service.wire.bounds import DEFAULT, Bounds, Intake, Watches
from seiche.service.wire.executing import OpenCalls
from seiche.service.wire.telling import as_told, refuse
from seiche.service.wire.work import Work

__all__ = ["NAMES", "Handlers"]

T = TypeVar("T")
Request = TypeVar("Request", bound=Message)

# Ours, and that of the catalog protocol whose messages these are.
NAMES: Final = ("seiche.transaction.v1.Transactions", "ai.floedb.floecat.transaction.Transactions")
_LOOK_SECONDS: Final = 0.1
_THREADS: Final = 64
_LONGEST_ID: Final = 200
_LONGEST_REASON: Final = 1000


class Handlers:
    """All calls. What waits for SQL or storage runs in threads; transactions in one call do not need any."""

    def __init__(
        self,
        host: Host,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
        *,
        runtime: Runtime = SYSTEM,
        bounds: Bounds = DEFAULT,
    ) -> None:
        self._host = host
        self._metrics = metrics
        self._loop = loop
        self._runtime = runtime
        self._bounds = bounds
        self._intake = Intake(bounds.taken_bytes)
        self._watches = Watches(bounds.watches)
        self._answers = Answers(loop)
        self._threads = ThreadPoolExecutor(_THREADS, "seiche-call")
        # Anybody can send something that makes us ask who that is, and must not keep more than this one busy.
        self._asking = ThreadPoolExecutor(1, "seiche-admission")
        self._open_calls = OpenCalls(metrics, self._answers, self._run, bounds, self._intake)
        self._closing = asyncio.Event()

    def stop_reading(self) -> None:
        """End calls that stay open; those who wait in them are answered first."""
        self._open_calls.close()
        self._closing.set()

    def close(self) -> None:
        self._threads.shutdown(wait=False)
        self._asking.shutdown(wait=False)

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

    async def begin(self, service: Service, request: pb.BeginTransactionRequest, work: Work) -> Message:
        key, properties = request.idempotency.key, dict(request.properties)
        act = partial(service.begin, ttl=wire.ttl(request), key=key, properties=properties)
        return pb.BeginTransactionResponse(transaction=wire.transaction(await work.run(act)))

    async def prepare(self, service: Service, request: pb.PrepareTransactionRequest, work: Work) -> Message:
        def act() -> Record:
            # There may be very many: all others would have to wait.
            changes = [wire.change(one) for one in request.changes]
            return service.prepare(request.tx_id, changes, key=request.idempotency.key)

        return pb.PrepareTransactionResponse(transaction=wire.transaction(await work.run(act)))

    async def commit(self, service: Service, request: pb.CommitTransactionRequest, work: Work) -> Message:
        act = partial(service.commit, request.tx_id, key=request.idempotency.key)
        return pb.CommitTransactionResponse(transaction=wire.transaction(await work.run(act)))

    async def abort(self, service: Service, request: pb.AbortTransactionRequest, work: Work) -> Message:
        act = partial(service.abort, request.tx_id, request.reason[:_LONGEST_REASON])
        return pb.AbortTransactionResponse(transaction=wire.transaction(await work.run(act)))

    async def get(self, service: Service, request: pb.GetTransactionRequest, work: Work) -> Message:
        record = await work.run(partial(service.get, request.tx_id))
        return pb.GetTransactionResponse(transaction=wire.transaction(record))

    async def reserve(self, service: Service, request: pb.ReserveTransactionTableIdRequest, work: Work) -> Message:
        table = await work.run(partial(service.reserve, request.tx_id, request.table_fq))
        found = common_pb2.ResourceId(account_id=service.account, id=table, kind=common_pb2.RK_TABLE)
        return pb.ReserveTransactionTableIdResponse(table_id=found)

    async def execute(self, service: Service, request: pb.ExecuteTransactionRequest, work: Work) -> Message:
        future, done = self._answers.expect()
        submit = work.submitting(partial(submitting, service, request, proven=False), done)
        if takes_long(request, proven=False):
            await work.run(submit)
            return wire.executed(await future)
        try:
            submit(look=False)
        except SeicheError:
            # Perhaps only because this server has not looked at the lake for a while. Looking may take long.
            await work.run(submit)
        return wire.executed(await future)

    async def _execute_many(self, _: object, context: Context) -> None:
        admit = partial(self._admitted, metadata(context, "authorization"), WRITE, metadata(context, LAKE))
        await self._open_calls.serve(context, self._request_id(context), admit)

    async def describe(self, service: Service, _: pb.DescribeLakeRequest, work: Work) -> Message:
        state = await work.run(service.lake.state)
        return pb.DescribeLakeResponse(
            uri=service.lake.uri,
            catalog=service.settings.catalog,
            version=state.version,
            account_id=service.account,
            lake_id=state.definition.id,
        )

    async def watch(self, service: Service, tx: str) -> AsyncIterator[Record]:
        """The states as they come. Those of other servers are seen by looking now and then.

        `Unavailable` if the server stops before there is a final one.
        """
        seen: Record | None = None
        while seen is None or not seen.final:
            if self._closing.is_set():
                raise stopping()
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
                header = metadata(context, "authorization")
                service = await self._admitted(header, READ, metadata(context, LAKE))
                request = await self._arrived(data, pb.WatchTransactionRequest, self._run)
                with self._watches:
                    async for record in self.watch(service, request.tx_id):
                        # Who was let in may not be any more: hours may have passed.
                        await self._admitted(header, READ)
                        yield pb.WatchTransactionResponse(transaction=wire.transaction(record))
            except Exception as error:  # noqa: BLE001 - logged, and told as a failure of the server
                await refuse(as_told(error, call), context, call)

    def _unary(
        self, act: Callable[[Service, Any, Work], Awaitable[Message]], request: type[Message], permission: str = WRITE
    ) -> grpc.RpcMethodHandler:
        name = act.__name__

        async def handle(data: bytes, context: Context) -> Message:
            with self._metrics.call(name) as call:
                call.id = self._request_id(context)
                try:
                    # Who may not call learns nothing about the request, not even whether it can be read.
                    header, lake = metadata(context, "authorization"), metadata(context, LAKE)
                    service = await self._admitted(header, permission, lake)
                    with self._intake.of(len(data)) as taken:
                        work = Work(self._threads, taken)
                        return await act(service, await self._arrived(data, request, work.run), work)
                except SeicheError as error:
                    await refuse(error, context, call)
                    raise
                except Exception as error:
                    await refuse(as_told(error, call), context, call)
                    raise

        return grpc.unary_unary_rpc_method_handler(handle, response_serializer=_encoded)

    async def _admitted(self, header: str | None, permission: str, lake: str | None = None) -> Service:
        """The service of the one who calls. Nobody else waits while it is asked who that is.

        Who means a certain lake is refused by any other: at the same address there may be another one by now.
        """
        if self._host.authenticator.waits(header):
            found = await self._loop.run_in_executor(self._asking, self._host.service, header, permission)
        else:
            found = self._host.service(header, permission)
        if lake is not None and lake != found.lake_id:
            raise other_lake(found.lake.uri)
        return found

    async def _arrived(
        self, data: bytes, kind: type[Request], run: Callable[[Callable[[], Request]], Awaitable[Request]]
    ) -> Request:
        return await arrived(data, kind, self._bounds.message_parts, run)

    def _request_id(self, context: Context) -> str:
        """The id that the client gave to the request; without one, it gets one here."""
        given = metadata(context, "x-request-id")
        return given[:_LONGEST_ID] if given else str(self._runtime.uuid())

    async def _run(self, act: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, act)


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()
