"""Who is calling: bearer tokens, and the exchange of a client's id and secret for one.

A gateway knows an `Auth` and nothing else. `Open` lets everybody in. `Tokens` knows fixed tokens, and gives out signed
ones to clients that have an id and a secret.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import PermissionDenied
from seiche.service.auth import READ, WRITE, Authenticator, Principal

__all__ = ["Auth", "Caller", "Grant", "Open", "ServiceAuth", "Tokens", "bearer", "is_expired", "is_unknown"]

# What PyIceberg sends when it has no token.
_NONE = "none"
_LIFETIME = 3600


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, on behalf of which account, and whether with the right to change anything."""

    subject: str = "anonymous"
    account: str = ""
    writes: bool = True

    def check_writes(self) -> None:
        """`PermissionDenied` for one who may only read."""
        if not self.writes:
            raise PermissionDenied(f"{self.subject} may only read", remedy="Ask whoever runs the server for more.")


@dataclass(frozen=True, slots=True)
class Grant:
    """A token that was given out, and for how many seconds it is good."""

    token: str
    seconds: int
    scope: str = ""


class Auth(Protocol):
    """Lets callers in or raises `PermissionDenied`; its details say how: `unknown`, `expired`, or neither."""

    def admit(self, token: str | None) -> Caller:
        """The caller that a token stands for; `token` is `None` if none was sent."""
        ...

    def grant(self, client: str, secret: str, scope: str) -> Grant:
        """A token for a client that proves who it is."""
        ...

    def renew(self, token: str, scope: str) -> Grant:
        """A token that is good for longer, for one that still is."""
        ...


class Open:
    """Everybody may do everything: for a server that only its own machine can reach."""

    def admit(self, token: str | None) -> Caller:
        return Caller()

    def grant(self, client: str, secret: str, scope: str) -> Grant:
        return Grant("open", _LIFETIME, scope)

    def renew(self, token: str, scope: str) -> Grant:
        return Grant("open", _LIFETIME, scope)


@dataclass(frozen=True)
class Tokens:
    """Fixed tokens and clients with secrets. Callers of another account than the server's are turned away.

    Tokens that are given out are signed with `key`, so every replica with the same key takes them, and none is stored.
    """

    account: str = ""
    fixed: Mapping[str, Caller] = field(default_factory=dict)
    clients: Mapping[str, tuple[str, Caller]] = field(default_factory=dict)
    key: bytes = b""
    lifetime: int = _LIFETIME
    runtime: Runtime = SYSTEM

    def admit(self, token: str | None) -> Caller:
        if token is None:
            _unknown("no token was sent")
        caller = next((who for known, who in self.fixed.items() if _same(known, token)), None) or self._signed(token)
        if caller.account != self.account:
            raise PermissionDenied(
                f"{caller.subject} belongs to the account {caller.account!r}, which has no lake here",
                remedy="Use a server, or a token, of the right account.",
            )
        return caller

    def grant(self, client: str, secret: str, scope: str) -> Grant:
        expected, caller = self.clients.get(client, ("", None))
        if caller is None or not _same(expected, secret) or not self.key:
            _unknown("there is no client with this id and secret")
        return self._granted(caller, scope)

    def renew(self, token: str, scope: str) -> Grant:
        """One that was given out is replaced; a fixed one stays what it is."""
        caller = self.admit(token)
        if any(_same(known, token) for known in self.fixed):
            return Grant(token, self.lifetime, scope)
        return self._granted(caller, scope)

    def _granted(self, caller: Caller, scope: str) -> Grant:
        until = self._now() + self.lifetime
        claims = {"sub": caller.subject, "acc": caller.account, "writes": caller.writes, "exp": until}
        payload = _encode(json.dumps(claims, sort_keys=True).encode())
        return Grant(f"{payload}.{self._signature(payload)}", self.lifetime, scope)

    def _signed(self, token: str) -> Caller:
        payload, _, signature = token.partition(".")
        if not self.key or not _same(self._signature(payload), signature):
            _unknown("the token is not one that this server knows")
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if claims["exp"] <= self._now():
            raise PermissionDenied(
                "the token has expired", remedy="Fetch a new one with your client's id and secret.", expired=True
            )
        return Caller(claims["sub"], claims["acc"], claims.get("writes", True))

    def _signature(self, payload: str) -> str:
        return _encode(hmac.new(self.key, payload.encode(), hashlib.sha256).digest())

    def _now(self) -> int:
        return int(self.runtime.clock.now().timestamp())


class ServiceAuth:
    """Whoever the transaction service lets in, for one account of it: one server, one idea of who may call."""

    def __init__(self, authenticator: Authenticator, account: str, runtime: Runtime = SYSTEM) -> None:
        self._authenticator = authenticator
        self._account = account
        self._clock = runtime.clock

    def waits(self, token: str | None) -> bool:
        """Whether to admit him may take long, because somebody else has to be asked."""
        return self._authenticator.waits(_header(token))

    def admit(self, token: str | None) -> Caller:
        principal = self._principal(token)
        return Caller(principal.name or principal.account, principal.account, WRITE in principal.permissions)

    def grant(self, client: str, secret: str, scope: str) -> Grant:
        """Tokens come from elsewhere. A client that has one may send it as its secret, and gets it back."""
        return self.renew(secret, scope)

    def renew(self, token: str, scope: str) -> Grant:
        """The same one: how long it is good is decided elsewhere."""
        until = self._principal(token).until
        seconds = _LIFETIME if until is None else max(int(until - self._clock.now().timestamp()), 0)
        return Grant(token, seconds, scope)

    def _principal(self, token: str | None) -> Principal:
        try:
            principal = self._authenticator.principal(_header(token))
        except PermissionDenied as error:
            if error.details.get("reason") == "unauthenticated":
                _unknown(error.message)
            raise
        if principal.account != self._account:
            raise PermissionDenied(
                f"account {principal.account!r} has no lake here", remedy="Ask a server that has the account's lake."
            )
        principal.require(READ)
        return principal


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token in the headers of a request, if there is one."""
    kind, _, token = headers.get("authorization", "").strip().partition(" ")
    if kind.lower() == "bearer" and token.strip() and token.strip().lower() != _NONE:
        return token.strip()
    return headers.get("x-api-key") or None


def _header(token: str | None) -> str | None:
    return None if token is None else f"Bearer {token}"


def is_unknown(error: PermissionDenied) -> bool:
    """Whether the caller is not known, rather than known and not allowed."""
    return bool(error.details.get("unknown")) or is_expired(error)


def is_expired(error: PermissionDenied) -> bool:
    return bool(error.details.get("expired"))


def _unknown(why: str) -> NoReturn:
    raise PermissionDenied(why, remedy="Send `Authorization: Bearer <token>`.", unknown=True)


def _same(one: str, other: str) -> bool:
    """Takes as long whatever the difference: nobody can guess a secret letter by letter."""
    return hmac.compare_digest(one.encode(), other.encode())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
