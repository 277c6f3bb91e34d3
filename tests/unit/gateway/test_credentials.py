"""What clients are given to open the files of tables with, by both protocols."""

import os
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
    uri = "s3://bucket/lake"


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


def test_who_may_only_read_gets_no_keys_that_open_the_lake_for_writing() -> None:
    own = credentials_called("own", Store())  # type: ignore[arg-type]
    reader, writer = Caller(writes=False), Caller()
    assert own.vend("s3://bucket/lake/t", reader) == {}
    assert own.storage_options("s3://bucket/lake/t", reader) == {
        "aws_endpoint": "http://127.0.0.1:1",
        "aws_region": "here",
    }
    assert own.vend("s3://bucket/lake/t", writer)["s3.secret-access-key"] == "hush"
    assert own.storage_options("s3://bucket/lake/t", writer) == OPTIONS


@pytest.mark.parametrize("endpoint", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_the_lakes_own_come_from_the_environment_where_it_was_opened_by_a_command(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """`seiche serve s3://...` has no options: clients were told neither where the storage is nor what opens it."""
    variables = {endpoint: "http://there", "AWS_DEFAULT_REGION": "far", "AWS_ALLOW_HTTP": "true"}
    variables |= {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_SESSION_TOKEN": "for now"}
    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = {"aws_access_key_id": "me", "aws_secret_access_key": "hush", "aws_session_token": "for now"}
    places = {"aws_endpoint": "http://there", "aws_region": "far", "allow_http": "true"}
    own = server(lake, credentials_called("own", open_store("s3://bucket/lake")))
    assert loaded(own)["config"] == {
        "s3.endpoint": "http://there",
        "s3.path-style-access": "true",
        "s3.region": "far",
        "client.region": "far",
        "s3.access-key-id": "me",
        "s3.secret-access-key": "hush",
        "s3.session-token": "for now",
    }
    described = own.ask("POST", "/v1/table/db%24l/describe", {}, lance=True).json
    assert described["storage_options"] == {**options, **places}
    none = server(lake, credentials_called("none", open_store("s3://bucket/lake")))
    assert "s3.secret-access-key" not in loaded(none)["config"]
    assert none.ask("POST", "/v1/table/db%24l/describe", {}, lance=True).json["storage_options"] == places
    here = server(lake, credentials_called("own", lake.store))
    assert loaded(here)["config"] == {}, "a lake on disk is opened by nothing"
    assert "storage_options" not in here.ask("POST", "/v1/table/db%24l/describe", {}, lance=True).json


def test_temporary_ones_for_a_lake_without_options(lake: Lake) -> None:
    """Lance's clients got none, as the lake itself has none to be replaced."""
    servers = server(lake, credentials_called(f"{__name__}:Brief", lake.store))
    described = servers.ask("POST", "/v1/table/db%24l/describe", {}, lance=True).json
    assert described["storage_options"] == {"aws_session_token": "anonymous", "expires_at_millis": "5"}


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


def broken(store: object) -> Credentials:
    raise RuntimeError("the vault is sealed")


def empty(store: object) -> object:
    return {}


@pytest.mark.parametrize(
    ("name", "message"),
    [("broken", "RuntimeError: the vault is sealed"), ("empty", "dict, which has no settings, vend, storage_options")],
)
def test_credentials_that_cannot_be_made(lake: Lake, name: str, message: str) -> None:
    """A traceback at the start of a server, or at the first request."""
    with pytest.raises(InvalidInput, match=message):
        credentials_called(f"{__name__}:{name}", lake.store)
