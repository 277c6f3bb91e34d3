"""Gateways for tests: a lake, the applications over it, and servers on ports of their own."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

import seiche
from seiche import Lake
from seiche.core.runtime import SYSTEM, Runtime
from seiche.gateway import Apps, apps
from seiche.gateway.http.auth import Auth
from seiche.gateway.http.limits import Limits
from seiche.gateway.serving import Running, stop
from seiche.store import open_store


@dataclass(frozen=True)
class Said:
    """An answer, as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """Status and type of a problem of the Iceberg protocol; the code in the body is the status."""
        problem = self.json["error"]
        assert problem["code"] == self.status
        assert problem["message"]
        return self.status, problem["type"]


@dataclass(frozen=True)
class Gateways:
    """Both servers over one lake."""

    lake: Lake
    iceberg: str
    lance: str

    def ask(
        self, method: str, path: str, body: Any = None, *, lance: bool = False, headers: Mapping[str, str] | None = None
    ) -> Said:
        """One request, made by hand."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return ask((self.lance if lance else self.iceberg) + path, method, data, headers)


class Direct(Gateways):
    """Both applications without servers: asked in this process, which takes no time."""

    apps: Apps

    def ask(
        self, method: str, path: str, body: Any = None, *, lance: bool = False, headers: Mapping[str, str] | None = None
    ) -> Said:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        app = self.apps.lance if lance else self.apps.iceberg
        return asyncio.run(asked(app, method, path, data, {"content-type": "application/json", **(headers or {})}))


def lake_with_table(folder: Path, rows: pa.Table) -> Lake:
    """A lake whose only table, `db.t`, is one of Iceberg with these rows."""
    made = seiche.create(open_store(str(folder / "lake"), durability="os"))
    made.create_namespace("db")
    made.create_table("db.t", rows.schema, format="iceberg")
    made.table("db.t").append(rows)
    return made


def direct(lake: Lake, auth: Auth | None = None, limits: Limits | None = None, *, runtime: Runtime = SYSTEM) -> Direct:
    made = Direct(lake, "", "")
    object.__setattr__(made, "apps", apps(lake, auth, limits, runtime=runtime))
    return made


async def asked(app: Any, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> Said:
    """What an application answers."""
    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(where),
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "server": ("localhost", 80),
        "client": ("localhost", 1),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Said(sent[0]["status"], told, b"".join(one.get("body", b"") for one in sent[1:]))


def ask(url: str, method: str = "GET", data: bytes | None = None, headers: Mapping[str, str] | None = None) -> Said:
    given = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data, given, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Said(answer.status, dict(answer.headers.items()), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Said(error.code, dict(error.headers.items()), error.read())


@contextmanager
def gateways(lake: Lake, auth: Auth | None = None, limits: Limits | None = None) -> Iterator[Gateways]:
    """Both servers, for as long as the block takes."""
    made = apps(lake, auth, limits)
    servers = [Running(app) for app in (made.iceberg, made.lance)]
    try:
        yield Gateways(lake, *(one.url for one in servers))
    finally:
        stop(servers)
