"""Why a server that is there cannot be talked to: gRPC does not tell that from one that is not there."""

import ssl
from contextlib import closing
from threading import Timer
from typing import Final

from seiche.errors import InvalidInput, PermissionDenied, SeicheError
from seiche.service.client.channel import Address
from seiche.service.client.wires import Wire, connected, parted

__all__ = ["obstacle"]

_SECONDS: Final = 5.0


def obstacle(address: Address) -> SeicheError | None:
    """What is wrong between this client and the server; nothing if nobody is there, or it is not about TLS."""
    try:
        with closing(connected(address.host, address.certificates)) as wire:
            if address.certificates is not None:
                return _turned_away(address) if _is_ended(wire) else None
        ssl.get_server_certificate(parted(address.host), timeout=_SECONDS)
        return InvalidInput(f"the server at {address.host} speaks TLS", remedy="Write grpcs:// instead of grpc://.")
    except ssl.SSLCertVerificationError as error:
        return PermissionDenied(
            f"the server at {address.host} cannot be trusted: {error.verify_message}",
            remedy="Give `ca=` as the certificate of its authority, and its address as its certificate has it.",
        )
    except ssl.SSLError:
        if address.certificates is not None:
            return InvalidInput(
                f"the server at {address.host} does not speak TLS", remedy="Write grpc:// instead of grpcs://."
            )
    except OSError:
        pass  # nobody is there, or not for long enough to say what is wrong
    return None


def _is_ended(wire: Wire) -> bool:
    """Whether the server, which should speak first, ends the connection instead. It does not say why."""
    late = Timer(_SECONDS, wire.shut)
    late.start()
    try:
        return not wire.read() and not late.finished.is_set()
    except OSError:
        return True
    finally:
        late.cancel()


def _turned_away(address: Address) -> PermissionDenied:
    return PermissionDenied(
        f"the server at {address.host} ends the connection when it has seen what this client shows",
        remedy="It may ask for a certificate: give `certificate=` and `certificate_key=`, of an authority that it"
        " trusts (its `--client-ca`).",
    )
