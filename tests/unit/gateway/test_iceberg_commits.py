"""Both commit routes: what each outcome is answered with, and that nothing is applied twice or swallowed."""

import threading
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

import seiche
from seiche import CommitUnknown, Lake, RetryableConflict, Unavailable
from seiche.core.runtime import SYSTEM
from seiche.gateway.grouping import Grouping
from seiche.gateway.http.limits import Limits
from seiche.gateway.http.work import Together
from seiche.gateway.iceberg_rest.commits import HASH, Commits
from seiche.gateway.iceberg_rest.loading import Loading
from seiche.gateway.iceberg_rest.requests import request_hash, several_changes
from seiche.lake.commit.committer import Committer
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.latest import read_root
from seiche.store import open_store
from tests.gateway_server import Gateways, Said, direct

ROWS = pa.table({"id": [1, 2, 3]})
ROUTES = ("one", "several")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("db")
    made.create_table("db.t", ROWS.schema, format="iceberg")
    made.create_table("db.u", ROWS.schema, format="iceberg")
    made.create_table("db.lance", ROWS.schema)
    return made


@pytest.fixture
def servers(lake: Lake) -> Gateways:
    return direct(lake)


def change(table: str, updates: Sequence[Any], requirements: Sequence[Any] = ()) -> dict[str, Any]:
    return {
        "identifier": {"namespace": ["db"], "name": table},
        "requirements": list(requirements),
        "updates": list(updates),
    }


def setting(name: str, value: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {name: value}}


def post(servers: Gateways, route: str, one: dict[str, Any], **options: Any) -> Said:
    """One change by either route; the status of success is the route's own."""
    if route == "several":
        said = servers.ask("POST", "/v1/lake/transactions/commit", {"table-changes": [one]}, **options)
        assert said.status == 204 or said.status >= 400
        return said
    said = servers.ask("POST", f"/v1/lake/namespaces/db/tables/{one['identifier']['name']}", one, **options)
    assert said.status == 200 or said.status >= 400
    return said


def properties(lake: Lake, table: str = "db.t") -> dict[str, str]:
    return dict(lake.table(table).metadata.properties)  # type: ignore[attr-defined]


def appended(servers: Gateways, table: str) -> dict[str, Any]:
    """An append that PyIceberg has prepared, its files written, and not sent."""
    transaction = servers.lake.table(f"db.{table}").to_iceberg().transaction()
    transaction.append(ROWS)
    updates = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in transaction._updates]
    required = [one.model_dump(mode="json", by_alias=True) for one in transaction._requirements]
    return change(table, updates, required)


def test_the_hash_of_a_request_is_the_one_in_the_protocol() -> None:
    body = {"table-changes": [{**change("orders", [setting("owner", "a")]), "anything": "else"}]}
    assert request_hash(several_changes(body)) == "-1XunVp40CF-57cyM3ShJv-KTvyGAbYarcTK5rDnFbU"


@pytest.mark.parametrize("route", ROUTES)
def test_a_commit_is_applied(servers: Gateways, route: str) -> None:
    before = servers.lake.version
    said = post(servers, route, change("t", [setting("a", "1")]))
    assert properties(servers.lake)["a"] == "1"
    assert servers.lake.version == before + 1
    if route == "one":
        assert said.json["metadata"]["properties"]["a"] == "1"
        assert said.json["metadata-location"] == servers.lake.table("db.t").metadata_location  # type: ignore[attr-defined]
    else:
        assert said.body == b""


def bucket(transform: str) -> dict[str, Any]:
    return {"spec-id": 3, "fields": [{"source-id": 1, "field-id": 1000, "transform": transform, "name": "x"}]}


def creation(without: str) -> dict[str, Any]:
    """What makes a table, but for one thing."""
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": "018f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": {"type": "struct", "schema-id": 0, "fields": []}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "set-location", "location": "file:///elsewhere"},
    ]
    return change("new", [one for one in updates if without not in one["action"]], [{"type": "assert-create"}])


def parts(*fields: dict[str, Any]) -> dict[str, Any]:
    """A partition spec with these fields, each said as far as it differs from a sound one."""
    sound = {"source-id": 1, "field-id": 1000, "transform": "identity", "name": "p"}
    return {"action": "add-spec", "spec": {"spec-id": 1, "fields": [{**sound, **one} for one in fields]}}


def columns(number: int) -> dict[str, Any]:
    fields = [{"id": one, "name": f"c{one}", "type": "long", "required": False} for one in (1, number)]
    return {"action": "add-schema", "schema": {"type": "struct", "schema-id": 7, "fields": fields}}


def order(number: int, *fields: int) -> dict[str, Any]:
    said = [
        {"source-id": one, "transform": "identity", "direction": "asc", "null-order": "nulls-first"} for one in fields
    ]
    return {"action": "add-sort-order", "sort-order": {"order-id": number, "fields": said}}


# What Java, Rust or Go trip over when they open a table that has it.
UNREADABLE = [
    ("a sort order 0 with fields", order(0, 1)),
    ("another sort order without fields", order(5)),
    ("a sort order beyond 32 bits", order(1 << 31, 1)),
    ("two partition fields of one name", parts({}, {"field-id": 1001})),
    ("two partition fields of one id", parts({}, {"name": "q"})),
    ("a partition field without a name", parts({"name": ""})),
    ("a partition field of no column", parts({"source-id": 99})),
    ("a partition field beyond 32 bits", parts({"field-id": 1 << 31})),
    ("a column beyond 32 bits", columns(1 << 31)),
    ("a column that every table has", columns((1 << 31) - 2)),
]
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("unknown requirement", change("t", [setting("a", "1")], [{"type": "assert-weather"}])),
    ("unknown action", change("t", [{"action": "do-magic"}])),
    ("no type", change("t", [setting("a", "1")], [{}])),
    ("encryption", change("t", [{"action": "add-encryption-key", "encryption-key": {}}])),
    ("encrypted snapshot", change("t", [{"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "key-id": "k"}}])),
    ("ref without name", change("t", [], [{"type": "assert-ref-snapshot-id", "snapshot-id": None}])),
    ("snapshot without id", change("t", [{"action": "add-snapshot", "snapshot": {}}])),
    ("negative snapshot", change("t", [{"action": "add-snapshot", "snapshot": {"snapshot-id": -1}}])),
    ("no snapshots to remove", change("t", [{"action": "remove-snapshots"}])),
    (
        "main as a tag",
        change("t", [{"action": "set-snapshot-ref", "ref-name": "main", "type": "tag", "snapshot-id": 1}]),
    ),
    ("an impossible schema", change("t", [{"action": "set-current-schema", "schema-id": 77}])),
    ("a lance table", change("lance", [setting("a", "1")])),
    ("requirements no list", {**change("t", []), "requirements": "x"}),
    ("an action that is a list", change("t", [{"action": ["set-properties"]}])),
    ("a requirement that is an object", change("t", [], [{"type": {}}])),
    ("a snapshot beyond 64 bits", change("t", [{"action": "add-snapshot", "snapshot": {"snapshot-id": 1 << 63}}])),
    ("a transform that there is not", change("t", [{"action": "add-spec", "spec": bucket("bucket[x]")}])),
    ("a number that is none", change("t", [setting("write.metadata.previous-versions-max", "many")])),
    ("neither", {"identifier": change("t", [])["identifier"]}),
    *((f"a new table without {part}", creation(part)) for part in ("schema", "spec", "location")),
    *((name, change("t", [one])) for name, one in UNREADABLE),
]


@pytest.mark.parametrize("route", ROUTES)
def test_what_cannot_be_right_is_refused_before_anything_begins(servers: Gateways, route: str) -> None:
    before = servers.lake.version
    for name, body in (*WRONG, *WRONG):
        assert post(servers, route, body).error == (400, "ValidationException"), name
    assert servers.lake.version == before


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("body", [one for _, one in WRONG[:2]], ids=[name for name, _ in WRONG[:2]])
def test_what_is_not_known_is_refused_also_under_a_key_that_was_applied(
    servers: Gateways, route: str, body: dict[str, Any]
) -> None:
    headers = {"Idempotency-Key": "0199-4"}
    assert post(servers, route, change("t", [setting("a", "1")]), headers=headers).status < 300
    assert post(servers, route, body, headers=headers).error == (400, "ValidationException")


def test_a_request_to_several_tables_has_to_be_one(servers: Gateways) -> None:
    path, once = "/v1/lake/transactions/commit", change("t", [setting("a", "1")])
    body: Any
    for body in ({}, {"table-changes": []}, {"table-changes": [once, once]}, {"table-changes": [{}]}, b"[", b"[1]"):
        assert servers.ask("POST", path, body).error == (400, "ValidationException")
    other = {**once, "identifier": {"namespace": ["db"], "name": "u"}}
    assert servers.ask("POST", "/v1/lake/namespaces/db/tables/t", other).error == (400, "ValidationException")
    assert "a" not in properties(servers.lake)


@pytest.mark.parametrize("route", ROUTES)
def test_a_table_that_does_not_exist(servers: Gateways, route: str) -> None:
    assert post(servers, route, change("no", [setting("a", "1")])).error == (404, "NoSuchTableException")


STALE = {
    "uuid": {"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"},
    "ref": {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
    "schema": {"type": "assert-current-schema-id", "current-schema-id": 9},
    "field": {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 99},
    "partition": {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1},
    "spec": {"type": "assert-default-spec-id", "default-spec-id": 5},
    "order": {"type": "assert-default-sort-order-id", "default-sort-order-id": 5},
    "create": {"type": "assert-create"},
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("requirement", STALE.values(), ids=STALE.keys())
@pytest.mark.parametrize("updates", [[setting("a", "1")], []], ids=["changing", "only requiring"])
def test_a_requirement_that_does_not_hold(
    servers: Gateways, route: str, requirement: dict[str, Any], updates: list[Any]
) -> None:
    before = servers.lake.version
    assert post(servers, route, change("t", updates, [requirement])).error == (409, "CommitFailedException")
    assert servers.lake.version == before


@pytest.mark.parametrize("route", [*ROUTES, "create"])
def test_the_place_of_another_table_is_not_that_of_a_new_one(servers: Gateways, route: str) -> None:
    """It was answered as if there were a table of that name, which clients try to load then, or as a conflict."""
    place, version = servers.lake.table("db.t").metadata.location, servers.lake.version  # type: ignore[attr-defined]
    if route == "create":
        schema = {"type": "struct", "fields": []}
        body = {"name": "new", "schema": schema, "location": place}
        said = servers.ask("POST", "/v1/lake/namespaces/db/tables", body)
    else:
        made = creation("location")
        made["updates"].append({"action": "set-location", "location": place})
        said = post(servers, route, made)
    assert said.error == (400, "ValidationException")
    assert "Leave the location out" in said.json["error"]["message"]
    assert servers.lake.version == version


@pytest.mark.parametrize("route", ROUTES)
def test_the_same_key_for_another_request(servers: Gateways, route: str) -> None:
    headers = {"Idempotency-Key": "0199-1"}
    assert post(servers, route, change("t", [setting("a", "1")]), headers=headers).status < 300
    said = post(servers, route, change("t", [setting("a", "2")]), headers=headers)
    assert said.error == (409, "CommitFailedException")
    assert properties(servers.lake)["a"] == "1"


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, *, after: bool) -> None:
    """The next commit fails so, before or after it took effect."""
    plain = Grouping.commit
    failures = [error]

    def commit(self: Grouping, transactions: Any) -> Any:
        if failures and not after:
            raise failures.pop()
        found = plain(self, transactions)
        if failures:
            raise failures.pop()
        return found

    monkeypatch.setattr(Grouping, "commit", commit)


LOST = [Unavailable("no answer"), CommitUnknown("no answer"), RuntimeError("a defect")]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_what_was_applied_is_never_answered_with_an_error(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str, error: Exception
) -> None:
    failing(monkeypatch, error, after=True)
    assert post(servers, route, change("t", [setting("a", "1")])).status in (200, 204)
    assert properties(servers.lake)["a"] == "1"


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_what_was_not_applied_is_settled_and_then_said(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str, error: Exception
) -> None:
    failing(monkeypatch, error, after=False)
    body = change("t", [setting("a", "1")])
    assert post(servers, route, body).error == (503, "CommitStateUnknownException")
    assert "a" not in properties(servers.lake)
    assert post(servers, route, body).status < 300, "the same again is a new attempt"
    assert properties(servers.lake)["a"] == "1"


@pytest.mark.parametrize("route", ROUTES)
def test_what_was_said_not_to_be_applied_is_not_applied_later(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    """The request to storage is still under way when the client hears no, and arrives when it has deleted its files."""
    plain = Grouping.commit
    under_way: list[Any] = []

    def delayed(self: Grouping, transactions: Any) -> Any:
        under_way.append((self, transactions))
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(Grouping, "commit", delayed)
        assert post(servers, route, change("t", [setting("a", "1")])).error == (503, "CommitStateUnknownException")
    (late,) = plain(*under_way[0])
    assert isinstance(late, RetryableConflict)
    assert "aborted" in late.message
    assert "a" not in properties(servers.lake)


@pytest.mark.parametrize("route", ROUTES)
def test_what_cannot_be_found_out_is_unknown(servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    failing(monkeypatch, CommitUnknown("no answer"), after=True)

    def silent(_: Lake, transaction_id: str) -> Any:
        raise Unavailable("storage is silent")

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "settle", silent)
        said = post(servers, route, change("t", [setting("a", "1")]))
    assert said.error == (502, "CommitStateUnknownException")
    assert "Retry-After" not in said.headers
    before = servers.lake.version
    assert post(servers, route, change("t", [setting("a", "1")])).status < 300, "a client that asks again is told"
    assert servers.lake.version == before


@pytest.mark.parametrize("route", ROUTES)
def test_a_defect_on_a_commit_route_is_unknown(servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Commits, "_begun", broken)
    said = post(servers, route, change("t", [setting("a", "1")]))
    assert said.error == (500, "CommitStateUnknownException")
    assert "defect" not in said.body.decode()


@pytest.mark.parametrize("route", ROUTES)
def test_what_takes_too_long_is_unknown(lake: Lake, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    asked, go, plain = threading.Event(), threading.Event(), Grouping.commit

    def slow(self: Grouping, transactions: Any) -> Any:
        asked.set()
        assert go.wait(60)
        return plain(self, transactions)

    monkeypatch.setattr(Grouping, "commit", slow)
    said = post(direct(lake, limits=Limits(seconds=0.2)), route, change("t", [setting("a", "1")]))
    assert asked.is_set()
    go.set()
    assert said.error == (504, "CommitStateUnknownException")


def test_a_table_that_goes_is_there_for_whoever_changed_it_before(lake: Lake) -> None:
    """Both came while another root was put. In one root, who had changed the table was told that nothing is known of
    it: there was no table of that name to show.
    """
    changing, moving, dropping = (lake.transaction() for _ in range(3))
    changing.append("db.t", ROWS)
    moving.rename_table("db.t", "db.moved")
    dropping.drop_table("db.u")
    found = Grouping(lake).commit([changing, moving, dropping])
    changed, moved, dropped = [one for one in found if isinstance(one, State)]
    assert (changed.relation(("db", "t")) is None, moved.relation(("db", "t")) is None) == (False, True)
    assert changed.version == dropped.version == moved.version - 1, "others go together as before"


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_that_is_repeated_is_applied_once(servers: Gateways, route: str) -> None:
    body = appended(servers, "t")
    assert post(servers, route, body).status < 300
    before = servers.lake.version
    assert post(servers, route, body).status < 300
    assert servers.lake.version == before
    servers.lake.table("db.t").append(ROWS)
    before = servers.lake.version
    assert post(servers, route, body).status < 300, "its snapshot is still there, below another"
    assert servers.lake.version == before
    assert servers.lake.table("db.t").to_arrow().num_rows == 6


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_that_is_meant_again_is_not_swallowed(servers: Gateways, route: str) -> None:
    for value in ("1", "2", "1", "2", "1"):
        assert post(servers, route, change("t", [setting("a", value)])).status < 300
        assert properties(servers.lake)["a"] == value


NOTHING = {
    "what is there": [setting("a", "1")],
    "what is not there": [{"action": "remove-properties", "removals": ["b", "c"]}],
    "none": [{"action": "set-properties", "updates": {}}, {"action": "remove-properties", "removals": []}],
    "its own schema": [{"action": "set-current-schema", "schema-id": 0}, {"action": "set-default-spec", "spec-id": 0}],
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("updates", NOTHING.values(), ids=NOTHING.keys())
def test_a_request_that_changes_nothing_makes_no_version(servers: Gateways, route: str, updates: list[Any]) -> None:
    first = post(servers, "one", change("t", [setting("a", "1")])).json
    before = servers.lake.version
    required = {"type": "assert-table-uuid", "uuid": first["metadata"]["table-uuid"]}
    said = post(servers, route, change("t", updates, [required]))
    assert said.status < 300
    assert servers.lake.version == before
    if route == "one":
        assert said.json == first
    stale = {"type": "assert-current-schema-id", "current-schema-id": 7}
    assert post(servers, route, change("t", updates, [stale])).error == (409, "CommitFailedException")


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_that_changes_one_of_its_tables_is_committed_with_all(servers: Gateways, route: str) -> None:
    post(servers, route, change("t", [setting("a", "1")]))
    both = [change("t", [setting("a", "1")]), change("u", [setting("a", "1")])]
    assert servers.ask("POST", "/v1/lake/transactions/commit", {"table-changes": both}).status == 204
    assert properties(servers.lake) == properties(servers.lake, "db.u") == {"a": "1"}


@pytest.mark.parametrize("route", ROUTES)
def test_a_key_stands_for_its_request_also_if_that_changed_nothing(servers: Gateways, route: str) -> None:
    post(servers, route, change("t", [setting("a", "1")]))
    key, again = {"Idempotency-Key": "0199-n"}, change("t", [setting("a", "1")])
    assert post(servers, route, again, headers=key).status < 300
    post(servers, route, change("t", [setting("a", "2")]))
    assert post(servers, route, again, headers=key).status < 300
    assert properties(servers.lake) == {"a": "2"}, "what was answered once is not done again"


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_that_was_meant_often_looks_at_one_version_of_the_past(
    servers: Gateways, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there were before would make the same request slower each time, by a storage request or more."""
    looked: list[int] = []
    at = States.at

    def counted(self: States, version: int) -> State:
        looked.append(version)
        return at(self, version)

    monkeypatch.setattr(States, "at", counted)
    for value in "01" * 5:
        looked.clear()
        assert post(servers, route, change("t", [setting("a", value)])).status < 300
    assert len(looked) <= 1
    before = servers.lake.version
    assert post(servers, route, change("t", [setting("a", "1")])).status < 300, "told again after a lost answer"
    assert servers.lake.version == before


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_that_was_meant_often_is_not_looked_for_among_all_times(
    servers: Gateways, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them was asked for, every time, and after 10,000 the request was refused for ever."""
    looked: list[str] = []
    outcome = State.outcome

    def counted(self: State, transaction_id: str) -> Any:
        looked.append(transaction_id)
        return outcome(self, transaction_id)

    monkeypatch.setattr(State, "outcome", counted)
    often = []
    for value in "01" * 8:
        looked.clear()
        assert post(servers, route, change("t", [setting("a", value)])).status < 300
        often.append(len(looked))
        assert properties(servers.lake) == {"a": value}
    assert max(often[4:]) == often[4], "as many at the eighth time as at the third"
    # Another server finds where the first one was.
    other = direct(seiche.open(servers.lake.store))
    before = servers.lake.version
    for value in "1010":
        assert post(other, route, change("t", [setting("a", value)])).status < 300
    assert other.lake.version == before + 3, "the first was there"
    for value in "0101":
        assert post(servers, route, change("t", [setting("a", value)])).status < 300
        assert properties(servers.lake) == {"a": value}
    assert servers.lake.version == before + 6


@pytest.mark.parametrize("route", ROUTES)
def test_an_expiry_that_a_rollback_took_back_is_not_swallowed(servers: Gateways, route: str) -> None:
    lake = servers.lake
    lake.table("db.t").append(ROWS)
    lake.table("db.t").append(ROWS)
    before, metadata = lake.version, lake.table("db.t").metadata  # type: ignore[attr-defined]
    first = metadata.snapshots[0].snapshot_id
    expiry = change("t", [{"action": "remove-snapshots", "snapshot-ids": [first]}])
    for _ in range(2):
        assert post(servers, route, expiry).status < 300
        assert post(servers, route, expiry).status < 300, "told again after an answer that was lost"
        assert len(lake.table("db.t").metadata.snapshots) == 1  # type: ignore[attr-defined]
        lake.rollback(to=before)


@pytest.mark.parametrize("staged", [False, True])
def test_fields_of_a_new_tables_partitions_need_no_ids(servers: Gateways, staged: bool) -> None:
    """The protocol does not ask for them, and Rust's client does not send them."""
    fields = [{"id": n, "name": name, "type": "long", "required": False} for n, name in ((1, "a"), (2, "b"))]
    spec = [{"source-id": n, "transform": "identity", "name": f"by_{n}"} for n in (1, 2)]
    body = {
        "name": "parts",
        "schema": {"type": "struct", "fields": fields},
        "partition-spec": {"fields": spec},
        "stage-create": staged,
    }
    said = servers.ask("POST", "/v1/lake/namespaces/db/tables", body)
    assert said.status == 200
    [made] = said.json["metadata"]["partition-specs"]
    assert [(one["name"], one["field-id"]) for one in made["fields"]] == [("by_1", 1000), ("by_2", 1001)]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("route", ROUTES)
def test_partition_specs_that_are_added_need_no_ids(servers: Gateways, route: str, version: int) -> None:
    """Neither of their own nor of their fields, by the protocol. What was there before keeps its id."""
    fields = [{"id": n, "name": name, "type": "long", "required": False} for n, name in ((1, "a"), (2, "b"))]
    made = {"name": "p", "schema": {"type": "struct", "fields": fields}, "properties": {"format-version": str(version)}}
    assert servers.ask("POST", "/v1/lake/namespaces/db/tables", made).status == 200
    a, b = ({"source-id": n, "transform": "identity", "name": f"by_{n}"} for n in (1, 2))
    wanted = []
    for parts in ([a], [a, b], [b], [], [a], [{**a, "field-id": 1000}, b]):
        adding = {"action": "add-spec", "spec": {"fields": parts}}
        said = post(servers, route, change("p", [adding, {"action": "set-default-spec", "spec-id": -1}]))
        assert said.status < 300, said.body
        metadata = servers.ask("GET", "/v1/lake/namespaces/db/tables/p").json["metadata"]
        found = {one["spec-id"]: one["fields"] for one in metadata["partition-specs"]}
        wanted.append((metadata["default-spec-id"], [one["field-id"] for one in found[metadata["default-spec-id"]]]))
    alone = [1000] if version == 1 else [1001]
    assert wanted == [(1, [1000]), (2, [1000, 1001]), (3, alone), (0, []), (1, [1000]), (2, [1000, 1001])]


@pytest.mark.parametrize("number", [None, 1])
def test_sort_orders_that_are_added_need_no_ids_of_their_own(servers: Gateways, number: int | None) -> None:
    """The protocol does not ask for one, and Rust's client gives 1 to each of them."""
    own: dict[str, Any] = {} if number is None else {"order-id": number}
    found = []
    for by in ("asc", "desc", "asc", None, "desc"):
        field = {"source-id": 1, "transform": "identity", "direction": by, "null-order": "nulls-first"}
        order = {"fields": [field], **own} if by else {"fields": []}
        default = {"action": "set-default-sort-order", "sort-order-id": (number if by else None) or -1}
        said = post(servers, "one", change("t", [{"action": "add-sort-order", "sort-order": order}, default]))
        metadata = said.json["metadata"]
        orders = {one["order-id"]: one["fields"] for one in metadata["sort-orders"]}
        assert len(orders) == len(metadata["sort-orders"])
        chosen = metadata["default-sort-order-id"]
        found.append((chosen, [one["direction"] for one in orders[chosen]]))
    assert found == [(1, ["asc"]), (2, ["desc"]), (1, ["asc"]), (0, []), (2, ["desc"])]


def test_branches_that_others_could_not_read_are_refused(servers: Gateways) -> None:
    servers.lake.table("db.t").append(ROWS)
    number = servers.lake.table("db.t").metadata.current_snapshot_id  # type: ignore[attr-defined]
    sound = {"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": number}
    for more in ({"ref-name": ""}, {"max-ref-age-ms": 1 << 63}, {"min-snapshots-to-keep": 1 << 31}):
        assert post(servers, "one", change("t", [{**sound, **more}])).error == (400, "ValidationException"), more
    assert post(servers, "one", change("t", [sound])).status == 200


def replaced(lake: Lake, rows: list[dict[str, int]]) -> dict[str, Any]:
    """What Java sends for `CREATE OR REPLACE TABLE`, with rows or without: only the table's id is required."""
    gone = RemoveSnapshotRefUpdate.model_validate({"ref-name": "main"})
    transaction = lake.transaction()
    transaction.commit_iceberg("db.t", [], [gone])
    updates: list[Any] = [gone]
    if rows:
        transaction.append("db.t", rows)
        metadata = transaction.iceberg("db.t").metadata
        ref = {"ref-name": "main", "type": "branch", "snapshot-id": metadata.current_snapshot_id}
        updates.append(AddSnapshotUpdate(snapshot=metadata.snapshots[-1]))
        updates.append(SetSnapshotRefUpdate.model_validate(ref))
    sent = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in updates]
    uuid = str(lake.table("db.t").metadata.table_uuid)  # type: ignore[attr-defined]
    return change("t", sent, [{"type": "assert-table-uuid", "uuid": uuid}])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("rows", [[], [{"id": 9}]], ids=["empty", "rows"])
def test_a_table_is_replaced(servers: Gateways, route: str, rows: list[dict[str, int]]) -> None:
    lake = servers.lake
    lake.table("db.t").append(ROWS)
    before = lake.version
    body = replaced(lake, rows)
    assert post(servers, route, body).status < 300
    assert post(servers, route, body).status < 300, "told again after an answer that was lost"
    assert lake.table("db.t").to_arrow().to_pylist() == rows
    assert lake.table("db.t").metadata.snapshots[0].summary["added-records"] == "3"  # type: ignore[attr-defined]
    lake.table("db.t").append([{"id": 10}])
    assert lake.table("db.t").to_arrow().sort_by("id").to_pylist() == [*rows, {"id": 10}]
    assert seiche.open(lake.store, version=before).table("db.t").to_arrow().num_rows == 3
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("route", ROUTES)
def test_statistics_that_were_removed_can_be_set_again(servers: Gateways, route: str) -> None:
    lake = servers.lake
    lake.table("db.t").append(ROWS)
    metadata = lake.table("db.t").metadata  # type: ignore[attr-defined]
    number = metadata.current_snapshot_id
    file = {
        "snapshot-id": number,
        "statistics-path": f"{metadata.location}/metadata/s.parquet",
        "file-size-in-bytes": 1,
    }
    put = change("t", [{"action": "set-partition-statistics", "partition-statistics": file}])
    removal = change("t", [{"action": "remove-partition-statistics", "snapshot-id": number}])
    for _ in range(2):
        for one, found in ((put, 1), (removal, 0)):
            assert post(servers, route, one).status < 300
            assert len(lake.table("db.t").metadata.partition_statistics) == found  # type: ignore[attr-defined]


def test_statistics_have_blobs_of_any_type(servers: Gateways) -> None:
    """The format leaves them open. A lake that is opened anew reads the metadata, in which they stand."""
    lake = servers.lake
    lake.table("db.t").append(ROWS)
    metadata = lake.table("db.t").metadata  # type: ignore[attr-defined]
    number = metadata.current_snapshot_id
    blob = {"type": "bloom-of-somebody", "snapshot-id": number, "sequence-number": 1, "fields": [1], "properties": {}}
    file = {
        "snapshot-id": number,
        "statistics-path": f"{metadata.location}/metadata/s.stats",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [blob],
    }
    assert post(servers, "one", change("t", [{"action": "set-statistics", "statistics": file}])).status == 200
    anew = seiche.open(lake.store).table("db.t")
    anew.append([{"id": 10}])
    assert [one.type for one in anew.metadata.statistics[0].blob_metadata] == ["bloom-of-somebody"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("route", ROUTES)
def test_a_key_makes_a_repetition_one_whatever_happened_since(servers: Gateways, route: str) -> None:
    first = change("t", [setting("a", "1")])
    headers = {"Idempotency-Key": "0199-2"}
    assert post(servers, route, first, headers=headers).status < 300
    assert post(servers, route, change("t", [setting("a", "2")])).status < 300
    assert post(servers, route, first, headers=headers).status < 300
    assert properties(servers.lake)["a"] == "2"
    unknown = change("t", [{"action": "do-magic"}])
    assert post(servers, route, unknown, headers=headers).error == (400, "ValidationException")


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "0199-8"}])
@pytest.mark.parametrize("since", ["renamed", "replaced", "dropped"])
@pytest.mark.parametrize("route", ROUTES)
def test_who_lost_the_answer_hears_of_success_whatever_the_table_is_called_now(
    servers: Gateways, route: str, since: str, key: dict[str, str]
) -> None:
    """Who heard that there is no such table would delete files that count, now or in versions of the past."""
    lake, body = servers.lake, appended(servers, "t")
    first = post(servers, route, body, headers=key)
    if since == "dropped":
        lake.drop_table("db.t")
    else:
        lake.rename_table("db.t", "db.away")
    if since == "replaced":
        lake.create_table("db.t", ROWS.schema, format="iceberg")
    before = lake.version
    again = post(servers, route, body, headers=key)
    assert (again.status, lake.version) == (first.status, before), again.body
    if route == "one":
        assert again.json == first.json, "of the table that was changed"


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_without_snapshots_to_a_table_that_is_gone_is_refused(servers: Gateways, route: str) -> None:
    body = change("t", [setting("a", "1")])
    assert post(servers, route, body).status < 300
    servers.lake.rename_table("db.t", "db.away")
    assert post(servers, route, body).status < 300, "as it is there"
    servers.lake.drop_table("db.away")
    assert post(servers, route, body).error == (404, "NoSuchTableException")


def test_a_request_to_several_tables_is_not_repeated_because_one_of_them_was_changed_since(servers: Gateways) -> None:
    """Its snapshot cannot be added again: the client would hear of a conflict, and delete files that count."""
    body = {"table-changes": [appended(servers, "t"), change("u", [setting("a", "1")])]}
    assert servers.ask("POST", "/v1/lake/transactions/commit", body).status == 204
    assert post(servers, "one", change("u", [setting("a", "2")])).status == 200
    before = servers.lake.version
    assert servers.ask("POST", "/v1/lake/transactions/commit", body).status == 204
    assert (servers.lake.version, properties(servers.lake, "db.u")["a"]) == (before, "2")


def test_a_request_to_several_tables_is_not_repeated_because_one_of_them_lost_its_snapshot(servers: Gateways) -> None:
    changes = [appended(servers, name) for name in ("t", "u")]
    body = {"table-changes": changes}
    assert servers.ask("POST", "/v1/lake/transactions/commit", body).status == 204
    servers.lake.table("db.u").append(ROWS)
    number = changes[1]["updates"][0]["snapshot"]["snapshot-id"]
    expired = {"action": "remove-snapshots", "snapshot-ids": [number]}
    assert post(servers, "one", change("u", [expired])).status == 200
    before = servers.lake.version
    assert servers.ask("POST", "/v1/lake/transactions/commit", body).status == 204
    assert servers.lake.version == before


@pytest.mark.parametrize("route", ROUTES)
def test_who_lost_the_answer_hears_of_success_also_when_the_lake_has_forgotten_the_request(
    servers: Gateways, route: str
) -> None:
    lake, body = servers.lake, appended(servers, "t")
    assert post(servers, route, body).status < 300
    for _ in range(2):
        lake.table("db.u").append(ROWS)
        lake.expire(older_than=0, keep=1)
    before = lake.version
    assert post(servers, route, body).status < 300
    assert (lake.version, lake.table("db.t").to_arrow().num_rows) == (before, 3)
    other = appended(servers, "t")
    for update in other["updates"]:
        if update["action"] == "add-snapshot":
            update["snapshot"]["snapshot-id"] = body["updates"][0]["snapshot"]["snapshot-id"]
    assert post(servers, route, other).status in (400, 409), "another one under the same number"


@pytest.mark.parametrize("version", [2, 3])
def test_a_snapshot_that_others_were_faster_than_is_a_conflict(servers: Gateways, version: int) -> None:
    """Who replaces a table, as Java's client does, requires nothing of its branches."""
    lake, body = servers.lake, appended(servers, "t")
    if version == 3:
        up = {"action": "upgrade-format-version", "format-version": 3}
        assert post(servers, "one", change("t", [up])).status == 200
        body["updates"][0]["snapshot"] |= {"first-row-id": 0, "added-rows": 3}
    uuid = str(lake.table("db.t").metadata.table_uuid)  # type: ignore[attr-defined]
    replacing = {**body, "requirements": [{"type": "assert-table-uuid", "uuid": uuid}]}
    faster = deepcopy(body)
    faster["updates"][0]["snapshot"]["snapshot-id"] = faster["updates"][1]["snapshot-id"] = 5
    assert post(servers, "one", faster).status == 200
    if version == 3:
        replacing["updates"][0]["snapshot"]["sequence-number"] = 2
    assert post(servers, "one", replacing).error == (409, "CommitFailedException")


def test_a_request_of_which_another_has_applied_a_part_is_not_said_to_be_applied(servers: Gateways) -> None:
    """Nor is it refused: the files of that part count, and a client that hears "no" deletes them."""
    lake = servers.lake
    one, other = appended(servers, "t"), appended(servers, "u")
    uuid = str(lake.table("db.u").metadata.table_uuid)  # type: ignore[attr-defined]
    other["requirements"].append({"type": "assert-table-uuid", "uuid": uuid})
    assert post(servers, "one", one).status == 200
    both = {"table-changes": [one, other]}
    said = servers.ask("POST", "/v1/lake/transactions/commit", both)
    assert said.error == (502, "CommitStateUnknownException")
    assert [lake.table(f"db.{table}").count_rows() for table in "tu"] == [3, 0]
    assert post(servers, "one", other).status == 200
    assert servers.ask("POST", "/v1/lake/transactions/commit", both).status == 204, "both are there"


def test_a_request_is_not_said_to_be_applied_for_a_part_that_brings_no_snapshots(servers: Gateways) -> None:
    one, other = appended(servers, "t"), change("u", [setting("a", "1")])
    assert post(servers, "one", one).status == 200
    both = {"table-changes": [one, other]}
    said = servers.ask("POST", "/v1/lake/transactions/commit", both)
    assert said.error == (502, "CommitStateUnknownException")
    assert properties(servers.lake, "db.u") == {}
    assert post(servers, "one", other).status == 200
    assert servers.ask("POST", "/v1/lake/transactions/commit", both).status == 204, "both are there"


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("route", ROUTES)
def test_a_table_that_is_renamed_before_the_root_is_not_changed_under_its_new_name(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str, swapped: bool
) -> None:
    lake, plain = servers.lake, Grouping.commit
    uuid = str(lake.table("db.t").metadata.table_uuid)  # type: ignore[attr-defined]
    body = change("t", [setting("a", "1")], [{"type": "assert-table-uuid", "uuid": uuid}])

    def late(self: Grouping, transactions: Any) -> Any:
        monkeypatch.setattr(Grouping, "commit", plain)
        lake.rename_table("db.t", "db.away")
        if swapped:
            lake.create_table("db.t", ROWS.schema, format="iceberg")
        return plain(self, transactions)

    monkeypatch.setattr(Grouping, "commit", late)
    refused = (409, "CommitFailedException") if swapped else (404, "NoSuchTableException")
    assert post(servers, route, body).error == refused
    assert "a" not in properties(lake, "db.away")


@pytest.mark.parametrize("route", ROUTES)
def test_the_transaction_service_knows_what_became_of_a_commit(servers: Gateways, tmp_path: Path, route: str) -> None:
    """The answer names the transaction; the lake and the service say the same of it, and a repetition names it too."""
    from seiche.service.core import Service
    from seiche.service.state.opening import open_database

    body = change("t", [setting("a", "1")])
    headers = {"Idempotency-Key": "0199-3"}
    said = post(servers, route, body, headers=headers)
    transaction = said.headers["x-seiche-transaction-id"]
    assert servers.lake.status(transaction).outcome == "committed"
    assert post(servers, route, body, headers=headers).headers["x-seiche-transaction-id"] == transaction
    service = Service(servers.lake, open_database(f"sqlite://{tmp_path}/s.db"))
    try:
        assert service.get(transaction).state.name == "APPLIED"
    finally:
        service.close()


@pytest.mark.parametrize("stale", [False, True])
def test_several_tables_change_together_or_not_at_all(servers: Gateways, stale: bool) -> None:
    changes = [appended(servers, "t"), appended(servers, "u")]
    if stale:
        servers.lake.table("db.u").append(ROWS)
    before = servers.lake.version
    said = servers.ask("POST", "/v1/lake/transactions/commit", {"table-changes": changes})
    rows = [servers.lake.table(name).to_arrow().num_rows for name in ("db.t", "db.u")]
    if stale:
        assert said.error == (409, "CommitFailedException")
        assert (rows, servers.lake.version) == ([0, 3], before)
    else:
        assert said.status == 204
        assert (rows, servers.lake.version) == ([3, 3], before + 1)


def test_a_table_that_is_only_required_is_watched_until_the_commit(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another commits to it after the requirements were checked."""
    lake, plain = servers.lake, Grouping.commit
    uuid = str(lake.table("db.u").metadata.table_uuid)  # type: ignore[attr-defined]
    required = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]
    body = {"table-changes": [change("t", [setting("a", "1")]), change("u", [], required)]}
    raced: list[str] = []

    def late(self: Grouping, transactions: Any) -> Any:
        if not raced:
            raced.append(uuid)
            lake.table("db.u").append(ROWS)
        return plain(self, transactions)

    monkeypatch.setattr(Grouping, "commit", late)
    assert servers.ask("POST", "/v1/lake/transactions/commit", body).error == (409, "CommitFailedException")
    assert raced
    assert "a" not in properties(lake)


@pytest.mark.parametrize("route", ROUTES)
def test_who_asserts_a_snapshot_is_not_put_behind_another(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    """The lake could move an append; but the client has said what it must be on top of."""
    lake, plain, body = servers.lake, Grouping.commit, appended(servers, "t")
    raced: list[str] = []

    def late(self: Grouping, transactions: Any) -> Any:
        if not raced:
            raced.append(transactions[0].id)
            lake.table("db.t").append(ROWS)
        return plain(self, transactions)

    monkeypatch.setattr(Grouping, "commit", late)
    assert post(servers, route, body).error == (409, "CommitFailedException")
    assert raced
    assert lake.table("db.t").to_arrow().num_rows == 3


def test_a_table_is_made_inside_a_commit_to_several(servers: Gateways) -> None:
    """Staged first, as clients do; the system that the protocol comes from cannot do it."""
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    new = {"name": "made", "schema": schema, "stage-create": True}
    staged = servers.ask("POST", "/v1/lake/namespaces/db/tables", new).json
    assert "metadata-location" not in staged
    assert servers.ask("HEAD", "/v1/lake/namespaces/db/tables/made").status == 404
    metadata = staged["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
    ]
    body = {"table-changes": [change("made", updates, [{"type": "assert-create"}]), change("t", [setting("a", "1")])]}
    before = servers.lake.version
    assert servers.ask("POST", "/v1/lake/transactions/commit", body).status == 204
    assert servers.lake.version == before + 1
    assert servers.ask("POST", "/v1/lake/transactions/commit", body).status == 204, "asked again"
    assert servers.lake.version == before + 1
    loaded = servers.ask("GET", "/v1/lake/namespaces/db/tables/made").json
    assert loaded["metadata"]["table-uuid"] == metadata["table-uuid"]


def at_once(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, bodies: Sequence[dict[str, Any]], queue: tuple[Any, str]
) -> tuple[list[Said], list[int]]:
    """Send all, so that all but the first wait in the queue while the first is decided; the sizes of the groups too."""
    plain, queued = Committer.commit_group, getattr(*queue)
    entered, go, waiting = threading.Event(), threading.Event(), threading.Semaphore(0)
    sizes: list[int] = []

    def slow(self: Committer, intents: Any) -> Any:
        sizes.append(len(intents))
        if len(sizes) == 1:
            entered.set()
            assert go.wait(60)
        return plain(self, intents)

    def counted(*given: Any) -> None:
        queued(*given)
        waiting.release()

    said: dict[int, Said] = {}
    threads = [
        threading.Thread(target=lambda number, body: said.update({number: post(servers, "one", body)}), args=given)
        for given in enumerate(bodies)
    ]
    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit_group", slow)
        patched.setattr(*queue, counted)
        for thread in threads:
            thread.start()
            assert waiting.acquire(timeout=60)
            assert entered.wait(60)
        go.set()
        for thread in threads:
            thread.join(60)
    return [said[number] for number in range(len(bodies))], sizes


@pytest.mark.parametrize("kind", ["small", "with rows"])
def test_many_clients_commit_with_few_roots(servers: Gateways, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Those who wait while another commits are decided together."""
    lake, names = servers.lake, [f"many{number}" for number in range(8)]
    for name in names:
        lake.create_table(f"db.{name}", ROWS.schema, format="iceberg")
    bodies = [appended(servers, name) if kind == "with rows" else change(name, [setting("a", "1")]) for name in names]
    before = lake.version
    queue = (Grouping, "_enter") if kind == "with rows" else (Together, "ask")
    said, sizes = at_once(servers, monkeypatch, bodies, queue)
    assert {one.status for one in said} == {200}
    for name in names:
        table = lake.table(f"db.{name}")
        assert table.to_arrow().num_rows == 3 if kind == "with rows" else properties(lake, f"db.{name}")["a"] == "1"
    assert (lake.version - before, sizes) == (2, [1, 7])


def test_commits_that_are_decided_together_are_answered_each_for_itself(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cannot be read, one is about nothing, two exclude each other, one is sent twice: no matter to the others."""
    column = {"id": 2, "name": "b", "type": "long", "required": False}
    schema = {"type": "struct", "schema-id": 1, "fields": [{**column, "id": 1, "name": "id"}, column]}
    evolve = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    only_first = [{"type": "assert-current-schema-id", "current-schema-id": 0}]
    bodies = [
        change("t", [setting("first", "1")]),
        change("t", [{"action": "no-such-action"}]),
        change("nothing", [setting("a", "1")]),
        change("lance", [setting("a", "1")]),
        change("u", evolve, only_first),
        change("u", [*evolve, setting("late", "1")], only_first),
        change("t", [setting("a", "1")]),
        change("u", [setting("a", "1")]),
        change("t", [setting("twice", "1")]),
        change("t", [setting("twice", "1")]),
    ]
    said, sizes = at_once(servers, monkeypatch, bodies, (Together, "ask"))
    assert [one.status for one in said] == [200, 400, 404, 400, 200, 409, 200, 200, 200, 200]
    assert sizes[:3] == [1, 5, 1], "the one that is sent twice is decided twice, one after the other"
    assert {"first", "a", "twice"} <= properties(servers.lake).keys()
    assert properties(servers.lake, "db.u").keys() & {"a", "late"} == {"a"}
    assert said[8].headers["x-seiche-transaction-id"] == said[9].headers["x-seiche-transaction-id"]


@pytest.mark.parametrize("joint", [True, False], ids=["together", "alone"])
def test_what_is_committed_and_cannot_be_shown_is_unknown(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, joint: bool
) -> None:
    def silent(*_: Any) -> Any:
        raise Unavailable("storage is silent")

    monkeypatch.setattr(Loading, "left", silent)
    body = change("t", [setting("a", "1")]) if joint else appended(servers, "t")
    assert post(servers, "one", body).error == (502, "CommitStateUnknownException")
    monkeypatch.undo()
    before = servers.lake.version
    assert post(servers, "one", body).status == 200
    assert servers.lake.version == before


@pytest.mark.parametrize("route", ROUTES)
def test_the_id_of_a_transaction_comes_from_the_key_or_from_the_hash(servers: Gateways, route: str) -> None:
    """So that every replica, and whoever asks later, comes to the same one; the hash stands in its record."""
    body = change("t", [setting("a", "1")])
    wanted = request_hash(several_changes({"table-changes": [body]}))
    lake = UUID(servers.lake.state().definition.id)
    for key, headers in ((f"req:lake:{wanted}", {}), ("key::0199-3", {"Idempotency-Key": "0199-3"})):
        said = post(servers, route, body, headers=headers)
        found = said.headers["x-seiche-transaction-id"]
        assert found == str(SYSTEM.derived_uuid(lake, key))
        status = servers.lake.status(found)
        assert status.version is not None
        (record,) = read_root(servers.lake.store, status.version).transactions
        assert (record.id, record.properties[HASH]) == (found, wanted)
