"""A server in a thread of its own, beside the rest of a process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from seiche.errors import SeicheError, Unavailable
from seiche.service.host import Host
from seiche.service.wire.bounds import DEFAULT, Bounds
from seiche.service.wire.server import Ports, Server

__all__ = ["Running", "running"]

_STARTING = 30.0


class Running:
    """A server that takes calls until `stop`. `port` is the one it got, if 0 was asked for."""

    def __init__(self, host: Host, ports: Ports | None = None, bounds: Bounds = DEFAULT) -> None:
        self.server = Server(host, ports or Ports(), bounds=bounds)
        self._up = Event()
        self._failure: SeicheError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._grace = 0.0
        self._thread = Thread(target=self._run, name="seiche-grpc", daemon=True)
        self._thread.start()
        if not self._up.wait(_STARTING):
            raise Unavailable("the server does not start")
        if self._failure is not None:
            raise self._failure

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def address(self) -> str:
        return f"grpc://{self.server.ports.address(self.port)}"

    def stop(self, grace: float = 10.0) -> None:
        """Answer those who wait, and end."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._grace = grace
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            await self.server.start()
        except SeicheError as error:
            self._failure = error
            self._up.set()
            return
        self._up.set()
        await self._stopping.wait()
        await self.server.stop(self._grace)


@contextmanager
def running(host: Host, ports: Ports | None = None, bounds: Bounds = DEFAULT) -> Iterator[Running]:
    """A server that takes calls inside the block."""
    server = Running(host, ports, bounds)
    try:
        yield server
    finally:
        server.stop()
