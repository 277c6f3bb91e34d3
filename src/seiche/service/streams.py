"""Calls that stay open, over which the threads of a client send their transactions, several in one message.

A call costs gRPC several times as much as a message in a call that is open already, on both sides.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import grpc

__all__ = ["Stream", "Streams"]

# grpc has no types.
Context: TypeAlias = Any


class Stream:
    """One open call. Answers go out as they come, all that are there in one message. In the event loop only."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._expected = 0
        self._ready: list[bytes] = []
        self._changed = asyncio.Event()
        self._ending = False

    def expect(self) -> None:
        """One more will be answered."""
        self._expected += 1

    def answer(self, part: bytes) -> None:
        """The answer to one of those, as it stands in a message."""
        self._expected -= 1
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
                await self._context.write(b"".join(ready))


class Streams:
    """The open calls. When the server stops, those in which somebody waits are answered before they end."""

    def __init__(self) -> None:
        self._reading: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def serve(self, context: Context, take: Callable[[bytes, Stream], None]) -> None:
        """Give each message to `take`, which must not wait, until the client or the server has had enough."""
        stream = Stream(context)
        writing = asyncio.create_task(stream.write())
        try:
            while not self._closing and not writing.done():
                data = await self._next(context)
                if data is None:
                    break
                try:
                    take(data, stream)
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
        await writing

    def close(self) -> None:
        """End them. Whoever has just sent something gets no answer, and asks again elsewhere."""
        self._closing = True
        for task in tuple(self._reading):
            task.cancel()

    async def _next(self, context: Context) -> bytes | None:
        task = asyncio.current_task()
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
