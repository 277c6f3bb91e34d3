"""Why a server that is there cannot be talked to: gRPC does not tell that from one that is not there."""

import ssl
from typing import Final

from seiche.errors import InvalidInput, PermissionDenied, SeicheError
from seiche.service.client.channel import Address
from seiche.service.client.wires import connected, parted

__all__ = ["obstacle"]

_SECONDS: Final = 5.0


def obstacle(address: Address) -> SeicheError | None:
    """What is wrong between this client and the server; nothing if nobody is there, or it is not about TLS."""
    try:
        connected(address.host, tls=address.tls, ca=address.ca).close()
        if not address.tls:
            ssl.get_server_certificate(parted(address.host), timeout=_SECONDS)
            return InvalidInput(f"the server at {address.host} speaks TLS", remedy="Write grpcs:// instead of grpc://.")
    except ssl.SSLCertVerificationError as error:
        return PermissionDenied(
            f"the server at {address.host} cannot be trusted: {error.verify_message}",
            remedy="Give `ca=` as the certificate of its authority, and its address as its certificate has it.",
        )
    except ssl.SSLError:
        if address.tls:
            return InvalidInput(
                f"the server at {address.host} does not speak TLS", remedy="Write grpc:// instead of grpcs://."
            )
    except OSError:
        pass
    return None
