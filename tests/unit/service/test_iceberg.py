"""Iceberg tables through the service: new metadata as a whole, or as requirements and updates."""

import json
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seiche import Lake
from seiche.service.changes import Change
from seiche.service.core import Service
from seiche.service.state.opening import open_database
from seiche.service.states import State
from tests.service_lake import appending, definition, numbers_in

SCHEMA = pa.schema([("a", pa.int64())])
NAME = "lake.shop.facts"


@pytest.fixture
def facts(lake: Lake) -> Lake:
    with lake.transaction() as tx:
        tx.create_table("shop.facts", SCHEMA, format="iceberg")
    return lake


def metadata(lake: Lake) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lake.transaction().iceberg("shop.facts").metadata.model_dump_json(by_alias=True))
    return found


def commit(service: Service, *payloads: dict[str, Any] | bytes, more: tuple[Change, ...] = ()) -> Any:
    tx = service.begin().id
    changes = [
        Change(table_name=NAME, payload=one if isinstance(one, bytes) else json.dumps(one).encode()) for one in payloads
    ]
    service.prepare(tx, [*changes, *more])
    return service.commit(tx)


def test_new_metadata_as_a_whole(service: Service, facts: Lake) -> None:
    wanted = metadata(facts)
    wanted["properties"]["owner"] = "me"
    before = facts.version
    done = commit(service, wanted, more=(appending(facts, "shop.orders", numbers=[1]),))
    assert (done.state, done.lake_version) == (State.APPLIED, before + 1)
    assert metadata(facts)["properties"]["owner"] == "me"
    assert numbers_in(facts) == [1], "together with a Lance table, in one version"


def test_requirements_and_updates(service: Service, facts: Lake) -> None:
    own = metadata(facts)["table-uuid"]
    given = {
        "requirements": [{"type": "assert-table-uuid", "uuid": own}],
        "updates": [{"action": "set-properties", "updates": {"owner": "you"}}],
    }
    assert commit(service, given).state is State.APPLIED
    assert metadata(facts)["properties"]["owner"] == "you"
    given["requirements"] = [{"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"}]
    assert commit(service, given).state is State.APPLY_FAILED_CONFLICT


@pytest.mark.parametrize("character", ["\0", "\ud800"], ids=["nul", "half a pair"])
@pytest.mark.parametrize("kept_in", ["sqlite", "postgres"])
def test_what_failed_is_told_the_same_again_whatever_characters_a_client_put_into_it(
    facts: Lake, tmp_path: Path, request: pytest.FixtureRequest, kept_in: str, character: str
) -> None:
    facts.table("shop.facts").append([{"a": 1}])
    address = request.getfixturevalue("postgres") if kept_in == "postgres" else f"sqlite://{tmp_path}/state.db"
    database = open_database(address)
    with closing(Service(facts, database, account=f"account-{uuid.uuid4()}")) as service:
        given = {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": f"a{character}b", "snapshot-id": 7}],
            "updates": [{"action": "set-properties", "updates": {"owner": "you"}}],
        }
        done = commit(service, given)
        assert done.state is State.APPLY_FAILED_CONFLICT
        assert "a\ufffdb is missing" in done.error_message
        again = service.get(done.id)
        assert (again.state, again.error_message) == (done.state, done.error_message)
        assert [one.error.message for one in service.intents(done.id) if one.error] == [done.error_message]
    database.close()


def test_a_text_that_no_metadata_can_have_is_refused_for_good(service: Service, facts: Lake) -> None:
    given = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"owner": "\ud800"}}]}
    done = commit(service, given)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD")
    assert "surrogates" in done.error_message


def test_a_definition_says_all_properties_that_there_are(service: Service, facts: Lake) -> None:
    """As that of a Lance table does: what it leaves out is gone."""
    facts.run(lambda tx: tx.set_properties("shop.facts", {"owner": "me", "team": "red"}))
    table = facts.table("shop.facts").row.id
    for given in ({"owner": "you"}, {}):
        tx = service.begin().id
        service.prepare(tx, [Change(table_id=table, table=definition(table, "facts", "shop", **given))])
        assert service.commit(tx).state is State.APPLIED
        assert metadata(facts)["properties"] == given


def test_metadata_that_was_made_from_an_older_one_is_a_conflict(service: Service, facts: Lake) -> None:
    wanted = metadata(facts)
    wanted["properties"]["owner"] = "me"
    tx = service.begin().id
    service.prepare(tx, [Change(table_name=NAME, payload=json.dumps(wanted).encode())])
    facts.run(lambda other: other.set_properties("shop.facts", {"owner": "somebody else"}))
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "EXPECTED_VERSION_MISMATCH")
    assert metadata(facts)["properties"]["owner"] == "somebody else"


@pytest.mark.parametrize(
    "change",
    [
        {"table-uuid": "00000000-0000-4000-8000-000000000000"},
        {"location": "file:///elsewhere"},
        {"last-sequence-number": -1},
        {"last-column-id": 0},
        {"schemas": "none"},
    ],
)
def test_metadata_that_cannot_follow_is_refused(service: Service, facts: Lake, change: dict[str, Any]) -> None:
    done = commit(service, {**metadata(facts), **change})
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD")
    assert "owner" not in metadata(facts)["properties"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"updates": 7}',
        b'{"updates": [{"action": "explode"}]}',
        b'{"updates": [{"action": "set-properties", "updates": 7}]}',
        b"[" * 100_000,
    ],
    ids=lambda data: data[:70],
)
def test_what_is_no_metadata(service: Service, facts: Lake, data: bytes) -> None:
    before = facts.version
    done = commit(service, data)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD")
    assert facts.version == before
