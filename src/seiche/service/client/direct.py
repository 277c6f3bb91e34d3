"""One call that stays open over a connection of its own, without gRPC in between.

A question that goes through gRPC wakes threads of its own in the client, several times: 400 µs of processor, of which
the same question over a plain socket takes 50. What is said over the connection is the protocol of gRPC, word for word;
any server of it answers. Over TLS, or through a proxy, calls are gRPC's own (`seiche.service.client.opened`).
"""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final, TypeAlias

import grpc

from seiche.service.client import frames
from seiche.service.client.calls import Ended, Failed, Garbled

__all__ = ["DirectCall", "is_direct"]

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]] | None

_CONNECT_SECONDS: Final = 5.0
_RECEIVE: Final = 1 << 15
_HEAD: Final = 9
# There is one call for each connection, and it is the first.
_STREAM: Final = 1
_CONNECTION: Final = 0
# Settings: the size of the table of headers, of the window for what the other side may send, of frames, and whether
# binary headers may be sent as they are.
_TABLE_SIZE, _WINDOW_SIZE, _FRAME_SIZE, _TRUE_BINARY = 0x1, 0x4, 0x5, 0xFE03
_WIDE: Final = (1 << 31) - 1
_USUAL_WINDOW: Final = 65_535
_USUAL_FRAME: Final = 16_384
# Before a message stands whether it is compressed, and its length.
_PREFIX: Final = 5
_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def is_direct(*, tls: bool) -> bool:
    """Whether servers are to be reached without gRPC's own connections, which know of TLS and of proxies."""
    return not tls and not any(os.environ.get(name) for name in _PROXIES)


class DirectCall:
    """A call in both directions. One thread at a time may `send`, one may be in `next`, anybody may `cancel`.

    Raises `OSError` if there is nobody to connect to.
    """

    listening = False

    def __init__(self, address: str, method: str, metadata: Metadata) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Of whoever writes, be it a question or what the protocol asks for.
        self._writing = Lock()
        self._over = False
        self._received = b""
        self._message = b""
        # How much may be sent now, over the connection and in the call, and what could not be.
        self._window = [_USUAL_WINDOW, _USUAL_WINDOW]
        self._initial_window = _USUAL_WINDOW
        self._frame_size = _USUAL_FRAME
        self._unsent = b""
        # What was received since the other side was told that it may send more.
        self._taken = 0
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", address),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "seiche"),
            *(metadata or ()),
        )
        wide = ((_TABLE_SIZE, 0), (_WINDOW_SIZE, _WIDE), (_TRUE_BINARY, 1))
        self._write(
            frames.PREFACE,
            frames.frame(frames.SETTINGS, 0, _CONNECTION, frames.settings(wide)),
            frames.frame(frames.WINDOW_UPDATE, 0, _CONNECTION, frames.number(_WIDE - _USUAL_WINDOW)),
            frames.frame(frames.HEADERS, frames.END_HEADERS, _STREAM, frames.encoded_headers(headers)),
        )

    def send(self, message: bytes, *, alone: bool = False) -> bool:
        """Send; True if the other side does not take all of it yet, and `next` says when it did."""
        with self._writing:
            self._unsent += b"\0" + frames.number(len(message)) + message
            return self._send_more()

    def listen(self) -> None:
        """Nothing: what comes is heard whenever somebody is in `next`."""

    def next(self) -> bytes | None:
        """Wait for a message, or `None` when what was sent is sent. Raises `Ended` or `Failed` once the call has."""
        while True:
            message = self._whole_message()
            if message is not None:
                return message
            while (found := self._next_frame()) is None:
                self._receive()
            if self._heed(*found):
                return None

    def glance(self) -> None:
        """Heed what has come, without waiting: a server that stops waits for those who do not listen."""
        with suppress(BlockingIOError):
            while True:
                self._receive(socket.MSG_DONTWAIT)
                while (found := self._next_frame()) is not None:
                    self._heed(*found)
                while self._whole_message() is not None:
                    pass  # an answer that nobody waits for any more

    def finish(self) -> None:
        """Let go of a call that is over."""
        with self._writing:
            self._over = True
            self._socket.close()

    def cancel(self) -> None:
        """End it: whoever is in `next` is told so."""
        with suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send_more(self) -> bool:
        """Send as much as the other side takes; whether something is left. Only with the lock."""
        parts = []
        while self._unsent:
            size = min(len(self._unsent), self._frame_size, *self._window)
            if size <= 0:
                break
            parts.append(frames.frame(frames.DATA, 0, _STREAM, self._unsent[:size]))
            self._unsent = self._unsent[size:]
            self._window = [one - size for one in self._window]
        self._write_now(parts)
        return bool(self._unsent)

    def _write(self, *parts: bytes) -> None:
        with self._writing:
            self._write_now(parts)

    def _write_now(self, parts: Sequence[bytes]) -> None:
        # If the connection is gone, whoever listens finds out.
        if parts and not self._over:
            with suppress(OSError):
                self._socket.sendall(b"".join(parts))

    def _receive(self, flags: int = 0) -> None:
        try:
            data = self._socket.recv(_RECEIVE, flags)
        except BlockingIOError:
            raise
        except OSError as error:
            raise Failed(grpc.StatusCode.UNAVAILABLE, f"the connection was lost: {error.strerror}", ()) from error
        if not data:
            raise Failed(grpc.StatusCode.UNAVAILABLE, "the connection was closed", ())
        self._received = self._received + data if self._received else data

    def _next_frame(self) -> tuple[int, int, int, bytes] | None:
        """The kind, flags, stream and body of the next frame, if all of it is here."""
        data = self._received
        if len(data) < _HEAD:
            return None
        end = _HEAD + int.from_bytes(data[:3], "big")
        if len(data) < end:
            return None
        self._received = data[end:]
        return data[3], data[4], int.from_bytes(data[5:_HEAD], "big"), data[_HEAD:end]

    def _whole_message(self) -> bytes | None:
        data = self._message
        if len(data) < _PREFIX:
            return None
        if data[0]:
            raise Failed(grpc.StatusCode.INTERNAL, "the answer is compressed, which nobody asked for", ())
        end = _PREFIX + int.from_bytes(data[1:_PREFIX], "big")
        if len(data) < end:
            return None
        self._message = data[end:]
        return data[_PREFIX:end]

    def _heed(self, kind: int, flags: int, stream: int, body: bytes) -> bool:
        """Do what a frame asks for; whether all that was to be sent is sent now."""
        if kind == frames.DATA:
            self._message += frames.unpadded(flags, body)
            self._take(len(body))
        elif kind == frames.WINDOW_UPDATE:
            return self._widen(stream, int.from_bytes(body, "big"))
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            return self._set(frames.settings_in(body))
        elif kind == frames.PING and not flags & frames.ACK:
            self._write(frames.frame(frames.PING, frames.ACK, _CONNECTION, body))
        elif kind == frames.HEADERS and flags & frames.END_STREAM:
            raise _ending(frames.unpadded(flags, body))
        elif kind == frames.RST_STREAM:
            raise Failed(grpc.StatusCode.UNAVAILABLE, "the call was broken off", ())
        elif kind == frames.GOAWAY and int.from_bytes(body[:4], "big") < _STREAM:
            raise Failed(grpc.StatusCode.UNAVAILABLE, "the server takes no more calls", ())
        # A server that goes away answers those whom it has taken in: the call ends by itself.
        if kind == frames.DATA and flags & frames.END_STREAM:
            raise Failed(grpc.StatusCode.UNAVAILABLE, "the call ended without a status", ())
        return False

    def _take(self, size: int) -> None:
        self._taken += size
        if self._taken > _WIDE // 2:
            more = frames.number(self._taken)
            self._write(*(frames.frame(frames.WINDOW_UPDATE, 0, one, more) for one in (_CONNECTION, _STREAM)))
            self._taken = 0

    def _widen(self, stream: int, more: int) -> bool:
        with self._writing:
            self._window[stream == _STREAM] += more
            return bool(self._unsent) and not self._send_more()

    def _set(self, found: dict[int, int]) -> bool:
        self._write(frames.frame(frames.SETTINGS, frames.ACK, _CONNECTION))
        with self._writing:
            size = found.get(_WINDOW_SIZE, self._initial_window)
            self._window[1] += size - self._initial_window
            self._initial_window = size
            self._frame_size = found.get(_FRAME_SIZE, self._frame_size)
            return bool(self._unsent) and not self._send_more()


def _ending(block: bytes) -> Exception:
    """What the last headers of a call say about how it went."""
    try:
        found: dict[str, Any] = dict(frames.headers_in(block))
        code = _CODES[int(found.pop("grpc-status"))]
    except (frames.Unreadable, ValueError, LookupError):
        return Garbled(grpc.StatusCode.UNAVAILABLE, "the call has ended, and it is not readable why", ())
    if code is grpc.StatusCode.OK:
        return Ended()
    text = found.pop("grpc-message", b"").decode(errors="replace")
    return Failed(code, text, tuple((name, _value(name, value)) for name, value in found.items()))


def _value(name: str, value: bytes) -> Any:
    """A header as gRPC gives it. A binary one that was sent as it is begins with a zero."""
    if not name.endswith("-bin"):
        return value.decode(errors="replace")
    if value.startswith(b"\0"):
        return value[1:]
    import base64

    return base64.b64decode(value + b"=" * (-len(value) % 4))
