"""What a hostile or broken client can make a server hold: there is an end to all of it, and the client is told."""

import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from seiche import Lake, Unavailable
from seiche.core.clock import SimulatedClock
from seiche.service import common_pb2, operations, requests
from seiche.service import transactions_pb2 as pb
from seiche.service.core import Settings
from seiche.service.host import Host
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from seiche.service.undecided import Undecided
from seiche.service.wire import arrivals, messages, server, statuses
from seiche.service.wire.arrivals import parts_in
from seiche.service.wire.bounds import Bounds
from seiche.service.wire.handlers import NAMES
from seiche.service.wire.server import Ports
from tests.service_lake import appending, held, numbers_in

# So that little is read ahead for a client that does not read.
NARROW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16))
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


class Bounded:
    """A server with these bounds, and bare clients of it."""

    def __init__(self, made: Running, stack: ExitStack) -> None:
        self.running = made
        self._stack = stack

    def channel(self) -> Any:
        return self._stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{self.running.port}", options=NARROW))

    def call(self, method: str, request: Message | bytes, **options: Any) -> Any:
        body = request if isinstance(request, bytes) else request.SerializeToString()
        found = self.channel().unary_unary(f"/{NAMES[0]}/{method}")(body, timeout=30, **options)
        return getattr(pb, f"{method}Response").FromString(found)

    def refused(self, method: str, request: Message | bytes, **options: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(method, request, **options)
        return told(caught.value)

    def open(self, messages: Iterator[bytes]) -> Any:
        return self.channel().stream_stream(f"/{NAMES[0]}/ExecuteTransactions")(messages)

    def counted(self, status: str) -> float:
        """How many transactions over open calls ended like this."""
        return self.calls("ExecuteTransaction", status)

    def calls(self, method: str, status: str) -> float:
        """How many calls of a method ended like this."""
        name = method.removesuffix("Transaction").lower()
        for line in self.running.server.metrics.exposition().decode().splitlines():
            if line.startswith(f'seiche_calls_total{{method="{name}",status="{status}"}}'):
                return float(line.split()[-1])
        return 0.0


def told(error: Any) -> tuple[grpc.StatusCode, str]:
    """The status of a call, and the reason in its details."""
    detail = statuses.error_of(error.trailing_metadata())
    return error.code(), "" if detail is None else detail.message_key


@pytest.fixture
def bounded(lake: Lake, tmp_path: Path) -> Iterator[Callable[..., Bounded]]:
    with ExitStack() as stack:

        def start(settings: Settings | None = None, **given: Any) -> Bounded:
            database = open_database(f"sqlite://{tmp_path}/state.db")
            host = Host({"default": lake}, database, settings=settings)
            return Bounded(stack.enter_context(running(host, Ports(metrics=0), Bounds(**given))), stack)

        yield start


def until(holds: Callable[[], object]) -> None:
    moment = threading.Event()
    while not holds():
        moment.wait(0.005)


def append(lake: Lake, number: int) -> pb.ExecuteTransactionRequest:
    made = pb.ExecuteTransactionRequest(tx_id=str(uuid.uuid4()), number=number)
    made.changes.add(table_fq="lake.shop.orders", payload=appending(lake, "shop.orders", numbers=[number]).payload)
    return made


def message(*several: pb.ExecuteTransactionRequest) -> bytes:
    return pb.ExecuteTransactionsRequest(requests=several).SerializeToString()


@pytest.mark.timeout(120)
def test_who_never_reads_answers_is_not_read_from_and_then_let_go(bounded: Callable[..., Bounded], lake: Lake) -> None:
    given = bounded(unread=20, unread_seconds=0.3)
    offered = 5_000
    bad = message(pb.ExecuteTransactionRequest(tx_id="x" * 300))
    silent = given.open(bad for _ in range(offered))
    until(lambda: given.counted("RESOURCE_EXHAUSTED") > 0 or given.counted("INVALID_ARGUMENT") == offered)
    taken = given.counted("INVALID_ARGUMENT")
    assert 20 <= taken < offered / 4, "the rest stays with the client"
    answers: list[int] = []
    with pytest.raises(grpc.RpcError) as caught:
        answers.extend(len(pb.ExecuteTransactionsResponse.FromString(answer).responses) for answer in silent)
    assert told(caught.value) == (EXHAUSTED, "answers.unread")
    assert taken - 40 <= sum(answers) <= taken, "those that were on their way"
    assert given.call("ExecuteTransaction", append(lake, 1)).transaction.state == pb.TS_APPLIED


@pytest.mark.timeout(60)
def test_who_sends_all_and_never_reads_does_not_hold_the_call(bounded: Callable[..., Bounded]) -> None:
    """He has said that he will send no more: only the answers are left."""
    given = bounded(unread=100_000, requests=100_000, unread_seconds=0.3)
    bad = message(*(pb.ExecuteTransactionRequest(tx_id="x" * 300) for _ in range(2_000)))
    silent = given.open(iter([bad]))
    until(lambda: given.counted("RESOURCE_EXHAUSTED") > 0)
    with pytest.raises(grpc.RpcError) as caught:
        list(silent)
    assert told(caught.value) == (EXHAUSTED, "answers.unread")


@pytest.mark.timeout(60)
def test_who_reads_slowly_loses_nothing(bounded: Callable[..., Bounded], lake: Lake) -> None:
    given = bounded(unread=4, unread_seconds=30.0)
    count = 40
    call = given.open(message(append(lake, number)) for number in range(count))
    moment = threading.Event()
    seen = []
    for answer in call:
        seen += [one.number for one in pb.ExecuteTransactionsResponse.FromString(answer).responses]
        moment.wait(0.002)
    assert sorted(seen) == list(range(count)) == numbers_in(lake)


@pytest.mark.timeout(60)
def test_that_nothing_is_decided_is_not_the_clients_fault(bounded: Callable[..., Bounded], lake: Lake) -> None:
    # Answers have that long to leave once there are any, also where others use the machine.
    given = bounded(unread=2, unread_seconds=1.0)
    with held(given.running):
        call = given.open(message(append(lake, number)) for number in range(5))
        threading.Event().wait(1.5)
    assert sum(len(pb.ExecuteTransactionsResponse.FromString(one).responses) for one in call) == 5
    assert numbers_in(lake) == [0, 1, 2, 3, 4]


@pytest.mark.timeout(60)
def test_requests_that_wait_have_so_many_bytes(bounded: Callable[..., Bounded], lake: Lake) -> None:
    given = bounded(taken_bytes=3_000)
    large = append(lake, 1)
    large.properties["note"] = "x" * 2_500
    with held(given.running):
        first = given.open(iter([message(large)]))
        until(lambda: given.running.server._handlers._intake.held > 0)  # type: ignore[union-attr]
        other = append(lake, 2)
        other.properties["note"] = "x" * 2_500
        assert given.refused("ExecuteTransaction", other) == (EXHAUSTED, "queue.full")
        (answer,) = given.open(iter([message(other)]))
        (refusal,) = pb.ExecuteTransactionsResponse.FromString(answer).responses
        assert refusal.status.code == EXHAUSTED.value[0]
    assert len(list(first)) == 1
    assert given.call("ExecuteTransaction", other).transaction.state == pb.TS_APPLIED
    assert numbers_in(lake) == [1, 2]
    assert given.running.server._handlers._intake.held == 0  # type: ignore[union-attr]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("method", ["ExecuteTransaction", "GetTransaction"])
def test_requests_of_clients_that_are_gone_count_until_nobody_is_at_them(
    bounded: Callable[..., Bounded], lake: Lake, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """While storage does not answer, clients whose time is up come again and again, with all that they want."""
    given = bounded(taken_bytes=3_000)
    (service,) = given.running.server.host.services.values()
    go_on, busy = threading.Event(), threading.Event()

    def get(_: str) -> None:
        busy.set()
        assert go_on.wait(30)
        raise Unavailable("it took too long")

    monkeypatch.setattr(service, "get", get)
    large = append(lake, 1)
    large.properties["note"] = "x" * 2_500
    request = large if method == "ExecuteTransaction" else pb.GetTransactionRequest(tx_id="x" * 2_500)
    call = given.channel().unary_unary(f"/{NAMES[0]}/{method}")
    with held(given.running):
        waiting = call.future(request.SerializeToString(), timeout=30)
        until(busy.is_set if method == "GetTransaction" else lambda: service.group.waiting or service.group._current)
        waiting.cancel()
        until(lambda: given.calls(method, "CANCELLED") == 1)
        assert given.refused(method, request) == (EXHAUSTED, "queue.full")
        go_on.set()
    until(lambda: given.running.server._handlers._intake.held == 0)  # type: ignore[union-attr]
    assert numbers_in(lake) == ([1] if method == "ExecuteTransaction" else [])


def test_a_message_has_so_many_requests_and_so_many_parts(bounded: Callable[..., Bounded], lake: Lake) -> None:
    given = bounded(requests=10, message_parts=1_000)
    many = given.open(iter([message(*(pb.ExecuteTransactionRequest() for _ in range(11)))]))
    with pytest.raises(grpc.RpcError) as caught:
        list(many)
    assert told(caught.value) == (grpc.StatusCode.INVALID_ARGUMENT, "request.too-many")
    tx = given.call("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    empty = b"\x12\x00" * 200_000  # changes without anything in them: two bytes each
    body = pb.PrepareTransactionRequest(tx_id=tx).SerializeToString() + empty
    invalid = (grpc.StatusCode.INVALID_ARGUMENT, "request.too-many-parts")
    assert given.refused("PrepareTransaction", body) == invalid
    nested = b"\x1a\x00" * 200_000
    call = given.open(iter([b"\n" + _varint(len(nested)) + nested]))
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert told(caught.value) == invalid
    large = pb.PrepareTransactionRequest(tx_id=tx)
    change = appending(lake, "shop.orders", numbers=[1])
    large.changes.add(table_fq="lake.shop.orders", payload=change.payload)
    large.idempotency.key = "k"
    assert given.call("PrepareTransaction", large).transaction.state == pb.TS_PREPARED


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def test_parts_are_counted_as_they_are() -> None:
    request = pb.ExecuteTransactionsRequest()
    for _ in range(3):
        one = request.requests.add(base_version=300, number=7)
        one.ttl.seconds = 5
        for _ in range(4):
            change = one.changes.add(payload=b"\x0a\x00" * 500)
            change.table_id.id = "id"
        one.properties["name"] = "value"
    data = request.SerializeToString()
    kind = request.DESCRIPTOR
    # A request, its ttl, a property, four changes with a resource each.
    assert parts_in(data, kind, 1_000) == 3 * (1 + 1 + 1 + 4 * 2)
    assert parts_in(data, kind, 10) == 11, "no further than needed"
    for end in range(len(data)):
        assert parts_in(data[:end], kind, 1_000) <= 33, "what is cut off is not read beyond its end"
    assert parts_in(b"\xff" * 50, kind, 10) == 0
    assert parts_in(b"\x78\x01" * 80, kind, 10) == 0, "fields that are not messages"
    assert parts_in(b"\x78\x01" * 81, kind, 10) == 11, "unless there are very many: each takes time"
    assert parts_in(b"\x7a\x00" * 81, kind, 10) == 11


def test_a_message_has_so_many_fields(bounded: Callable[..., Bounded]) -> None:
    """To look through 64 MB of them took a minute, and everybody else waited; who may only read could send it."""
    given = bounded(message_parts=1_000)
    body = pb.GetTransactionRequest(tx_id="x").SerializeToString() + b"\x78\x01" * 200_000
    assert given.refused("GetTransaction", body) == (grpc.StatusCode.INVALID_ARGUMENT, "request.too-many-parts")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", ["parts", "change", "payload"])
@pytest.mark.parametrize("way", ["call", "open call", "prepare"])
def test_nobody_waits_until_a_large_request_is_looked_through(
    bounded: Callable[..., Bounded], lake: Lake, monkeypatch: pytest.MonkeyPatch, way: str, place: str
) -> None:
    entered, go = threading.Event(), threading.Event()
    places: dict[str, tuple[Any, str]] = {
        "parts": (arrivals, "parts_in"),
        "change": (messages, "change"),
        "payload": (operations, "decode"),
    }
    where, name = places[place]
    plain = getattr(where, name)

    def slow(data: bytes | Message, *rest: Any) -> Any:
        if (data.ByteSize() if isinstance(data, Message) else len(data)) > 1 << 18:
            entered.set()
            assert go.wait(60)
        return plain(data, *rest)

    monkeypatch.setattr(where, name, slow)
    given, large = bounded(), append(lake, 1)
    # What is no part of the operation is refused in the end. Until then it has to be looked at.
    large.changes[0].payload += b"\x7a" + _varint(1 << 20) + bytes(1 << 20)

    def ask() -> Any:
        if way == "call":
            return given.refused("ExecuteTransaction", large)[1]
        if way == "prepare":
            tx = given.call("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
            prepare = pb.PrepareTransactionRequest(tx_id=tx, changes=large.changes)
            return given.refused("PrepareTransaction", prepare)[1]
        (answer,) = given.open(iter([message(large)]))
        return pb.ExecuteTransactionsResponse.FromString(answer).responses[0].status.code

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ask)
        try:
            assert entered.wait(60)
            assert given.call("DescribeLake", pb.DescribeLakeRequest()).catalog == "lake"
            assert given.call("ExecuteTransaction", append(lake, 2)).transaction.state == pb.TS_APPLIED
            assert not waiting.done()
        finally:
            go.set()
        assert waiting.result(60) in ("payload.operation", grpc.StatusCode.INVALID_ARGUMENT.value[0])
    assert numbers_in(lake) == [2]
    assert given.running.server._handlers._intake.held == 0  # type: ignore[union-attr]


@pytest.mark.timeout(60)
def test_so_many_calls_watch_and_so_many_are_open(bounded: Callable[..., Bounded], lake: Lake) -> None:
    given = bounded(watches=2, calls=4)
    tx = given.call("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    watch = pb.WatchTransactionRequest(tx_id=tx).SerializeToString()

    def watching() -> Any:
        return given.channel().unary_stream(f"/{NAMES[0]}/WatchTransaction")(watch)

    watches = [watching() for _ in range(2)]
    for one in watches:
        next(one)
    with pytest.raises(grpc.RpcError) as caught:
        next(watching())
    assert told(caught.value) == (EXHAUSTED, "watch.too-many")
    go = threading.Event()

    def nothing() -> Iterator[bytes]:
        go.wait(30)
        yield from ()

    opened = [given.open(nothing()) for _ in range(2)]

    def full() -> bool:
        try:
            given.call("GetTransaction", pb.GetTransactionRequest(tx_id=tx))
        except grpc.RpcError as error:
            return told(error)[0] is EXHAUSTED
        return False

    until(full)
    for one in watches:
        one.cancel()
    until(lambda: not full())
    again = watching()
    next(again)
    again.cancel()
    go.set()
    for one in opened:
        assert list(one) == []


def test_transactions_that_nobody_ends(bounded: Callable[..., Bounded]) -> None:
    given = bounded(Settings(max_undecided=5))
    keyed = pb.BeginTransactionRequest(idempotency=common_pb2.IdempotencyKey(key="mine"))
    first = given.call("BeginTransaction", keyed).transaction.tx_id
    others = [given.call("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id for _ in range(4)]
    for request in (pb.BeginTransactionRequest(), pb.BeginTransactionRequest(properties={"a": "b"})):
        assert given.refused("BeginTransaction", request) == (EXHAUSTED, "transactions.too-many")
    assert given.call("BeginTransaction", keyed).transaction.tx_id == first, "it is there already"
    given.call("AbortTransaction", pb.AbortTransactionRequest(tx_id=others[0], reason="r" * 5_000))

    def begun() -> bool:
        try:
            return bool(given.call("BeginTransaction", pb.BeginTransactionRequest()))
        except grpc.RpcError:
            return False

    until(begun)
    assert given.refused("BeginTransaction", pb.BeginTransactionRequest())[1] == "transactions.too-many"


def test_where_there_is_no_room_nothing_is_counted_for_a_second() -> None:
    counted = []

    class Full:
        def undecided(self, _account: str, most: int) -> int:
            counted.append(most)
            return most

    clock = SimulatedClock()
    undecided = Undecided("a", Full(), 5, clock)  # type: ignore[arg-type]
    for seconds, times in ((0, 1), (0.5, 1), (0.6, 2)):
        clock.advance(seconds)
        with pytest.raises(Unavailable, match="5 transactions are undecided"):
            undecided.admit()
        assert len(counted) == times


def test_texts_have_an_end(bounded: Callable[..., Bounded], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_MOST_RESERVED", 20)
    given = bounded()
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    long = "x" * 2_000_000
    key = common_pb2.IdempotencyKey(key=long)
    begun = given.call("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    for method, request, reason in (
        ("BeginTransaction", pb.BeginTransactionRequest(idempotency=key), "idempotency.key-too-long"),
        ("CommitTransaction", pb.CommitTransactionRequest(tx_id=begun, idempotency=key), "idempotency.key-too-long"),
        ("PrepareTransaction", pb.PrepareTransactionRequest(tx_id=begun, idempotency=key), "idempotency.key-too-long"),
        ("ExecuteTransaction", pb.ExecuteTransactionRequest(idempotency=key), "idempotency.key-too-long"),
        ("BeginTransaction", pb.BeginTransactionRequest(properties={"a": long}), "properties.too-large"),
        ("GetTransaction", pb.GetTransactionRequest(tx_id=long), "transaction.not-found"),
        ("ExecuteTransaction", pb.ExecuteTransactionRequest(tx_id=long), "tx-id.invalid"),
    ):
        assert given.refused(method, request) == (invalid, reason), method
    for number in range(20):
        (service,) = given.running.server.host.services.values()
        service.reserve(begun, f"lake.shop.t{number}")
    reserve = pb.ReserveTransactionTableIdRequest(tx_id=begun, table_fq="lake.shop.more")
    assert given.refused("ReserveTransactionTableId", reserve) == (invalid, "reserve.too-many")
    reserve.table_fq = "lake.shop.t7"
    assert given.call("ReserveTransactionTableId", reserve).table_id.id, "what is reserved stays so"
    headers = (("authorization", "Bearer " + "x" * 100_000),)
    assert given.refused("BeginTransaction", pb.BeginTransactionRequest(), metadata=headers)[0] is EXHAUSTED
    given.call("AbortTransaction", pb.AbortTransactionRequest(tx_id=begun, reason=long))
    assert len(service.get(begun).reason) == 1_000


@pytest.mark.timeout(60)
def test_connections_that_say_nothing_are_closed(
    bounded: Callable[..., Bounded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_PAGE_SECONDS", 0.05)
    given = bounded(handshake_seconds=0.2)
    for port in (given.running.port, given.running.server.metrics_port):
        for said in (b"", b"GET /metr", b"PRI * HT"):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(said)
                while connection.recv(1_000):
                    pass  # the server's settings, before it gives up
    assert given.call("BeginTransaction", pb.BeginTransactionRequest()).transaction.state == pb.TS_OPEN
