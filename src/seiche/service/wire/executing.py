"""Transactions over calls that stay open: each is answered, whatever is wrong with it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Any, Final

from seiche.errors import SeicheError
from seiche.service import transactions_pb2 as pb
from seiche.service.core import Service
from seiche.service.metrics import Call, Metrics
from seiche.service.refusals import refused
from seiche.service.wire import messages as wire
from seiche.service.wire.answers import Answer, Answers
from seiche.service.wire.arrivals import Context, arrived, is_large, submitting, takes_long
from seiche.service.wire.bounds import Bounds, Intake
from seiche.service.wire.parts import part
from seiche.service.wire.streams import Stream, Streams
from seiche.service.wire.telling import as_told, refusal, refuse

__all__ = ["OpenCalls"]

# A client that does not read its answers may not read this one either.
_TELLING_SECONDS: Final = 1.0


class OpenCalls:
    """`ExecuteTransactions`. In the event loop only; `run` gets what may take long, and runs it elsewhere."""

    def __init__(
        self,
        metrics: Metrics,
        answers: Answers,
        run: Callable[[Callable[[], Any]], Awaitable[Any]],
        bounds: Bounds,
        intake: Intake,
    ) -> None:
        self._metrics = metrics
        self._answers = answers
        self._run = run
        self._bounds = bounds
        self._intake = intake
        self._streams = Streams(bounds, intake)
        self._looking: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End those in which nobody waits; the others are answered first."""
        self._streams.close()

    async def serve(self, context: Context, id_: str, admit: Callable[[], Awaitable[Service]]) -> None:
        """Serve one until it ends. `admit` gives the service of the caller: who was let in may not be any more."""

        async def take(data: bytes, stream: Stream) -> None:
            service = await admit()
            requests = (await self._arrived(data)).requests
            if not requests:
                raise refused("the message has no requests", "request.empty")
            if len(requests) > self._bounds.requests:
                raise refused(
                    f"the message has {len(requests)} requests; {self._bounds.requests} are the most",
                    "request.too-many",
                    "Send several messages.",
                )
            size = len(data) // len(requests)
            for request in requests:
                self._take(service, request, stream, id_, size)

        try:
            await self._streams.serve(context, take)
        except SeicheError as error:
            with self._metrics.call("execute") as call, suppress(TimeoutError):
                call.id = id_
                await asyncio.wait_for(refuse(error, context, call), _TELLING_SECONDS)

    async def _arrived(self, data: bytes) -> pb.ExecuteTransactionsRequest:
        """The requests in a message. While others go on, what is not looked through yet is held as well."""
        most = self._bounds.message_parts
        with self._intake.of(len(data)) if is_large(len(data)) else nullcontext():
            return await arrived(data, pb.ExecuteTransactionsRequest, most, self._run)

    def _take(
        self, service: Service, request: pb.ExecuteTransactionRequest, stream: Stream, id_: str, size: int
    ) -> None:
        """See to it that one request is answered."""
        call = self._metrics.call("execute").begin()
        number = request.number
        call.id = f"{id_}/{number}"

        def as_part(answer: Answer) -> bytes:
            if isinstance(answer, SeicheError):
                response = pb.ExecuteTransactionResponse(status=refusal(answer, call))
            else:
                response = wire.executed(answer)
            response.number = number
            call.finish()
            return part(response.SerializeToString())

        def answered(answer: Answer) -> None:
            stream.answer(as_part(answer), size)

        try:
            stream.expect(size)
        except SeicheError as error:
            stream.refuse(as_part(error))
            return
        try:
            submit = submitting(service, request, self._answers.then(answered), proven=stream.proven)
            if takes_long(request, proven=stream.proven):
                self._later(self._look(submit, answered, call, stream))
                return
            try:
                submit(look=False)
            except SeicheError:
                # Perhaps only because this server has not looked at the lake for a while. Looking may take long.
                self._later(self._look(submit, answered, call, stream))
        except Exception as error:  # noqa: BLE001 - logged, and told as a failure of the server
            answered(as_told(error, call))

    async def _look(
        self, submit: Callable[[], bool], answered: Callable[[Answer], None], call: Call, stream: Stream
    ) -> None:
        try:
            stream.proven = await self._run(submit) or stream.proven
        except Exception as error:  # noqa: BLE001 - as above
            answered(as_told(error, call))

    def _later(self, looking: Any) -> None:
        task = asyncio.ensure_future(looking)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)
