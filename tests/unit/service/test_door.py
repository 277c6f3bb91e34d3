"""One port for clients of gRPC and for those that speak in frames; whoever speaks otherwise harms nobody."""

import asyncio
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from seiche import Lake
from seiche.service import door, executing
from seiche.service import transactions_pb2 as pb
from seiche.service.bounds import Bounds
from seiche.service.client.calls import Ended, Failed
from seiche.service.client.framed import FramedCall, NotSpoken
from seiche.service.client.wires import connected
from seiche.service.door import Door
from seiche.service.frames import END, GREETING, HEAD, HELLO, LONGEST_HELLO, MESSAGE, End, framed, headers_in, hello
from seiche.service.handlers import NAMES
from seiche.service.host import Host
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from seiche.service.statuses import error_of
from tests.service_lake import appending, held, numbers_in

BOUNDS = Bounds(calls=2, message_bytes=100_000, unread=20, unread_seconds=0.3)


@pytest.fixture
def server(lake: Lake, tmp_path: Path) -> Iterator[Running]:
    host = Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"))
    with running(host, bounds=BOUNDS) as made:
        yield made


def called(server: Running) -> FramedCall:
    return FramedCall(connected(f"127.0.0.1:{server.port}"), (), 10.0)


def message(lake: Lake, number: int) -> bytes:
    made = pb.ExecuteTransactionsRequest()
    one = made.requests.add(tx_id=str(uuid.uuid4()), number=number)
    one.changes.add(table_fq="lake.shop.orders", payload=appending(lake, "shop.orders", numbers=[number]).payload)
    return made.SerializeToString()


def answers(data: bytes | None) -> list[tuple[int, int]]:
    assert data is not None
    return [(one.number, one.transaction.state) for one in pb.ExecuteTransactionsResponse.FromString(data).responses]


def over_grpc(server: Running) -> int:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        found = channel.unary_unary(f"/{NAMES[0]}/BeginTransaction")(b"", timeout=30)
    return pb.BeginTransactionResponse.FromString(found).transaction.state


def test_both_are_served_at_one_port(server: Running, lake: Lake) -> None:
    call = called(server)
    assert not call.send(message(lake, 7))
    assert answers(call.next()) == [(7, pb.TS_APPLIED)]
    assert over_grpc(server) == pb.TS_OPEN
    call.finish()
    assert numbers_in(lake) == [7]


@pytest.mark.parametrize(
    "said",
    [
        GREETING + framed(b"no headers", HELLO),
        GREETING + framed(b'[["a"]]', HELLO),
        GREETING + framed(b"[]", MESSAGE),
        GREETING + HEAD.pack(LONGEST_HELLO + 1, HELLO),
        hello(()) + HEAD.pack(BOUNDS.message_bytes + 1, MESSAGE),
        hello(()) + framed(b"", END),
        hello(()) + framed(b"", 255),
        hello(()) + framed(b"x")[:-1],
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        GREETING[:-1] + b"\x00" * 100,
    ],
)
@pytest.mark.timeout(60)
def test_what_was_not_agreed_ends_the_connection_and_nothing_else(server: Running, lake: Lake, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(10_000):
            pass
    call = called(server)
    call.send(message(lake, 1))
    assert answers(call.next()) == [(1, pb.TS_APPLIED)]
    call.finish()


@pytest.mark.timeout(60)
def test_calls_have_an_end(server: Running) -> None:
    several = [called(server), called(server)]
    with pytest.raises(Failed) as caught:
        called(server)
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    for one in several:
        one.finish()


@pytest.mark.timeout(60)
def test_who_never_reads_is_not_read_from_and_then_let_go(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (door, executing):
        monkeypatch.setattr(module, "_TELLING_SECONDS", 0.1)
    wrong = pb.ExecuteTransactionsRequest(requests=[pb.ExecuteTransactionRequest(tx_id="x" * 300)])
    bad = framed(wrong.SerializeToString())
    sent = 0
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(hello(()))
        try:
            while sent < 100 << 20:
                connection.sendall(bad)
                sent += len(bad)
        except ConnectionError:  # it was closed
            pass
    assert sent < 20 << 20, "the rest stays with the client"
    assert over_grpc(server) == pb.TS_OPEN


@pytest.mark.timeout(60)
def test_a_server_that_stops_answers_first_and_says_that_it_is_over(server: Running, lake: Lake) -> None:
    call, idle = called(server), called(server)
    stopping = threading.Thread(target=server.stop, args=(30.0,))
    with held(server):
        call.send(message(lake, 1))
        intake = server.server._handlers._intake  # type: ignore[union-attr]
        while not intake.held:
            threading.Event().wait(0.005)
        stopping.start()
        with pytest.raises(Ended):
            idle.next()
    assert answers(call.next()) == [(1, pb.TS_APPLIED)]
    with pytest.raises(Ended):
        call.next()
    for one in (call, idle):
        one.finish()
    stopping.join()
    assert numbers_in(lake) == [1]


def test_a_refusal_has_its_details(lake: Lake, tmp_path: Path) -> None:
    from seiche.service.auth import Tokens

    host = Host({"default": lake}, open_database(f"sqlite://{tmp_path}/other.db"), authenticator=Tokens([]))
    with running(host) as server, pytest.raises(Failed) as caught:
        called(server)
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
    found = error_of(caught.value.trailers)
    assert found is not None
    assert found.message_key == "unauthenticated"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x18\x04\x00\x00\x00\x00\x00"])
def test_who_does_not_speak_in_frames_is_told_from_one_who_refuses(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(said)
                if said:
                    connection.recv(1)

        there = threading.Thread(target=answer)
        there.start()
        with pytest.raises(NotSpoken):
            FramedCall(connected(f"127.0.0.1:{other.getsockname()[1]}"), (("authorization", "me"),), 10.0)
        there.join()


def test_a_defect_is_told_as_one() -> None:
    async def act() -> End:
        async def serve(caller: object) -> None:
            raise RuntimeError("a defect")

        made = Door(serve, 0, BOUNDS)
        await made.open("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(hello(()))
        size, kind = HEAD.unpack(await reader.readexactly(HEAD.size))
        assert kind == END
        found = End.decode(await reader.readexactly(size))
        writer.close()
        made.shut()
        await made.served(1.0)
        return found

    assert asyncio.run(act()).code == grpc.StatusCode.INTERNAL.value[0]


def test_frames_are_what_they_were() -> None:
    assert headers_in(hello((("authorization", "Bearer ä"),))[len(GREETING) + HEAD.size :]) == (
        ("authorization", "Bearer ä"),
    )
    assert End.decode(End(5, "nö", b"details").encode()) == End(5, "nö", b"details")
    with pytest.raises(ValueError, match="cut short"):
        End.decode(b"\x00")
    assert len(GREETING) == len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "as long as what gRPC says first"
