"""Running ASGI applications beside the rest of a process: in a thread of their own, on a port of their own."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from seiche.errors import InvalidInput, Unavailable

__all__ = ["Running", "running"]

_STARTING = 30.0
_STOPPING = 10.0


class Running:
    """An application that takes requests until `stop`. `port` is the one it got, if 0 was asked for."""

    def __init__(self, app: Any, port: int = 0, host: str = "127.0.0.1") -> None:
        try:
            import uvicorn
        except ImportError as error:
            raise InvalidInput("serving needs uvicorn", remedy="pip install 'seiche[server]'") from error
        config = uvicorn.Config(
            app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=5, lifespan="on"
        )
        self.host = host
        self._server = uvicorn.Server(config)
        self._up = Event()
        self._failed = False
        self._thread = Thread(target=self._run, name="seiche-gateway-loop", daemon=True)
        self._thread.start()
        if not self._up.wait(_STARTING) or self._failed:
            raise Unavailable(f"{host}:{port} cannot be listened on", remedy="Choose another port.")

    @property
    def port(self) -> int:
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def stop(self) -> None:
        """Take no more requests, answer those under way, and end."""
        self._server.should_exit = True
        self._thread.join(_STOPPING)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except SystemExit:  # how uvicorn says that it could not start
            self._failed = True
        finally:
            self._failed = self._failed or not self._server.started
            self._up.set()

    async def _serve(self) -> None:
        started = self._server.startup

        async def startup(*args: Any, **options: Any) -> None:
            await started(*args, **options)
            if self._server.started:
                self._up.set()

        self._server.startup = startup  # type: ignore[method-assign]
        await self._server.serve()


@contextmanager
def running(app: Any, port: int = 0, host: str = "127.0.0.1") -> Iterator[Running]:
    """An application that is served inside the block."""
    server = Running(app, port, host)
    try:
        yield server
    finally:
        server.stop()
