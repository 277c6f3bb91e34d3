"""What clients need to reach the files of tables."""

from collections.abc import Mapping
from typing import Final, Protocol

from seiche.gateway.http.auth import Caller
from seiche.store.base import Store

__all__ = ["Credentials", "NoCredentials", "StoreCredentials"]

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
        """Where the storage is: for everybody."""
        ...

    def vend(self, location: str, caller: Caller) -> Mapping[str, str]:
        """What opens it, for a caller that asked for it; empty if he has to bring his own."""
        ...


class StoreCredentials:
    """The lake's own credentials, as they are. For servers whose clients may do all that the server may."""

    def __init__(self, store: Store) -> None:
        self._options = store.native_options

    def settings(self, location: str) -> Mapping[str, str]:
        found = _translated(self._options, _SETTINGS)
        if "s3.endpoint" in found:
            found["s3.path-style-access"] = "true"
        return found

    def vend(self, location: str, caller: Caller) -> Mapping[str, str]:
        return _translated(self._options, _SECRETS)


class NoCredentials(StoreCredentials):
    """Where the storage is, and nothing that opens it."""

    def vend(self, location: str, caller: Caller) -> Mapping[str, str]:
        return {}


def _translated(options: Mapping[str, str], names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {one: options[ours] for ours, theirs in names.items() if options.get(ours) for one in theirs}
