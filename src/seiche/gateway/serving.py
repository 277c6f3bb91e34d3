"""Running ASGI applications beside the rest of a process: in a thread of their own, on a port of their own."""

import asyncio
import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, SeicheError, Unavailable
from seiche.gateway import apps
from seiche.service.wire.tls import TlsFiles

if TYPE_CHECKING:
    from seiche.gateway.credentials import Credentials
    from seiche.gateway.http.auth import Auth
    from seiche.gateway.http.calls import Counted
    from seiche.lake.lake import Lake

__all__ = ["Running", "Tls", "running", "serving", "stop"]

_STARTING = 30.0
_STOPPING = 10.0
_TIDYING = 6 * 3600.0

log = logging.getLogger("seiche.gateway")


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a certificate and its key, and of the authority that clients need a certificate of, if they do."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = {"ssl_certfile": str(self.certificate), "ssl_keyfile": str(self.key)}
        if self.client_authority is not None:
            found |= {"ssl_ca_certs": str(self.client_authority), "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return found


class Running:
    """An application that takes requests until `stop`. `port` is the one it got, if 0 was asked for."""

    def __init__(self, app: Any, port: int = 0, host: str = "127.0.0.1", tls: Tls | None = None) -> None:
        try:
            import uvicorn

            from seiche.gateway.http.connection import Connection
        except ImportError as error:
            raise InvalidInput(
                "serving needs uvicorn", remedy='Install it with pip install "seiche[server]".'
            ) from error
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,
            log_level="warning",
            access_log=False,
            http=Connection,
            timeout_graceful_shutdown=5,
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            ws="none",
            **({} if tls is None else tls.settings),
        )
        if tls is not None:
            files = TlsFiles(tls.certificate, tls.key, tls.client_authority)
            config.load()
            # The one that it listens with.
            if config.ssl is not None:
                files.follow(config.ssl)
        self.host = host
        self._scheme = "http" if tls is None else "https"
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
        return f"{self._scheme}://{self.host}:{self.port}"

    def stop(self) -> None:
        """Take no more requests, answer those under way, and end."""
        stop([self])

    def _run(self) -> None:
        try:
            # A quicker loop than Python's own, where there is one.
            with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
                runner.run(self._serve())
        except SystemExit:  # how uvicorn says that it could not start
            self._failed = True
        finally:
            self._failed = self._failed or not self._server.started
            self._up.set()

    async def _serve(self) -> None:
        started, ended = self._server.startup, self._server.shutdown

        async def startup(*args: Any, **options: Any) -> None:
            await started(*args, **options)
            if self._server.started:
                self._up.set()

        async def shutdown(*args: Any, **options: Any) -> None:
            self._hang_up()
            await ended(*args, **options)

        self._server.startup = startup  # type: ignore[method-assign]
        self._server.shutdown = shutdown  # type: ignore[method-assign]
        await self._server.serve()

    def _hang_up(self) -> None:
        """End connections on which nothing is under way. uvicorn says over TLS that they end and waits for an answer,
        which a client that keeps one for later does not give: a stop would take all the time that calls have to end.
        """
        if self._server.config.is_ssl:
            for one in list(self._server.server_state.connections):
                cycle, transport = getattr(one, "cycle", None), getattr(one, "transport", None)
                idle = cycle is None or cycle.response_complete
                if idle and transport is not None and not transport.get_write_buffer_size():
                    transport.abort()


def stop(servers: Sequence[Running]) -> None:
    """Stop all of them at the same time: each takes a while to notice, and to answer what is under way."""
    for server in servers:
        server._server.should_exit = True
    for server in servers:
        server._thread.join(_STOPPING)


@contextmanager
def running(app: Any, port: int = 0, host: str = "127.0.0.1") -> Iterator[Running]:
    """An application that is served inside the block."""
    server = Running(app, port, host)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def serving(
    lake: "Lake",
    auth: "Auth | None" = None,
    *,
    iceberg_port: int | None = None,
    lance_port: int | None = None,
    host: str = "127.0.0.1",
    catalog: str = "lake",
    tls: Tls | None = None,
    credentials: "Credentials | None" = None,
    outside: Sequence[str] | None = None,
    runtime: Runtime = SYSTEM,
    counted: "Counted | None" = None,
) -> Iterator[dict[str, str]]:
    """The gateways of a lake that have a port, inside the block; their addresses by the names of the protocols.

    Everything else as for `apps`.
    """
    made = apps(lake, auth, catalog=catalog, credentials=credentials, outside=outside, runtime=runtime, counted=counted)
    wanted = {"iceberg": (made.iceberg, iceberg_port), "lance": (made.lance, lance_port)}
    with ExitStack() as stack:
        found: dict[str, str] = {}
        servers: list[Running] = []
        stack.callback(stop, servers)
        for name, (app, port) in wanted.items():
            if port is not None:
                servers.append(Running(app, port, host, tls))
                found[name] = servers[-1].url
        if "lance" in found:
            stack.enter_context(_tidying(lake, runtime))
        yield found


@contextmanager
def _tidying(lake: "Lake", runtime: Runtime) -> Iterator[None]:
    """Desks are cleared of what is old, now and then, inside the block."""
    from seiche.gateway.lance_namespace.desk import Desks

    stop = Event()

    def tidy() -> None:
        while True:
            try:
                Desks(lake.store).tidy(runtime.clock.now())
            except SeicheError as error:
                log.warning("desks could not be cleared: %s", error.message)
            if stop.wait(_TIDYING):
                return

    thread = Thread(target=tidy, name="seiche-desks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOPPING)
