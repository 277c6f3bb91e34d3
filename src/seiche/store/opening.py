"""From an address to a store."""

import os
from typing import Any
from urllib.parse import unquote, urlsplit

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.store.base import Store
from seiche.store.local import Durability, LocalStore

__all__ = ["SCHEMES", "open_store"]

SCHEMES = ("file", "memory", "s3", "gs", "az", "hdfs")


def open_store(
    uri: str | os.PathLike[str], *, durability: Durability = "fsync", runtime: Runtime = SYSTEM, **options: Any
) -> Store:
    """The store at `uri`: a path or `file://`, `memory://NAME`, `s3://BUCKET/PREFIX`, `gs://`, `az://` or `hdfs://`.

    Opening does no I/O: whether the bucket exists and the credentials are good shows at the first call. `durability` is
    about local files only (`"fsync"`: survive a power failure; `"os"`: survive the death of the process). `options` are
    those of the remote store, such as `aws_access_key_id` or `aws_endpoint`; what is not given is taken from the usual
    environment variables.
    """
    address = os.fspath(uri)
    if not address or "\x00" in address:
        raise InvalidInput(f"{address!r} is not the address of a store", remedy=_remedy())
    if durability not in ("fsync", "os"):
        raise InvalidInput(f"durability {durability!r} is unknown", remedy='Use "fsync" or "os".')
    scheme, separator, _ = address.partition("://")
    if not separator:
        _refuse_options(address, options)
        return LocalStore(address, durability=durability, runtime=runtime)
    match scheme.lower():
        case "file":
            _refuse_options(address, options)
            return LocalStore(_file_path(address), durability=durability, runtime=runtime)
        case "memory":
            from seiche.store.memory import MemoryStore

            _refuse_options(address, options)
            name, _, directory = unquote(address.partition("://")[2]).strip("/").partition("/")
            return MemoryStore(name, directory, runtime=runtime)
        case "s3" | "gs" | "az" as cloud:
            from seiche.store.object import ObjectStore

            bucket, prefix = _bucket_and_prefix(address)
            return ObjectStore(cloud, bucket, prefix, runtime=runtime, options=options)
        case "hdfs":
            from seiche.store.hdfs import HdfsStore, hdfs_connection

            parts = urlsplit(address)
            host, port = parts.hostname or "default", parts.port or 0
            return HdfsStore(
                address, unquote(parts.path), lambda: hdfs_connection(host, port, options), runtime=runtime
            )
    raise InvalidInput(f"{address}: the scheme {scheme!r} is unknown", remedy=_remedy(), uri=address)


def _file_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise InvalidInput(
            f"{uri}: a file address has three slashes before an absolute path",
            remedy="Write file:///data/lake, or a plain path for one relative to the working directory.",
            uri=uri,
        )
    # Neither a query nor a fragment has a meaning here: `?` and `#` belong to the path.
    return unquote(uri.partition("://")[2][len(parts.netloc) :])


def _bucket_and_prefix(uri: str) -> tuple[str, str]:
    bucket, _, prefix = unquote(uri.partition("://")[2]).partition("/")
    if not bucket:
        raise InvalidInput(f"{uri}: names no bucket", remedy="Write SCHEME://BUCKET/PREFIX.", uri=uri)
    return bucket, prefix.strip("/")


def _refuse_options(uri: str, options: dict[str, Any]) -> None:
    if options:
        raise InvalidInput(f"{uri}: unknown option {', '.join(sorted(options))}", remedy="Leave it out.", uri=uri)


def _remedy() -> str:
    return f"Use a path or one of {', '.join(scheme + '://' for scheme in SCHEMES)}."
