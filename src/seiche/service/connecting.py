"""The way to a lake through a server. What it takes to talk to one is imported when somebody goes."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.service.client.remote import RemoteLake

__all__ = ["connect"]


def connect(
    address: str,
    *,
    token: str | Callable[[], str] = "",
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    certificate_key: str | Path | None = None,
    uri: str | None = None,
    runtime: Runtime = SYSTEM,
    **options: Any,
) -> "RemoteLake":
    """The lake behind the server at `grpc://host:port`, with the same transactions as a lake opened by its address.

    Over TLS it is `grpcs://`, with `ca` as the certificate of the server's authority if need be, and `certificate` and
    `certificate_key` as this client's own if the server asks for them, all as PEM files.

    `token` is a text, or for one that changes a function without arguments that returns the one that is good now: it is
    asked when a call is made, and again when the server does not take the one that it was shown.

    Data files are read and written here; only what is to be committed goes to the server. `uri` is where this client
    finds the lake, if that is not where the server does; `options` are those of `seiche.open`.

    ```python
    lake = seiche.connect("grpc://localhost:7447", token="...")
    lake.run(lambda tx: tx.append("shop.orders", [{"id": 1, "total": 9.5}]))
    ```
    """
    try:
        from seiche.service.client.certificates import Certificates
        from seiche.service.client.remote import remote_lake
    except ImportError as missing:
        remedy = 'Install it with pip install "seiche[server]".'
        raise InvalidInput(f"a client of a server needs {missing.name}", remedy=remedy) from missing
    certificates = Certificates.of(ca, certificate, certificate_key)
    return remote_lake(address, token=token, certificates=certificates, uri=uri, runtime=runtime, options=options)
