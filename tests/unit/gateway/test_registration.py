"""Tables that go to another catalog and come back, and what a lake says of functions."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from seiche import Lake, Unavailable
from seiche.gateway.iceberg_rest.loading import Loading
from seiche.lake.transaction import Transaction
from tests.gateway_server import Direct, direct, lake_with_table

ROWS = pa.table({"id": [1, 2, 3]})
TABLES = "/v1/lake/namespaces/db/tables"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lake_with_table(tmp_path, ROWS)
    made.create_table("db.lance", ROWS.schema)
    return made


@pytest.fixture
def servers(lake: Lake) -> Direct:
    return direct(lake)


def cleared(lake: Lake) -> None:
    """Everything that no version needs goes, at once."""
    lake.expire(older_than=0, keep=1)
    for _ in range(2):
        lake.gc(dry_run=False, grace=0, window=0)


def test_a_table_that_is_given_up_keeps_its_files_and_can_come_back(servers: Direct) -> None:
    lake = servers.lake
    said = servers.ask("POST", f"{TABLES}/t/unregister")
    assert (said.status, said.json["metadata"]["format-version"]) == (200, 2)
    where = said.json["metadata-location"]
    assert servers.ask("HEAD", f"{TABLES}/t").status == 404
    assert servers.ask("POST", f"{TABLES}/t", {"requirements": [], "updates": []}).status == 404
    cleared(lake)
    assert StaticTable.from_metadata(where).scan().to_arrow().equals(ROWS)
    assert lake.fsck().problems == ()
    back = servers.ask("POST", "/v1/lake/namespaces/db/register", {"name": "again", "metadata-location": where})
    assert back.status == 200
    assert lake.table("db.again").to_arrow().equals(ROWS)
    lake.drop_table("db.again")
    cleared(lake)
    assert not Path(where.removeprefix("file://")).exists(), "what came back is the lake's own again"


def test_what_is_given_up_is_the_last_word(servers: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that changes no rows comes between the look at the table and the root that gives it up."""
    take = Transaction.unregister_iceberg
    late = ["late"]

    def slow(transaction: Transaction, name: str) -> object:
        found = take(transaction, name)
        for value in late:
            with servers.lake.transaction() as other:
                other.set_properties("db.t", {"owner": value})
        late.clear()
        return found

    monkeypatch.setattr(Transaction, "unregister_iceberg", slow)
    said = servers.ask("POST", f"{TABLES}/t/unregister")
    assert said.json["metadata"]["properties"]["owner"] == "late"


def test_who_lost_the_answer_gets_it_again(servers: Direct) -> None:
    key = {"idempotency-key": "018f22e2-79b0-7cc3-98c4-dc0c0c07398f"}
    first = servers.ask("POST", f"{TABLES}/t/unregister", headers=key)
    assert servers.ask("POST", f"{TABLES}/t/unregister", headers=key).json == first.json
    assert servers.ask("POST", f"{TABLES}/t/unregister").error == (404, "NoSuchTableException")


def test_only_tables_of_the_protocol_are_given_up(servers: Direct) -> None:
    assert servers.ask("POST", f"{TABLES}/lance/unregister").error == (400, "ValidationException")
    assert servers.ask("POST", f"{TABLES}/no/unregister").error == (404, "NoSuchTableException")
    session = {"x-seiche-transaction": "s"}
    updates = [{"action": "set-properties", "updates": {"a": "1"}}]
    servers.ask("POST", f"{TABLES}/t", {"requirements": [], "updates": updates}, headers=session)
    said = servers.ask("POST", f"{TABLES}/t/unregister", headers=session)
    assert said.error == (400, "ValidationException")
    assert servers.ask("HEAD", f"{TABLES}/t").status == 204


def test_there_are_no_functions(servers: Direct) -> None:
    where = "/v1/lake/namespaces/db/functions"
    assert servers.ask("GET", where).json == {"identifiers": []}
    assert servers.ask("GET", f"{where}/add_one").error == (404, "NoSuchFunctionException")
    assert servers.ask("GET", where.replace("db", "no")).error == (404, "NoSuchNamespaceException")
    assert servers.ask("POST", f"{TABLES}/t/sign", {}).error == (406, "UnsupportedOperationException")


@pytest.mark.parametrize("path", [TABLES, "/v1/lake/namespaces/db/register"], ids=["create", "register"])
def test_a_table_that_was_made_and_cannot_be_shown_is_unknown(
    servers: Direct, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    where = servers.ask("POST", f"{TABLES}/t/unregister").json["metadata-location"]
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    body = {"name": "made", "schema": schema, "metadata-location": where}

    def silent(*_: object) -> None:
        raise Unavailable("storage is silent")

    monkeypatch.setattr(Loading, "answer", silent)
    assert servers.ask("POST", path, body).error == (502, "CommitStateUnknownException")
    assert servers.ask("HEAD", f"{TABLES}/made").status == 204


def test_what_is_no_metadata_is_refused_and_not_shown(servers: Direct, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("swordfish")
    said = servers.ask(
        "POST", "/v1/lake/namespaces/db/register", {"name": "s", "metadata-location": f"file://{secret}"}
    )
    assert said.error == (400, "ValidationException")
    assert b"swordfish" not in said.body


@pytest.mark.parametrize("staged", [True, False])
def test_a_format_version_that_there_is_not(servers: Direct, staged: bool) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    for version in ("9", "x", ""):
        body = {"name": "n", "schema": schema, "properties": {"format-version": version}, "stage-create": staged}
        assert servers.ask("POST", TABLES, body).error == (400, "ValidationException"), version
