"""A server in front of a server that loses some answers, or holds up a request for ever."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CuttingProxy:
    """Forwards connections to `target`, a TCP address or the path of a Unix socket.

    Of each of the next `cuts` answers the client gets nothing: the request has taken effect, and the connection ends.
    A request that contains the bytes `hold` is never delivered; `held` tells that it came.
    """

    def __init__(self, target: tuple[str, int] | str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self._lock = threading.Lock()
        self.cuts = 0
        self.cut = 0
        self.hold = b""
        self.held = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX if isinstance(self._target, str) else socket.AF_INET)
                server.connect(self._target)
                self._open += [client, server]
                threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        seen = b""
        with suppress(OSError):
            while data := client.recv(1 << 16):
                seen = seen[-1000:] + data
                if self.hold and self.hold in seen:
                    self.held.set()
                    continue
                server.sendall(data)
        _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                with self._lock:
                    if self.cuts > 0:
                        self.cuts -= 1
                        self.cut += 1
                        break
                client.sendall(data)
        _end(client, server)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting_proxy(target: tuple[str, int] | str) -> Iterator[CuttingProxy]:
    """A proxy that is closed at the end of the block."""
    proxy = CuttingProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
