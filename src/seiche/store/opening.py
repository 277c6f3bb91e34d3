"""From an address to a store."""

import os
import re
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from seiche.core import given
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.store.base import Store
from seiche.store.local import Durability, LocalStore

__all__ = ["SCHEMES", "open_store"]

SCHEMES = ("file", "memory", "s3", "gs", "az", "hdfs")
_REMEDY = f"Use a path or one of {', '.join(scheme + '://' for scheme in SCHEMES)}."
# What is meant as an address and would be taken for a path: a folder of that name would be made.
_ONE_SLASH = tuple(f"{scheme}:/" for scheme in SCHEMES)
# What the clouds let names of buckets and containers have, old ones (`_`, capitals) and `$web` too.
_BUCKET = re.compile(r"[A-Za-z0-9._$:-]+")


def open_store(
    uri: str | os.PathLike[str], *, durability: Durability = "fsync", runtime: Runtime = SYSTEM, **options: Any
) -> Store:
    """The store at `uri`: a path or `file://`, `memory://NAME`, `s3://BUCKET/PREFIX`, `gs://`, `az://` or `hdfs://`.
    A path that begins with `~/` lies in the user's home.

    Opening does no I/O: whether the bucket exists and the credentials are good shows at the first call. `durability` is
    about local files only (`"fsync"`: survive a power failure; `"os"`: survive the death of the process). `options` are
    those of the remote store, such as `aws_access_key_id` or `aws_endpoint`; what is not given is taken from the usual
    environment variables.
    """
    address = given.an_address(uri, _REMEDY)
    if durability not in ("fsync", "os"):
        raise InvalidInput(f"durability {durability!r} is unknown", remedy='Use "fsync" or "os".')
    scheme, separator, rest = address.partition("://")
    # Bytes that are no text stay what they are: names of files may have them.
    path = unquote(rest, errors="surrogateescape") if separator else address
    if not path or "\x00" in path:
        raise InvalidInput(f"{address!r} is not the address of a store", remedy=_REMEDY, uri=address)
    if not separator:
        if address.lower().startswith(_ONE_SLASH):
            raise InvalidInput(f"{address}: there are two slashes after a scheme", remedy=_REMEDY, uri=address)
        _refuse(options, address)
        return LocalStore(_at_home(path), durability=durability, runtime=runtime)
    match scheme.lower():
        case "file":
            _refuse(options, address)
            return LocalStore(_absolute(address, path), durability=durability, runtime=runtime)
        case "memory":
            from seiche.store.memory import MemoryStore

            _refuse(options, address)
            name, _, directory = path.rstrip("/").partition("/")
            return MemoryStore(name, directory, runtime=runtime)
        case "s3" | "gs" | "az" as cloud:
            from seiche.store.object import ObjectStore

            bucket, _, prefix = path.rstrip("/").partition("/")
            _require_bucket(cloud, bucket, address)
            return ObjectStore(cloud, bucket, prefix, runtime=runtime, options=options)
        case "hdfs":
            return _hdfs(address, runtime, options)
    raise InvalidInput(f"{address}: the scheme {scheme!r} is unknown", remedy=_REMEDY, uri=address)


def _at_home(path: str) -> str:
    """A path as a shell and pylance take it: `~` is the user's home, and no folder of that name is made."""
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def _absolute(uri: str, path: str) -> str:
    path = path.removeprefix("localhost")
    if not path.startswith("/"):
        raise InvalidInput(
            f"{uri}: a file address has three slashes before an absolute path",
            remedy="Write file:///data/lake, or a plain path for one relative to the working directory.",
            uri=uri,
        )
    return path


def _require_bucket(cloud: str, bucket: str, uri: str) -> None:
    """`InvalidInput` unless it can be the name of a bucket.

    It becomes part of a web address as it is: behind a `?` or `#` all files would be one, with `..` another bucket be
    meant, and of a blank the native client panics.
    """
    remedy = f"Write {cloud}://BUCKET/PREFIX."
    if not bucket:
        raise InvalidInput(f"{uri}: names no bucket", remedy=remedy, uri=uri)
    if not _BUCKET.fullmatch(bucket) or not bucket.strip("."):
        raise InvalidInput(f"{uri}: {bucket!r} cannot be the name of a bucket", remedy=remedy, uri=uri)


def _hdfs(uri: str, runtime: Runtime, options: dict[str, Any]) -> Store:
    from seiche.store.hdfs import HdfsStore, hdfs_connection

    parts = urlsplit(uri)
    try:
        host, port = parts.hostname or "default", parts.port or 0
    except ValueError as error:
        raise InvalidInput(f"{uri}: {error}", remedy="Write hdfs://NAMENODE:PORT/DIRECTORY.", uri=uri) from error
    return HdfsStore(uri, unquote(parts.path), partial(hdfs_connection, host, port, options), runtime=runtime)


def _refuse(options: dict[str, Any], uri: str) -> None:
    if options:
        raise InvalidInput(f"{uri}: unknown option {', '.join(sorted(options))}", remedy="Leave it out.", uri=uri)
