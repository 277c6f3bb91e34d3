"""Whatever is sent: a status for each call, no crash, and no change to the lake that a good request would not make."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seiche import Lake
from seiche.service import common_pb2
from seiche.service import transactions_pb2 as pb
from seiche.service.auth import Tokens
from seiche.service.host import Host
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from seiche.service.wire.handlers import NAMES
from tests.service_lake import make_lake

METHODS = (
    "BeginTransaction",
    "PrepareTransaction",
    "CommitTransaction",
    "AbortTransaction",
    "GetTransaction",
    "ReserveTransactionTableId",
    "ExecuteTransaction",
    "ExecuteTransactions",
    "DescribeLake",
)
# Mistakes of a client. Anything else would be one of the server.
GOOD = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


class Target:
    """A server with two accounts, and the ids of what there is."""

    def __init__(self, server: Running, lakes: dict[str, Lake]) -> None:
        self.lakes = lakes
        self.channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        self.tables = [lakes["a"].table("shop.orders").row.id, lakes["b"].table("shop.orders").row.id]
        self.transactions: list[str] = ["", "nothing"]
        self.calls = 0
        self.before = {name: lake.version for name, lake in lakes.items()}

    def send(self, method: str, data: bytes, token: str) -> bytes | grpc.StatusCode:
        path = f"/{NAMES[self.calls % 2]}/{method}"
        metadata = (("authorization", f"Bearer {token}"),)
        self.calls += 1
        try:
            if method == "ExecuteTransactions":
                return _streamed(self.channel.stream_stream(path)(iter([data]), metadata=metadata, timeout=30))
            answer: bytes = self.channel.unary_unary(path)(data, metadata=metadata, timeout=30)
        except grpc.RpcError as error:
            found: grpc.StatusCode = error.code()
            return found
        return answer

    def begin(self, token: str) -> None:
        answer = self.send("BeginTransaction", b"", token)
        assert isinstance(answer, bytes)
        self.transactions.append(pb.BeginTransactionResponse.FromString(answer).transaction.tx_id)


def _streamed(answers: Any) -> bytes | grpc.StatusCode:
    """What the first request of a message was answered: refusals are answers, and the call goes on."""
    found = [one for answer in answers for one in pb.ExecuteTransactionsResponse.FromString(answer).responses]
    assert sorted(one.number for one in found) == [*range(len(found))], "one for each"
    first = min(found, key=lambda one: one.number)
    if not first.HasField("status"):
        return first.SerializeToString()
    return next(code for code in grpc.StatusCode if code.value[0] == first.status.code)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    lakes = {}
    for name in ("a", "b"):
        folder: Path = tmp_path_factory.mktemp(name)
        lakes[name] = make_lake(folder, ["shop.orders", "shop.stock"])
    tokens = Tokens([{"token": name, "account": name} for name in lakes])
    host = Host(dict(lakes), open_database(f"sqlite://{folder}/state.db"), authenticator=tokens, sweep_seconds=0.2)
    with running(host) as server:
        made = Target(server, lakes)
        for name in [*lakes] * 5:
            made.begin(name)
        yield made


TEXT = st.one_of(
    st.sampled_from(["", "lake.shop.orders", "lake.shop.stock", "lake.shop.none", "a.b", "lake", "/accounts/a/x"]),
    st.sampled_from(["..", "/accounts/a/../b", "\x00", "lake.shop.orders\n", "ü" * 50, "x" * 5000]),
    st.text(max_size=30),
)
OPERATIONS = st.one_of(st.binary(max_size=60), st.sampled_from([b"", b"\x08\x01", b"\x08\x01\x12\x00", b"\xff" * 40]))
TTL = st.one_of(st.none(), st.integers(-(2**40), 2**40))


@st.composite
def change(draw: Callable[[Any], Any], tables: list[str]) -> pb.TxChange:
    made = pb.TxChange()
    if draw(st.booleans()):
        made.table_id.id = draw(st.one_of(TEXT, st.sampled_from(tables)))
        made.table_id.account_id = draw(st.sampled_from(["", "a", "b", "c"]))
        made.table_id.kind = draw(st.sampled_from([0, 4, 7, 15, 99]))
    else:
        made.table_fq = draw(TEXT)
    kind = draw(st.sampled_from(["none", "payload", "uri", "table"]))
    if kind == "payload":
        made.payload = draw(OPERATIONS)
    elif kind == "uri":
        made.intended_blob_uri = draw(TEXT)
    elif kind == "table":
        made.table.CopyFrom(draw(definition(tables)))
    if draw(st.booleans()):
        made.precondition.expected_version = draw(st.integers(-(2**62), 2**62))
    if draw(st.integers(0, 9)) == 0:
        made.target_pointer_key = draw(TEXT)
    return made


@st.composite
def definition(draw: Callable[[Any], Any], tables: list[str]) -> common_pb2.Table:
    made = common_pb2.Table(display_name=draw(TEXT), schema_json=draw(TEXT), description=draw(TEXT))
    # Never a definition that could be meant: of a table of the other account, or of none.
    made.resource_id.account_id = draw(st.sampled_from(["c", ""]))
    made.resource_id.id = draw(st.one_of(TEXT, st.sampled_from(tables)))
    made.namespace_id.id = draw(TEXT)
    return made


@st.composite
def request_for(
    draw: Callable[[Any], Any], method: str, tables: list[str], known: list[str], *, readable: bool = False
) -> bytes:
    if not readable and draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=200))  # type: ignore[no-any-return]
    if method == "ExecuteTransactions":
        some = draw(st.lists(request_for("ExecuteTransaction", tables, known, readable=True), max_size=3))
        requests = [*map(pb.ExecuteTransactionRequest.FromString, some)]
        for number, one in enumerate(requests):
            one.number = number
        return _encoded(pb.ExecuteTransactionsRequest(requests=requests))
    made: Any = getattr(pb, f"{method}Request")()
    fields = {field.name for field in made.DESCRIPTOR.fields}
    if "tx_id" in fields and "Execute" not in method:
        made.tx_id = draw(st.one_of(st.sampled_from(known), TEXT))
    if "changes" in fields:
        made.changes.extend(draw(st.lists(change(tables), max_size=4)))
    if "idempotency" in fields and draw(st.booleans()):
        made.idempotency.key = draw(TEXT)
    if "ttl" in fields and (seconds := draw(TTL)) is not None:
        made.ttl.seconds = seconds
    if "table_fq" in fields:
        made.table_fq = draw(TEXT)
    if "work" in fields and draw(st.integers(0, 3)) == 0:
        made.work = draw(st.binary(max_size=60))
    if "base_version" in fields and draw(st.booleans()):
        made.base_version = draw(st.integers(-(2**62), 2**62))
    return _encoded(made)


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_request_has_a_status(
    target: Target, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    count = effort(400, 10_000)

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(st.data(), st.sampled_from(METHODS), st.sampled_from(["a", "b", "", "wrong"]))
    def sent(data: Any, method: str, token: str) -> None:
        body = data.draw(request_for(method, target.tables, target.transactions))
        answer = target.send(method, body, token)
        assert isinstance(answer, bytes) or answer in GOOD, (method, answer)

    sent()
    record_property("calls", target.calls)
    assert target.calls >= count
    target.begin("a")  # it still answers
    for name, lake in target.lakes.items():
        orders = lake.table("shop.orders").to_arrow().num_rows + lake.table("shop.stock").to_arrow().num_rows
        assert orders == 0
        assert [one[-1] for one in lake.tables("shop")] == ["orders", "stock"]
        assert not lake.fsck().problems, name


def test_bytes_that_are_no_message_are_the_callers_mistake(target: Target) -> None:
    for method in METHODS:
        if method != "DescribeLake":
            answer = target.send(method, b"\xff\xff\xff\xff", "a")
            assert answer is grpc.StatusCode.INVALID_ARGUMENT


def test_a_message_that_is_too_large_is_refused(target: Target) -> None:
    request = pb.PrepareTransactionRequest(tx_id=target.transactions[-1])
    request.changes.add(table_fq="lake.shop.orders", payload=b"\x00" * (65 << 20))
    assert target.send("PrepareTransaction", _encoded(request), "a") is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_method_that_does_not_exist(target: Target) -> None:
    assert target.send("DropEverything", b"", "a") is grpc.StatusCode.UNIMPLEMENTED
