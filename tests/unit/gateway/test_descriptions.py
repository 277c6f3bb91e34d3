"""What tables and views are said to be: the columns of a branch, and the schema of each version of a view."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Lake
from seiche.gateway.grouping import Grouping
from seiche.gateway.iceberg_rest.catalog import Catalog
from seiche.gateway.iceberg_rest.view_metadata import with_updates
from seiche.store import open_store
from tests.gateway_server import Direct, Said, direct

VIEWS = "/v1/lake/namespaces/db/views"
TABLE = "/v1/table/db%24t"
SCHEMA = pa.schema([("id", pa.int64())])
STRUCT: dict[str, Any] = {"type": "struct"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("db")
    made.create_table("db.t", SCHEMA)
    return made


@pytest.fixture
def servers(lake: Lake) -> Direct:
    return direct(lake)


def test_a_branch_is_described_with_its_own_columns(servers: Direct) -> None:
    def columns(**given: Any) -> tuple[int, list[str]]:
        said = servers.ask("POST", f"{TABLE}/describe?load_detailed_metadata=true", given, lance=True)
        assert said.status == 200, said.body
        return said.json["version"], [field["name"] for field in said.json["schema"]["fields"]]

    lake = servers.lake
    assert servers.ask("POST", f"{TABLE}/branches/create", {"name": "dev"}, lance=True).status == 200
    lake.table("db.t@dev").add_columns({"ours": "1"})
    lake.table("db.t").add_columns({"theirs": "1"})
    lake.table("db.t").add_columns({"more": "1"})
    tag = {"tag": "then", "version": 1, "branch": "dev"}
    assert servers.ask("POST", f"{TABLE}/tags/create", tag, lance=True).status == 200
    tag = {"tag": "now", "version": 2, "branch": "dev"}
    assert servers.ask("POST", f"{TABLE}/tags/create", tag, lance=True).status == 200
    assert columns() == (3, ["id", "theirs", "more"])
    assert columns(version=2) == (2, ["id", "theirs"])
    assert columns(branch="dev") == (2, ["id", "ours"])
    assert columns(branch="dev", version=1) == (1, ["id"])
    assert columns(tag="then") == (1, ["id"])
    assert columns(tag="now") == (2, ["id", "ours"])
    none = servers.ask("POST", f"{TABLE}/describe?load_detailed_metadata=true", {"branch": "no"}, lance=True)
    assert none.status == 404


def version(number: int, schema: int | None, sql: str) -> dict[str, Any]:
    made = {
        "version-id": number,
        "timestamp-ms": number,
        "summary": {},
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        "default-namespace": ["db"],
    }
    return made if schema is None else {**made, "schema-id": schema}


def struct(*names: str) -> dict[str, Any]:
    fields = [{"id": number + 1, "name": name, "type": "long", "required": False} for number, name in enumerate(names)]
    return {"type": "struct", "schema-id": 0, "fields": fields}


@pytest.fixture
def view(servers: Direct) -> dict[str, Any]:
    body = {"name": "v", "schema": struct("a"), "view-version": version(1, 0, "select 1"), "properties": {}}
    said = servers.ask("POST", VIEWS, body)
    assert said.status == 200
    metadata: dict[str, Any] = said.json["metadata"]
    return metadata


@pytest.mark.parametrize("schema", [7, -2, "0", None, -1])
def test_a_version_of_a_view_has_a_schema_that_the_view_has(
    servers: Direct, view: dict[str, Any], schema: int | None
) -> None:
    """Without one, or with -1, it is the one that was added last: here none was."""
    updates = [
        {"action": "add-view-version", "view-version": version(2, schema, "select 2")},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    assert servers.ask("POST", f"{VIEWS}/v", {"requirements": [], "updates": updates}).error == (
        400,
        "ValidationException",
    )
    with pytest.raises(InvalidInput):
        with_updates(view, [], updates, 5)
    assert servers.ask("GET", f"{VIEWS}/v").json["metadata"] == view


def test_a_version_of_a_view_has_the_schema_that_came_with_it_or_an_earlier_one(
    servers: Direct, view: dict[str, Any]
) -> None:
    def changed(schema: int, *before: dict[str, Any]) -> tuple[list[int], list[int]]:
        updates = [*before, {"action": "add-view-version", "view-version": version(9, schema, "select 3")}]
        said = servers.ask("POST", f"{VIEWS}/v", {"requirements": [], "updates": updates})
        assert said.status == 200, said.body
        metadata = said.json["metadata"]
        return [one["schema-id"] for one in metadata["schemas"]], [one["schema-id"] for one in metadata["versions"]]

    add = {"action": "add-schema", "schema": struct("a", "b")}
    assert changed(-1, add) == ([0, 1], [0, 1])
    assert changed(0) == ([0, 1], [0, 1, 0])
    assert changed(1) == ([0, 1], [0, 1, 0, 1])
    # A schema that the view has is not added again, and is meant all the same.
    assert changed(-1, {"action": "add-schema", "schema": struct("a")}) == ([0, 1], [0, 1, 0, 1, 0])
    assert with_updates(view, [], [], 5) == view


@pytest.mark.parametrize("number", [2, 9])
def test_ids_that_a_client_gives_to_what_it_adds_mean_that(servers: Direct, view: dict[str, Any], number: int) -> None:
    """Two who replace a view at once give the same ids: each is to see his own text, not the other's."""
    for sql, column in (("select 2", "b"), ("select 3", "c")):
        updates = [
            {"action": "add-schema", "schema": {**struct(column), "schema-id": number}},
            {"action": "add-view-version", "view-version": version(number, number, sql)},
            {"action": "set-current-view-version", "view-version-id": number},
        ]
        said = servers.ask("POST", f"{VIEWS}/v", {"requirements": [], "updates": updates})
        assert said.status == 200, said.body
        metadata = said.json["metadata"]
        current = {one["version-id"]: one for one in metadata["versions"]}[metadata["current-version-id"]]
        assert current["representations"][0]["sql"] == sql
        columns = {one["schema-id"]: one["fields"][0]["name"] for one in metadata["schemas"]}
        assert columns[current["schema-id"]] == column


@pytest.mark.parametrize(("most", "kept"), [(None, 10), (1, 1), (4, 4), (25, 20)])
def test_a_view_keeps_as_many_versions_as_it_says(view: dict[str, Any], most: int | None, kept: int) -> None:
    """One that is replaced every hour had all of them, in each answer and each row of the lake."""
    said = {} if most is None else {"version.history.num-entries": str(most)}
    made = with_updates(view, [], [{"action": "set-properties", "updates": said}], 1)
    for number in range(2, 21):
        updates = [
            {"action": "add-view-version", "view-version": version(number, 0, f"select {number}")},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        made = with_updates(made, [], updates, number)
    numbers = list(range(21 - kept, 21))
    assert [one["version-id"] for one in made["versions"]] == numbers
    assert [one["version-id"] for one in made["version-log"]] == numbers
    # An earlier one that is current stays, and so does all that comes with one request.
    first = {"action": "set-current-view-version", "view-version-id": numbers[0]}
    three = [{"action": "add-view-version", "view-version": version(0, 0, f"select {number}")} for number in range(3)]
    again = with_updates(made, [], [first, *three], 21)
    assert {numbers[0], 22, 23} <= {one["version-id"] for one in again["versions"]}
    assert again["version-log"][-1]["version-id"] == again["current-version-id"] == numbers[0]


@pytest.mark.parametrize("body", [{"limit": -1}, {"page_token": "9" * 5000}])
def test_pages_that_there_cannot_be_are_refused(servers: Direct, body: dict[str, Any]) -> None:
    assert servers.ask("POST", f"{TABLE}/version/list", body, lance=True).status == 400


@pytest.mark.parametrize("most", ["0", "-1", "x", "", "9" * 5000])
def test_a_view_cannot_keep_no_version(view: dict[str, Any], most: str) -> None:
    with pytest.raises(seiche.InvalidInput, match="num-entries"):
        with_updates(view, [], [{"action": "set-properties", "updates": {"version.history.num-entries": most}}], 1)


def test_who_lost_the_answer_about_a_view_is_shown_what_it_is(servers: Direct) -> None:
    """With a key everything happens once; the answer to a repetition must not show a version that there is not."""
    body = {"name": "v", "schema": struct("a"), "view-version": version(1, 0, "select 1"), "properties": {}}
    updates = [
        {"action": "add-view-version", "view-version": version(2, 0, "select 2")},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    asked = {VIEWS: body, f"{VIEWS}/v": {"requirements": [], "updates": updates}}
    for number, (path, given) in enumerate(asked.items(), start=1):
        first, again = (
            servers.ask("POST", path, given, headers={"Idempotency-Key": f"0199-{number}"}) for _ in range(2)
        )
        assert (first.status, again.status) == (200, 200), again.body
        assert first.json["metadata"]["current-version-id"] == number
        assert again.json == first.json == servers.ask("GET", f"{VIEWS}/v").json


@pytest.mark.parametrize("now", ["gone", "another"])
@pytest.mark.parametrize("kind", ["view", "table"])
def test_who_lost_the_answer_is_not_shown_another_of_the_same_name(servers: Direct, kind: str, now: str) -> None:
    """What was made under a key is shown as it was made, if it is gone by now: it was 404 for a view, and another table
    or view of the same name was shown as if it were the one that had been made.
    """
    bodies = {
        "view": {"name": "x", "schema": struct("a"), "view-version": version(1, 0, "select 1"), "properties": {}},
        "table": {"name": "x", "schema": struct("a")},
    }
    path = f"/v1/lake/namespaces/db/{kind}s"
    key = {"Idempotency-Key": "0199"}
    first = servers.ask("POST", path, bodies[kind], headers=key)
    assert servers.ask("DELETE", f"{path}/x").status == 204
    if now == "another":
        assert servers.ask("POST", path, bodies[kind] | {"schema": struct("b")}).status == 200
    again = servers.ask("POST", path, bodies[kind], headers=key)
    assert (again.status, again.json) == (200, first.json)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("what", ["commit", "commits", "table", "view", "namespace"])
def test_two_requests_under_one_key_at_the_same_time(
    servers: Direct, monkeypatch: pytest.MonkeyPatch, what: str, same: bool
) -> None:
    """Both begin before either is decided. The same request twice is answered twice with what the first has made, which
    was another view; another one is refused: it was told as applied, and nothing of it was.
    """
    servers.ask("POST", "/v1/lake/namespaces/db/tables", {"name": "i", "schema": struct("a")})
    change = {
        "identifier": {"namespace": ["db"], "name": "i"},
        "requirements": [],
        "updates": [{"action": "set-properties", "updates": {"by": "first"}}],
    }
    made = {"name": "x", "schema": struct("a"), "properties": {"by": "first"}}
    path, first = {
        "commit": ("/v1/lake/namespaces/db/tables/i", change),
        "commits": ("/v1/lake/transactions/commit", {"table-changes": [change]}),
        "table": ("/v1/lake/namespaces/db/tables", made),
        "view": (VIEWS, made | {"view-version": version(1, 0, "select 1")}),
        "namespace": ("/v1/lake/namespaces", {"namespace": ["n"], "properties": {"by": "first"}}),
    }[what]
    second = first if same else json.loads(json.dumps(first).replace("first", "second"))
    key = {"Idempotency-Key": "0199"}
    earlier: list[Said] = []
    commit = Grouping.commit

    def late(self: Grouping, transactions: Any) -> Any:
        monkeypatch.setattr(Grouping, "commit", commit)
        earlier.append(direct(servers.lake).ask("POST", path, first, headers=key))  # another server of the lake
        return commit(self, transactions)

    monkeypatch.setattr(Grouping, "commit", late)
    later = servers.ask("POST", path, second, headers=key)
    assert earlier[0].status in (200, 204)
    if same:
        assert (later.status, later.body) == (earlier[0].status, earlier[0].body)
    else:
        assert later.error == (409, "CommitFailedException")


def test_the_same_request_twice_under_one_key_where_the_second_has_just_been_looked_up(
    servers: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is decided between the second's look and its work, which found the name taken: it was told 409."""
    schema = {"name": "x", "schema": struct("a")}
    key = {"Idempotency-Key": "0199"}
    earlier: list[Said] = []
    begun = Catalog._begun

    def late(self: Catalog, call: Any) -> Any:
        monkeypatch.setattr(Catalog, "_begun", begun)
        looked = begun(self, call)
        earlier.append(direct(servers.lake).ask("POST", "/v1/lake/namespaces/db/tables", schema, headers=key))
        return looked

    monkeypatch.setattr(Catalog, "_begun", late)
    later = servers.ask("POST", "/v1/lake/namespaces/db/tables", schema, headers=key)
    assert (later.status, later.body) == (200, earlier[0].body)


def test_who_lost_the_answer_about_properties_hears_the_first_one(servers: Direct) -> None:
    """Which of them were removed: asked again, all were said to be missing."""
    path, key = "/v1/lake/namespaces/db/properties", {"Idempotency-Key": "0199"}
    assert servers.ask("POST", path, {"updates": {"a": "1"}}).status == 200
    body = {"updates": {"b": "2"}, "removals": ["a", "none", "a"]}
    said = [servers.ask("POST", path, body, headers=key) for _ in range(2)]
    told = {"updated": ["b"], "removed": ["a"], "missing": ["none"]}
    assert [(one.status, one.json) for one in said] == [(200, told)] * 2


def test_a_version_of_a_view_has_one_text_for_each_dialect(servers: Direct) -> None:
    """Which of two texts an engine would take is not said anywhere."""
    both = [
        {"type": "sql", "sql": f"SELECT {number}", "dialect": name} for number, name in enumerate(("spark", "Spark"))
    ]
    twice, once = version(1, 0, "SELECT 1") | {"representations": both}, version(1, 0, "SELECT 1")
    body = {"name": "v", "schema": struct("a"), "view-version": twice, "properties": {}}
    refused = servers.ask("POST", VIEWS, body)
    assert (refused.status, servers.ask("GET", VIEWS).json["identifiers"]) == (400, [])
    assert "Spark" in refused.json["error"]["message"]
    assert servers.ask("POST", VIEWS, body | {"view-version": once}).status == 200
    added = {"action": "add-view-version", "view-version": twice}
    assert servers.ask("POST", f"{VIEWS}/v", {"requirements": [], "updates": [added]}).status == 400


@pytest.mark.parametrize(
    "wrong",
    [
        {"current-version-id": 9},
        {"versions": []},
        {"schemas": []},
        {"location": ""},
        {"versions": [version(1 << 31, 0, "select 1")], "current-version-id": 1 << 31},
    ],
    ids=["current", "versions", "schemas", "location", "number"],
)
def test_metadata_that_is_that_of_no_view_is_not_registered(
    servers: Direct, view: dict[str, Any], tmp_path: Path, wrong: dict[str, Any]
) -> None:
    where = tmp_path / "lake" / "view.json"
    body = {"name": "w", "metadata-location": str(where)}
    where.write_text(json.dumps(view | wrong))
    asked = servers.ask("POST", "/v1/lake/namespaces/db/register-view", body)
    assert asked.error == (400, "ValidationException")
    where.write_text(json.dumps(view))
    assert servers.ask("POST", "/v1/lake/namespaces/db/register-view", body).json["metadata"] == view


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-location", "location": None},
        {"action": "set-location", "location": ""},
        {"action": "set-properties", "updates": [["a", "b"]]},
        {"action": "remove-properties", "removals": "comment"},
        {"action": "add-view-version", "view-version": version(2, 0, "select 2") | {"timestamp-ms": 1 << 63}},
    ],
)
def test_a_view_that_nobody_could_load_is_not_made_by_an_update(
    servers: Direct, view: dict[str, Any], update: dict[str, Any]
) -> None:
    """A location of null became the text `None`, and each letter of a text a property to be removed."""
    asked = servers.ask("POST", f"{VIEWS}/v", {"requirements": [], "updates": [update]})
    assert asked.error == (400, "ValidationException")
    assert servers.ask("GET", f"{VIEWS}/v").json["metadata"] == view


def test_columns_of_a_new_table_keep_their_defaults(servers: Direct) -> None:
    """PyIceberg gives out new ids for the columns of a new table, and drops what else they have."""

    def column(number: int, name: str, kind: Any, **others: Any) -> dict[str, Any]:
        return {"id": number, "name": name, "type": kind, "required": False, **others}

    inner = column(9, "x", "int", **{"initial-default": 1, "write-default": 2})
    columns = [
        column(4, "plain", "long"),
        column(5, "s", "string", **{"initial-default": "a", "write-default": "b", "doc": "why"}),
        column(
            6,
            "l",
            {"type": "list", "element-id": 7, "element-required": False, "element": STRUCT | {"fields": [inner]}},
        ),
    ]

    def made(name: str, version: str, **others: Any) -> Said:
        body = {
            "name": name,
            "schema": STRUCT | {"fields": columns},
            "properties": {"format-version": version},
            **others,
        }
        return servers.ask("POST", "/v1/lake/namespaces/db/tables", body)

    for said in (made("new", "3"), made("staged", "3", **{"stage-create": True})):
        assert said.status == 200, said.body
        plain, text, several = said.json["metadata"]["schemas"][0]["fields"]
        assert "initial-default" not in plain
        assert (text["id"], text["initial-default"], text["write-default"], text["doc"]) == (2, "a", "b", "why")
        (nested,) = several["type"]["element"]["fields"]
        assert (nested["initial-default"], nested["write-default"]) == (1, 2)
    older = made("older", "2")
    assert (older.status, older.json["error"]["type"]) == (400, "ValidationException")
    assert "'s'" in older.json["error"]["message"]
    assert ("db", "older") not in servers.lake.tables("db")
