"""Calls that stay open, over which a client sends one transaction after the other.

A call costs gRPC several times as much as a message in a call that is open already, on both sides.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

__all__ = ["Streams"]

# grpc has no types.
Context: TypeAlias = Any


class Streams:
    """The open calls. Those in which nobody waits for an answer end when the server stops; the others answer first."""

    def __init__(self) -> None:
        self._idle: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def serve(self, context: Context, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Answer each message before the next one is looked at, until the client or the server has had enough."""
        while not self._closing:
            data = await self._next(context)
            if data is None:
                return
            await context.write(await answer(data))

    def close(self) -> None:
        """End them. Whoever has just sent something gets no answer, and asks again elsewhere."""
        self._closing = True
        for task in tuple(self._idle):
            task.cancel()

    async def _next(self, context: Context) -> bytes | None:
        task = asyncio.current_task()
        if task is not None:
            self._idle.add(task)
        try:
            data = await context.read()
        except asyncio.CancelledError:
            if self._closing:
                return None
            raise
        finally:
            if task is not None:
                self._idle.discard(task)
        return None if data is grpc.aio.EOF else data
