"""Who may come in: on every route of both gateways."""

import asyncio
import base64
import dataclasses
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import seiche
from seiche import Lake, PermissionDenied
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.gateway.http.auth import Caller, ServiceAuth, Tokens
from seiche.gateway.http.limits import Limits
from seiche.service.auth import READ
from seiche.service.auth import Tokens as ServiceTokens
from seiche.store import open_store
from tests.gateway_server import Direct, Said, asked, direct
from tests.identity_provider import SlowProvider

ACCOUNT = "acme"
KEY = b"sign with this"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
OPEN = {"/openapi.json", "/v1/oauth/tokens"}


@pytest.fixture(scope="module")
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = seiche.create(open_store(str(tmp_path_factory.mktemp("auth") / "lake"), durability="os"))
    made.create_namespace("a")
    made.create_namespace("kept")
    return made


@pytest.fixture(scope="module")
def auth(clock: SimulatedClock) -> Tokens:
    return Tokens(
        account=ACCOUNT,
        fixed={"good": Caller("me", ACCOUNT), "foreign": Caller("you", "other")},
        clients={
            "client": ("secret/1", Caller("client", ACCOUNT)),
            "reader": ("r", Caller("reader", ACCOUNT, writes=False)),
            "stranger": ("x", Caller("stranger", "other")),
        },
        key=KEY,
        runtime=dataclasses.replace(Runtime.seeded(1), clock=clock),
    )


@pytest.fixture(scope="module")
def servers(lake: Lake, auth: Tokens) -> Direct:
    return direct(lake, auth)


def routes(servers: Direct) -> list[tuple[bool, str, str]]:
    """Every operation of both applications, with its places filled in."""
    found = []
    for lance, app in ((False, servers.apps.iceberg), (True, servers.apps.lance)):
        for route in app.routes:
            path = route.path.replace("{prefix}", "lake")
            for place in ("namespace", "table", "view", "id", "plan", "index_name", "function"):
                path = path.replace(f"{{{place}}}", "a")
            found.append((lance, route.method, path))
    return found


def ask(servers: Direct, lance: bool, method: str, path: str, token: str | None) -> tuple[int, str]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    said = servers.ask(method, path, None, lance=lance, headers=headers)
    if method == "HEAD":
        return said.status, ""
    return said.status, str(said.json["code"]) if lance else said.json["error"]["type"]


def test_every_route_asks_who_is_calling(servers: Direct, auth: Tokens, clock: SimulatedClock) -> None:
    expired = auth.grant("client", "secret/1", "").token
    clock.advance(3600)
    forged = expired.partition(".")[0] + "." + base64.urlsafe_b64encode(b"0" * 32).decode()
    strange = auth.grant("stranger", "x", "").token
    asked = [one for one in routes(servers) if one[2] not in OPEN]
    assert len(asked) > 80
    for lance, method, path in asked:
        wanted = {
            None: (401, "16" if lance else "UnauthorizedException"),
            "None": (401, "16" if lance else "UnauthorizedException"),
            "wrong": (401, "16" if lance else "UnauthorizedException"),
            forged: (401, "16" if lance else "UnauthorizedException"),
            expired: (401 if lance else 419, "16" if lance else "AuthenticationTimeoutException"),
            "foreign": (403, "15" if lance else "ForbiddenException"),
            strange: (403, "15" if lance else "ForbiddenException"),
        }
        for token, (status, kind) in wanted.items():
            told = ask(servers, lance, method, path, token)
            assert told == (status, "" if method == "HEAD" else kind), f"{method} {path} with {token}"


def test_a_caller_of_another_account_is_not_told_whose_server_it_is(auth: Tokens) -> None:
    for token in ("foreign", auth.grant("stranger", "x", "").token):
        with pytest.raises(PermissionDenied, match="account 'other', which has no lake here") as caught:
            auth.admit(token)
        assert ACCOUNT not in str(caught.value)


def test_a_token_opens_every_route(servers: Direct, auth: Tokens) -> None:
    token = auth.grant("client", "secret/1", "").token
    for lance, method, path in routes(servers):
        said = servers.ask(method, path, None, lance=lance, headers={"authorization": f"Bearer {token}"})
        assert said.status not in (401, 403, 419), f"{method} {path}"
    assert servers.ask("GET", "/v1/namespace/kept/table/list", lance=True, headers={"x-api-key": "good"}).status == 200


@pytest.mark.parametrize("style", ["form", "basic"])
def test_a_client_gets_a_token_for_its_secret(servers: Direct, style: str) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    body = b"grant_type=client_credentials&scope=catalog"
    if style == "form":
        body += b"&client_id=client&client_secret=secret%2F1"
    else:
        form["authorization"] = "Basic " + base64.b64encode(b"client:secret%2F1").decode()
    said = servers.ask("POST", "/v1/oauth/tokens", body, headers=form)
    assert said.status == 200
    assert (said.json["token_type"], said.json["expires_in"]) == ("bearer", 3600)
    headers = {"authorization": f"Bearer {said.json['access_token']}"}
    assert servers.ask("GET", "/v1/lake/namespaces", headers=headers).status == 200


def test_little_is_taken_of_who_has_not_said_who_it_is(lake: Lake, auth: Tokens) -> None:
    """Anybody could have sixty megabytes held for each connection, and taken apart for a minute."""
    servers = direct(lake, auth)
    form = b"grant_type=client_credentials&client_id=client&client_secret=secret%2F1&scope="
    fits = form + b"x" * (64 * 1024 - len(form))
    assert servers.ask("POST", "/v1/oauth/tokens", fits).status == 200
    said = servers.ask("POST", "/v1/oauth/tokens", fits + b"x")
    assert said.error == (413, "ValidationException")
    assert "65536 bytes" in said.json["error"]["message"]
    body = {"namespace": ["large"], "properties": {"a": "x" * 100_000}}
    token = auth.grant("client", "secret/1", "").token
    known = servers.ask("POST", "/v1/lake/namespaces", body, headers={"authorization": f"Bearer {token}"})
    assert known.status == 200, "of who is known more is"


@pytest.mark.parametrize("secret", ["\xff\xfe", "!!!", "Y2xpZW50", "/////w=="])
def test_a_secret_that_cannot_be_read_is_refused(servers: Direct, secret: str) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "authorization": f"Basic {secret}"}
    said = servers.ask("POST", "/v1/oauth/tokens", b"grant_type=client_credentials", headers=headers)
    assert (said.status, said.json["error"]) == (401, "invalid_client")


def test_a_client_that_may_only_read_gets_a_token_for_reading(servers: Direct, auth: Tokens) -> None:
    given = auth.grant("reader", "r", "").token
    for token in (given, auth.renew(given, "").token):
        headers = {"authorization": f"Bearer {token}"}
        assert servers.ask("GET", "/v1/lake/namespaces", headers=headers).status == 200
        assert servers.ask("POST", "/v1/lake/namespaces", {"namespace": ["x"]}, headers=headers).status == 403


def test_a_token_is_exchanged_for_a_newer_one(servers: Direct, auth: Tokens, clock: SimulatedClock) -> None:
    """As Java's client does before its token expires; and after, with its id and secret beside it."""

    def exchanged(token: str, **headers: str) -> tuple[int, str]:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": token,
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "scope": "catalog",
        }
        said = servers.ask("POST", "/v1/oauth/tokens", urlencode(form).encode(), headers=headers)
        return said.status, said.json.get("access_token") or said.json["error"]

    def admitted(token: str) -> int:
        return servers.ask("GET", "/v1/lake/namespaces", headers={"authorization": f"Bearer {token}"}).status

    first = auth.grant("client", "secret/1", "").token
    clock.advance(3000)
    status, second = exchanged(first, authorization=f"Bearer {first}")
    assert status == 200
    clock.advance(1000)
    assert (admitted(first), admitted(second)) == (419, 200)
    assert exchanged(first) == (401, "invalid_client")
    assert exchanged("forged") == (401, "invalid_client")
    assert exchanged(auth.grant("stranger", "x", "").token) == (401, "invalid_client")
    secret = "Basic " + base64.b64encode(b"client:secret%2F1").decode()
    status, third = exchanged(first, authorization=secret)
    assert (status, admitted(third)) == (200, 200)
    assert exchanged("good") == (200, "good"), "one that does not expire"


def test_no_token_without_the_secret(servers: Direct) -> None:
    def asked(body: bytes, **headers: str) -> tuple[int, str]:
        said = servers.ask("POST", "/v1/oauth/tokens", body, headers=headers)
        return said.status, said.json["error"]

    wrong = b"grant_type=client_credentials&client_id=client&client_secret=x"
    assert asked(wrong) == (401, "invalid_client")
    assert asked(b"grant_type=client_credentials") == (401, "invalid_client")
    assert asked(b"grant_type=client_credentials", authorization="Basic ???") == (401, "invalid_client")
    assert asked(b"grant_type=password") == (400, "unsupported_grant_type")
    assert asked(b"\xff") == (400, "unsupported_grant_type")


def test_the_tokens_of_the_service_are_those_of_the_gateways(lake: Lake, tmp_path: Path) -> None:
    known = ServiceTokens(
        [
            {"token": "w", "account": "default"},
            {"token": "r", "account": "default", "permissions": [READ]},
            {"token": "o", "account": "other"},
        ]
    )
    servers = direct(lake, ServiceAuth(known, "default"))

    def asked(method: str, path: str, token: str | None, lance: bool = False) -> int:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return servers.ask(method, path, None, lance=lance, headers=headers).status

    assert asked("GET", "/v1/lake/namespaces", "r") == 200
    exchange = b"grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token="
    assert servers.ask("POST", "/v1/oauth/tokens", exchange + b"r").json["access_token"] == "r"
    assert servers.ask("POST", "/v1/oauth/tokens", exchange + b"o").status == 401
    assert asked("POST", "/v1/namespace/kept/describe", "r", lance=True) == 200
    assert asked("DELETE", "/v1/lake/namespaces/zz", "r") == 403
    assert asked("POST", "/v1/namespace/zz/drop", "r", lance=True) == 403
    assert asked("DELETE", "/v1/lake/namespaces/zz", "w") == 404
    assert asked("GET", "/v1/lake/namespaces", "o") == 403
    assert asked("GET", "/v1/lake/namespaces", "x") == 401
    assert asked("GET", "/v1/lake/namespaces", None) == 401


def test_a_token_of_a_provider_is_good_for_as_long_as_it_says(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients fetch a new one by `expires_in`: told an hour, they used one that had ended long before."""
    provider = SlowProvider(monkeypatch, ACCOUNT)
    servers = direct(lake, ServiceAuth(provider.authenticator, ACCOUNT))
    for kind, name in (("client_credentials", "client_secret"), (EXCHANGE, "subject_token")):
        form = urlencode({"grant_type": kind, name: provider.token("known", seconds=300)}).encode()
        said = servers.ask("POST", "/v1/oauth/tokens", form)
        assert said.status == 200
        assert 290 <= said.json["expires_in"] <= 300


# What one who may only read can ask for: nothing of it changes the lake, or hands out a place to write a table at.
READING = {
    *(f"GET {path}" for path in ("/v1/config", "/openapi.json", "/v1/table")),
    *(f"{method} /v1/lake/namespaces/a{rest}" for method in ("GET", "HEAD") for rest in ("", "/tables/a", "/views/a")),
    *(f"GET /v1/lake/namespaces{rest}" for rest in ("", "/a/tables", "/a/views", "/a/functions", "/a/functions/a")),
    *(f"{method} /v1/lake/namespaces/a/tables/a/plan/a" for method in ("GET", "DELETE")),
    *(f"POST /v1/lake/namespaces/a/tables/a/{name}" for name in ("metrics", "plan", "tasks", "sign")),
    "GET /v1/lake/namespaces/a/tables/a/credentials",
    "POST /v1/oauth/tokens",
    *(f"GET /v1/namespace/a/{name}" for name in ("list", "table/list")),
    *(f"POST /v1/namespace/a/{name}" for name in ("describe", "exists")),
    *(f"POST /v1/table/a/{name}" for name in ("describe", "exists", "tags/list", "tags/version", "branches/list")),
    *(f"POST /v1/table/a/version/{name}" for name in ("list", "describe", "delete")),
    "POST /v1/transaction/a/describe",
}


def test_one_who_may_only_read_changes_nothing(lake: Lake) -> None:
    """Operations that are refused to everybody aside."""
    known = ServiceTokens([{"token": "r", "account": "default", "permissions": [READ]}])
    servers = direct(lake, ServiceAuth(known, "default"))
    before = lake.version
    let_in = set()
    for lance, method, path in routes(servers):
        said = servers.ask(method, path, None, lance=lance, headers={"authorization": "Bearer r"})
        refused_to_all = lance and said.status == 406
        if said.status != 403 and not (refused_to_all and f"{method} {path}" not in READING):
            let_in.add(f"{method} {path}")
    assert let_in == READING
    assert lake.version == before


@pytest.mark.parametrize("lance", [False, True])
def test_nobody_else_waits_while_the_provider_is_asked_for_a_key(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, lance: bool
) -> None:
    provider = SlowProvider(monkeypatch, ACCOUNT)
    servers = direct(lake, ServiceAuth(provider.authenticator, ACCOUNT))
    app, path = (servers.apps.lance, "/v1/table") if lance else (servers.apps.iceberg, "/v1/lake/namespaces")

    async def both() -> tuple[int, int]:
        def ask(key: str) -> Coroutine[Any, Any, Said]:
            return asked(app, "GET", path, b"", {"authorization": f"Bearer {provider.token(key)}"})

        waiting = asyncio.create_task(ask("made up"))
        try:
            assert await asyncio.to_thread(provider.asked.wait, 30)
            known = await asyncio.wait_for(ask("known"), 30)
            assert not waiting.done()
        finally:
            provider.go_on.set()
        return known.status, (await waiting).status

    assert asyncio.run(both()) == (200, 401)


def test_nobody_else_waits_while_tokens_are_asked_for_that_the_provider_has_to_be_asked_about(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For such a request nobody has to say who it is: as many as there are threads kept everybody else waiting."""
    provider = SlowProvider(monkeypatch, ACCOUNT)
    limits = Limits(at_once=2)
    app = direct(lake, ServiceAuth(provider.authenticator, ACCOUNT), limits).apps.iceberg

    async def all_of_them() -> tuple[int, set[int]]:
        form = f"grant_type=client_credentials&client_secret={provider.token('made up')}".encode()
        waiting = [asyncio.create_task(asked(app, "POST", "/v1/oauth/tokens", form, {})) for _ in range(3)]
        try:
            assert await asyncio.to_thread(provider.asked.wait, 30)
            headers = {"authorization": f"Bearer {provider.token('known')}"}
            known = await asyncio.wait_for(asked(app, "GET", "/v1/lake/namespaces", b"", headers), 30)
        finally:
            provider.go_on.set()
        return known.status, {(await one).status for one in waiting}

    assert asyncio.run(all_of_them()) == (200, {401})
