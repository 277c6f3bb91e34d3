"""What a client and a server show each other over TLS."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from seiche.core import given
from seiche.errors import InvalidInput, NotFound

__all__ = ["Certificates"]


@dataclass(frozen=True, slots=True)
class Certificates:
    """Whom a client trusts and what it shows of itself, in PEM files.

    `ca` is the certificate of the server's authority, if that is not one that everybody knows; `certificate` and `key`
    are the client's own, for a server that asks for them.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def of(
        cls, ca: str | Path | None = None, certificate: str | Path | None = None, key: str | Path | None = None
    ) -> "Certificates":
        """Those in these files. What is wrong with them is said here, not when they are used."""
        if (certificate is None) != (key is None):
            raise InvalidInput(
                "a certificate is shown with its key", remedy="Give both `certificate=` and `certificate_key=`."
            )
        for path in (ca, certificate, key):
            if path is not None:
                given.an_address(path, "Give the path of a PEM file.")
            _check_readable(path)
        found = cls(*(None if path is None else Path(path) for path in (ca, certificate, key)))
        try:
            ssl.create_default_context(cafile=ca)
        except ssl.SSLError as error:
            raise InvalidInput(
                f"{ca} has no certificate", remedy="Give a PEM file with that of the server's authority."
            ) from error
        try:
            found.context()
        except ssl.SSLError as error:
            raise InvalidInput(
                f"{certificate} and {key} are not a certificate and its key: {error.reason or error}",
                remedy="Give two PEM files that belong together, the key without a password.",
            ) from error
        return found

    def stamp(self) -> tuple[object, ...]:
        """What tells whether the files are others than they were, without reading them."""
        return tuple(_changed(path) for path in (self.ca, self.certificate, self.key) if path is not None)

    def context(self) -> ssl.SSLContext:
        """For connections of our own."""
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            # Without a password given here, whoever sits at the terminal would be asked for one.
            context.load_cert_chain(self.certificate, self.key, password="")
        return context

    def credentials(self) -> Any:
        """For those of gRPC."""
        files = (self.ca, self.key, self.certificate)
        return grpc.ssl_channel_credentials(*(None if path is None else path.read_bytes() for path in files))


def _check_readable(path: str | Path | None) -> None:
    try:
        if path is not None:
            Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}", remedy="Give the path of a PEM file.") from error


def _changed(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
