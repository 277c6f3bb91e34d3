"""A commit by the gateway, disturbed at every one of its storage calls: no answer lets a client delete what counts."""

from typing import Any

import pyarrow as pa
import pytest

from seiche import Lake, Unavailable
from seiche.core.runtime import Runtime
from seiche.gateway.credentials import NoCredentials
from seiche.gateway.grouping import Grouping
from seiche.gateway.http.auth import Caller
from seiche.gateway.http.calls import Answer, Call, Route
from seiche.gateway.iceberg_rest.catalog import Catalog
from seiche.gateway.iceberg_rest.commit_routes import commit_routes
from seiche.gateway.iceberg_rest.loading import Loading
from seiche.gateway.iceberg_rest.problems import IcebergProtocol
from seiche.gateway.sessions import Sessions
from seiche.lake.commit.committer import Committer
from seiche.lake.lake import create, open_lake
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.store.base import Store
from seiche.testing import DictStore, Fault, SimulatedStore, crash_points

# After these, a client may delete the files that it wrote for the commit.
DELETING = {400, 404, 409, 503}
UNKNOWN = {500, 502, 504}
TABLES = ("db.t", "db.u")
BODY = {
    "table-changes": [
        {
            "identifier": {"namespace": ["db"], "name": name},
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
            "updates": [{"action": "set-properties", "updates": {"a": "1"}}],
        }
        for name in ("t", "u")
    ]
}


def prepared() -> Store:
    store = DictStore(runtime=Runtime.seeded(1))
    lake = create(store, runtime=Runtime.seeded(1))
    lake.create_namespace("db")
    for name in TABLES:
        lake.create_table(name, pa.schema([("id", pa.int64())]), format="iceberg")
    return store


def opened(store: Store, seed: int) -> Lake:
    return open_lake(store, runtime=Runtime.seeded(seed))


def answered(lake: Lake, seed: int) -> Answer:
    """The request, as the gateway works on it."""
    runtime = Runtime.seeded(seed)
    catalog = Catalog(lake, "lake", Sessions(lake, runtime), NoCredentials(lake.store), runtime)
    route = next(one for one in commit_routes(catalog, Loading(catalog)) if one.path.endswith("transactions/commit"))
    call = Call({"prefix": "lake"}, {}, {}, _json(BODY), Caller(), "test")
    return _run(route, call)


def _json(body: Any) -> bytes:
    import json

    return json.dumps(body).encode()


def _run(route: Route, call: Call) -> Answer:
    try:
        return route.handler(call)
    except Exception as error:
        return IcebergProtocol().problem(error, route, call.request_id)


def scenario(store: SimulatedStore) -> Answer:
    return answered(opened(store, 2), 3)


def applied(store: Store) -> bool:
    lake = opened(store, 4)
    found = {"a" in lake.table(name).metadata.properties for name in TABLES}  # type: ignore[attr-defined]
    assert len(found) == 1, "one table has it and the other does not"
    return found.pop()


def test_no_answer_lies_whatever_storage_does() -> None:
    faults: tuple[Fault, ...] = ("before", "lost", "after", "late", "conflict")
    seen: dict[tuple[int, bool], int] = {}
    for fault in crash_points(prepared, scenario, faults=faults):
        if not isinstance(fault.result, Answer):
            continue  # the lake could not be opened: nothing was asked
        status, there = fault.result.status, applied(fault.store)
        seen[status, there] = seen.get((status, there), 0) + 1
        if status == 204:
            assert there, str(fault)
        else:
            assert status in DELETING | UNKNOWN, str(fault)
            assert not (there and status in DELETING), str(fault)
        # A client that asks again is told the truth, and it is applied once.
        lake = opened(fault.store, 5)
        assert answered(lake, 6).status == 204, str(fault)
        assert applied(fault.store), str(fault)
        versions = {name: lake.table(name).version for name in TABLES}
        assert set(versions.values()) == {2}, f"{fault}: {versions}"
    print(seen)
    assert seen[204, True] >= 10
    assert sum(seen.values()) >= 25


def test_no_answer_lies_when_storage_is_silent_for_long_and_everything_arrives_later() -> None:
    """Nothing that is written gets an answer, and all of it takes effect after the client was told something."""
    seen: dict[tuple[int, bool], int] = {}
    rehearsal = SimulatedStore(prepared())
    scenario(rehearsal)
    for start in range(1, len(rehearsal.calls) + 1):
        store = SimulatedStore(prepared(), plan=dict.fromkeys(range(start, start + 100_000), "late"))
        status = scenario(store).status
        store.deliver()
        there = applied(store._inner)
        seen[status, there] = seen.get((status, there), 0) + 1
        assert not (there and status in DELETING), f"from call {start} on: {status}"
        assert there or status != 204, f"from call {start} on: {status}"
    print(seen)
    assert sum(seen.values()) >= 10


@pytest.mark.parametrize("when", ["stop_before", "stop_after"])
def test_a_server_that_dies_at_any_call_leaves_all_or_nothing(when: Fault) -> None:
    outcomes = set()
    for crash in crash_points(prepared, scenario, faults=(when,)):
        outcomes.add(applied(crash.store))
        lake = opened(crash.store, 5)
        assert answered(lake, 6).status == 204, str(crash)
        assert {lake.table(name).version for name in TABLES} == {2}, str(crash)
    assert outcomes == {False, True}


def test_what_is_committed_and_cannot_be_read_now_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on meanwhile, and the version that has it does not come: the client must not delete its files."""
    lake = opened(prepared(), 7)
    decide = Committer.commit_group

    def slow(self: Committer, *given: Any) -> Any:
        found = decide(self, *given)
        monkeypatch.setattr(Committer, "commit_group", decide)
        opened(lake.store, 8).create_namespace("other")
        lake.states.latest()
        return found

    def away(*_: object) -> State:
        raise Unavailable("away")

    monkeypatch.setattr(Committer, "commit_group", slow)
    monkeypatch.setattr(States, "at", away)
    tx = lake.transaction()
    tx.create_namespace("own")
    (found,) = Grouping(lake).commit([tx])
    assert isinstance(found, State)
    assert found.namespace(("own",)) is not None
