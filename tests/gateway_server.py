"""Gateways for tests: a lake, the applications over it, and servers on ports of their own."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from seiche import Lake
from seiche.gateway import apps
from seiche.gateway.http.auth import Auth
from seiche.gateway.http.limits import Limits
from seiche.gateway.serving import running


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
    with ExitStack() as stack:
        iceberg, lance = (stack.enter_context(running(app)) for app in (made.iceberg, made.lance))
        yield Gateways(lake, iceberg.url, lance.url)
