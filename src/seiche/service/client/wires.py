"""Connections to a server, plain or over TLS: one thread writes, another one reads, anybody may break it off."""

import socket
import ssl
from contextlib import suppress
from errno import ECONNREFUSED
from struct import Struct
from threading import Lock
from typing import Final

from seiche.service.client.certificates import Certificates

__all__ = ["TlsWire", "Wire", "connected", "parted"]

_CONNECT_SECONDS: Final = 5.0
# Who takes nothing for so long is not written to any more. Otherwise whoever writes could wait for ever.
_WRITE_SECONDS: Final = 15
_WRITE_MICROS: Final = 0
_TIME: Final = Struct("ll")
_BROKEN_OFF: Final = Struct("ii").pack(1, 0)
_RECEIVE: Final = 1 << 15


def connected(address: str, certificates: Certificates | None = None) -> "Wire":
    """A connection to `host:port`, over TLS if there are certificates.

    Raises `OSError` if nobody is there, `SSLError` if the server that is there cannot be trusted.
    """
    host, port = parted(address)
    connection = socket.create_connection((host, port), _CONNECT_SECONDS)
    try:
        if connection.getsockname() == connection.getpeername():
            # Where nobody listens, a connection on one machine may get the port that it goes to for its own: it would
            # talk to itself. It is broken off, not closed, or the system would keep the port from the server for a
            # minute.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _BROKEN_OFF)
            raise ConnectionRefusedError(ECONNREFUSED, "nobody listens there")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(_WRITE_SECONDS, _WRITE_MICROS))
        return Wire(connection) if certificates is None else TlsWire(connection, host, certificates)
    except BaseException:
        connection.close()
        raise


def parted(address: str) -> tuple[str, int]:
    """Host and port in `host:port`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Wire:
    """A plain connection."""

    scheme = "http"

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.settimeout(None)

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, *, wait: bool = True) -> bytes:
        """What has come; nothing at the end. `BlockingIOError` if nothing has, and it is not waited for."""
        return self._socket.recv(_RECEIVE, 0 if wait else socket.MSG_DONTWAIT)

    def shut(self) -> None:
        """End it in both directions: whoever reads is told so."""
        with suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class TlsWire(Wire):
    """A connection over TLS.

    A TLS socket must not be read and written by two threads at once. So bytes are encrypted and decrypted in memory,
    by one thread at a time, and it is the plain socket that is waited for.
    """

    scheme = "https"

    def __init__(self, connection: socket.socket, host: str, certificates: Certificates) -> None:
        context = certificates.context()
        context.set_alpn_protocols(["h2"])
        self._come, self._go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._come, self._go, server_hostname=host)
        self._lock = Lock()
        self._shake_hands(connection)
        super().__init__(connection)

    def _shake_hands(self, connection: socket.socket) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                connection.sendall(self._go.read())
                data = connection.recv(_RECEIVE)
                if not data:
                    raise ConnectionResetError("the connection was closed before it was trusted") from None
                self._come.write(data)
            else:
                connection.sendall(self._go.read())
                return

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        with self._lock:
            while left:
                left = left[self._tls.write(left) :]
            super().write(self._go.read())

    def read(self, *, wait: bool = True) -> bytes:
        while True:
            with self._lock:
                try:
                    return self._tls.read(_RECEIVE)
                except ssl.SSLZeroReturnError:
                    return b""
                except ssl.SSLWantReadError:
                    pass
                if self._go.pending:  # the other side has changed keys
                    super().write(self._go.read())
            data = super().read(wait=wait)
            if not data:
                return b""
            with self._lock:
                self._come.write(data)
