"""The manifest stores that the tests run over, by address, so that other processes can open them too."""

from pathlib import Path
from urllib.parse import quote

import pytest

from seiche.table.versions.external import ManifestStore, open_manifest_store
from seiche.table.versions.external.dynamodb import DynamoDBManifestStore
from tests import servers

KINDS = ("memory", "sqlite", "postgres", "dynamodb")
# Those that several processes can share.
SHARED_KINDS = KINDS[1:]

DYNAMODB_TABLE = "manifests"


def address(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Where a manifest store of this kind is; it may hold records of other tests, but of tables of their own."""
    match kind:
        case "memory":
            return f"memory://{folder.name}"
        case "sqlite":
            return f"sqlite://{quote(str(folder / 'manifests.db'))}"
        case "postgres":
            return str(request.getfixturevalue("postgres"))
        case "dynamodb":
            return dynamodb(request.getfixturevalue("moto"), request.getfixturevalue("monkeypatch"))
    raise AssertionError(kind)


def dynamodb(moto: servers.S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a DynamoDB table beside the S3 server, with the credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    where = f"dynamodb://{DYNAMODB_TABLE}?region={servers.REGION}&endpoint={quote(moto.endpoint, safe='')}"
    store = open_manifest_store(where)
    assert isinstance(store, DynamoDBManifestStore)
    store.create_table()
    store.close()
    return where


def opened(where: str) -> ManifestStore:
    """A manifest store with connections of its own."""
    return open_manifest_store(where)
