"""The files with which a server shows who it is. They are looked at again whenever somebody connects: certificates last
for weeks, servers for longer.
"""

import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import grpc

from seiche.errors import InvalidInput, NotFound, SeicheError

__all__ = ["Shown", "TlsFiles"]

log = logging.getLogger("seiche.service")

# What tells whether files are others than they were, without reading them.
Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate and its key, and the authority that clients need a certificate of, if they do."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None
    context: ssl.SSLContext

    def configuration(self) -> Any:
        """The same for gRPC."""
        return grpc.ssl_server_certificate_configuration([(self.key, self.certificate)], self.client_ca)


class TlsFiles:
    """A certificate and its key as PEM files, with `client_ca` also that of the clients' authority."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        """`InvalidInput` or `NotFound` if they are not that."""
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._lock = Lock()
        # Before they are read: whatever changes meanwhile is read again.
        self._seen = self._stamp()
        self._shown = self._read()

    def now(self) -> Shown:
        """What is in the files. If that does not belong together, as while they are replaced, what was there before."""
        with self._lock:
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                try:
                    self._shown = self._read()
                except SeicheError as error:
                    log.warning("the certificate stays what it was: %s", error.message)
            return self._shown

    def credentials(self) -> grpc.ServerCredentials:
        """For a server of gRPC."""
        told = self.now()

        def renewed() -> Any:
            """What is new, for gRPC to keep; nothing if it has that."""
            nonlocal told
            now = self.now()
            if now is told:
                return None
            told = now
            return now.configuration()

        return grpc.dynamic_ssl_server_credentials(
            told.configuration(), renewed, require_client_authentication=self._client_ca is not None
        )

    def follow(self, context: ssl.SSLContext) -> None:
        """Let whoever connects by this context see what is in the files now."""

        def renew(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self.now().context

        context.sni_callback = renew

    def _stamp(self) -> Stamp:
        return tuple(_changed(path) for path in (self._certificate, self._key, self._client_ca) if path is not None)

    def _read(self) -> Shown:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            key, certificate = self._key.read_bytes(), self._certificate.read_bytes()
            ca = None if self._client_ca is None else self._client_ca.read_bytes()
            # gRPC would only say that it cannot listen. Without a password given here, whoever sits at the terminal
            # would be asked for one.
            context.load_cert_chain(self._certificate, self._key, password="")
        except ssl.SSLError as error:
            raise InvalidInput(
                f"{self._certificate} and {self._key} are not a certificate and its key",
                remedy="Give two PEM files that belong together, the key without a password.",
            ) from error
        except OSError as error:
            raise NotFound(f"{error.filename} cannot be read: {error.strerror}") from error
        if self._client_ca is not None:
            try:
                context.load_verify_locations(self._client_ca)
            except ssl.SSLError as error:
                raise InvalidInput(
                    f"{self._client_ca} has no certificate",
                    remedy="Give a PEM file with that of the clients' authority.",
                ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return Shown(certificate, key, ca, context)


def _changed(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
