"""What clients are given to open the files of tables with, by both protocols."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Lake
from seiche.gateway import apps
from seiche.gateway.credentials import Credentials, NoCredentials, credentials_called
from seiche.gateway.http.auth import Caller
from seiche.store import open_store
from tests.gateway_server import Direct

OPTIONS = {
    "aws_endpoint": "http://127.0.0.1:1",
    "aws_region": "here",
    "aws_access_key_id": "id",
    "aws_secret_access_key": "hush",
}
SCHEMA = pa.schema([("id", pa.int64())])


class Store:
    """As much of a store as credentials look at."""

    native_options = OPTIONS


class Brief(NoCredentials):
    """Temporary ones, for whoever asks."""

    def vend(self, location: str, caller: Caller) -> Mapping[str, str]:
        return {"s3.session-token": f"{caller.subject} {location.rpartition('/')[2][:2]}"}

    def storage_options(self, location: str, caller: Caller) -> Mapping[str, str]:
        return {"aws_session_token": caller.subject, "expires_at_millis": "5"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("db")
    made.create_table("db.t", SCHEMA, format="iceberg")
    made.create_table("db.l", SCHEMA)
    return made


def server(lake: Lake, credentials: Credentials) -> Direct:
    made = Direct(lake, "", "")
    object.__setattr__(made, "apps", apps(lake, credentials=credentials))
    return made


def loaded(servers: Direct, *, asking: bool = True) -> Any:
    headers = {"x-iceberg-access-delegation": "vended-credentials"} if asking else {}
    return servers.ask("GET", "/v1/lake/namespaces/db/tables/t", headers=headers).json


@pytest.mark.parametrize("name", ["own", "none"])
def test_the_lakes_own_or_none(lake: Lake, name: str) -> None:
    servers = server(lake, credentials_called(name, Store()))  # type: ignore[arg-type]
    config = loaded(servers)["config"]
    assert config["s3.endpoint"] == "http://127.0.0.1:1"
    assert config["s3.region"] == config["client.region"] == "here"
    assert ("s3.secret-access-key" in config) == (name == "own")
    assert "s3.secret-access-key" not in loaded(servers, asking=False)["config"]


def test_temporary_ones_in_both_protocols(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from seiche.store.local import LocalStore

    monkeypatch.setattr(LocalStore, "native_options", OPTIONS)
    servers = server(lake, credentials_called(f"{__name__}:Brief", lake.store))
    assert loaded(servers)["config"]["s3.session-token"].startswith("anonymous t-")
    assert loaded(servers)["storage-credentials"][0]["config"]["s3.session-token"]
    described = servers.ask("POST", "/v1/table/db%24l/describe", {}, lance=True).json
    assert described["storage_options"] == {"aws_session_token": "anonymous", "expires_at_millis": "5"}
    declared = servers.ask("POST", "/v1/table/db%24new/declare", {}, lance=True).json
    assert declared["storage_options"] == described["storage_options"]
    servers = server(lake, credentials_called("none", lake.store))
    described = servers.ask("POST", "/v1/table/db%24l/describe", {}, lance=True).json
    assert described["storage_options"] == {"aws_endpoint": "http://127.0.0.1:1", "aws_region": "here"}


@pytest.mark.parametrize("name", ["nobody", "no.such.module:x", "json:nothing", "json:"])
def test_credentials_that_do_not_exist(lake: Lake, name: str) -> None:
    with pytest.raises(InvalidInput, match="no credentials called"):
        credentials_called(name, lake.store)
