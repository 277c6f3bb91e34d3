"""A request and its answer as values, and what a route is: a method, a path and a plain function between the two."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from seiche.errors import InvalidInput
from seiche.gateway.http.auth import Caller

__all__ = ["Answer", "Call", "Counted", "Handler", "Joint", "Route", "flag", "integer"]

_TRUE = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was let in: who asks, and for what. Names of headers are in lower case; `route` is the line of the
    route, such as `GET /v1/config`.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    caller: Caller
    request_id: str
    route: str = ""

    def document(self) -> dict[str, Any]:
        """The body as a JSON object; an empty body, or null, is an empty one. `InvalidInput` if it is anything else."""
        if not self.body.strip():
            return {}
        try:
            found = json.loads(self.body, parse_float=_finite, parse_constant=_finite)
            if b"\\u" in self.body or not self.body.isascii():
                # Half of a pair of escapes is no character: what has one can neither be hashed nor written.
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the body is not JSON: {error}", remedy="Send a JSON object.") from error
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise InvalidInput("the body is not a JSON object", remedy="Send a JSON object.")
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back: a value that becomes JSON, bytes as they are, or nothing."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"

    def encoded(self) -> bytes:
        if self.body is None:
            return b""
        if isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body, separators=(",", ":")).encode()


Handler = Callable[[Call], Answer]
# Told of each request that was answered: the operation, the status, and how many seconds it took.
Counted = Callable[[str, str, float], None]


@dataclass(frozen=True, slots=True)
class Joint:
    """How several calls of a route are worked on at once. `takes` says of one, at a glance, whether it is so small that
    none has to wait for it; `work` gives the answer or error of each, or `None` for one to be worked on by itself.
    """

    takes: Callable[[Call], bool]
    work: Callable[[Sequence[Call]], Sequence[Answer | Exception | None]]


@dataclass(frozen=True, slots=True)
class Route:
    """One operation. `about` says what it does, in the words of an OpenAPI operation.

    `commits` marks those whose effect may be there although they failed: an unexpected end of one is "unknown", and it
    is never turned away because the server is busy. Those with `together` may be worked on several at a time.
    """

    method: str
    path: str
    handler: Handler
    about: Mapping[str, Any] = field(default_factory=dict)
    public: bool = False
    commits: bool = False
    together: "Joint | None" = None


def _finite(text: str) -> float:
    """A number of JSON, which has none for NaN and infinity: written on as it is, it would become null."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no number that can be kept")
    return number


def flag(text: str | None) -> bool:
    """A boolean in a query, however it is spelled: clients send `true`, `True` and `TRUE`. Without one it is false."""
    if text is None or text == "":
        return False
    found = _TRUE.get(text.lower())
    if found is None:
        raise InvalidInput(f"{text!r} is neither true nor false", remedy="Send `true` or `false`.")
    return found


def integer(text: str | None, name: str, least: int = 1) -> int | None:
    """A number in a query, or `None` if there is none."""
    if text is None or text == "":
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise InvalidInput(f"{name} cannot be {text!r}", remedy=f"Send a number of at least {least}.")
    return number
