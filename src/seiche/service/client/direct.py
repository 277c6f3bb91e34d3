"""One call that stays open over a connection of its own, driven by the threads that use it.

A question that goes through gRPC wakes threads of its own in the client, several times: 400 µs of processor, of which
the same question over a socket takes a sixth. What is said over the connection is the protocol of gRPC (HTTP/2, whose
frames and headers are made and read by hyperframe and hpack); any server of it answers.
"""

import base64
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from threading import Lock
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import grpc
from hpack import Decoder, Encoder, HPACKError
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from seiche.service.client.calls import Ended, Failed
from seiche.service.client.wires import Wire

__all__ = ["DirectCall"]

Metadata: TypeAlias = Sequence[tuple[str, str]] | None

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The length in two parts, the kind, flags and stream of a frame.
_HEAD: Final = Struct(">BHBBI")
# The kinds of frames that there are for every question: they are not worth an object each.
_DATA: Final = DataFrame.type
_WINDOW_UPDATE: Final = WindowUpdateFrame.type
# There is one call for each connection, and it is the first.
_STREAM: Final = 1
_CONNECTION: Final = 0
_WIDEST: Final = (1 << 31) - 1
_USUAL_WINDOW: Final = 65_535
_USUAL_FRAME: Final = 16_384
# What a sign of life is asked for with.
_SIGN: Final = b"there?  "
# Before a message stands whether it is compressed, and its length.
_PREFIX: Final = Struct(">BI")
_NUMBER: Final = Struct(">I")
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class DirectCall:
    """A `seiche.service.client.calls.Call` to a method of the server at `authority`, over a wire of its own."""

    def __init__(self, wire: Wire, authority: str, method: str, metadata: Metadata) -> None:
        self._wire = wire
        # Of whoever writes, be it a question or what the protocol asks for.
        self._writing = Lock()
        self._over = False
        self.heard = 0
        self._received = b""
        self._message = bytearray()
        # The headers that are being received, and whether they are the last.
        self._headers = Decoder()
        self._block, self._last = b"", False
        # How much may be sent now, over the connection and in the call, and what could not be.
        self._window = [_USUAL_WINDOW, _USUAL_WINDOW]
        self._initial_window = _USUAL_WINDOW
        self._frame_size = _USUAL_FRAME
        self._unsent = memoryview(b"")
        # What was received since the other side was told that it may send more.
        self._taken = 0
        headers = [
            (":method", "POST"),
            (":scheme", wire.scheme),
            (":path", method),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "seiche"),
            *(metadata or ()),
        ]
        hello = [
            SettingsFrame(_CONNECTION, {SettingsFrame.INITIAL_WINDOW_SIZE: _WIDEST}),
            WindowUpdateFrame(_CONNECTION, _WIDEST - _USUAL_WINDOW),
            HeadersFrame(_STREAM, Encoder().encode(headers), flags=["END_HEADERS"]),
        ]
        with self._writing:
            self._write(_PREFACE + b"".join(one.serialize() for one in hello))

    def send(self, message: bytes) -> bool:
        with self._writing:
            self._unsent = memoryview(b"".join((self._unsent, _PREFIX.pack(0, len(message)), message)))
            return self._send_more()

    def next(self) -> bytes | None:
        while True:
            message = self._whole_message()
            if message is not None:
                return message
            while (sent := self._heed_next()) is None:
                self._receive()
            if sent:
                return None

    def glance(self) -> bool:
        done = False
        with suppress(BlockingIOError):
            while True:
                self._receive(wait=False)
                while (sent := self._heed_next()) is not None:
                    done = done or sent
                while self._whole_message() is not None:
                    pass  # an answer that nobody waits for any more
        return done

    def ping(self) -> None:
        self._tell(PingFrame(_CONNECTION, _SIGN))

    def finish(self) -> None:
        with self._writing:
            self._over = True
            self._wire.close()

    def cancel(self) -> None:
        self._wire.shut()

    def _send_more(self) -> bool:
        """Send as much as the other side takes; whether something is left. Only with the lock."""
        parts: list[bytes | memoryview] = []
        while self._unsent:
            size = min(len(self._unsent), self._frame_size, *self._window)
            if size <= 0:
                break
            parts += (_HEAD.pack(size >> 16, size & 0xFFFF, _DATA, 0, _STREAM), self._unsent[:size])
            self._unsent = self._unsent[size:]
            self._window = [one - size for one in self._window]
        self._write(b"".join(parts))
        return bool(self._unsent)

    def _write(self, data: bytes) -> None:
        """Only with the lock. If the connection is gone, or takes nothing for long, whoever listens finds out."""
        if data and not self._over:
            try:
                self._wire.write(data)
            except OSError:
                self._wire.shut()

    def _tell(self, *frames: Frame) -> None:
        with self._writing:
            self._write(b"".join(one.serialize() for one in frames))

    def _receive(self, *, wait: bool = True) -> None:
        try:
            data = self._wire.read(wait=wait)
        except BlockingIOError:
            raise
        except OSError as error:
            raise Failed(grpc.StatusCode.UNAVAILABLE, f"the connection was lost: {error.strerror}", ()) from error
        if not data:
            raise Failed(grpc.StatusCode.UNAVAILABLE, "the connection was closed", ())
        self.heard += 1
        self._received = self._received + data if self._received else data

    def _heed_next(self) -> bool | None:
        """Do what the next frame asks for; whether all that was to be sent is sent now. `None` if it is not here."""
        data = self._received
        if len(data) < _HEAD.size:
            return None
        high, low, kind, flags, stream = _HEAD.unpack_from(data)
        if high or low > _USUAL_FRAME:
            # It was not told that it may. What is no frame at all mostly seems to be a very long one, and is not waited
            # for.
            raise Failed(grpc.StatusCode.UNAVAILABLE, "this is not gRPC: a frame is too long", ())
        end = _HEAD.size + low
        if len(data) < end:
            return None
        body, self._received = data[_HEAD.size : end], data[end:]
        if kind == _DATA and stream == _STREAM and not flags:
            self._message += body
            return self._take(len(body))
        if kind == _WINDOW_UPDATE and len(body) == _NUMBER.size:
            return self._widen(stream, *_NUMBER.unpack(body))
        try:
            frame, _ = Frame.parse_frame_header(memoryview(data)[: _HEAD.size])
            frame.parse_body(memoryview(body))
        except HyperframeError as error:
            raise Failed(grpc.StatusCode.UNAVAILABLE, f"this is not gRPC: {error}", ()) from error
        return self._heed(frame)

    def _whole_message(self) -> bytes | None:
        data = self._message
        if len(data) < _PREFIX.size:
            return None
        compressed, size = _PREFIX.unpack_from(data)
        if compressed:
            raise Failed(grpc.StatusCode.INTERNAL, "the answer is compressed, which nobody asked for", ())
        end = _PREFIX.size + size
        if len(data) < end:
            return None
        message = bytes(memoryview(data)[_PREFIX.size : end])
        del data[:end]
        return message

    def _heed(self, frame: Frame) -> bool:
        """As `_heed_next`, for the kinds of frames that come seldom."""
        if isinstance(frame, DataFrame):
            self._message += frame.data
            self._take(frame.flow_controlled_length)
            if "END_STREAM" in frame.flags:
                raise Failed(grpc.StatusCode.UNAVAILABLE, "the call ended without a status", ())
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            return self._set(frame.settings)
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self._tell(PingFrame(_CONNECTION, frame.opaque_data, flags=["ACK"]))
        elif isinstance(frame, HeadersFrame | ContinuationFrame):
            self._read_headers(frame)
        elif isinstance(frame, RstStreamFrame):
            raise Failed(grpc.StatusCode.UNAVAILABLE, "the call was broken off", ())
        elif isinstance(frame, GoAwayFrame) and frame.last_stream_id < _STREAM:
            raise Failed(grpc.StatusCode.UNAVAILABLE, "the server takes no more calls", ())
        # A server that goes away answers those whom it has taken in: the call ends by itself.
        return False

    def _take(self, size: int) -> bool:
        self._taken += size
        if self._taken > _WIDEST // 2:
            self._tell(*(WindowUpdateFrame(one, self._taken) for one in (_CONNECTION, _STREAM)))
            self._taken = 0
        return False

    def _widen(self, stream: int, more: int) -> bool:
        with self._writing:
            self._window[stream == _STREAM] += more
            return bool(self._unsent) and not self._send_more()

    def _set(self, found: dict[int, int]) -> bool:
        with self._writing:
            size = found.get(SettingsFrame.INITIAL_WINDOW_SIZE, self._initial_window)
            self._window[1] += size - self._initial_window
            self._initial_window = size
            self._frame_size = found.get(SettingsFrame.MAX_FRAME_SIZE, self._frame_size)
            # Whoever is told that they are known relies on it from there on.
            self._write(SettingsFrame(_CONNECTION, flags=["ACK"]).serialize())
            return bool(self._unsent) and not self._send_more()

    def _read_headers(self, frame: HeadersFrame | ContinuationFrame) -> None:
        """Read headers, all of them, because later ones refer to earlier ones. The last of a call say how it went."""
        if isinstance(frame, HeadersFrame):
            self._block, self._last = b"", "END_STREAM" in frame.flags
        self._block += frame.data
        if "END_HEADERS" not in frame.flags:
            return
        try:
            found = self._headers.decode(self._block)
        except HPACKError as error:
            raise Failed(grpc.StatusCode.UNAVAILABLE, f"this is not gRPC: {error}", ()) from error
        if self._last:
            raise _ending({str(name): str(value) for name, value in found})


def _ending(headers: dict[str, str]) -> Exception:
    """What the last headers of a call say about how it went."""
    status = headers.pop("grpc-status", "")
    if not status.isdigit():
        shown = headers.get(":status", "")
        return Failed(grpc.StatusCode.UNAVAILABLE, f"this is not gRPC: the answer was HTTP {shown}".rstrip(), ())
    code = _CODES.get(int(status), grpc.StatusCode.UNKNOWN)
    if code is grpc.StatusCode.OK:
        return Ended()
    text = unquote(headers.pop("grpc-message", ""))
    return Failed(code, text, tuple((name, _value(name, value)) for name, value in headers.items()))


def _value(name: str, value: str) -> Any:
    """A header as gRPC gives it: a binary one is sent as text."""
    return base64.b64decode(value + "=" * (-len(value) % 4)) if name.endswith("-bin") else value
