"""An identity provider that answers when a test wants it to."""

import datetime
import json
from random import Random
from threading import Event
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from seiche.core.clock import SystemClock
from seiche.core.runtime import Runtime
from seiche.service.auth import OpenIdConnect


class LateClock(SystemClock):
    later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


class SlowProvider:
    """It has told its one key, `known`, and is asked again for any other. Then it does not answer until `go_on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, account: str = "default") -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        self._claims = {
            "iss": "https://issuer",
            "aud": "seiche",
            "account": account,
            "permissions": "table.read table.write",
        }
        self._published = {"keys": [shown | {"use": "sig", "alg": "RS256", "kid": "known"}]}
        self.asked, self.go_on = Event(), Event()
        self.go_on.set()
        monkeypatch.setattr(jwt.PyJWKClient, "fetch_data", self._fetch)
        clock = LateClock()
        runtime = Runtime(clock, Random(0))
        self.authenticator = OpenIdConnect("https://issuer", "seiche", "https://issuer/keys", runtime=runtime)
        self.authenticator.principal(f"Bearer {self.token('known')}")
        # Long enough after that to be asked again for a key that nobody knows.
        clock.later = 60.0
        self.asked.clear()
        self.go_on.clear()

    def token(self, key: str, seconds: float = 3600) -> str:
        """A token that says it was signed with this key."""
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        return jwt.encode({**self._claims, "exp": until}, self._key, algorithm="RS256", headers={"kid": key})

    def _fetch(self, *_: Any) -> Any:
        self.asked.set()
        assert self.go_on.wait(60)
        return self._published
