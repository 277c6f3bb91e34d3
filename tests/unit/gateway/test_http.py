"""What both gateways share: ids of requests, limits, and problems in each protocol's own shape."""

import asyncio
import gzip
import select
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import seiche
from seiche import Lake, Unavailable
from seiche.gateway import apps
from seiche.gateway.grouping import Grouping
from seiche.gateway.http.app import Application
from seiche.gateway.http.calls import Answer, Call, Route, flag, integer
from seiche.gateway.http.connection import Connection
from seiche.gateway.http.limits import Limits
from seiche.gateway.iceberg_rest.catalog import Catalog
from seiche.gateway.serving import Running, Tls
from seiche.store import open_store
from seiche.testing import CountingStore, DictStore
from tests.certificates import certificate
from tests.gateway_server import Said, asked, direct, gateways


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("a")
    return made


def test_every_answer_has_the_id_of_its_request(lake: Lake) -> None:
    servers = direct(lake)
    for lance, path in ((False, "/v1/config"), (True, "/v1/table"), (False, "/nowhere"), (True, "/nowhere")):
        given = servers.ask("GET", path, lance=lance, headers={"X-Request-Id": "mine-1"})
        assert given.headers["x-request-id"] == "mine-1"
        bad = [{"X-Request-Id": text} for text in ("", "a b", "x" * 200)]
        made = {servers.ask("GET", path, lance=lance, headers=one).headers["x-request-id"] for one in bad}
        assert len(made) == 3
        assert all(len(one) == 36 for one in made)


def test_problems_have_the_shape_of_their_protocol(lake: Lake) -> None:
    servers = direct(lake)
    assert servers.ask("GET", "/nowhere").error == (404, "NoSuchEndpointException")
    wrong = servers.ask("PATCH", "/v1/lake/namespaces")
    assert wrong.error == (405, "UnsupportedOperationException")
    assert wrong.headers["allow"] == "GET, POST"
    lance = servers.ask("GET", "/nowhere", lance=True)
    assert (lance.status, lance.json["code"]) == (404, 0)
    assert servers.ask("GET", "/v1/other/namespaces").error == (404, "NoSuchWarehouseException")
    assert servers.ask("GET", "/v1/config?warehouse=other").error == (404, "NoSuchWarehouseException")
    for path in ("plan", "tasks"):
        told = servers.ask("POST", f"/v1/lake/namespaces/a/tables/t/{path}", {})
        assert told.error == (406, "UnsupportedOperationException")
    mismatch = servers.ask("POST", "/v1/namespace/a/describe", {"id": ["b"]}, lance=True)
    assert (mismatch.status, mismatch.json["code"]) == (400, 13)


def test_a_body_that_is_too_large_is_not_read(lake: Lake) -> None:
    servers = direct(lake, limits=Limits(body_bytes=100))
    body = {"namespace": ["b"], "properties": {"x": "y" * 100}}
    assert servers.ask("POST", "/v1/lake/namespaces", body).error == (413, "ValidationException")
    said = servers.ask("POST", "/v1/namespace/b/create", body, lance=True)
    assert (said.status, said.json["code"]) == (413, 13)
    assert lake.namespaces() == [("a",)]


@pytest.mark.parametrize(("lance", "path"), [(False, "/v1/lake/namespaces"), (True, "/v1/namespace/b/create")])
def test_a_body_that_does_not_arrive_in_time_is_not_waited_for(lake: Lake, *, lance: bool, path: str) -> None:
    with gateways(lake, limits=Limits(seconds=0.3)) as servers:
        host, port = urlsplit(servers.lance if lance else servers.iceberg).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{{".encode())
            said = b"".join(iter(lambda: client.recv(65536), b""))  # to its end: the server has hung up
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within 0.3 seconds" in said
    assert lake.namespaces() == [("a",)]


@pytest.mark.parametrize(
    ("lance", "path", "told"),
    [
        (False, "/v1/lake/transactions/commit", b"CommitStateUnknownException"),
        (True, "/v1/namespace/b/create", b'"code":18'),
    ],
)
def test_a_server_that_stops_says_in_the_protocol_that_the_outcome_is_open(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, lance: bool, path: str, told: bytes
) -> None:
    entered, go, plain = threading.Event(), threading.Event(), Application._run

    def slow(self: Application, route: Route, call: Call) -> Answer:
        entered.set()
        assert go.wait(60)
        return plain(self, route, call)

    async def stopped() -> Said:
        # As uvicorn does with requests that are still worked on when it has waited for long enough.
        task = asyncio.create_task(asked(served.lance if lance else served.iceberg, "POST", path, b"{}", {}))
        assert await asyncio.to_thread(entered.wait, 60)
        task.cancel()
        return await task

    monkeypatch.setattr(Application, "_run", slow)
    served = direct(lake).apps
    answer = asyncio.run(stopped())
    go.set()
    assert answer.status == 504
    assert told in answer.body
    assert b"the server stops before it is done" in answer.body


def test_reads_are_turned_away_when_too_many_wait_and_commits_are_not(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go, plain = threading.Event(), threading.Event(), Catalog.check_prefix

    def slow(self: Catalog, call: Call) -> None:
        if call.query.get("parent") == "a":
            entered.set()
            assert go.wait(60)
        plain(self, call)

    monkeypatch.setattr(Catalog, "check_prefix", slow)
    servers = direct(lake, limits=Limits(at_once=2, waiting=-1))
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(servers.ask("GET", "/v1/lake/namespaces?parent=a")))
    thread.start()
    assert entered.wait(60)
    busy = servers.ask("GET", "/v1/lake/namespaces")
    assert busy.error == (503, "ServiceUnavailableException")
    assert busy.headers["retry-after"] == "1"
    assert servers.ask("POST", "/v1/lake/namespaces", {"namespace": ["b"]}).status == 200
    go.set()
    thread.join(60)
    assert told[0].status == 200
    assert servers.ask("GET", "/v1/lake/namespaces").status == 200


def test_a_table_that_the_caller_has_is_not_sent_again(lake: Lake) -> None:
    import pyarrow as pa

    lake.create_table("a.t", pa.schema([("id", pa.int64())]), format="iceberg").append(pa.table({"id": [1]}))
    lake.table("a.t").append(pa.table({"id": [2]}))
    servers, path = direct(lake), "/v1/lake/namespaces/a/tables/t"
    everything, heads = servers.ask("GET", path), servers.ask("GET", f"{path}?snapshots=refs")
    assert [len(one.json["metadata"]["snapshots"]) for one in (everything, heads)] == [2, 1]
    assert everything.headers["etag"] != heads.headers["etag"]
    again = servers.ask("GET", path, headers={"If-None-Match": everything.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert servers.ask("GET", path, headers={"If-None-Match": heads.headers["etag"]}).status == 200
    assert servers.ask("GET", path, headers={"If-None-Match": "*"}).status == 304, "whatever it is, by HTTP"
    assert servers.ask("GET", f"{path}x", headers={"If-None-Match": "*"}).status == 404
    new = {"name": "u", "schema": everything.json["metadata"]["schemas"][0]}
    made = servers.ask("POST", path.removesuffix("/t"), new, headers={"If-None-Match": "*"})
    assert (made.status, "metadata" in made.json) == (200, True), "who makes one has none yet"
    lake.table("a.t").append(pa.table({"id": [3]}))
    assert servers.ask("GET", path, headers={"If-None-Match": everything.headers["etag"]}).status == 200
    update = {"action": "set-properties", "updates": {"a": "1"}}
    committed = servers.ask("POST", path, {"requirements": [], "updates": [update]})
    assert servers.ask("GET", path, headers={"If-None-Match": committed.headers["etag"]}).status == 304
    assert servers.ask("GET", f"{path}?snapshots=some").error == (400, "ValidationException")
    assert servers.ask("POST", f"{path}/metrics", {"report-type": "scan-report"}).status == 204


def test_a_repeated_request_with_a_key_is_done_once(lake: Lake) -> None:
    servers = direct(lake)
    headers = {"Idempotency-Key": "0199-7"}
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    asked = [
        ("POST", "/v1/lake/namespaces", {"namespace": ["b"]}, 200, 409),
        ("POST", "/v1/lake/namespaces/b/tables", {"name": "t", "schema": schema}, 200, 409),
        (
            "POST",
            "/v1/lake/tables/rename",
            {"source": {"namespace": ["b"], "name": "t"}, "destination": {"namespace": ["b"], "name": "u"}},
            204,
            404,
        ),
        ("DELETE", "/v1/lake/namespaces/b/tables/u", None, 204, 404),
        ("DELETE", "/v1/lake/namespaces/b", None, 204, 404),
    ]
    for number, (method, path, body, done, repeated) in enumerate(asked):
        headers = {"Idempotency-Key": f"0199-{number}"}
        assert servers.ask(method, path, body, headers=headers).status == done
        before = lake.version
        assert servers.ask(method, path, body, headers=headers).status == done
        assert lake.version == before
        assert servers.ask(method, path, body).status == repeated


def test_a_key_that_is_none_is_refused_on_every_route(lake: Lake) -> None:
    servers, before = direct(lake), lake.version
    for key in ("x" * 256, "a\x1fb"):
        for method, path, body in (
            ("POST", "/v1/lake/namespaces", {"namespace": ["b"]}),
            ("POST", "/v1/lake/namespaces/a/properties", {"updates": {"x": "1"}}),
            ("DELETE", "/v1/lake/namespaces/a", None),
            ("POST", "/v1/lake/namespaces/a/tables/t", {"requirements": [], "updates": []}),
        ):
            said = servers.ask(method, path, body, headers={"Idempotency-Key": key})
            assert said.error == (400, "ValidationException")
    assert lake.version == before


def test_a_key_stands_for_one_request(lake: Lake) -> None:
    servers = direct(lake)
    key = {"Idempotency-Key": "0199-a"}
    assert servers.ask("POST", "/v1/lake/namespaces", {"namespace": ["x"]}, headers=key).status == 200
    refused = (409, "CommitFailedException")
    assert servers.ask("POST", "/v1/lake/namespaces", {"namespace": ["y"]}, headers=key).error == refused
    assert servers.ask("DELETE", "/v1/lake/namespaces/x", headers=key).error == refused
    assert lake.namespaces() == [("a",), ("x",)]


@pytest.mark.parametrize("lance", [False, True])
def test_a_header_that_names_something_is_not_empty(lake: Lake, *, lance: bool) -> None:
    """As that of a variable which nobody has set: what it was sent with would be told as done, and never be."""
    lake.create_table("a.t", pa.schema([("id", pa.int64())]), format="iceberg")
    servers, before = direct(lake), lake.version
    update = {"action": "set-properties", "updates": {"a": "1"}}
    path, body = "/v1/lake/namespaces/a/tables/t", {"requirements": [], "updates": [update]}
    if lance:
        path, body = "/v1/namespace/b/create", {}
    for name in ("X-Seiche-Transaction", "Idempotency-Key"):
        said = servers.ask("POST", path, body, lance=lance, headers={name: ""})
        assert said.status == 400
        assert f"the header {name.lower()} is empty" in said.body.decode()
    assert lake.version == before


def test_a_header_that_stands_for_one_thing_is_there_once(lake: Lake) -> None:
    servers = direct(lake)
    for name in ("X-Seiche-Transaction", "Idempotency-Key", "Authorization", "X-Api-Key"):
        for lance, path in ((False, "/v1/lake/namespaces"), (True, "/v1/namespace/b/create")):
            headers = {name: "Bearer one", name.lower(): "Bearer other"}
            said = servers.ask("POST", path, {"namespace": ["b"]}, lance=lance, headers=headers)
            assert said.status == 400
            assert f"the header {name.lower()} is there twice" in said.body.decode()
    assert lake.namespaces() == [("a",)]


def test_a_body_that_is_packed_is_refused_as_such(lake: Lake) -> None:
    """It was said not to be JSON, by a byte that nobody has sent."""
    servers, body = direct(lake), b'{"namespace": ["b"]}'
    packed = servers.ask("POST", "/v1/lake/namespaces", gzip.compress(body), headers={"Content-Encoding": "GZIP"})
    assert packed.error == (400, "ValidationException")
    assert "packed as 'gzip'" in packed.json["error"]["message"]
    lance = servers.ask("POST", "/v1/namespace/b/create", b"x", lance=True, headers={"Content-Encoding": "br"})
    assert (lance.status, lance.json["code"]) == (400, 13)
    assert servers.ask("POST", "/v1/lake/namespaces", body, headers={"Content-Encoding": "identity"}).status == 200


def test_lists_may_come_in_several_headers(lake: Lake) -> None:
    lake.create_table("a.t", pa.schema([("id", pa.int64())]), format="iceberg")
    servers, path = direct(lake), "/v1/lake/namespaces/a/tables/t"
    tag = servers.ask("GET", path).headers["etag"]
    for one, other in ((tag, '"old"'), ('"old"', tag)):
        assert servers.ask("GET", path, headers={"If-None-Match": one, "if-none-match": other}).status == 304


def test_a_table_that_was_made_and_dropped_since_is_shown_to_whoever_lost_the_answer(lake: Lake) -> None:
    servers = direct(lake)
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    asked = ("POST", "/v1/lake/namespaces/a/tables", {"name": "made", "schema": schema})
    key = {"Idempotency-Key": "0199-b"}
    first = servers.ask(*asked, headers=key).json
    lake.drop_table("a.made")
    assert servers.ask(*asked, headers=key).json["metadata-location"] == first["metadata-location"]
    assert lake.tables("a") == []


def test_what_was_not_done_can_be_asked_for_again_with_the_same_key(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt is settled before anything is said: its id is decided against, for ever."""
    servers = direct(lake)
    asked, key = ("POST", "/v1/lake/namespaces", {"namespace": ["x"]}), {"Idempotency-Key": "0199-c"}

    def silent(*_: Any) -> Any:
        raise Unavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(Grouping, "commit", silent)
        assert servers.ask(*asked, headers=key).error == (503, "CommitStateUnknownException")
    assert servers.ask(*asked, headers=key).status == 200
    assert ("x",) in lake.namespaces()


def test_pages(lake: Lake) -> None:
    servers = direct(lake)
    for name in ("b", "c", "d"):
        lake.create_namespace(name)
    found, token = [], ""
    while True:
        said = servers.ask("GET", f"/v1/lake/namespaces?pageSize=2&pageToken={token}").json
        found += said["namespaces"]
        token = said.get("next-page-token", "")
        if not token:
            break
    assert found == [["a"], ["b"], ["c"], ["d"]]
    assert "next-page-token" not in servers.ask("GET", "/v1/lake/namespaces").json
    assert servers.ask("GET", "/v1/lake/namespaces?pageSize=0").error == (400, "ValidationException")
    for token in ("x", "1", "W10", "%FF"):
        assert servers.ask("GET", f"/v1/lake/namespaces?pageToken={token}").error == (400, "ValidationException")


def test_what_goes_between_two_pages_makes_nobody_skip_another(lake: Lake) -> None:
    servers = direct(lake)
    schema = pa.schema([("id", pa.int64())])
    for number in range(4):
        lake.create_table(f"a.t{number}", schema, format="iceberg")
    first = servers.ask("GET", "/v1/lake/namespaces/a/tables?pageSize=2").json
    lake.drop_table("a.t0")
    lake.create_table("a.t11", schema, format="iceberg")
    token = first["next-page-token"]
    second = servers.ask("GET", f"/v1/lake/namespaces/a/tables?pageSize=5&pageToken={token}").json
    assert [one["name"] for one in first["identifiers"]] == ["t0", "t1"]
    assert [one["name"] for one in second["identifiers"]] == ["t11", "t2", "t3"]
    assert "next-page-token" not in second


@pytest.mark.parametrize("kind", ["tables", "views"])
def test_a_page_looks_at_no_more_than_it_shows(kind: str) -> None:
    """Rows of such views are in files of their own, which makes it seen who looks at one."""
    store = CountingStore(DictStore())
    lake = seiche.create(store)
    lake.create_namespace("a")
    with lake.transaction() as tx:
        for number in range(20):
            if kind == "views":
                tx.create_view(f"a.x{number:02}", f"SELECT '{'x' * 5000}'")
            else:
                tx.create_table(f"a.x{number:02}", pa.schema([("id", pa.int64())]), properties={"about": "x" * 5000})
    servers = direct(lake)
    store.reset()
    said = servers.ask("GET", f"/v1/lake/namespaces/a/{kind}?pageSize=3").json
    assert [one["name"] for one in said["identifiers"]] == ["x00", "x01", "x02"]
    token = said["next-page-token"]
    said = servers.ask("GET", f"/v1/lake/namespaces/a/{kind}?pageSize=17&pageToken={token}").json
    assert len(said["identifiers"]) == 17
    assert "next-page-token" not in said
    assert store.counts["get"] <= 3 + 1 + 17


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"', '"\\udc00\\ud800"', '"\xed\xa0\x80"'])
def test_what_json_has_no_value_for_is_refused_before_anything_begins(lake: Lake, value: str) -> None:
    """Halves of characters ended in a 500 that says "perhaps", numbers that are none became null."""
    lake.create_table("a.t", pa.schema([("id", pa.int64())]), format="iceberg")
    servers, before = direct(lake), lake.version
    update = f'{{"action": "set-properties", "updates": {{"a": "1"}}, "more": [{{"b": {value}}}]}}'
    body = f'{{"requirements": [], "updates": [{update}]}}'.encode("latin-1")
    said = servers.ask("POST", "/v1/lake/namespaces/a/tables/t", body)
    assert said.error == (400, "ValidationException")
    assert "the body is not JSON" in said.json["error"]["message"]
    lance = servers.ask("POST", "/v1/namespace/b/create", f'{{"more": {value}}}'.encode("latin-1"), lance=True)
    assert (lance.status, lance.json["code"]) == (400, 13)
    assert lake.version == before


def test_names_of_any_script_and_numbers_of_any_form_are_json(lake: Lake) -> None:
    servers = direct(lake)
    body = '{"namespace": ["b"], "properties": {"\\ud83d\\ude00": "\\u00e4 \xf6"}, "more": [1.5, -2e3, 12]}'
    assert servers.ask("POST", "/v1/lake/namespaces", body.encode()).status == 200
    kept = servers.ask("GET", "/v1/lake/namespaces/b").json["properties"]
    assert kept == {
        "\N{GRINNING FACE}": "\N{LATIN SMALL LETTER A WITH DIAERESIS} \N{LATIN SMALL LETTER O WITH DIAERESIS}"
    }


def test_names_are_text(lake: Lake) -> None:
    with gateways(lake) as servers:
        said = servers.ask("GET", "/v1/lake/namespaces/%FF")
        assert (said.status, said.json["error"]["message"].split("\n")[0]) == (400, "the path is not UTF-8")
        assert servers.ask("POST", "/v1/namespace/%FF/create", {}, lance=True).status == 400
        assert servers.ask("POST", "/v1/namespace/%EF%BF%BD/create", {}, lance=True).status == 200
        assert servers.ask("GET", "/v1/lake/namespaces/%EF%BF%BD").status == 200


def test_a_slash_inside_of_a_name_leads_to_nothing_else(lake: Lake) -> None:
    """As an engine sends it that is asked for a namespace of this name: it dropped the table."""
    columns = pa.schema([("n", pa.int64())])
    lake.create_table("a.t", columns, format="iceberg")
    lake.create_table("a.l", columns)
    servers = direct(lake)
    assert servers.ask("HEAD", "/v1/lake/namespaces/a%2Ftables%2Ft").status == 400
    assert servers.ask("DELETE", "/v1/lake/namespaces/a%2Ftables%2Ft").error == (400, "ValidationException")
    assert servers.ask("POST", "/v1/table/a$l%2Fdrop", {}, lance=True).status == 404
    assert servers.ask("POST", "/v1/table/a$l%2Fdrop/exists", {}, lance=True).json["code"] == 13
    assert lake.tables("a") == [("a", "l"), ("a", "t")]


def test_parts_of_a_query() -> None:
    assert [flag(text) for text in ("true", "True", "FALSE", None)] == [True, True, False, False]
    with pytest.raises(seiche.InvalidInput):
        flag("yes")
    assert integer("3", "n") == 3
    with pytest.raises(seiche.InvalidInput):
        integer("x", "n")


def test_a_server_stops_and_leaves_its_port(lake: Lake) -> None:
    with gateways(lake) as first:
        assert first.ask("GET", "/v1/config").status == 200
    with pytest.raises(OSError, match="refused"):
        first.ask("GET", "/v1/config")


def test_a_server_stops_though_a_client_keeps_a_connection_that_it_does_not_use(lake: Lake, tmp_path: Path) -> None:
    """Over TLS such a one does not answer when it is told that the connection ends."""
    cert, key = certificate(tmp_path)
    server = Running(apps(lake).iceberg, tls=Tls(cert, key))
    server._server.config.timeout_graceful_shutdown = None
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    with ssl.create_default_context(cafile=str(cert)).wrap_socket(plain, server_hostname="localhost") as client:
        client.sendall(b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        server.stop()
        assert not server._thread.is_alive()


REFUSED = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b""),
        (b"", b"GET /v1/config HTTP/1.1\r\nHost"),
        (REFUSED + b"\r\n", b""),
        (REFUSED + b"\r\n", b"\r\n"),
        (REFUSED + b"Content-Length: 500\r\n\r\n", b"{"),
    ],
    ids=["nothing", "half a head", "nothing more", "an empty line", "half a body that nobody wants"],
)
def test_a_client_that_does_not_go_on_is_hung_up_on(lake: Lake, first: bytes, then: bytes) -> None:
    with gateways(lake, limits=Limits(seconds=0.2)) as servers:
        host, port = urlsplit(servers.iceberg).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(first)
            if first:
                assert client.recv(65536).startswith(b"HTTP/1.1 404 ")
            client.sendall(then)
            assert _hangs_up(client)


@pytest.mark.parametrize(
    "begun",
    [b"GET /", REFUSED + b"X: ", REFUSED + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: "],
    ids=["path", "head", "behind the body"],
)
def test_a_request_that_does_not_end_is_not_taken(lake: Lake, begun: bytes) -> None:
    with gateways(lake, limits=Limits(body_bytes=100)) as servers:
        host, port = urlsplit(servers.iceberg).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(begun)
            with suppress(ConnectionError):
                while True:
                    client.sendall(b"x" * 1000)
            assert servers.ask("GET", "/v1/config").status == 200


def test_an_answer_that_is_not_taken_is_not_kept(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, plain = threading.Event(), Connection.connection_lost

    def lost(self: Connection, exc: Exception | None) -> None:
        ended.set()  # who does not read hears nothing of it
        plain(self, exc)

    monkeypatch.setattr(Connection, "connection_lost", lost)
    with gateways(lake, limits=Limits(seconds=0.2)) as servers, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = urlsplit(servers.iceberg).netloc.split(":")
        client.connect((host, int(port)))
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        assert ended.wait(30)


def test_requests_do_not_pile_up_behind_one_that_is_worked_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    go, plain = threading.Event(), Application._run

    def slow(self: Application, route: Route, call: Call) -> Answer:
        assert go.wait(60)
        return plain(self, route, call)

    monkeypatch.setattr(Application, "_run", slow)
    with gateways(lake) as servers:
        host, port = urlsplit(servers.iceberg).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(b"GET /v1/lake/namespaces HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
            assert _hangs_up(client)
        go.set()


def test_a_client_that_leaves_with_several_requests_under_way_is_no_failure_of_the_server(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer to the first was written to a connection that was gone, with a traceback in the log."""
    begun, lost, run, leave = threading.Event(), threading.Event(), Application._run, Connection.connection_lost

    def slow(self: Application, route: Route, call: Call) -> Answer:
        begun.set()
        assert lost.wait(60)
        return run(self, route, call)

    def left(self: Connection, exc: Exception | None) -> None:
        leave(self, exc)
        lost.set()

    monkeypatch.setattr(Application, "_run", slow)
    monkeypatch.setattr(Connection, "connection_lost", left)
    with gateways(lake) as servers:
        host, port = urlsplit(servers.iceberg).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(b"GET /v1/lake/namespaces HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
            assert begun.wait(60)
    assert lost.is_set()
    assert caplog.records == []


def _hangs_up(client: socket.socket) -> bool:
    """Whether the server does so, though nothing that it says is heard."""
    waiting = select.poll()
    waiting.register(client, select.POLLRDHUP)
    return bool(waiting.poll(30_000))
