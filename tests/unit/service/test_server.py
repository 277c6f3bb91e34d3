"""The server as its clients see it: calls, statuses, who may do what, health, reflection, figures, and stopping."""

import datetime
import json
import pickle
import queue
import shutil
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http.client import IncompleteRead
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

import seiche
from seiche import InvalidInput, Lake, NotFound, PermissionDenied, SeicheError, Unavailable
from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.gateway.serving import Tls, serving
from seiche.service import common_pb2
from seiche.service import transactions_pb2 as pb
from seiche.service.auth import READ, WRITE, Authenticator, Nobody, OpenIdConnect, Principal, Tokens
from seiche.service.client.certificates import Certificates
from seiche.service.client.channel import Address, Channel
from seiche.service.host import Host, read_config
from seiche.service.properties import FAILURE_MESSAGE
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from seiche.service.wire import statuses
from seiche.service.wire.handlers import NAMES
from seiche.service.wire.server import Ports
from tests.certificates import certificate
from tests.identity_provider import LateClock, SlowProvider
from tests.service_lake import appending, make_lake, numbers_in, reopened

TOKENS = Tokens(
    [
        {"token": "writer", "account": "default"},
        {"token": "reader", "account": "default", "permissions": [READ]},
        {"token": "other", "account": "other"},
        {"token": "homeless", "account": "nowhere"},
    ]
)


class Calls:
    """A bare client: what it gets is what is on the wire."""

    def __init__(self, port: int, token: str = "", service: str = NAMES[0]) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.service = service
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def __call__(self, method: str, request: Message) -> Any:
        answer = getattr(pb, f"{method}Response")
        call = self.channel.unary_unary(
            f"/{self.service}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, metadata=self.metadata, timeout=30)

    def watch(self, tx: str) -> list[int]:
        call = self.channel.unary_stream(
            f"/{self.service}/WatchTransaction",
            request_serializer=pb.WatchTransactionRequest.SerializeToString,
            response_deserializer=pb.WatchTransactionResponse.FromString,
        )
        request = pb.WatchTransactionRequest(tx_id=tx)
        return [one.transaction.state for one in call(request, metadata=self.metadata, timeout=30)]


def hosted(lakes: dict[str, Lake], folder: Path, authenticator: Authenticator | None = None) -> Host:
    database = open_database(f"sqlite://{folder}/state.db")
    return Host(dict(lakes), database, authenticator=authenticator, sweep_seconds=0.05)


@pytest.fixture
def server(lake: Lake, tmp_path: Path) -> Iterator[Running]:
    with running(hosted({"default": lake}, tmp_path), Ports(metrics=0)) as made:
        yield made


def failing(calls: Calls, method: str, request: Message) -> tuple[grpc.StatusCode, common_pb2.Error]:
    with pytest.raises(grpc.RpcError) as caught:
        calls(method, request)
    error: Any = caught.value
    detail = statuses.error_of(error.trailing_metadata())
    assert detail is not None
    return error.code(), detail


@pytest.mark.parametrize("name", NAMES)
def test_a_transaction_from_begin_to_commit(server: Running, lake: Lake, name: str) -> None:
    calls = Calls(server.port, service=name)
    begin = pb.BeginTransactionRequest(properties={"who": "me"})
    tx = calls("BeginTransaction", begin).transaction
    assert (tx.state, tx.account_id, tx.properties["who"]) == (pb.TS_OPEN, "default", "me")
    assert tx.expires_at.seconds - tx.created_at.seconds == 600
    prepare = pb.PrepareTransactionRequest(tx_id=tx.tx_id)
    prepare.changes.add(table_fq="lake.shop.orders", payload=appending(lake, "shop.orders", numbers=[3]).payload)
    assert calls("PrepareTransaction", prepare).transaction.state == pb.TS_PREPARED
    done = calls("CommitTransaction", pb.CommitTransactionRequest(tx_id=tx.tx_id)).transaction
    assert done.state == pb.TS_APPLIED
    found = calls("GetTransaction", pb.GetTransactionRequest(tx_id=tx.tx_id)).transaction
    found.updated_at.CopyFrom(done.updated_at)  # the client is answered first, and who asks may be first to note it
    assert found == done
    assert calls.watch(tx.tx_id) == [pb.TS_APPLIED]
    assert numbers_in(lake) == [3]


@pytest.mark.parametrize(
    ("taken", "code", "retryable"),
    [("shop.gone", "EXPECTED_VERSION_MISMATCH", "true"), ("shop.other", "NAME_POINTER_CONFLICT", "false")],
)
def test_clients_of_the_catalog_protocol_find_out_why_it_failed_and_whether_to_try_anew(
    server: Running, lake: Lake, taken: str, code: str, retryable: str
) -> None:
    calls = Calls(server.port, service=NAMES[1])
    tx = calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    prepare = pb.PrepareTransactionRequest(tx_id=tx)
    change = prepare.changes.add(table=common_pb2.Table(display_name="other"))
    for target in (change.table_id, change.table.resource_id):
        target.account_id, target.id = "default", lake.table("shop.orders").row.id
    calls("PrepareTransaction", prepare)
    lake.rename_table("shop.orders" if retryable == "true" else "shop.carts", taken)
    done = calls("CommitTransaction", pb.CommitTransactionRequest(tx_id=tx)).transaction
    assert done.state == pb.TS_APPLY_FAILED_CONFLICT
    told = {
        name: done.properties[f"floecat.transaction.apply-failure-{name}"] for name in ("status", "code", "message")
    }
    assert told == {"status": "CONFLICT", "code": code, "message": done.properties[FAILURE_MESSAGE]}
    assert done.properties["floecat.transaction.apply-failure-retryable"] == retryable
    assert calls("GetTransaction", pb.GetTransactionRequest(tx_id=tx)).transaction.properties == done.properties


def test_connectors_are_not_taken_for_anything_else(server: Running) -> None:
    """Payloads of the catalog protocol that there are none of here: fields 13 and 14 of a change."""
    calls = Calls(server.port, service=NAMES[1])
    tx = calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    for field in (13, 14):
        change = pb.TxChange(table_fq="lake.shop.orders").SerializeToString() + bytes((field << 3 | 2, 2, 10, 0))
        prepare = pb.PrepareTransactionRequest(tx_id=tx)
        prepare.changes.append(pb.TxChange.FromString(change))
        code, detail = failing(calls, "PrepareTransaction", prepare)
        assert (code, detail.message_key) == (grpc.StatusCode.INVALID_ARGUMENT, "payload.missing")


def watching(calls: Calls, tx: str) -> Any:
    """The states of a transaction, as they come."""
    watch = calls.channel.unary_stream(
        f"/{NAMES[0]}/WatchTransaction",
        request_serializer=pb.WatchTransactionRequest.SerializeToString,
        response_deserializer=pb.WatchTransactionResponse.FromString,
    )
    return watch(pb.WatchTransactionRequest(tx_id=tx), metadata=calls.metadata, timeout=30)


def test_watching_sees_every_state(server: Running, lake: Lake) -> None:
    calls = Calls(server.port)
    tx = calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    stream = watching(calls, tx)
    assert next(stream).transaction.state == pb.TS_OPEN
    prepare = pb.PrepareTransactionRequest(tx_id=tx)
    prepare.changes.add(table_fq="lake.shop.orders", payload=appending(lake, "shop.orders").payload)
    calls("PrepareTransaction", prepare)
    assert next(stream).transaction.state == pb.TS_PREPARED
    calls("AbortTransaction", pb.AbortTransactionRequest(tx_id=tx, reason="enough"))
    assert [one.transaction.state for one in stream] == [pb.TS_ABORTED]


def test_who_watches_does_not_hold_up_a_server_that_stops(server: Running) -> None:
    calls = Calls(server.port)
    stream = watching(calls, calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id)
    assert next(stream).transaction.state == pb.TS_OPEN
    server.stop(grace=3600)
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    detail = statuses.error_of(caught.value.trailing_metadata())
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert detail is not None
    assert detail.message_key == "stopping"


class Revocable(Authenticator):
    """Lets everybody in until it does not."""

    open = True

    def principal(self, authorization: str | None) -> Principal:
        return Nobody().principal(authorization) if self.open else TOKENS.principal(None)


def test_who_may_not_read_any_more_sees_no_more_states(lake: Lake, tmp_path: Path) -> None:
    guard = Revocable()
    with running(hosted({"default": lake}, tmp_path, guard)) as server:
        calls = Calls(server.port)
        tx = calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
        stream = watching(calls, tx)
        assert next(stream).transaction.state == pb.TS_OPEN
        guard.open = False
        server.server.host.services["default"].abort(tx)
        with pytest.raises(grpc.RpcError) as caught:
            next(stream)
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_reserving_an_id_and_describing_the_lake(server: Running, lake: Lake) -> None:
    calls = Calls(server.port)
    tx = calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    request = pb.ReserveTransactionTableIdRequest(tx_id=tx, table_fq="lake.shop.new")
    first = calls("ReserveTransactionTableId", request).table_id
    assert (first.account_id, first.kind) == ("default", common_pb2.RK_TABLE)
    assert calls("ReserveTransactionTableId", request).table_id == first
    found = calls("DescribeLake", pb.DescribeLakeRequest())
    assert (found.uri, found.catalog, found.account_id) == (lake.uri, "lake", "default")
    assert (found.version, found.lake_id) == (lake.version, lake.state().definition.id)


def test_refusals_have_a_status_and_a_reason(server: Running, lake: Lake) -> None:
    calls = Calls(server.port)
    unknown = pb.CommitTransactionRequest(tx_id="nothing")
    status, detail = failing(calls, "CommitTransaction", unknown)
    assert (status, detail.code) == (grpc.StatusCode.INVALID_ARGUMENT, common_pb2.MC_INVALID_ARGUMENT)
    assert (detail.message_key, detail.message) == ("transaction.not-found", "transaction not found: nothing")
    tx = calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    prepare = pb.PrepareTransactionRequest(tx_id=tx)
    change = prepare.changes.add(table_fq="lake.shop.orders", payload=appending(lake, "shop.orders").payload)
    change.precondition.expected_version = 9
    status, detail = failing(calls, "PrepareTransaction", prepare)
    assert (status, detail.code) == (grpc.StatusCode.FAILED_PRECONDITION, common_pb2.MC_PRECONDITION_FAILED)
    assert (detail.params["expected"], detail.params["actual"]) == ("9", "1")
    first = pb.BeginTransactionRequest(idempotency={"key": "k"})
    calls("BeginTransaction", first)
    first.properties["other"] = "yes"
    status, detail = failing(calls, "BeginTransaction", first)
    assert (status, detail.code) == (grpc.StatusCode.ABORTED, common_pb2.MC_CONFLICT)
    assert (detail.message_key, detail.params["op"], detail.params["key"]) == (
        "idempotency.mismatch",
        "BeginTransaction",
        "k",
    )


def test_a_key_of_one_call_is_one_with_or_without_blanks(server: Running, lake: Lake) -> None:
    calls = Calls(server.port)
    requests = [pb.ExecuteTransactionRequest(idempotency={"key": key}) for key in ("job 7", " job 7 ", "job 7")]
    for request in requests:
        request.changes.add(table_fq="lake.shop.orders", payload=appending(lake, "shop.orders").payload)
    requests[1].changes[0].payload = requests[0].changes[0].payload
    first, again = (calls("ExecuteTransaction", request) for request in requests[:2])
    assert (again.transaction.tx_id, again.version) == (first.transaction.tx_id, first.version)
    status, detail = failing(calls, "ExecuteTransaction", requests[2])
    assert (status, detail.message_key) == (grpc.StatusCode.ABORTED, "idempotency.mismatch")
    assert detail.params["key"] == "job 7", "what the client knows, not the id that follows from it"
    assert numbers_in(lake) == [0]


def test_the_details_can_be_read_under_both_names() -> None:
    status = statuses.status_message(InvalidInput("wrong", reason="r"))
    assert [one.type_url.rpartition("/")[2] for one in status.details] == list(statuses.TYPES)
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


@pytest.mark.parametrize("character", ["x", "%", "é", "💥"])
def test_a_refusal_fits_into_what_a_client_takes(server: Running, character: str) -> None:
    """Of 8 kB of headers on, gRPC's clients throw it away, at random, and call it something that may pass."""
    calls = Calls(server.port)
    tx = calls("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    prepare = pb.PrepareTransactionRequest(tx_id=tx)
    prepare.changes.add(table_fq=f"lake.shop.{character * 5000}", payload=b"x")
    for _ in range(10):
        status, detail = failing(calls, "PrepareTransaction", prepare)
        assert (status, detail.message_key) == (grpc.StatusCode.INVALID_ARGUMENT, "table.name")


def test_a_refusal_with_many_long_details_fits_too() -> None:
    told = statuses.status_message(
        InvalidInput("💥" * 1000, remedy="💥" * 1000, **{f"{n}": "x" * 1000 for n in range(9)})
    )
    assert len(told.SerializeToString()) < 5000
    found = statuses.error_in(told)
    assert found is not None
    assert all(found.params.values())


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "o").mkdir()
    lakes = {"default": make_lake(tmp_path), "other": make_lake(tmp_path / "o", ["shop.orders"])}
    with running(hosted(lakes, tmp_path, TOKENS)) as made:
        yield made


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_a_known_token_nothing_is_answered(guarded: Running, token: str) -> None:
    for method in ("BeginTransaction", "GetTransaction", "ExecuteTransaction", "DescribeLake"):
        status, detail = failing(Calls(guarded.port, token), method, getattr(pb, f"{method}Request")())
        assert (status, detail.code) == (grpc.StatusCode.UNAUTHENTICATED, common_pb2.MC_UNAUTHENTICATED)


def test_who_may_only_read_changes_nothing(guarded: Running) -> None:
    tx = Calls(guarded.port, "writer")("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    reader = Calls(guarded.port, "reader")
    assert reader("GetTransaction", pb.GetTransactionRequest(tx_id=tx)).transaction.tx_id == tx
    for method in ("Begin", "Prepare", "Commit", "Abort", "Execute"):
        name = f"{method}Transaction"
        status, _ = failing(reader, name, getattr(pb, f"{name}Request")())
        assert status is grpc.StatusCode.PERMISSION_DENIED
    status, _ = failing(reader, "ReserveTransactionTableId", pb.ReserveTransactionTableIdRequest(tx_id=tx))
    assert status is grpc.StatusCode.PERMISSION_DENIED


def test_accounts_do_not_see_each_other(guarded: Running) -> None:
    tx = Calls(guarded.port, "writer")("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id
    other = Calls(guarded.port, "other")
    for method in ("Get", "Commit", "Abort"):
        name = f"{method}Transaction"
        _, detail = failing(other, name, getattr(pb, f"{name}Request")(tx_id=tx))
        assert detail.message_key == "transaction.not-found"
    mine = other("BeginTransaction", pb.BeginTransactionRequest()).transaction
    assert mine.account_id == "other"
    prepare = pb.PrepareTransactionRequest(tx_id=mine.tx_id)
    change = prepare.changes.add(payload=b"")
    change.table_id.account_id, change.table_id.id = "default", "x"
    assert failing(other, "PrepareTransaction", prepare)[1].message_key == "account.foreign"


def test_an_account_without_a_lake(guarded: Running) -> None:
    status, detail = failing(Calls(guarded.port, "homeless"), "BeginTransaction", pb.BeginTransactionRequest())
    assert (status, detail.message_key) == (grpc.StatusCode.PERMISSION_DENIED, "account.unknown")


def test_health_reflection_and_figures(server: Running) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
    for name in ("", *NAMES):
        found = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name))
        assert found.status == health_pb2.HealthCheckResponse.SERVING
    assert NAMES[0] in ProtoReflectionDescriptorDatabase(channel).get_services()
    Calls(server.port)("BeginTransaction", pb.BeginTransactionRequest())
    base = f"http://127.0.0.1:{server.server.metrics_port}"
    page = urllib.request.urlopen(f"{base}/metrics").read().decode()
    assert 'seiche_calls_total{method="begin",status="OK"} 1.0' in page
    assert 'seiche_waiting{account="default"} 0.0' in page
    cached = server.server.host.services["default"].lake.states.cached_bytes
    assert cached > 0
    assert f'seiche_cached_bytes{{account="default"}} {float(cached)}' in page
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{base}/other")


class Recorder:
    """A provider, meter, tracer, instrument and span of OpenTelemetry in one: notes what is done with it."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def start_span(self, name: str) -> "Recorder":
        self.seen.append(("span", name))
        return self

    def set_attribute(self, name: str, value: object) -> None:
        self.seen.append((name, value))

    def end(self) -> None:
        self.seen.append(("end",))

    def create_counter(self, name: str, **_: object) -> "Recorder":
        return self

    create_histogram = create_counter

    def add(self, amount: int, attributes: dict[str, str]) -> None:
        self.seen.append(("add", amount, *attributes.values()))

    def record(self, seconds: float, attributes: dict[str, str]) -> None:
        self.seen.append(("record", *attributes.values()))


def test_opentelemetry_hears_of_every_call(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import metrics, trace

    recorder = Recorder()
    for module, names in ((trace, ("tracer", "tracer_provider")), (metrics, ("meter", "meter_provider"))):
        for name in names:
            monkeypatch.setattr(module, f"get_{name}", lambda *_: recorder)
    with running(hosted({"default": lake}, tmp_path)) as server:
        calls = Calls(server.port)
        calls("BeginTransaction", pb.BeginTransactionRequest())
        failing(calls, "CommitTransaction", pb.CommitTransactionRequest(tx_id="nothing"))
    counted = [("add", 1, name, status) for name, status in (("begin", "OK"), ("commit", "INVALID_ARGUMENT"))]
    assert [one for one in recorder.seen if one[0] == "add"] == counted
    assert [one for one in recorder.seen if one[0] == "record"] == [("record", "begin"), ("record", "commit")]
    spans = [one for one in recorder.seen if one[0] not in ("add", "record")]
    assert spans == [
        ("span", "begin"), ("rpc.grpc.status", "OK"), ("end",),
        ("span", "commit"), ("rpc.grpc.status", "INVALID_ARGUMENT"), ("end",),
    ]  # fmt: skip


def test_a_port_that_is_taken(server: Running, lake: Lake, tmp_path: Path) -> None:
    host = hosted({"default": lake}, tmp_path)
    with pytest.raises(Unavailable):
        Running(host, Ports(port=server.port))
    host.close()


def secured(folder: Path) -> Ports:
    cert, key = certificate(folder)
    return Ports("localhost", certificate=cert, key=key)


def test_over_tls(lake: Lake, tmp_path: Path) -> None:
    from seiche.service.client import connect

    with running(hosted({"default": lake}, tmp_path), secured(tmp_path)) as server:
        client = connect(f"grpcs://localhost:{server.port}", ca=tmp_path / "cert.pem")
        client.table("shop.orders").append([{"writer": 1, "number": 5}])
        assert numbers_in(lake) == [5]
        assert client.channel._opened_line() is not None, "over the open call"
        client.close()


@pytest.mark.parametrize(
    ("address", "ca", "error", "said"),
    [
        ("grpcs://localhost", None, PermissionDenied, "cannot be trusted: .*self.signed"),
        ("grpcs://127.0.0.1", "cert.pem", PermissionDenied, "cannot be trusted: .*127.0.0.1"),
        ("grpc://localhost", None, InvalidInput, "speaks TLS"),
        ("grpcs://localhost", "missing.pem", NotFound, "missing.pem cannot be read"),
        ("grpcs://localhost", "key.pem", InvalidInput, "key.pem has no certificate"),
    ],
)
def test_a_client_is_told_what_is_wrong_with_tls(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, ca: str | None, error: type, said: str
) -> None:
    """Not that nobody is there."""
    from seiche.service.client import connect, remote

    monkeypatch.setattr(remote, "Channel", partial(Channel, patience=Patience(attempts=1)))
    with (
        running(hosted({"default": lake}, tmp_path), secured(tmp_path)) as server,
        pytest.raises(error, match=said),
    ):
        connect(f"{address}:{server.port}", ca=None if ca is None else tmp_path / ca)


def test_a_client_is_told_that_a_server_does_not_speak_tls(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from seiche.service.client import connect, remote

    monkeypatch.setattr(remote, "Channel", partial(Channel, patience=Patience(attempts=1)))
    with pytest.raises(InvalidInput, match="does not speak TLS"):
        connect(f"grpcs://127.0.0.1:{server.port}")


def test_certificates_are_those_that_are_in_the_files_now(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handle was sent to a machine without them, or a server has got a new one."""
    from seiche.service.client import remote

    monkeypatch.setattr(remote, "Channel", partial(Channel, patience=Patience(attempts=2)))
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    (old, old_key), (new, new_key) = map(certificate, folders)
    ca = tmp_path / "ca.pem"
    ca.write_bytes(old.read_bytes())
    row = [{"writer": 1, "number": 1}]
    with running(hosted({"default": lake}, tmp_path), Ports("localhost", certificate=old, key=old_key)) as server:
        port = server.port
        client = seiche.connect(f"grpcs://localhost:{port}", ca=ca)
        client.table("shop.orders").append(row)
        ca.unlink()
        with pytest.raises(NotFound, match=r"ca\.pem"):
            pickle.loads(pickle.dumps(client)).table("shop.orders").append(row)
    with running(hosted({"default": lake}, tmp_path), Ports("localhost", port, certificate=new, key=new_key)):
        ca.write_bytes(old.read_bytes())
        with pytest.raises(SeicheError):
            client.table("shop.orders").append(row)
        ca.write_bytes(new.read_bytes())
        client.table("shop.orders").append(row)
        client.close()
    assert numbers_in(lake) == [1, 1]


def test_a_client_that_goes_on_trusts_whom_its_files_say_now(lake: Lake, tmp_path: Path) -> None:
    """Also in calls of gRPC, which goes on with the certificates that it has read. Files may be away for a moment."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    (old, old_key), (new, new_key) = map(certificate, folders)
    ca = tmp_path / "ca.pem"
    ca.write_bytes(old.read_bytes())
    with running(hosted({"default": lake}, tmp_path), Ports("localhost", certificate=old, key=old_key)) as server:
        port = server.port
        address = Address.parse(f"grpcs://localhost:{port}", certificates=Certificates.of(ca))
        channel = Channel(address, patience=Patience(attempts=5))
        described = [channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse)]
        ca.unlink()
        described.append(channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse))
    with running(hosted({"default": lake}, tmp_path), Ports("localhost", port, certificate=new, key=new_key)):
        ca.write_bytes(new.read_bytes())
        described.append(channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse))
    channel.close()
    assert [one.lake_id for one in described] == [lake.state().definition.id] * 3


@pytest.mark.parametrize("over", ["gRPC", "HTTP"])
def test_a_server_shows_the_certificate_that_is_in_the_files_now(lake: Lake, tmp_path: Path, over: str) -> None:
    folders = [tmp_path / "live", tmp_path / "new"]
    for folder in folders:
        folder.mkdir()
    (live, live_key), (new, new_key) = map(certificate, folders)
    old = live.read_text()

    def shown(port: int) -> str:
        return ssl.get_server_certificate(("localhost", port), timeout=30)

    with ExitStack() as stack:
        if over == "gRPC":
            ports = Ports("localhost", certificate=live, key=live_key)
            port = stack.enter_context(running(hosted({"default": lake}, tmp_path), ports)).port
        else:
            tls = Tls(live, live_key)
            address = stack.enter_context(serving(lake, iceberg_port=0, host="localhost", tls=tls))["iceberg"]
            port = int(address.rpartition(":")[2])
        assert shown(port) == shown(port) == old
        live.write_bytes(new.read_bytes())
        assert shown(port) == old, "its key is still that of the old one"
        live_key.write_bytes(new_key.read_bytes())
        assert shown(port) == shown(port) == new.read_text()
        live_key.unlink()
        assert shown(port) == new.read_text()


@pytest.mark.parametrize("over", ["gRPC", "HTTP"])
def test_clients_show_certificates_of_the_authority_that_is_in_the_file_now(
    lake: Lake, tmp_path: Path, over: str
) -> None:
    folders = [tmp_path / "server", tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    (cert, key), one, two = map(certificate, folders)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(one[0].read_bytes())

    def let_in(port: int, shown: Path, its_key: Path) -> bool:
        context = ssl.create_default_context(cafile=cert)
        context.load_cert_chain(shown, its_key)
        context.set_alpn_protocols(["h2"])  # gRPC talks to nobody else
        with socket.create_connection(("localhost", port), 30) as plain:
            try:
                with context.wrap_socket(plain, server_hostname="localhost") as wire:
                    # A server of TLS 1.3 turns away whoever it does not trust after the client believes to be in.
                    wire.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
                    return bool(wire.recv(1))
            except OSError:
                return False

    with ExitStack() as stack:
        if over == "gRPC":
            ports = Ports("localhost", certificate=cert, key=key, client_ca=trusted)
            port = stack.enter_context(running(hosted({"default": lake}, tmp_path), ports)).port
        else:
            tls = Tls(cert, key, trusted)
            address = stack.enter_context(serving(lake, iceberg_port=0, host="localhost", tls=tls))["iceberg"]
            port = int(address.rpartition(":")[2])
        assert (let_in(port, *one), let_in(port, *two)) == (True, False)
        trusted.write_bytes(two[0].read_bytes())
        assert (let_in(port, *one), let_in(port, *two)) == (False, True)


def test_who_shows_no_certificate_is_not_let_in(lake: Lake, tmp_path: Path) -> None:
    plain = secured(tmp_path)
    ports = Ports("localhost", certificate=plain.certificate, key=plain.key, client_ca=plain.certificate)
    cert, key = (tmp_path / "cert.pem").read_bytes(), (tmp_path / "key.pem").read_bytes()
    with running(hosted({"default": lake}, tmp_path), ports) as server:
        for shown in (None, (key, cert)):
            credentials = grpc.ssl_channel_credentials(cert, *(shown or ()))
            with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
                call = channel.unary_unary(f"/{NAMES[0]}/BeginTransaction")
                if shown:
                    assert call(b"", timeout=30)
                    continue
                with pytest.raises(grpc.RpcError) as caught:
                    call(b"", timeout=30)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_client_shows_its_certificate_if_the_server_asks_for_one(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seiche.service.client import connect, remote

    monkeypatch.setattr(remote, "Channel", partial(Channel, patience=Patience(attempts=1)))
    plain = secured(tmp_path)
    ports = Ports("localhost", certificate=plain.certificate, key=plain.key, client_ca=plain.certificate)
    with running(hosted({"default": lake}, tmp_path), ports) as server:
        address = f"grpcs://localhost:{server.port}"
        with connect(address, ca=plain.certificate, certificate=plain.certificate, certificate_key=plain.key) as mine:
            mine.create_namespace("shown")
        with pytest.raises(PermissionDenied, match="what this client shows") as refused:
            connect(address, ca=plain.certificate)
        assert "certificate=" in refused.value.remedy
    assert ("shown",) in lake.namespaces()


def test_certificates_of_a_client_that_are_none_are_named(tmp_path: Path) -> None:
    from seiche.service.client import connect

    plain = secured(tmp_path)
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    with pytest.raises(InvalidInput, match="with its key"):
        connect("grpcs://localhost:1", certificate=plain.certificate)
    with pytest.raises(NotFound, match="missing"):
        connect("grpcs://localhost:1", certificate=tmp_path / "missing.pem", certificate_key=plain.key)
    with pytest.raises(InvalidInput, match="not a certificate and its key"):
        connect("grpcs://localhost:1", certificate=junk, certificate_key=plain.key)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("127.example.org", False),
        ("", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, expected: bool) -> None:
    """Where nobody has to say who he is, the server listens at no others."""
    assert Ports(host).loopback is expected


def test_tls_needs_both(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        Ports(certificate=tmp_path / "cert.pem").credentials()
    with pytest.raises(NotFound):
        Ports(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem").credentials()


def test_clients_are_not_asked_for_certificates_without_tls(tmp_path: Path) -> None:
    """A server that ignores it would let everybody in."""
    cert, key = certificate(tmp_path)
    with pytest.raises(InvalidInput, match="without TLS"):
        Ports(client_ca=cert).credentials()
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    with pytest.raises(InvalidInput, match="junk"):
        Ports(certificate=cert, key=key, client_ca=junk).credentials()
    with pytest.raises(NotFound, match="missing"):
        Ports(certificate=cert, key=key, client_ca=tmp_path / "missing.pem").credentials()


def test_an_address_of_ipv6(lake: Lake, tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has none")
    with running(hosted({"default": lake}, tmp_path), Ports("::1")) as server:
        client = seiche.connect(server.address)
        client.table("shop.orders").append([{"writer": 1, "number": 1}])
        client.close()
    assert numbers_in(lake) == [1]


def test_accounts_do_not_share_a_lake_by_spelling_it_in_two_ways(lake: Lake, tmp_path: Path) -> None:
    path = lake.uri.removeprefix("file://")
    with pytest.raises(InvalidInput, match="same lake"):
        Host({"a": path, "b": f"{path}/../lake"}, open_database(f"sqlite://{tmp_path}/state.db"))


def test_a_sweep_that_fails_is_not_the_last_one(lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = hosted({"default": lake}, tmp_path)
    swept: queue.Queue[int] = queue.Queue()

    def fail(limit: int = 0) -> int:
        swept.put(limit)
        raise RuntimeError("can't start new thread")

    host.services["default"].sweep = fail  # type: ignore[method-assign]
    assert [swept.get(timeout=30) for _ in range(2)] == [100, 100]
    host.close()
    assert "could not clear away what is old" in caplog.text


def test_one_database_keeps_the_transactions_of_one_lake_for_each_account(lake: Lake, tmp_path: Path) -> None:
    """A server with another lake would look there for what the first one has applied, and decide against it."""
    (tmp_path / "x").mkdir()
    other, state = make_lake(tmp_path / "x"), f"sqlite://{tmp_path}/state.db"
    first = Host({"default": lake}, state)
    with pytest.raises(InvalidInput, match="in another lake"):
        Host({"default": other}, state)
    replica, beside = Host({"default": reopened(lake)}, state), Host({"other": other}, state)
    for host in (first, replica, beside):
        host.close()


def test_one_database_does_not_keep_the_transactions_of_a_lake_and_its_copy(lake: Lake, tmp_path: Path) -> None:
    """Both have the same id. What was committed to one, under a key for instance, was told as committed in the
    other.
    """
    state, folder = f"sqlite://{tmp_path}/state.db", tmp_path / "copy"
    shutil.copytree(tmp_path / "lake", folder)
    copy = seiche.open(str(folder), durability="os")
    first = Host({"default": lake}, state)
    lake.create_namespace("first")
    first.close()
    with pytest.raises(InvalidInput, match=f"ends with version {copy.version}: it is a copy"):
        Host({"default": copy}, state)
    for name in ("second", "third"):
        copy.create_namespace(name)
    with pytest.raises(InvalidInput, match="does not have that one"):
        Host({"default": copy}, state)
    for name in ("a", "b", "c"):
        lake.create_namespace(name)
    lake.expire(older_than=0, keep=1)
    lake.export("copy", tmp_path / "export")
    with pytest.raises(InvalidInput, match="does not have that one"):
        Host({"default": seiche.open(tmp_path / "export")}, state)
    replicas = [Host({"default": reopened(lake)}, state) for _ in range(2)]
    for host in replicas:
        host.close()


def test_a_server_notices_that_another_one_goes_on_with_a_copy(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state, folder = f"sqlite://{tmp_path}/state.db", tmp_path / "copy"
    shutil.copytree(tmp_path / "lake", folder)
    copy = seiche.open(str(folder), durability="os")
    hosts = [Host({"default": one}, state) for one in (lake, copy)]
    for one in (lake, copy):
        one.create_namespace("new")
    for host in hosts:
        host.close()
    assert "it is a copy of that lake" in caplog.text
    with pytest.raises(InvalidInput, match="does not have that one"):
        Host({"default": copy}, state)


def test_servers_with_one_database_do_not_have_one_lake_for_two_accounts(lake: Lake, tmp_path: Path) -> None:
    """Neither would see what the other has locked, and each could ask for what the other did."""
    state = f"sqlite://{tmp_path}/state.db"
    first = Host({"a": lake}, state)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"another account \('a'\)"):
            Host({"b": reopened(lake)}, state)
    replica = Host({"a": reopened(lake)}, state)
    for host in (first, replica):
        host.close()


def test_keys_of_the_provider_are_asked_for_anew_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that was taken back opens nothing after some minutes; a provider that is away is not waited for."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"use": "sig", "alg": "RS256"}
    published, threads, away = ["old"], [], False

    def fetch(_: Any) -> Any:
        threads.append(threading.current_thread())
        if away:
            raise ConnectionResetError("away")
        return {"keys": [shown | {"kid": name} for name in published]}

    monkeypatch.setattr(jwt.PyJWKClient, "fetch_data", fetch)
    clock = LateClock()
    provider = OpenIdConnect("https://issuer", "seiche", "https://issuer/keys", runtime=Runtime(clock, Random(0)))
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    claims = {"iss": "https://issuer", "aud": "seiche", "exp": later, "account": "acme", "permissions": 7}

    def called(name: str) -> Principal:
        return provider.principal(f"Bearer {jwt.encode(claims, key, algorithm='RS256', headers={'kid': name})}")

    known = Principal("acme", frozenset(), until=int(later.timestamp()))
    assert called("old") == called("old") == known, "what is no list permits nothing"
    for made_up in "ab":
        with pytest.raises(PermissionDenied):
            called(made_up)
    assert len(threads) == 1, "keys that are made up cost nothing"
    away, clock.later = True, 1000.0
    assert called("old").account == "acme", "the provider is away, and what was known is still good"
    threads[-1].join(10)
    away, published[:], clock.later = False, ["new"], 1100.0
    assert called("old").account == "acme"
    threads[-1].join(10)
    assert threads[1] is not threading.current_thread() is not threads[2]
    with pytest.raises(PermissionDenied):
        called("old")
    assert called("new").account == "acme"
    away, clock.later = True, 9000.0
    for _ in range(2):
        with pytest.raises(Unavailable):
            called("new")
    assert len(threads) == 4, "who is away is not asked by everybody who comes"


@pytest.mark.parametrize("answer", [IncompleteRead(b"{"), {"keys": [7]}, ConnectionResetError("away")], ids=repr)
def test_a_provider_that_cannot_be_understood_makes_no_token_invalid(
    monkeypatch: pytest.MonkeyPatch, answer: Exception | dict[str, Any]
) -> None:
    """It may have given it out just now, signed with a key that it has not told yet."""
    provider = SlowProvider(monkeypatch)

    def fetch(_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("jwt.PyJWKClient.fetch_data", fetch)
    for _ in range(2):
        with pytest.raises(Unavailable, match="identity provider"):
            provider.authenticator.principal(f"Bearer {provider.token('new')}")
    assert provider.authenticator.principal(f"Bearer {provider.token('known')}").account == "default"


@pytest.mark.parametrize("call", ["get", "watch", "execute"])
def test_nobody_else_waits_while_the_provider_is_asked_for_a_key(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whoever calls may have made the key up, and the provider may take its time."""
    provider = SlowProvider(monkeypatch)
    with running(hosted({"default": lake}, tmp_path, provider.authenticator)) as server:
        stranger, known = (Calls(server.port, provider.token(key)) for key in ("made up", "known"))
        tx = known("BeginTransaction", pb.BeginTransactionRequest()).transaction.tx_id

        def ask() -> None:
            request = pb.GetTransactionRequest(tx_id=tx)
            if call == "execute":
                stream = stranger.channel.stream_stream(f"/{NAMES[0]}/ExecuteTransactions")
                list(stream(iter([b""]), metadata=stranger.metadata, timeout=30))
            elif call == "watch":
                stranger.watch(tx)
            else:
                stranger("GetTransaction", request)

        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(ask)
            try:
                assert provider.asked.wait(30)
                assert known("GetTransaction", pb.GetTransactionRequest(tx_id=tx)).transaction.state == pb.TS_OPEN
                assert not waiting.done()
            finally:
                provider.go_on.set()
            error: Any = waiting.exception(30)
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED


def test_tokens_of_an_identity_provider() -> None:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    provider = OpenIdConnect("https://issuer", "seiche", "", fetch=lambda _: key.public_key())
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    good = {"iss": "https://issuer", "aud": "seiche", "exp": later, "account": "acme", "permissions": "table.read x"}

    def principal(claims: dict[str, Any], signed_with: Any = key) -> Principal:
        return provider.principal(f"Bearer {jwt.encode(claims, signed_with, algorithm='RS256')}")

    found = principal(good)
    assert (found.account, found.permissions) == ("acme", frozenset({READ}))
    with pytest.raises(PermissionDenied):
        found.require(WRITE)
    earlier = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    for wrong in ({"iss": "https://other"}, {"aud": "other"}, {"exp": earlier}, {"account": ""}, {"account": 7}):
        with pytest.raises(PermissionDenied) as caught:
            principal({**good, **wrong})
        assert caught.value.reason == "unauthenticated"
    forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    unsigned = jwt.encode(good, "", algorithm="none")
    other_kind = jwt.encode(good, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256")
    for token in (jwt.encode(good, forger, algorithm="RS256"), unsigned, other_kind, "x.y.z"):
        with pytest.raises(PermissionDenied) as caught:
            provider.principal(f"Bearer {token}")
        assert caught.value.reason == "unauthenticated"


def test_a_token_of_a_provider_whose_clock_is_ahead() -> None:
    """It is good at once, and no longer than it says."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    provider = OpenIdConnect("https://issuer", "seiche", "", fetch=lambda _: key.public_key())
    now = int(datetime.datetime.now(datetime.UTC).timestamp())
    good = {"iss": "https://issuer", "aud": "seiche", "exp": now + 3600, "account": "acme"}

    def principal(**claims: int) -> Principal:
        return provider.principal(f"Bearer {jwt.encode({**good, **claims}, key, algorithm='RS256')}")

    assert principal(iat=now + 15, nbf=now + 15).account == "acme"
    for wrong in ({"iat": now + 300}, {"nbf": now + 300}, {"exp": now - 1}):
        with pytest.raises(PermissionDenied) as caught:
            principal(**wrong)
        assert caught.value.reason == "unauthenticated"


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer  ", "Basic writer", "writer"])
def test_what_is_no_bearer_token(given: str | None) -> None:
    with pytest.raises(PermissionDenied) as caught:
        TOKENS.principal(given)
    assert caught.value.reason == "unauthenticated"


def test_the_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text('[accounts.a]\nuri = "x"\n[[tokens]]\ntoken = "t"\naccount = "a"\npermissions = ["table.read"]\n')
    found = read_config(path)
    assert found.accounts == {"a": "x"}
    assert found.authenticator is not None
    assert found.authenticator.principal("Bearer t") == Principal("a", frozenset({READ}))
    for text in (
        "[accounts.a]\n",
        '[accounts.a]\nuri = "x"\n[accounts.b]\nuri = "x"\n',
        "[[tokens]]\n",
        "[oidc]\nissuer = 'x'\n",
        "not toml",
    ):
        path.write_text(text)
        with pytest.raises(InvalidInput):
            read_config(path)
    with pytest.raises(NotFound):
        read_config(tmp_path / "none.toml")


def test_the_configuration_file_is_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.toml"
    path.write_text('[accounts."müller"]\nuri = "x"\n', encoding="utf-8")
    monkeypatch.setattr("io.text_encoding", lambda encoding, *_: encoding or "latin-1")
    assert read_config(path).accounts == {"müller": "x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[tokens]]\ntoken = "t"\naccount = "a"\npermission = ["table.read"]\n', "permission"),
        ('[[tokens]]\ntoken = "t"\naccount = "a"\npermissions = ["table.reed"]\n', "table.reed"),
        ('[[tokens]]\ntoken = "t"\naccount = "a"\npermissions = "table.read"\n', "permissions"),
        ('[[tokens]]\nsha256 = "secret"\naccount = "a"\n', "sha256"),
        ('[[tokens]]\nsha256 = "9f86"\naccount = "a"\n', "sha256"),
        (f'[[tokens]]\nsha256 = {"1" * 64}\naccount = "a"\n', "sha256"),
        ('[[tokens]]\ntoken = "t"\nsha256 = "9f86"\naccount = "a"\n', "sha256"),
        ('[tokens]\ntoken = "t"\naccount = "a"\n', "tokens"),
        ('[token]\ntoken = "t"\naccount = "a"\n', "token"),
        ('[account.a]\nuri = "x"\n', "account"),
        ('accounts = "x"\n', "accounts"),
        ('[accounts.a]\nuri = "x"\nlake = "y"\n', "lake"),
        ("[accounts.a]\nuri = 1\n", "uri"),
        ("oidc = 1\n", "oidc"),
        (
            '[[tokens]]\ntoken = "t"\naccount = "a"\n[oidc]\nissuer = "x"\naudience = "y"\njwks_uri = "http://z"\n',
            "oidc",
        ),
        ('[[tokens]]\ntoken = "t"\naccount = "a"\n[[tokens]]\ntoken = "t"\naccount = "b"\n', "twice"),
        ('[oidc]\nissuer = "x"\naudience = "y"\njwks_uri = "keys.json"\n', "jwks_uri"),
        ('[oidc]\nissuer = "x"\naudience = 1\njwks_uri = "http://z"\n', "audience"),
        ('[oidc]\nissuer = ""\naudience = "y"\njwks_uri = "http://z"\n', "issuer"),
        ('[oidc]\nissuer = "x"\naudience = "y"\njwks_uri = "http://z"\nalgorithms = "RS256"\n', "algorithms"),
        ('[oidc]\nissuer = "x"\naudience = "y"\njwks_uri = "http://z"\nalgorithms = ["RS265"]\n', "RS265"),
        ('[oidc]\nissuer = "x"\naudience = "y"\njwks_uri = "http://z"\nalgorithms = ["none"]\n', "none"),
        ('[oidc]\nissuer = "x"\naudience = "y"\njwks_uri = "http://z"\nfetch = "f"\n', "fetch"),
        ('[oidc]\nissuer = "x"\naudience = "y"\njwks_uri = "http://z"\naccount_claim = 1\n', "account_claim"),
    ],
)
def test_a_slip_in_the_configuration_file_lets_nobody_in(tmp_path: Path, text: str, said: str) -> None:
    """A token whose permissions are not understood would have all of them."""
    path = tmp_path / "server.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        read_config(path)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.remedy


def test_nobody_is_somebody() -> None:
    assert Nobody().principal(None) == Principal("default")
