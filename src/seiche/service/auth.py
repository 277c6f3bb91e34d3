"""Who calls, and what they may do. The account comes from the principal, never from the request."""

import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, PermissionDenied, SeicheError
from seiche.service.provider import ProviderKeys

__all__ = ["DEFAULT_ACCOUNT", "READ", "WRITE", "Authenticator", "Nobody", "OpenIdConnect", "Principal", "Tokens"]

# The account of everybody, where nobody is asked who they are.
DEFAULT_ACCOUNT: Final = "default"
READ: Final = "table.read"
WRITE: Final = "table.write"
_ALL: Final = frozenset({READ, WRITE})
# The clock of an identity provider may be ahead by so much: what it has just given out is not refused for that.
_AHEAD_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose identity is known: for which account, and with which rights."""

    account: str
    permissions: frozenset[str] = _ALL
    name: str = ""
    # When what the caller has shown is good no more, in seconds since 1970; `None` if it does not say.
    until: float | None = None

    def require(self, permission: str) -> None:
        """`PermissionDenied` if the principal may not do this."""
        if permission not in self.permissions:
            raise PermissionDenied(
                f"{self.name or self.account} has no permission {permission}",
                remedy="Ask whoever runs the server for it.",
                reason="permission.missing",
                permission=permission,
            )


class Authenticator(ABC):
    """Tells who stands behind the `authorization` of a call."""

    @abstractmethod
    def principal(self, authorization: str | None) -> Principal:
        """`PermissionDenied` with the reason `unauthenticated` if nobody can be told."""

    def waits(self, authorization: str | None) -> bool:
        """Whether that may take long, because somebody else has to be asked: then not where others would wait too."""
        return False


class Nobody(Authenticator):
    """Everybody may do everything, as one account. For one machine that trusts itself."""

    def principal(self, authorization: str | None) -> Principal:
        return Principal(DEFAULT_ACCOUNT)


class Tokens(Authenticator):
    """Tokens that whoever runs the server gave out. Only their hashes are kept in memory."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Each entry has a `token` or its `sha256`, an `account`, and `permissions` (both by default)."""
        if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
            raise InvalidInput("tokens is not a list of tokens", remedy="Write [[tokens]] above the settings of each.")
        self._known = [_token(entry) for entry in entries]
        if len({known for known, _ in self._known}) < len(self._known):
            # Which of the two accounts it is for, or which of the permissions it has, is not to be guessed.
            raise InvalidInput("a token stands in the server's configuration twice", remedy="Write each of them once.")

    def principal(self, authorization: str | None) -> Principal:
        given = _hash(_bearer(authorization))
        found: Principal | None = None
        for known, principal in self._known:
            # All of them, in the same time each: how long it takes says nothing about how near a guess was.
            if hmac.compare_digest(known, given):
                found = principal
        if found is None:
            raise _unauthenticated("the token is not known")
        return found


def _token(entry: Mapping[str, Any]) -> tuple[bytes, Principal]:
    """The hash of a token and who has it. Whatever is not understood is refused: a slip must not let anybody in."""
    account, value, hashed = (entry.get(name, "") for name in ("account", "token", "sha256"))
    permissions = entry.get("permissions", sorted(_ALL))
    for name in entry:
        if name not in ("account", "name", "permissions", "sha256", "token"):
            raise InvalidInput(
                f"a token in the server's configuration has a setting {name!r} that is not known",
                remedy="Known: token, sha256, account, permissions, name.",
            )
    if not account or not isinstance(account, str) or not isinstance(value, str) or not (value or hashed):
        raise InvalidInput(
            "a token in the server's configuration has no account or no value",
            remedy='Write token = "..." or sha256 = "...", and account = "...".',
        )
    if hashed and (value or not isinstance(hashed, str) or not re.fullmatch("[0-9a-fA-F]{64}", hashed)):
        raise InvalidInput(
            f"the sha256 of a token of account {account!r} is not 64 digits of base 16 in the place of the token",
            remedy="Write what `printf %s TOKEN | sha256sum` prints, and no `token` beside it.",
        )
    if not isinstance(permissions, list) or not _ALL.issuperset(map(str, permissions)):
        raise InvalidInput(
            f"permissions of a token of account {account!r} cannot be {permissions!r}",
            remedy=f"Give a list of {' and '.join(sorted(_ALL))}.",
        )
    digest = bytes.fromhex(hashed) if hashed else _hash(value)
    return digest, Principal(account, frozenset(permissions), str(entry.get("name", "")))


class OpenIdConnect(Authenticator):
    """JWTs of an identity provider, checked against the keys that it publishes."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        jwks_uri: str,
        *,
        account_claim: str = "account",
        permissions_claim: str = "permissions",
        algorithms: Sequence[str] = ("RS256", "ES256"),
        fetch: Any = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        """`fetch` gives the key for a token, for those who have keys of their own."""
        try:
            import jwt
        except ImportError as error:
            raise InvalidInput(
                "OpenID Connect needs the package PyJWT", remedy='Install it with pip install "seiche[server]".'
            ) from error
        # Keys that are published cannot be secret ones, nor may there be none.
        known = [name for name in jwt.algorithms.get_default_algorithms() if not name.startswith(("HS", "none"))]
        for name in algorithms:
            if name not in known:
                raise InvalidInput(
                    f"tokens cannot be signed by {name!r}: it is none of the algorithms for published keys",
                    remedy=f"Known: {', '.join(sorted(known))}.",
                )
        self._jwt = jwt
        self._options: dict[str, Any] = {
            "issuer": issuer,
            "audience": audience,
            "algorithms": list(algorithms),
            "leeway": _AHEAD_SECONDS,
        }
        self._clock = runtime.clock
        self._key = fetch or ProviderKeys(jwks_uri, runtime.clock)
        self._account_claim = account_claim
        self._permissions_claim = permissions_claim

    def waits(self, authorization: str | None) -> bool:
        try:
            return isinstance(self._key, ProviderKeys) and self._key.waits(_bearer(authorization))
        except (PermissionDenied, self._jwt.PyJWTError):
            return False  # there is nothing to ask for

    def principal(self, authorization: str | None) -> Principal:
        token = _bearer(authorization)
        try:
            key = self._key(token)
            claims = self._jwt.decode(token, key, options={"require": ["exp", "iss", "aud"]}, **self._options)
            if int(claims["exp"]) <= self._clock.now().timestamp():
                raise self._jwt.ExpiredSignatureError("Signature has expired")  # there is no leeway for that
        except SeicheError:
            raise
        except Exception as error:
            # Whatever a library stumbles over in what anybody may send, such as a key of another kind than is claimed.
            raise _unauthenticated(f"the token is not valid: {error}") from error
        account = claims.get(self._account_claim)
        if not isinstance(account, str) or not account:
            raise _unauthenticated(f"the token has no claim {self._account_claim!r}")
        granted = claims.get(self._permissions_claim, ())
        words = granted.split() if isinstance(granted, str) else granted if isinstance(granted, list | tuple) else ()
        permissions = frozenset(map(str, words)) & _ALL
        return Principal(account, permissions, str(claims.get("sub", "")), int(claims["exp"]))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _bearer(authorization: str | None) -> str:
    kind, _, token = (authorization or "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise _unauthenticated("the call has no bearer token")
    return token.strip()


def _unauthenticated(message: str) -> PermissionDenied:
    return PermissionDenied(
        message, remedy="Send `authorization: Bearer <token>` with a token for this server.", reason="unauthenticated"
    )
