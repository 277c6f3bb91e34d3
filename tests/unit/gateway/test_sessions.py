"""Transactions that are chosen by a header: what is refused is not in them, and what is decided stays decided."""

import random
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Lake, RetryableConflict, Unavailable
from seiche.core.clock import SystemClock
from seiche.core.runtime import SYSTEM, Runtime
from seiche.gateway import sessions as sessions_module
from seiche.gateway.sessions import HEADER, Sessions
from seiche.lake import saved
from seiche.lake.transaction import Transaction
from tests.gateway_server import Direct, Said, direct, lake_with_table

COMMIT = "/v1/lake/transactions/commit"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_with_table(tmp_path, pa.table({"id": [1]}))


@pytest.fixture
def servers(lake: Lake) -> Direct:
    return direct(lake)


def change(table: str, updates: Sequence[Any], requirements: Sequence[Any] = ()) -> dict[str, Any]:
    name = {"namespace": ["db"], "name": table}
    return {"identifier": name, "requirements": list(requirements), "updates": list(updates)}


def setting(name: str, value: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {name: value}}


def commit(servers: Direct, session: str, *changes: dict[str, Any]) -> Said:
    return servers.ask("POST", COMMIT, {"table-changes": changes}, headers={"X-Seiche-Transaction": session})


def properties(lake: Lake) -> dict[str, str]:
    return dict(lake.table("db.t").metadata.properties)  # type: ignore[attr-defined]


def test_of_a_request_that_is_refused_nothing_is_in_the_transaction(servers: Direct) -> None:
    """Its client has deleted its files: they must not be committed with what comes after."""
    first = servers.ask(
        "POST",
        "/v1/lake/namespaces/db/tables/t",
        change("t", [setting("a", "1")]),
        headers={"X-Seiche-Transaction": "s"},
    )
    assert first.status == 200
    missing = change("missing", [setting("b", "1")])
    assert commit(servers, "s", change("t", [setting("b", "1")]), missing).error == (404, "NoSuchTableException")
    assert commit(servers, "s").status == 204
    assert properties(servers.lake) == {"a": "1"}


@pytest.mark.parametrize("restarted", [False, True])
def test_who_lost_the_answer_to_a_statement_is_not_told_of_a_conflict_with_it(lake: Lake, restarted: bool) -> None:
    """Its client would delete files that are committed with the transaction, or write its rows once more."""
    table = lake.table("db.t").to_iceberg()
    begun = table.transaction()
    begun.append(pa.table({"id": [2]}))
    required = [one.model_dump(mode="json", by_alias=True) for one in begun._requirements]
    updates = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in begun._updates]
    column = {"id": 2, "name": "x", "type": "string", "required": False}
    schema = {"type": "struct", "fields": [*table.schema().model_dump()["fields"], column]}
    altered = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    old = [{"type": "assert-current-schema-id", "current-schema-id": 0}]
    servers, name = direct(lake), {"X-Seiche-Transaction": "s"}
    for statement in (change("t", updates, required), change("t", altered, old)):
        said = []
        for _ in range(2):
            said.append(servers.ask("POST", "/v1/lake/namespaces/db/tables/t", statement, headers=name))
            servers = direct(lake) if restarted else servers
        assert [one.status for one in said] == [200, 200], said[1].body
        first, again = (one.json["metadata"] for one in said)
        assert {**again, "last-updated-ms": 0} == {**first, "last-updated-ms": 0}
    late = servers.ask("POST", "/v1/lake/namespaces/db/tables/t", change("t", updates, required), headers=name)
    assert late.json["metadata"]["current-schema-id"] == 1
    assert commit(servers, "s").status == 204
    assert lake.table("db.t").to_arrow().to_pylist() == [{"id": 2, "x": None}, {"id": 1, "x": None}]


def timeless(said: Said) -> bytes:
    return re.sub(rb'"last-updated-ms":\d+', b"", said.body)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_key_stands_for_one_statement_of_a_transaction(lake: Lake, restarted: bool) -> None:
    """Asked again, after an answer that was lost, it is answered as the first time; making a table was 409."""
    servers = direct(lake)
    schema = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "long", "required": False}]}
    names = {"source": {"namespace": ["n"], "name": "x"}, "destination": {"namespace": ["n"], "name": "y"}}
    version = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": ["n"]}
    version |= {"representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}]}
    path = "/v1/lake/namespaces"
    asked: list[tuple[str, str, Any]] = [
        ("POST", path, {"namespace": ["n"]}),
        ("POST", f"{path}/n/properties", {"updates": {"a": "1"}, "removals": ["b"]}),
        ("POST", f"{path}/n/tables", {"name": "x", "schema": schema}),
        ("POST", "/v1/lake/tables/rename", names),
        ("POST", f"{path}/n/tables/y", {"requirements": [], "updates": [setting("a", "1")]}),
        ("POST", f"{path}/n/views", {"name": "v", "schema": schema, "view-version": version, "properties": {}}),
        ("DELETE", f"{path}/n/views/v", None),
        ("POST", f"{path}/db/tables/t/unregister", None),
    ]
    for number, (method, where, body) in enumerate(asked):
        headers = {HEADER: "s", "Idempotency-Key": f"0199-{number}"}
        first = servers.ask(method, where, body, headers=headers)
        servers = direct(lake) if restarted else servers
        again = servers.ask(method, where, body, headers=headers)
        assert first.status in (200, 204), first.body
        assert (again.status, timeless(again)) == (first.status, timeless(first))
        other = servers.ask("POST", path, {"namespace": ["other"]}, headers=headers)
        expected = 200 if "requirements" in (body or {}) else 409  # keys of commits are keys of their own
        assert other.status == expected, other.body
    late = {HEADER: "s", "Idempotency-Key": "0199-4"}
    same = {"requirements": [], "updates": [setting("a", "1")]}
    unlike = {"requirements": [], "updates": [setting("a", "2")]}
    assert servers.ask("POST", f"{path}/n/tables/y", unlike, headers={HEADER: "s"}).status == 200
    said = servers.ask("POST", f"{path}/n/tables/y", same, headers=late)
    assert said.json["metadata"]["properties"] == {"a": "2"}, "said again, it is not done again"
    assert servers.ask("POST", f"{path}/n/tables/y", unlike, headers=late).error == (409, "CommitFailedException")
    assert commit(servers, "s").status == 204
    assert lake.tables() == [("n", "y")]
    assert not any("0199" in name for name in lake.log()[0].transactions[0].properties)


def test_a_transaction_that_is_committed_swallows_no_other_request(servers: Direct) -> None:
    one, other = change("t", [setting("a", "1")]), change("t", [setting("b", "1")])
    assert commit(servers, "s", one).status == 204
    before = servers.lake.version
    assert commit(servers, "s", one).status == 204, "asked again"
    assert commit(servers, "s").status == 204, "asked whether it is"
    assert commit(servers, "s", other).error == (409, "CommitFailedException")
    assert (servers.lake.version, properties(servers.lake)) == (before, {"a": "1"})
    table, session = "/v1/lake/namespaces/db/tables/t", {"X-Seiche-Transaction": "by statements"}
    assert servers.ask("POST", table, one, headers=session).status == 200
    assert commit(servers, "by statements").status == 204
    assert commit(servers, "by statements", other).error == (409, "CommitFailedException")
    assert servers.ask("POST", table, change("t", [setting("c", "1")]), headers={HEADER: "by Lance"}).status == 200
    Sessions(servers.lake, SYSTEM).commit("by Lance")
    assert commit(servers, "by Lance", other).error == (409, "CommitFailedException")


def lance_call(servers: Direct, path: str, body: Any = None, session: str = "s") -> Said:
    return servers.ask("POST", path, body, lance=True, headers={HEADER: session})


def stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def test_of_a_request_of_lances_protocol_that_is_refused_nothing_is_in_the_transaction(servers: Direct) -> None:
    """A table of rows is made in two steps."""
    needed = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    broken = pa.Table.from_arrays([pa.array([1, None], pa.int64())], schema=needed)
    assert lance_call(servers, "/v1/table/db%24sound/create", stream(pa.table({"id": [1]}))).status == 200
    assert lance_call(servers, "/v1/table/db%24broken/create", stream(broken)).status == 400
    assert commit(servers, "s").status == 204
    assert servers.lake.tables("db") == [("db", "sound"), ("db", "t")]


def test_what_could_not_be_saved_is_not_in_the_transaction(servers: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server, or this one after a crash, would not know of it."""
    rows = stream(pa.table({"id": [1]}))
    assert lance_call(servers, "/v1/table/db%24first/create", rows).status == 200

    def away(*_: Any) -> Any:
        raise Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(saved, "write", away)
        assert lance_call(servers, "/v1/table/db%24second/create", rows).status == 503
    assert lance_call(servers, "/v1/table/db%24second/exists").status == 404
    assert commit(servers, "s").status == 204
    assert servers.lake.tables("db") == [("db", "first"), ("db", "t")]


def test_who_waits_for_a_request_that_fails_goes_on_without_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, waits, failing = Sessions(lake, SYSTEM), Event(), Event()

    def fail() -> None:
        def away(*_: Any) -> Any:
            raise Unavailable("away")

        with monkeypatch.context() as patched, sessions.using("s", changes=True) as session:
            session.transaction.create_namespace("lost")
            failing.set()
            waits.wait(10)
            patched.setattr(saved, "write", away)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fail)
        failing.wait(10)
        second = pool.submit(_make_namespace, sessions, "kept")
        while not second.running():
            pass
        waits.set()
        with pytest.raises(Unavailable):
            first.result()
        second.result()
    sessions.commit("s")
    assert lake.namespaces() == [("db",), ("kept",)]


def _make_namespace(sessions: Sessions, name: str) -> None:
    with sessions.using("s", changes=True) as session:
        session.transaction.create_namespace(name)


def test_who_asks_for_a_commit_that_is_under_way_is_told_that_it_happened(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, begun, goes_on = Sessions(lake, SYSTEM), Event(), Event()
    _make_namespace(sessions, "made")
    plain = Transaction.commit

    def slow(transaction: Transaction) -> int:
        begun.set()
        goes_on.wait(10)
        return plain(transaction)

    asked = Event()
    state = Sessions.state

    def noted(self: Sessions, name: str) -> Any:
        found = state(self, name)
        if begun.is_set():
            asked.set()
        return found

    monkeypatch.setattr(Transaction, "commit", slow)
    monkeypatch.setattr(Sessions, "state", noted)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sessions.commit, "s")
        begun.wait(10)
        second = pool.submit(sessions.commit, "s")
        asked.wait(10)
        goes_on.set()
        first.result()
        second.result()
    assert lake.namespaces() == [("db",), ("made",)]


@pytest.mark.parametrize("silent", [False, True])
def test_a_conflict_ends_a_transaction(servers: Direct, monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    """Whoever was told so does it again in another: it must not happen later, when nothing is in its way any more."""
    lake = servers.lake
    absent = {"type": "assert-ref-snapshot-id", "ref": "x", "snapshot-id": None}
    table, session = "/v1/lake/namespaces/db/tables/t", {"X-Seiche-Transaction": "s"}
    assert servers.ask("POST", table, change("t", [setting("a", "1")], [absent]), headers=session).status == 200
    number = lake.table("db.t").metadata.current_snapshot_id  # type: ignore[attr-defined]
    tag = {"action": "set-snapshot-ref", "ref-name": "x", "type": "tag", "snapshot-id": number}
    assert servers.ask("POST", table, change("t", [tag])).status == 200
    if silent:

        def away(*_: Any) -> Any:
            raise Unavailable("away")

        with monkeypatch.context() as patched:
            patched.setattr(saved, "write", away)
            assert commit(servers, "s").error[0] >= 500, "it has not ended"
    before = lake.version
    assert commit(servers, "s").error == (409, "CommitFailedException")
    assert lake.version == before
    gone = {"action": "remove-snapshot-ref", "ref-name": "x"}
    assert servers.ask("POST", table, change("t", [gone])).status == 200
    before = lake.version
    assert commit(servers, "s").status >= 400
    assert servers.ask("POST", table, change("t", [setting("b", "1")]), headers=session).status >= 400
    assert (lake.version, properties(lake)) == (before, {})
    for asked in (servers, direct(lake)):
        described = asked.ask("POST", "/v1/transaction/s/describe", {}, lance=True)
        assert (described.status, described.json) == (200, {"status": "Canceled"})
    cancelled = {"actions": [{"setStatusAction": {"status": "Canceled"}}]}
    assert servers.ask("POST", "/v1/transaction/s/alter", cancelled, lance=True).status == 200


def test_a_transaction_that_goes_from_server_to_server_loses_no_statement(lake: Lake) -> None:
    here, there = Sessions(lake, SYSTEM), Sessions(seiche.open(lake.store), SYSTEM)
    _make_namespace(here, "one")
    _make_namespace(there, "two")
    _make_namespace(here, "three")
    there.commit("s")
    assert lake.namespaces() == [("db",), ("one",), ("three",), ("two",)]
    assert (here.state("s"), there.state("s")) == ("Succeeded", "Succeeded")
    with pytest.raises(InvalidInput, match="has ended"):
        _make_namespace(here, "late")


def test_a_transaction_that_is_too_old_to_be_gone_on_with_can_be_cancelled(lake: Lake) -> None:
    _make_namespace(Sessions(lake, SYSTEM), "late")
    later = Sessions(seiche.open(lake.store), SYSTEM)
    with later.using("s", changes=True) as session:
        session.transaction.expires_at_millis = 2
    later.forget("s")
    with pytest.raises(RetryableConflict, match="older"):
        later.commit("s")
    later.cancel("s")
    assert later.state("s") == "Canceled"


def test_a_list_of_all_tables_shows_what_the_transaction_sees(servers: Direct) -> None:
    servers.lake.create_table("db.a", pa.schema([("id", pa.int64())]))
    headers = {"X-Seiche-Transaction": "s"}
    renamed = servers.ask("POST", "/v1/table/db%24a/rename", {"new_table_name": "b"}, lance=True, headers=headers)
    assert renamed.status == 200
    assert servers.ask("GET", "/v1/table?delimiter=.", lance=True, headers=headers).json == {"tables": ["db.b"]}
    assert servers.ask("GET", "/v1/table", lance=True).json == {"tables": ["db$a"]}


def test_the_columns_of_a_table_are_those_of_the_version_that_is_asked_for(servers: Direct) -> None:
    table = servers.lake.create_table("db.a", pa.schema([("id", pa.int64())]))
    table.add_columns({"more": "1"})
    for asked, columns in (({}, ["id", "more"]), ({"version": 1}, ["id"]), ({"version": 2}, ["id", "more"])):
        described = servers.ask(
            "POST",
            "/v1/table/db%24a/describe?load_detailed_metadata=true",
            asked,
            lance=True,
            headers={"X-Seiche-Transaction": "s"},
        )
        assert [one["name"] for one in described.json["schema"]["fields"]] == columns


class LaterClock(SystemClock):
    """A clock that a test puts forward."""

    later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


def test_transactions_that_only_read_leave_room_for_others_and_go_on_where_they_were(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "_MOST", 2)
    sessions = Sessions(lake, SYSTEM)
    with sessions.using("reader", changes=False) as reader:
        seen = reader.transaction.base
    lake.create_namespace("later")
    for name in ("second", "third", "fourth"):
        with sessions.using(name, changes=True) as session:
            session.transaction.create_namespace(name)
    assert len(sessions._running) == 2
    assert sessions.state("reader") == "Running"
    with sessions.using("reader", changes=False) as reader:
        assert reader.transaction.base == seen
        assert ("later",) not in reader.transaction.namespaces()
    for name in ("second", "third", "fourth", "reader"):
        sessions.commit(name)
    assert {("second",), ("third",), ("fourth",)} <= set(lake.namespaces())


def test_a_transaction_in_use_is_not_forgotten_for_another(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_MOST", 1)
    sessions = Sessions(lake, SYSTEM)

    def ask() -> None:
        with sessions.using("second", changes=False):
            pass

    with sessions.using("first", changes=True) as first, ThreadPoolExecutor(1) as thread:
        first.transaction.create_namespace("first")
        with pytest.raises(RetryableConflict, match="1 transactions are under way"):
            thread.submit(ask).result()
    ask()
    sessions.commit("first")
    assert ("first",) in set(lake.namespaces())


def test_who_has_only_read_and_was_away_for_hours_reads_the_same_version(lake: Lake) -> None:
    clock = LaterClock()
    sessions = Sessions(lake, Runtime(clock, random.SystemRandom()))
    with sessions.using("reader", changes=False) as reader:
        seen = reader.transaction.base
    lake.create_namespace("later")
    clock.later += 7200
    with sessions.using("other", changes=False):
        pass
    assert list(sessions._running) == ["other"]
    with sessions.using("reader", changes=False) as reader:
        assert reader.transaction.base == seen


def test_a_server_that_forgets_a_reader_leaves_alone_what_another_has_of_it(lake: Lake) -> None:
    clock = LaterClock()
    here, there = Sessions(lake, Runtime(clock, random.SystemRandom())), Sessions(lake, SYSTEM)
    with here.using("both", changes=False):
        pass
    with there.using("both", changes=True) as session:
        session.transaction.create_namespace("made")
    clock.later += 7200
    with here.using("other", changes=False):
        pass
    there.commit("both")
    assert ("made",) in set(lake.namespaces())
