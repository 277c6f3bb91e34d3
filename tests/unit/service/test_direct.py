"""A call over a plain connection: it heeds what the protocol says, and gives up on what it cannot read."""

import socket
import threading
from collections.abc import Iterator

import grpc
import pytest

from seiche.service.client import frames
from seiche.service.client.calls import Ended, Failed, Garbled
from seiche.service.client.direct import DirectCall, is_direct


class Peer:
    """The other side of a connection."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.call = DirectCall(f"127.0.0.1:{self.listener.getsockname()[1]}", "/a/b", (("authorization", "me"),))
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(30)
        self.read = self.connection.makefile("rb")
        assert self.read.read(len(frames.PREFACE)) == frames.PREFACE

    def frame(self) -> tuple[int, int, int, bytes]:
        head = self.read.read(9)
        return head[3], head[4], int.from_bytes(head[5:], "big"), self.read.read(int.from_bytes(head[:3], "big"))

    def tell(self, kind: int, flags: int = 0, stream: int = 1, body: bytes = b"") -> None:
        self.connection.sendall(frames.frame(kind, flags, stream, body))

    def close(self) -> None:
        self.call.finish()
        self.read.close()
        self.connection.close()
        self.listener.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def message(data: bytes) -> bytes:
    return b"\0" + frames.number(len(data)) + data


def test_a_call_is_opened_with_its_metadata(peer: Peer) -> None:
    kinds, bodies = zip(*((one[0], one[3]) for one in (peer.frame() for _ in range(3))), strict=True)
    assert kinds == (frames.SETTINGS, frames.WINDOW_UPDATE, frames.HEADERS)
    found = dict(frames.headers_in(bodies[2]))
    assert (found[":path"], found["te"], found["authorization"]) == (b"/a/b", b"trailers", b"me")


def test_messages_come_whole_however_they_were_cut(peer: Peer) -> None:
    sent = message(b"x" * 300) + message(b"") + message(b"last")
    for start in range(0, len(sent), 100):
        body = sent[start : start + 100]
        peer.tell(frames.DATA, frames.PADDED, body=b"\2" + body + b"\0\0")
    assert [peer.call.next() for _ in range(3)] == [b"x" * 300, b"", b"last"]


def test_no_more_is_sent_than_the_other_side_takes(peer: Peer) -> None:
    data = bytes(range(256)) * 1000
    for _ in range(3):
        peer.frame()
    assert peer.call.send(data), "it does not fit the window"
    told = threading.Thread(target=lambda: results.append(peer.call.next()))
    results: list[bytes | None] = []
    told.start()
    got = b""
    while len(got) < 65_535:
        got += peer.frame()[3]
    assert len(got) == 65_535
    peer.tell(frames.WINDOW_UPDATE, stream=0, body=frames.number(1 << 20))
    # A setting that is larger than the one before widens the window of the call.
    peer.tell(frames.SETTINGS, stream=0, body=frames.settings([(4, 1 << 19)]))
    while len(got) < len(message(data)):
        kind, _, _, body = peer.frame()
        if kind == frames.DATA:
            assert len(body) <= 16_384
            got += body
    assert got == message(data)
    told.join(30)
    assert results == [None], "it is told when all is sent"


def test_what_the_protocol_asks_for_is_answered(peer: Peer) -> None:
    for _ in range(3):
        peer.frame()
    peer.tell(frames.PING, stream=0, body=b"12345678")
    peer.tell(frames.GOAWAY, stream=0, body=frames.number((1 << 31) - 1) + bytes(4))
    peer.tell(frames.HEADERS, frames.END_HEADERS, body=frames.encoded_headers([("content-type", "application/grpc")]))
    peer.tell(frames.DATA, body=message(b"still here"))
    assert peer.call.next() == b"still here"
    assert peer.frame() == (frames.PING, frames.ACK, 0, b"12345678")


def test_an_idle_call_heeds_what_it_is_told(peer: Peer) -> None:
    for _ in range(3):
        peer.frame()
    peer.call.glance()
    peer.tell(frames.PING, stream=0, body=b"12345678")
    peer.tell(frames.DATA, body=message(b"too late"))
    found = threading.Thread(target=lambda: pings.append(peer.frame()))
    pings: list[tuple[int, int, int, bytes]] = []
    found.start()
    while not pings:
        peer.call.glance()
    found.join(30)
    assert pings == [(frames.PING, frames.ACK, 0, b"12345678")]
    peer.connection.shutdown(socket.SHUT_WR)
    with pytest.raises(Failed):
        _glance_on(peer)


def _glance_on(peer: Peer) -> None:
    while True:
        peer.call.glance()


ENDINGS: dict[str, tuple[list[tuple[str, str | bytes]], type[Exception], str | None]] = {
    "in order": ([("grpc-status", "0")], Ended, None),
    "refused": ([("grpc-status", "7"), ("grpc-message", "no"), ("x-bin", b"\0\1\2")], Failed, "PERMISSION_DENIED"),
    "without a status": ([("server", "other")], Garbled, "UNAVAILABLE"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_it_is_told_how_a_call_ended(peer: Peer, name: str) -> None:
    headers, kind, code = ENDINGS[name]
    # As gRPC's servers begin: with the size of the table, and a header that everybody knows.
    body = b"\x20\x88" + frames.encoded_headers(headers)
    peer.tell(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, body=body)
    with pytest.raises((Ended, Failed)) as caught:
        peer.call.next()
    assert type(caught.value) is kind
    if isinstance(caught.value, Failed):
        assert caught.value.code is grpc.StatusCode[str(code)]
        assert caught.value.trailers == ((("x-bin", b"\1\2"),) if name == "refused" else ())


@pytest.mark.parametrize("block", [b"\x10\x8b" + bytes(11), b"\xff\x01", b"\x10\x05abc", b"\x7f\x10\x01a", b"\x10"])
def test_headers_that_are_not_written_out_are_not_guessed(block: bytes) -> None:
    with pytest.raises(frames.Unreadable):
        dict(frames.headers_in(block))


def test_a_connection_that_is_gone_is_told(peer: Peer) -> None:
    peer.call.cancel()
    peer.call.send(b"to nobody")
    with pytest.raises(Failed):
        peer.call.next()


def test_broken_calls_fail(peer: Peer) -> None:
    for kind, flags, body in ((frames.RST_STREAM, 0, bytes(4)), (frames.GOAWAY, 0, bytes(8)), (frames.DATA, 1, b"")):
        peer.tell(kind, flags, body=body)
        with pytest.raises(Failed):
            peer.call.next()
    peer.tell(frames.DATA, body=b"\1" + frames.number(1) + b"x")
    with pytest.raises(Failed, match="compressed"):
        peer.call.next()


def test_proxies_and_tls_are_left_to_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert is_direct(tls=False)
    assert not is_direct(tls=True)
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    assert not is_direct(tls=False)
