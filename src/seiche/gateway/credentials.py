"""What clients need to reach the files of tables."""

import importlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from seiche.errors import InvalidInput, SeicheError
from seiche.gateway.http.auth import Caller
from seiche.store.base import Store

__all__ = ["Credentials", "NoCredentials", "StoreCredentials", "credentials_called"]

# In the name of an option of a store: what nobody else may know.
_SECRET: Final = re.compile("key|secret|token|password|credential|sas")

# What S3 is reached by, under each name that a store takes it by.
_NAMES: Final = {
    "aws_access_key_id": ("aws_access_key_id", "access_key_id"),
    "aws_secret_access_key": ("aws_secret_access_key", "secret_access_key"),
    "aws_session_token": ("aws_session_token", "aws_token", "session_token", "token"),
    "aws_endpoint": ("aws_endpoint_url_s3", "aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url"),
    "aws_region": ("aws_region", "region", "aws_default_region", "default_region"),
    "allow_http": ("allow_http", "aws_allow_http"),
}

# Names of settings: those of the store, and those of Iceberg, whose engines do not all have the same.
_SETTINGS: Final = {"aws_endpoint": ("s3.endpoint",), "aws_region": ("s3.region", "client.region")}
_SECRETS: Final = {
    "aws_access_key_id": ("s3.access-key-id",),
    "aws_secret_access_key": ("s3.secret-access-key",),
    "aws_session_token": ("s3.session-token",),
}


class Credentials(Protocol):
    """Decides what a caller gets for the files below an address. A place to put temporary credentials in."""

    def settings(self, location: str) -> Mapping[str, str]:
        """Where the storage is, in Iceberg's words: for everybody."""
        ...

    def vend(self, location: str, caller: Caller) -> Mapping[str, str]:
        """What opens it, for a caller that asked for it; empty if callers have to bring their own."""
        ...

    def storage_options(self, location: str, caller: Caller) -> Mapping[str, str]:
        """Both in Lance's words; with `expires_at_millis` if it is for a while only."""
        ...


class StoreCredentials:
    """The lake's own credentials, as they are, for callers that may write: they open all that the server may change."""

    def __init__(self, store: Store) -> None:
        self._options = _options(store)

    def settings(self, location: str) -> Mapping[str, str]:
        found = _translated(self._options, _SETTINGS)
        if "s3.endpoint" in found:
            found["s3.path-style-access"] = "true"
        return found

    def vend(self, location: str, caller: Caller) -> Mapping[str, str]:
        return _translated(self._options, _SECRETS) if caller.writes else {}

    def storage_options(self, location: str, caller: Caller) -> Mapping[str, str]:
        return self._options if caller.writes else _told_to_all(self._options)


class NoCredentials(StoreCredentials):
    """Where the storage is, and nothing that opens it: clients bring their own."""

    def vend(self, location: str, caller: Caller) -> Mapping[str, str]:
        return {}

    def storage_options(self, location: str, caller: Caller) -> Mapping[str, str]:
        return _told_to_all(self._options)


def credentials_called(name: str, store: Store) -> Credentials:
    """`own`, `none`, or `package.module:callable`, which is called with the store and returns a `Credentials`."""
    known: dict[str, Callable[[Store], Credentials]] = {"own": StoreCredentials, "none": NoCredentials}
    if name in known:
        return known[name](store)
    module, _, attribute = name.partition(":")
    try:
        made: Credentials = getattr(importlib.import_module(module), attribute)(store)
    except SeicheError:
        raise
    except Exception as error:  # somebody else's code: whatever it raises is said in one line, as other mistakes are
        raise InvalidInput(
            f"there are no credentials called {name!r}: {type(error).__name__}: {error}",
            remedy="Use `own`, `none`, or `package.module:callable`, which is called with the lake's store.",
        ) from error
    missing = [verb for verb in ("settings", "vend", "storage_options") if not callable(getattr(made, verb, None))]
    if missing:
        raise InvalidInput(
            f"{name!r} returned {type(made).__name__}, which has no {', '.join(missing)}",
            remedy="Return a `seiche.gateway.credentials.Credentials`.",
        )
    return made


def _options(store: Store) -> Mapping[str, str]:
    """What the store was given, and what it takes from the environment: all that it has, if a command opened it."""
    given = store.native_options
    if not store.uri.startswith("s3://"):
        return given
    variables = {name.lower(): value for name, value in os.environ.items() if name.startswith("AWS_")}
    found = dict(given)
    for name, spellings in _NAMES.items():
        values = (source[one] for source in (given, variables) for one in spellings if source.get(one))
        if (value := next(values, None)) is not None:
            found[name] = value
    return found


def _told_to_all(options: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in options.items() if not _SECRET.search(name)}


def _translated(options: Mapping[str, str], names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {one: options[ours] for ours, theirs in names.items() if options.get(ours) for one in theirs}
