"""The port of a server: clients of gRPC are led on to it, and those that speak in frames are served here.

A message in an open call costs gRPC's server 150 µs of processor when each comes by itself, and a frame a tenth.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import grpc

from seiche.errors import Unavailable
from seiche.service.bounds import Bounds
from seiche.service.frames import END, GREETING, HEAD, HELLO, LONGEST_HELLO, MESSAGE, End, framed, headers_in

__all__ = ["Caller", "Door", "Serve"]

log = logging.getLogger("seiche.service")

_CHUNK: Final = 64 << 10
# What the system keeps for a client that does not read; by itself it would take megabytes before that is felt.
_KEPT: Final = 128 << 10
# How long whoever was told that the call is over may take to read that.
_TELLING_SECONDS: Final = 1.0


class Gone(Exception):
    """The client has broken off, or does not speak as was agreed."""


class Caller:
    """One open call in frames. To whoever serves it, it is the same as one of gRPC's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, longest: int) -> None:
        self._reader = reader
        self._writer = writer
        self._longest = longest
        self._headers: tuple[tuple[str, str], ...] = ()
        self.over = False

    async def greeted(self) -> None:
        """Wait for what the client says about itself."""
        try:
            self._headers = headers_in(await self._frame(HELLO, LONGEST_HELLO))
        except ValueError as error:
            raise Gone from error

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._headers

    async def read(self) -> Any:
        try:
            return await self._frame(MESSAGE, self._longest)
        except Gone:
            return grpc.aio.EOF

    async def write(self, message: bytes) -> None:
        self._writer.write(framed(message))
        await self._writer.drain()

    async def send_initial_metadata(self, _: object) -> None:
        """There is none: it was said in the hello that the call goes on."""

    def welcome(self) -> None:
        """Say that the call goes on."""
        self._writer.write(framed(b"", HELLO))

    async def abort(self, code: grpc.StatusCode, text: str = "", trailers: Any = ()) -> None:
        """End the call with what is wrong."""
        await self.end(End(code.value[0], text, b"".join(value for _, value in trailers)))

    async def end(self, how: End) -> None:
        if not self.over:
            self.over = True
            self._writer.write(framed(how.encode(), END))
            await self._writer.drain()

    async def _frame(self, expected: int, longest: int) -> bytes:
        """The next frame; `Gone` if there is none, or another one than is expected."""
        try:
            size, kind = HEAD.unpack(await self._reader.readexactly(HEAD.size))
            if kind != expected or size > longest:
                raise Gone
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise Gone from error


# Serves one call until it ends. To begin with it calls `welcome` of it, or refuses it.
Serve: TypeAlias = Callable[[Caller], Awaitable[None]]


class Door:
    """Listens at a port. Whoever does not greet is led on to gRPC, which listens at `inner` on this machine."""

    def __init__(self, serve: Serve, inner: int, bounds: Bounds) -> None:
        self._serve = serve
        self._inner = inner
        self._bounds = bounds
        self._listening: asyncio.Server | None = None
        self._served: set[asyncio.Task[Any]] = set()
        self._led: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def open(self, host: str, port: int) -> None:
        """Listen; port 0 stands for any free one. `Unavailable` if it cannot be had."""
        try:
            self._listening = await asyncio.start_server(self._enter, host, port, limit=_CHUNK)
            self.port = self._listening.sockets[0].getsockname()[1]
            if not port and len(self._listening.sockets) > 1:
                # A name with several addresses: the same port at each of them.
                self._listening.close()
                self._listening = await asyncio.start_server(self._enter, host, self.port, limit=_CHUNK)
        except (OSError, OverflowError) as error:
            raise Unavailable(
                f"the server cannot listen at {host}:{port}: {error}", remedy="Choose another port."
            ) from error

    def shut(self) -> None:
        """Let nobody in any more."""
        if self._listening is not None:
            self._listening.close()

    async def served(self, grace: float) -> None:
        """Wait for calls to end; after this long they are broken off."""
        await _ended(self._served, grace)

    async def close(self) -> None:
        """Let go of those who were led on, when gRPC has ended its calls."""
        await _ended(self._led, _TELLING_SECONDS)

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: asyncio.Task[Any] = asyncio.current_task()  # type: ignore[assignment]
        self._led.add(task)
        try:
            async with asyncio.timeout(self._bounds.handshake_seconds):
                said = await reader.readexactly(len(GREETING))
                if said == GREETING:
                    caller = Caller(reader, writer, self._bounds.message_bytes)
                    await caller.greeted()
            _keep_alive(writer, self._bounds.silent_seconds)
            if said == GREETING:
                self._led.discard(task)
                self._served.add(task)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KEPT)
                await self._call(caller)
            else:
                await self._lead(said, reader, writer)
        except (Gone, TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            log.debug("a connection was given up: %r", error)
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            await _closed(writer)
            self._led.discard(task)
            self._served.discard(task)

    async def _call(self, caller: Caller) -> None:
        if len(self._served) > self._bounds.calls:
            await caller.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls are open")
        else:
            try:
                await self._serve(caller)
            except OSError:
                raise
            except Exception:
                log.exception("a call failed")
                await caller.abort(grpc.StatusCode.INTERNAL, "the server failed")
        with suppress(TimeoutError):
            await asyncio.wait_for(caller.end(End(0)), _TELLING_SECONDS)

    async def _lead(self, said: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what both sides say, until one of them has had enough."""
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._inner, limit=_CHUNK)
        try:
            inner_writer.write(said)
            there = asyncio.create_task(_pass_on(reader, inner_writer))
            back = asyncio.create_task(_pass_on(inner_reader, writer))
            try:
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (there, back):
                    task.cancel()
                await asyncio.wait((there, back))
        finally:
            inner_writer.close()


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Let go of a connection: what was said is sent, unless nobody reads it."""
    writer.close()
    try:
        async with asyncio.timeout(_TELLING_SECONDS):
            await writer.wait_closed()
    except (TimeoutError, OSError, asyncio.CancelledError):
        writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


async def _ended(tasks: set[asyncio.Task[Any]], seconds: float) -> None:
    """Wait so long for all to end, then make them."""
    if tasks:
        await asyncio.wait(tuple(tasks), timeout=seconds)
    for task in tuple(tasks):
        task.cancel()
    if tasks:
        await asyncio.wait(tuple(tasks))


def _keep_alive(writer: asyncio.StreamWriter, seconds: float) -> None:
    """Have the system find out whether a client that says nothing is still there."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(seconds)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
