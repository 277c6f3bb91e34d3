"""From an address to a manifest store, and to the versions of a table that it decides."""

from os import PathLike
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit

from seiche.core import given
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.store.base import Store
from seiche.table.versions.external.base import ManifestStore
from seiche.table.versions.external.memory import MemoryManifestStore
from seiche.table.versions.external.versions import ExternalVersions
from seiche.table.versions.naming import Naming

__all__ = ["external_versions", "open_manifest_store", "split_address"]

_FORMS = "sqlite:///PATH, postgresql://USER@HOST/DATABASE, dynamodb://TABLE or memory://NAME"
_DYNAMODB_TABLE = "ddbTableName"

_memory: dict[str, MemoryManifestStore] = {}
_lock = Lock()


def external_versions(
    store: Store,
    manifest_store: str | ManifestStore,
    naming: Naming | None = None,
    runtime: Runtime = SYSTEM,
) -> ExternalVersions:
    """The versions of the table at `store`, decided in `manifest_store`, which may be an address.

    Everybody who writes to the table must name the same manifest store. Credentials and region for DynamoDB are those
    of `store` where it has some.
    """
    opened = open_manifest_store(manifest_store, store=store, runtime=runtime)
    return ExternalVersions(store, opened, naming=naming, runtime=runtime)


def open_manifest_store(
    manifest_store: str | ManifestStore, *, store: Store | None = None, runtime: Runtime = SYSTEM
) -> ManifestStore:
    """The manifest store at an address. Opening does no I/O."""
    if isinstance(manifest_store, ManifestStore):
        return manifest_store
    scheme, _, rest = given.text(manifest_store, "a manifest store", f"Use {_FORMS}.").partition("://")
    match scheme:
        case "sqlite" if rest.strip("/"):
            from seiche.table.versions.external.sqlite import SqliteManifestStore

            # Three slashes before an absolute path; with two the path is relative to the working directory.
            return SqliteManifestStore(unquote(rest))
        case "postgresql" | "postgres":
            from seiche.table.versions.external.postgres import PostgresManifestStore

            return PostgresManifestStore(manifest_store, runtime=runtime)
        case "dynamodb" if rest.strip("/"):
            return _dynamodb(manifest_store, store, runtime)
        case "memory" if rest.strip("/"):
            with _lock:
                return _memory.setdefault(rest, MemoryManifestStore(rest))
    # The address is not repeated: it may hold a password.
    raise InvalidInput(f"there is no manifest store of the kind {scheme!r}", remedy=f"Use {_FORMS}.")


def split_address(uri: str | PathLike[str]) -> tuple[str, str | None]:
    """The address of a table, and that of its manifest store if it names one.

    `s3+ddb://BUCKET/PATH?ddbTableName=TABLE`, which is pylance's, becomes `s3://BUCKET/PATH` and `dynamodb://TABLE`;
    everything else is left as it is.
    """
    uri = given.an_address(uri, "Give a path, or an address such as s3://BUCKET/PATH.")
    scheme, _, rest = uri.partition("://")
    if scheme != "s3+ddb":
        return uri, None
    path, _, query = rest.partition("?")
    parameters = parse_qs(query)
    tables = parameters.pop(_DYNAMODB_TABLE, [])
    if parameters or len(tables) != 1 or not path:
        raise InvalidInput(
            f"{uri}: an s3+ddb address has exactly one parameter, {_DYNAMODB_TABLE}",
            remedy=f"Write s3+ddb://BUCKET/PATH?{_DYNAMODB_TABLE}=TABLE.",
            uri=uri,
        )
    return f"s3://{path}", f"dynamodb://{tables[0]}"


def _dynamodb(address: str, store: Store | None, runtime: Runtime) -> ManifestStore:
    from seiche.table.versions.external.dynamodb import DynamoDBManifestStore

    parts = urlsplit(address)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    endpoint, region = given.pop("endpoint", ""), given.pop("region", "")
    if given or parts.path.strip("/"):
        raise InvalidInput(
            f"{address}: a DynamoDB address has a table and perhaps the parameters endpoint and region",
            remedy="Write dynamodb://TABLE?region=REGION.",
        )
    options = store.native_options if store is not None else {}
    return DynamoDBManifestStore(parts.netloc, endpoint=endpoint, region=region, options=options, runtime=runtime)
