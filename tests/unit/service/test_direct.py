"""A call over a connection of its own: it heeds what the protocol says, and gives up on what it cannot read."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from hpack import Decoder, Encoder
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

from seiche.service.client import wires
from seiche.service.client.calls import Ended, Failed
from seiche.service.client.certificates import Certificates
from seiche.service.client.direct import DirectCall
from seiche.service.client.wires import Wire, connected
from tests.certificates import certificate

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Peer:
    """The other side of a connection."""

    def __init__(self) -> None:
        ours, self.connection = socket.socketpair()
        self.call = DirectCall(Wire(ours), "here:1", "/a/b", (("authorization", "me"),))
        self.connection.settimeout(30)
        self.read = self.connection.makefile("rb")
        assert self.read.read(len(PREFACE)) == PREFACE
        self.hello = [self.frame() for _ in range(3)]

    def frame(self) -> Frame:
        frame, size = Frame.parse_frame_header(memoryview(self.read.read(9)))
        frame.parse_body(memoryview(self.read.read(size)))
        return frame

    def tell(self, *frames: Frame) -> None:
        self.connection.sendall(b"".join(frame.serialize() for frame in frames))

    def close(self) -> None:
        self.call.finish()
        self.read.close()
        self.connection.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def message(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


def headers(*pairs: tuple[str, str], flags: tuple[str, ...] = ("END_HEADERS",)) -> HeadersFrame:
    return HeadersFrame(1, Encoder().encode(pairs), flags=flags)


def test_a_call_is_opened_with_its_metadata(peer: Peer) -> None:
    assert [type(one) for one in peer.hello] == [SettingsFrame, WindowUpdateFrame, HeadersFrame]
    opening = peer.hello[2]
    assert isinstance(opening, HeadersFrame)
    found = {str(name): str(value) for name, value in Decoder().decode(opening.data)}
    assert (found[":path"], found["te"], found["authorization"]) == ("/a/b", "trailers", "me")


def test_messages_come_whole_however_they_were_cut(peer: Peer) -> None:
    sent = message(b"x" * 300) + message(b"") + message(b"last")
    for start in range(0, len(sent), 100):
        peer.tell(DataFrame(1, sent[start : start + 100], pad_length=2, flags=["PADDED"]))
    assert [peer.call.next() for _ in range(3)] == [b"x" * 300, b"", b"last"]


def test_no_more_is_sent_than_the_other_side_takes(peer: Peer) -> None:
    data = bytes(range(256)) * 1000
    assert peer.call.send(data), "it does not fit the window"
    told = threading.Thread(target=lambda: results.append(peer.call.next()))
    results: list[bytes | None] = []
    told.start()
    got = b""
    while len(got) < 65_535:
        got += peer.frame().data  # type: ignore[attr-defined]
    assert len(got) == 65_535
    # A setting that is larger than the one before widens the window of the call.
    peer.tell(WindowUpdateFrame(0, 1 << 20), SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 1 << 19}))
    while len(got) < len(message(data)):
        frame = peer.frame()
        if isinstance(frame, DataFrame):
            assert len(frame.data) <= 16_384
            got += frame.data
    assert got == message(data)
    told.join(30)
    assert results == [None], "it is told when all is sent"


def test_what_the_protocol_asks_for_is_answered(peer: Peer) -> None:
    peer.tell(PingFrame(0, b"12345678"), GoAwayFrame(0, last_stream_id=(1 << 31) - 1))
    # Headers in two parts, of which later ones may repeat what was said.
    block = Encoder().encode([("content-type", "application/grpc"), ("x", "y")])
    peer.tell(HeadersFrame(1, block[:5]), ContinuationFrame(1, block[5:], flags=["END_HEADERS"]))
    peer.tell(DataFrame(1, message(b"still here")))
    assert peer.call.next() == b"still here"
    pinged = peer.frame()
    assert isinstance(pinged, PingFrame)
    assert ("ACK" in pinged.flags, pinged.opaque_data) == (True, b"12345678")


def test_an_idle_call_heeds_what_it_is_told(peer: Peer) -> None:
    peer.call.glance()
    peer.tell(PingFrame(0, b"12345678"), DataFrame(1, message(b"too late")))
    found = threading.Thread(target=lambda: pings.append(peer.frame()))
    pings: list[Frame] = []
    found.start()
    while not pings:
        peer.call.glance()
    found.join(30)
    assert isinstance(pings[0], PingFrame)
    peer.connection.shutdown(socket.SHUT_WR)
    with pytest.raises(Failed):
        _glance_on(peer)


def _glance_on(peer: Peer) -> None:
    while True:
        peer.call.glance()


def test_a_sign_of_life_is_asked_for_and_heard(peer: Peer) -> None:
    peer.call.ping()
    asked = peer.frame()
    assert isinstance(asked, PingFrame)
    assert "ACK" not in asked.flags
    before = peer.call.heard
    peer.tell(PingFrame(0, asked.opaque_data, flags=["ACK"]), DataFrame(1, message(b"and an answer")))
    assert peer.call.next() == b"and an answer"
    assert peer.call.heard > before


def test_what_is_sent_at_last_while_nobody_looks_is_told(peer: Peer) -> None:
    data = bytes(1 << 16)
    assert peer.call.send(data), "it does not fit the window"
    assert not peer.call.glance()
    peer.tell(WindowUpdateFrame(0, 1 << 20), WindowUpdateFrame(1, 1 << 20))
    got = b""
    sent = False
    while not sent:
        sent = peer.call.glance()
    while len(got) < len(message(data)):
        got += peer.frame().data  # type: ignore[attr-defined]
    assert got == message(data)


@pytest.mark.timeout(60)
def test_who_takes_nothing_is_not_written_to_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "_WRITE_SECONDS", 0)
    monkeypatch.setattr(wires, "_WRITE_MICROS", 50_000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        call = DirectCall(connected(f"127.0.0.1:{listener.getsockname()[1]}"), "here:1", "/a/b", None)
        silent, _ = listener.accept()
        with silent:
            wide = 1 << 30
            silent.sendall(WindowUpdateFrame(0, wide).serialize() + WindowUpdateFrame(1, wide).serialize())
            while not call.heard:
                call.glance()
            call.send(bytes(1 << 25))
            with pytest.raises(Failed):
                call.next()
        call.finish()


@pytest.mark.timeout(60)
def test_nobody_talks_to_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one machine a connection to a port where nobody listens may get that very port for its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    create = socket.create_connection

    def from_there(address: tuple[str, int], timeout: float) -> socket.socket:
        return create(address, timeout, source_address=address)

    monkeypatch.setattr(socket, "create_connection", from_there)
    with pytest.raises(ConnectionRefusedError):
        connected(f"127.0.0.1:{port}")
    with socket.create_server(("127.0.0.1", port)):
        pass  # it keeps nobody from listening there


ENDINGS: dict[str, tuple[list[tuple[str, str]], type[Exception], str]] = {
    "in order": ([("grpc-status", "0")], Ended, ""),
    "refused": ([("grpc-status", "7"), ("grpc-message", "no%20way"), ("x-bin", "AQI")], Failed, "PERMISSION_DENIED"),
    "in a new way": ([("grpc-status", "99")], Failed, "UNKNOWN"),
    "by something else": ([(":status", "404"), ("server", "other")], Failed, "UNAVAILABLE"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_it_is_told_how_a_call_ended(peer: Peer, name: str) -> None:
    given, kind, code = ENDINGS[name]
    peer.tell(headers(*given, flags=("END_HEADERS", "END_STREAM")))
    with pytest.raises((Ended, Failed)) as caught:
        peer.call.next()
    assert type(caught.value) is kind
    if isinstance(caught.value, Failed):
        assert caught.value.code is grpc.StatusCode[code]
    if name == "refused":
        assert (caught.value.details, caught.value.trailers) == ("no way", (("x-bin", b"\1\2"),))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "sent",
    [
        HeadersFrame(1, b"\xff\xff\xff\xff\x0f", flags=["END_HEADERS"]).serialize(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-server\r\n",
        PREFACE,
        bytes(3) + b"\0\0" + bytes(4),
    ],
    ids=["headers", "another protocol", "who speaks first", "an echo", "data of no call"],
)
@pytest.mark.timeout(60)
def test_what_is_not_grpc_is_not_guessed_at(peer: Peer, sent: bytes) -> None:
    """Nor waited for: there is nothing more to come."""
    peer.connection.sendall(sent)
    with pytest.raises(Failed):
        peer.call.next()


def test_a_connection_that_is_gone_is_told(peer: Peer) -> None:
    peer.call.cancel()
    peer.call.send(b"to nobody")
    with pytest.raises(Failed):
        peer.call.next()


def test_broken_calls_fail(peer: Peer) -> None:
    for frame in (RstStreamFrame(1), GoAwayFrame(0), DataFrame(1, flags=["END_STREAM"])):
        peer.tell(frame)
        with pytest.raises(Failed):
            peer.call.next()
    peer.tell(DataFrame(1, b"\1" + message(b"x")[1:]))
    with pytest.raises(Failed, match="compressed"):
        peer.call.next()


def test_tls_reads_and_writes_at_once_and_trusts_whom_it_is_told_to(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    data = bytes(range(256)) * 20_000
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def echo() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                wrapped = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                with wrapped, suppress(OSError):
                    wrapped.do_handshake()
                    while got := wrapped.recv(1 << 16):
                        wrapped.sendall(got)

        serving = threading.Thread(target=echo)
        serving.start()
        address = f"localhost:{listener.getsockname()[1]}"
        with pytest.raises(ssl.SSLError):
            connected(address, Certificates())
        wire = connected(address, Certificates(cert))
        with pytest.raises(BlockingIOError):
            wire.read(wait=False)
        writing = threading.Thread(target=wire.write, args=(data,))
        writing.start()
        came = b""
        while len(came) < len(data):
            came += wire.read()
        assert came == data
        writing.join(30)
        wire.shut()
        with suppress(ConnectionResetError):  # the other side's way of saying so
            assert wire.read() == b""
        wire.close()
        serving.join(30)
