"""The way to a lake through a server. What it takes to talk to one is imported when somebody goes."""

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
    token: str = "",
    ca: str | Path | None = None,
    uri: str | None = None,
    runtime: Runtime = SYSTEM,
    **options: Any,
) -> "RemoteLake":
    """The lake behind the server at `grpc://host:port`, with the same transactions as a lake opened by its address.

    Data files are read and written here; only what is to be committed goes to the server. `uri` is where this client
    finds the lake, if that is not where the server does; `options` are those of `seiche.open`.

    ```python
    lake = seiche.connect("grpc://localhost:7447", token="...")
    lake.run(lambda tx: tx.append("shop.orders", [{"id": 1, "total": 9.5}]))
    ```
    """
    try:
        from seiche.service.client.remote import remote_lake
    except ImportError as missing:
        remedy = 'Install it with pip install "seiche[server]".'
        raise InvalidInput(f"a client of a server needs {missing.name}", remedy=remedy) from missing
    return remote_lake(address, token=token, ca=ca, uri=uri, runtime=runtime, options=options)
