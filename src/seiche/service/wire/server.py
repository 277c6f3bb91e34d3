"""The gRPC server: ports, health, reflection, and a stop that tears nothing."""

import asyncio
import logging
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, Unavailable
from seiche.service.host import Host
from seiche.service.metrics import Metrics
from seiche.service.wire.bounds import DEFAULT, Bounds
from seiche.service.wire.handlers import NAMES, Handlers
from seiche.service.wire.tls import TlsFiles

if TYPE_CHECKING:
    from grpc_health.v1.health import aio as health_aio

__all__ = ["Ports", "Server"]

log = logging.getLogger("seiche.service")

_GRACE_SECONDS: Final = 10.0
# A page is asked for in one line. Whoever does not send it is not waited for.
_PAGE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where to listen; port 0 stands for any free one. With a certificate and its key, only over TLS.

    With `client_ca`, clients must show a certificate of that authority.
    """

    host: str = "127.0.0.1"
    port: int = 0
    metrics: int | None = None
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it. A name may stand for any address, whatever it begins with."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def address(self, port: int) -> str:
        """The host with a port, as it is written also if it is an address of IPv6."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def credentials(self) -> grpc.ServerCredentials | None:
        if self.certificate is None and self.key is None:
            if self.client_ca is not None:
                # Otherwise the server would let everybody in, and over a connection that everybody can read.
                raise InvalidInput(
                    "without TLS clients cannot be asked for certificates",
                    remedy="Give the server's own certificate and its key, too.",
                )
            return None
        if self.certificate is None or self.key is None:
            raise InvalidInput("TLS needs a certificate and its key", remedy="Give both.")
        return TlsFiles(self.certificate, self.key, self.client_ca).credentials()


class Server:
    """A running server. All its work is in the event loop that started it, and in threads of its own."""

    def __init__(self, host: Host, ports: Ports, *, runtime: Runtime = SYSTEM, bounds: Bounds = DEFAULT) -> None:
        self.host = host
        self.ports = ports
        self._runtime = runtime
        self._bounds = bounds
        self.port = 0
        self.metrics_port = 0
        self.metrics = Metrics(host, runtime.clock)
        self._grpc: grpc.aio.Server | None = None
        self._health: health_aio.HealthServicer | None = None
        self._handlers: Handlers | None = None
        self._pages: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. `Unavailable` if the port is taken."""
        from grpc_health.v1 import health, health_pb2, health_pb2_grpc
        from grpc_reflection.v1alpha import reflection

        bounds = self._bounds
        self._handlers = Handlers(
            self.host, self.metrics, asyncio.get_running_loop(), runtime=self._runtime, bounds=bounds
        )
        server = self._grpc = grpc.aio.server(options=_options(bounds), maximum_concurrent_rpcs=bounds.calls)
        server.add_generic_rpc_handlers(self._handlers.generic())
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        for name in ("", *NAMES):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        reflection.enable_server_reflection((NAMES[0], health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        address = self.ports.address(self.ports.port)
        try:
            credentials = self.ports.credentials()
            if credentials is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise Unavailable(f"the server cannot listen at {address}", remedy="Choose another port.") from error
        if self.ports.metrics is not None:
            self._pages = await self._listening_for_figures(self.ports.metrics)
            self.metrics_port = self._pages.sockets[0].getsockname()[1]
        await server.start()
        log.info("listening", extra={"host": self.ports.host, "port": self.port})

    async def stop(self, grace: float = _GRACE_SECONDS) -> None:
        """Take in no more, answer those who wait, and let go."""
        if self._health is not None:
            await self._health.enter_graceful_shutdown()
        if self._pages is not None:
            self._pages.close()
        if self._handlers is not None:
            self._handlers.stop_reading()
        if self._grpc is not None:
            await self._grpc.stop(grace)
        await asyncio.get_running_loop().run_in_executor(None, self.host.close)
        if self._handlers is not None:
            self._handlers.close()
        log.info("stopped")

    async def _listening_for_figures(self, port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._page, self.ports.host, port)
        except (OSError, OverflowError) as error:
            where = f"{self.ports.host}:{port}"
            raise Unavailable(
                f"figures cannot be asked for at {where}: {error}", remedy="Choose another port."
            ) from error

    async def _page(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`GET /metrics`, and nothing else."""
        try:
            request = await asyncio.wait_for(reader.readline(), _PAGE_SECONDS)
            found = request.split(b" ")[1:2] == [b"/metrics"]
            body = self.metrics.exposition() if found else b"only /metrics is here\n"
            status = b"200 OK" if found else b"404 Not Found"
            head = b"HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (status, len(body)) + body)
            await asyncio.wait_for(writer.drain(), _PAGE_SECONDS)
        except (TimeoutError, ValueError, OSError) as error:
            log.debug("a page was not asked for: %s", error)
        finally:
            writer.close()


def _options(bounds: Bounds) -> list[tuple[str, int]]:
    """How gRPC keeps to these bounds by itself."""
    return [
        ("grpc.max_receive_message_length", bounds.message_bytes),
        ("grpc.max_send_message_length", bounds.message_bytes),
        ("grpc.max_concurrent_streams", bounds.calls_each),
        ("grpc.server_handshake_timeout_ms", int(bounds.handshake_seconds * 1000)),
        ("grpc.keepalive_time_ms", int(bounds.silent_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", int(bounds.handshake_seconds * 1000)),
        # By itself gRPC drops them at the third within five minutes.
        ("grpc.http2.min_ping_interval_without_data_ms", int(bounds.asking_seconds * 1000)),
        ("grpc.so_reuseport", 0),
    ]
