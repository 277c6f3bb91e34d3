"""Calls that stay open, over which the threads of a client send their transactions, several in one message.

A call costs gRPC several times as much as a message in a call that is open already, on both sides.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc

from seiche.service.wire.arrivals import Context
from seiche.service.wire.bounds import DEFAULT, Bounds, Intake, exhausted

__all__ = ["Stream", "Streams"]


class Stream:
    """One open call. Answers go out as they come, all that are there in one message. In the event loop only.

    Answers that a client does not read are kept for it, so there is an end to how many it may ask for: then nothing
    more is read from it until it has read, and gRPC lets it feel that. One that reads none at all is let go.
    """

    def __init__(self, context: Context, bounds: Bounds = DEFAULT, intake: Intake | None = None) -> None:
        self._context = context
        # Whether its client was seen to write into the lake that is served.
        self.proven = False
        self._bounds = bounds
        self._intake = intake or Intake(bounds.taken_bytes)
        self._expected = 0
        # Those that are expected, and those that are not sent.
        self._unread = 0
        self._bytes = 0
        self._ready: list[bytes] = []
        self._changed = asyncio.Event()
        # One that somebody waits for who wants to take in more.
        self._moved: asyncio.Event | None = None
        self._sent = 0
        self._sending = False
        self._ending = False

    def expect(self, size: int = 0) -> None:
        """One more will be answered, of a request of so many bytes. `Unavailable` if those of all are too many."""
        self._intake.take(size)
        self._bytes += size
        self._expected += 1
        self._unread += 1

    def answer(self, part: bytes, size: int = 0) -> None:
        """The answer to one of those, as it stands in a message."""
        self._intake.done(size)
        self._bytes -= size
        self._expected -= 1
        self._ready.append(part)
        self._changed.set()
        if self._moved is not None:
            self._moved.set()

    def refuse(self, part: bytes) -> None:
        """The answer to one that was not expected."""
        self._unread += 1
        self._ready.append(part)
        self._changed.set()

    def end(self) -> None:
        """No more will be expected."""
        self._ending = True
        self._changed.set()

    async def write(self) -> None:
        """Send answers until all are sent and no more are expected."""
        while self._ready or self._expected or not self._ending:
            await self._changed.wait()
            self._changed.clear()
            if self._ready:
                ready, self._ready = self._ready, []
                if not self._sent:
                    # By itself: while it is on its way with the first answers, gRPC cannot end the call.
                    await self._context.send_initial_metadata(())
                self._sending = True
                await self._context.write(b"".join(ready))
                self._sending = False
                self._sent += 1
                self._unread -= len(ready)
                if self._moved is not None:
                    self._moved.set()

    @property
    def full(self) -> bool:
        """Whether enough was taken in for now."""
        return self._unread >= self._bounds.unread or self._bytes >= self._bounds.message_bytes

    async def room(self) -> None:
        """Wait while it is full. `Unavailable` if the client reads nothing meanwhile, though there is something."""
        while self.full:
            moved = self._moved = asyncio.Event()
            sent = self._sent
            try:
                async with asyncio.timeout(self._bounds.unread_seconds):
                    await moved.wait()
            except TimeoutError:
                self._check_progress(sent)
            finally:
                self._moved = None

    async def drained(self, writing: "asyncio.Task[None]") -> None:
        """Wait until all are sent and no more are expected; `Unavailable` as in `room`."""
        while not writing.done():
            sent = self._sent
            await asyncio.wait({writing}, timeout=self._bounds.unread_seconds)
            if not writing.done():
                self._check_progress(sent)
        await writing

    def _check_progress(self, sent: int) -> None:
        """That nothing is decided for long is not the client's fault; that nothing can be sent is."""
        if self._sending and self._sent == sent:
            raise exhausted(
                f"{self._unread} answers are not read, and none was for {self._bounds.unread_seconds:g} s",
                "answers.unread",
                "Read answers while sending requests. What was taken in is decided: ask for the outcomes.",
            )


class Streams:
    """The open calls. When the server stops, those in which somebody waits are answered before they end."""

    def __init__(self, bounds: Bounds = DEFAULT, intake: Intake | None = None) -> None:
        self._bounds = bounds
        self._intake = intake
        self._reading: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def serve(self, context: Context, take: Callable[[bytes, Stream], Awaitable[None]]) -> None:
        """Give each message to `take`, one after the other, until the client or the server has had enough.

        `Unavailable` if the client does not read its answers.
        """
        stream = Stream(context, self._bounds, self._intake)
        task = asyncio.current_task()
        writing = asyncio.create_task(stream.write())
        try:
            while not self._closing and not writing.done():
                if stream.full:
                    await stream.room()
                    continue
                data = await self._next(context, task)
                if data is None:
                    break
                try:
                    await take(data, stream)
                except Exception:
                    # The call ends with what was wrong. Those who were taken in before must not think that it is about
                    # them.
                    await self._end(stream, writing)
                    raise
            await self._end(stream, writing)
        finally:
            # Whoever is gone is not told; what was decided is decided.
            writing.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await writing

    @staticmethod
    async def _end(stream: Stream, writing: "asyncio.Task[None]") -> None:
        """Answer those who are still to be answered."""
        stream.end()
        await stream.drained(writing)

    def close(self) -> None:
        """End them. Whoever has just sent something gets no answer, and asks again elsewhere."""
        self._closing = True
        for task in tuple(self._reading):
            task.cancel()

    async def _next(self, context: Context, task: "asyncio.Task[Any] | None") -> bytes | None:
        if task is not None:
            self._reading.add(task)
        try:
            data = await context.read()
        except asyncio.CancelledError:
            if self._closing:
                return None
            raise
        finally:
            if task is not None:
                self._reading.discard(task)
        return None if data is grpc.aio.EOF else data
