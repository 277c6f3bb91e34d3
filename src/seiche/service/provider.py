"""The keys of an identity provider: remembered, and asked for anew without anybody having to wait."""

from collections.abc import Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final

from seiche.core.clock import Clock
from seiche.errors import InvalidInput, Unavailable

__all__ = ["ProviderKeys"]

# One that the provider has taken back opens nothing after this.
_FRESH_SECONDS: Final = 300.0
# So long those that are known are good while the provider does not answer.
_GOOD_SECONDS: Final = 3600.0
# So often, at most, it is asked because of a key that nobody knows: whoever calls may have made that up.
_ASK_SECONDS: Final = 30.0
_TIMEOUT: Final = 5


class ProviderKeys:
    """The keys at an address, by their names.

    Calls are admitted in the event loop, where nobody may wait: what is known is asked for anew by a thread. Only a key
    that is not known is waited for, and not often; `waits` tells that before.
    """

    def __init__(self, jwks_uri: str, clock: Clock) -> None:
        import jwt

        self._jwt = jwt
        self._clock = clock
        try:
            self._client = jwt.PyJWKClient(jwks_uri, cache_keys=False, cache_jwk_set=False, timeout=_TIMEOUT)
        except jwt.PyJWTError as error:
            raise InvalidInput(
                f"jwks_uri cannot be {jwks_uri!r}: {error}", remedy="Give the http or https address of its keys."
            ) from error
        self._lock, self._fetching = Lock(), Lock()
        self._keys: Mapping[str, Any] = {}
        self._fetched = self._asked = float("-inf")

    def __call__(self, token: str) -> Any:
        """The key that the token says it was signed with. `Unavailable` if the provider does not tell its keys."""
        name, found = self._known(token)
        if found is None:
            self._fetch()
            found = self._keys.get(name)
        elif self._clock.monotonic() - self._fetched > _FRESH_SECONDS and self._may_ask():
            Thread(target=self._fetch_quietly, name="seiche-provider-keys", daemon=True).start()
        if found is None:
            raise self._jwt.PyJWKClientError(f"the identity provider has no key {name!r}")
        return found.key

    def waits(self, token: str) -> bool:
        """Whether the provider has to be asked, or is being asked, before anything can be said about this token."""
        _, found = self._known(token)
        if found is not None:
            return False
        return self._fetching.locked() or self._clock.monotonic() - self._asked >= _ASK_SECONDS

    def _known(self, token: str) -> tuple[str, Any]:
        """The name of the key that the token says it was signed with, and the key if it is known and still good."""
        name = str(self._jwt.get_unverified_header(token).get("kid"))
        good = self._clock.monotonic() - self._fetched < _GOOD_SECONDS
        return name, self._keys.get(name) if good else None

    def _may_ask(self) -> bool:
        with self._lock:
            now = self._clock.monotonic()
            if now - self._asked < _ASK_SECONDS:
                return False
            self._asked = now
            return True

    def _fetch(self) -> None:
        """Ask for the keys, unless that was done a moment ago. Of several threads one asks, and the others wait."""
        with self._fetching:
            if self._may_ask():
                self._replace()
            elif self._fetched < self._asked or self._clock.monotonic() - self._fetched > _GOOD_SECONDS:
                # It may have the key by now: of a token that it has just given out nobody can say that it is not valid.
                raise Unavailable("the identity provider did not tell its keys a moment ago", remedy="Try again later.")

    def _fetch_quietly(self) -> None:
        with suppress(Unavailable):  # those that are known are good for a while
            self._replace()

    def _replace(self) -> None:
        try:
            found = self._client.get_jwk_set().keys
        except Exception as error:
            # It does not answer, breaks off, or says what is no set of keys, over which a library may stumble anyhow.
            raise Unavailable(f"the identity provider does not tell its keys: {error}") from error
        self._keys = {one.key_id: one for one in found if one.key_id and one.public_key_use in ("sig", None)}
        self._fetched = self._clock.monotonic()
