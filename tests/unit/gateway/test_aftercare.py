"""What is done after commits: by the tables' own properties, beside the answer, and never to files."""

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform

import seiche
from seiche import InvalidInput, Lake
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import SYSTEM
from seiche.gateway.iceberg_rest.aftercare import Aftercare
from seiche.gateway.iceberg_rest.partition_statistics import statistics_file
from seiche.gateway.iceberg_rest.retention import YOUNGEST_MILLIS
from seiche.lake.iceberg.places import path_of
from seiche.store import open_store
from tests.gateway_server import Gateways, direct

ROWS = pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]})
DAY = 24 * 3600.0
KEEPING_AN_HOUR = {"history.expire.max-snapshot-age-ms": str(3600 * 1000)}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("db")
    return made


@pytest.fixture
def clock() -> SimulatedClock:
    from datetime import UTC, datetime

    return SimulatedClock(datetime.now(UTC))


@pytest.fixture
def cares(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Aftercare]]:
    """Those of the applications that a test makes."""
    made: list[Aftercare] = []
    plain = Aftercare.__init__

    def remember(self: Aftercare, *args: Any) -> None:
        plain(self, *args)
        made.append(self)

    monkeypatch.setattr(Aftercare, "__init__", remember)
    yield made
    for one in made:
        one.wait()


def server(lake: Lake, clock: SimulatedClock) -> Gateways:
    return direct(lake, runtime=dataclasses.replace(SYSTEM, clock=clock))


def touch(servers: Gateways, cares: list[Aftercare], value: str = "1", table: str = "t") -> int:
    """A commit by REST, and all that comes after it."""
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"touched": value}}]}
    status = servers.ask("POST", f"/v1/lake/namespaces/db/tables/{table}", body).status
    for one in cares:
        one.wait()
    return status


def snapshots(lake: Lake, table: str = "db.t") -> list[int]:
    return [one.snapshot_id for one in lake.table(table).metadata.snapshots]  # type: ignore[attr-defined]


def paths(lake: Lake) -> set[str]:
    return {info.path for info in lake.store.list("tables")}


def lists(found: set[str]) -> set[str]:
    """The lists of manifests: one for each snapshot."""
    return {path for path in found if "/metadata/snap-" in path}


def filled(lake: Lake, times: int, properties: dict[str, str] | None = None) -> list[int]:
    table = lake.create_table("db.t", ROWS.schema, format="iceberg", properties=properties)
    for _ in range(times):
        table.append(ROWS)
    return snapshots(lake)


def test_snapshots_expire_by_the_properties_of_their_table(
    lake: Lake, clock: SimulatedClock, cares: list[Aftercare]
) -> None:
    made = filled(lake, 3, KEEPING_AN_HOUR)
    servers = server(lake, clock)
    touch(servers, cares)
    assert snapshots(lake) == made, "they are young"
    clock.advance(7200)
    before = lake.version
    files = paths(lake)
    assert touch(servers, cares, "2") == 200
    assert snapshots(lake) == made[-1:]
    assert lake.version == before + 2, "the commit, and one for the expiry"
    assert files <= paths(lake), "no file died"
    old = seiche.open(lake.uri, version=before)
    assert old.table("db.t").to_arrow().num_rows == lake.table("db.t").to_arrow().num_rows == 9
    assert snapshots(old) == made
    lake.expire(older_than=0, keep=1)
    for _ in range(2):
        lake.gc(dry_run=False, grace=0)
    assert lake.table("db.t").to_arrow().num_rows == 9
    assert [len(lists(found)) for found in (files, paths(lake))] == [3, 1], "now they may, by the clean-up"
    assert lake.fsck().problems == ()


def test_a_table_that_says_nothing_keeps_everything(lake: Lake, clock: SimulatedClock, cares: list[Aftercare]) -> None:
    made = filled(lake, 3)
    servers = server(lake, clock)
    clock.advance(100 * DAY)
    before = lake.version
    touch(servers, cares)
    assert (snapshots(lake), lake.version) == (made, before + 1)


def test_what_is_wanted_stays(lake: Lake, clock: SimulatedClock, cares: list[Aftercare]) -> None:
    """Tags, branches with limits of their own, the least number of snapshots."""
    made = filled(lake, 6, {**KEEPING_AN_HOUR, "history.expire.min-snapshots-to-keep": "2"})
    table = lake.table("db.t").to_iceberg()
    manage = table.manage_snapshots().create_tag(made[0], "start").create_tag(made[1], "brief", max_ref_age_ms=1000)
    manage.create_branch(made[3], "dev", min_snapshots_to_keep=1).commit()
    clock.advance(2 * 3600)
    touch(server(lake, clock), cares)
    assert snapshots(lake) == [made[0], made[3], made[4], made[5]]
    refs = lake.table("db.t").metadata.refs  # type: ignore[attr-defined]
    assert set(refs) == {"main", "start", "dev"}


def test_a_branch_keeps_its_own_limits_when_it_gets_rows(
    lake: Lake, clock: SimulatedClock, cares: list[Aftercare]
) -> None:
    """An append by PyIceberg or DuckDB says nothing of them: the snapshots that they keep would expire."""
    made = filled(lake, 3, KEEPING_AN_HOUR)
    limits = {"min-snapshots-to-keep": 10, "max-ref-age-ms": 1 << 50}
    limited = {"ref-name": "main", "type": "branch", "snapshot-id": made[-1], **limits}
    lake.run(lambda tx: tx.commit_iceberg("db.t", [], [SetSnapshotRefUpdate.model_validate(limited)]))
    lake.table("db.t").append(ROWS)
    made = snapshots(lake)
    clock.advance(2 * 3600)
    touch(server(lake, clock), cares)
    assert snapshots(lake) == made
    head = {**limited, "snapshot-id": made[-1]}
    assert lake.table("db.t").metadata.refs["main"].model_dump(exclude_none=True) == {  # type: ignore[attr-defined]
        name: value for name, value in head.items() if name != "ref-name"
    }
    unlimited = {name: value for name, value in head.items() if name not in limits}
    lake.run(lambda tx: tx.commit_iceberg("db.t", [], [SetSnapshotRefUpdate.model_validate(unlimited)]))
    touch(server(lake, clock), cares, "2")
    assert snapshots(lake) == made[-1:], "who says so takes the limits away"


def test_whoever_lost_an_answer_still_finds_his_snapshot(
    lake: Lake, clock: SimulatedClock, cares: list[Aftercare]
) -> None:
    """Told that it was a conflict, he would delete files that the table needs."""
    made = filled(lake, 3, {"history.expire.max-snapshot-age-ms": "1"})
    servers = server(lake, clock)
    clock.advance(YOUNGEST_MILLIS / 1000 - 60)
    touch(servers, cares)
    assert snapshots(lake) == made
    clock.advance(120)
    touch(servers, cares, "2")
    assert snapshots(lake) == made[-1:]


def test_whoever_lost_an_answer_finds_his_snapshot_also_if_his_clock_is_behind(
    lake: Lake, clock: SimulatedClock, cares: list[Aftercare]
) -> None:
    lake.create_table("db.t", ROWS.schema, format="iceberg", properties=KEEPING_AN_HOUR)
    begun = lake.table("db.t").to_iceberg().transaction()
    begun.append(ROWS)
    body = {
        "requirements": [one.model_dump(mode="json", by_alias=True) for one in begun._requirements],
        "updates": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in begun._updates],
    }
    for one in body["updates"]:
        if one["action"] == "add-snapshot":
            one["snapshot"]["timestamp-ms"] -= int(DAY) * 1000
    servers = server(lake, clock)
    assert servers.ask("POST", "/v1/lake/namespaces/db/tables/t", body).status == 200
    lake.table("db.t").append(ROWS)
    made = snapshots(lake)
    touch(servers, cares)
    assert snapshots(lake) == made
    assert servers.ask("POST", "/v1/lake/namespaces/db/tables/t", body).status == 200
    clock.advance(YOUNGEST_MILLIS / 1000 + 60)
    touch(servers, cares, "2")
    assert snapshots(lake) == made[-1:]


def test_a_repetition_is_one_also_after_the_server_has_been_at_the_table(
    lake: Lake, clock: SimulatedClock, cares: list[Aftercare]
) -> None:
    filled(lake, 3, KEEPING_AN_HOUR)
    servers = server(lake, clock)
    clock.advance(7200)
    schema = lake.table("db.t").metadata.schema()  # type: ignore[attr-defined]
    fields = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in schema.fields]
    added = {"type": "struct", "schema-id": 1, "fields": [*fields, {**fields[0], "id": 3, "name": "new"}]}
    body = {
        "requirements": [{"type": "assert-current-schema-id", "current-schema-id": 0}],
        "updates": [{"action": "add-schema", "schema": added}, {"action": "set-current-schema", "schema-id": -1}],
    }
    path = "/v1/lake/namespaces/db/tables/t"
    assert servers.ask("POST", path, body).status == 200
    cares[0].wait()
    before = lake.version
    assert servers.ask("POST", path, body).status == 200, "asked again, after an expiry in between"
    cares[0].wait()
    assert lake.version == before


@pytest.mark.parametrize("how", ["property", "made before"])
def test_statistics_by_partition_follow_the_table(
    lake: Lake, clock: SimulatedClock, cares: list[Aftercare], how: str
) -> None:
    table = lake.create_table(
        "db.t",
        ROWS.schema,
        format="iceberg",
        properties={"seiche.partition-statistics": "true"} if how == "property" else {},
    )
    with table.to_iceberg().update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day")
    table.append(ROWS)
    table.append(ROWS)
    servers = server(lake, clock)
    if how == "made before":
        touch(servers, cares)
        assert table.metadata.partition_statistics == []  # type: ignore[attr-defined]
        given = {"snapshot-id": snapshots(lake)[0], "statistics-path": "file:///x.parquet", "file-size-in-bytes": 1}
        update = {"action": "set-partition-statistics", "partition-statistics": given}
        assert servers.ask("POST", "/v1/lake/namespaces/db/tables/t", {"updates": [update]}).status == 200
        cares[0].wait()
    else:
        touch(servers, cares)
    metadata: Any = lake.table("db.t").metadata  # type: ignore[attr-defined]
    newest = metadata.partition_statistics[-1]
    assert newest.snapshot_id == metadata.current_snapshot_id
    path = path_of(lake.store, newest.statistics_path)
    assert path is not None
    data = lake.store.get(path)
    assert len(data) == newest.file_size_in_bytes
    read = pq.read_table(pa.BufferReader(data))
    counts = {one["partition"]["day"]: one for one in read.to_pylist()}
    assert {day: one["data_record_count"] for day, one in counts.items()} == {"a": 4, "b": 2}
    assert counts["a"]["last_updated_snapshot_id"] == metadata.current_snapshot_id
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in read.schema] == list(range(1, 13))
    before = lake.version
    touch(servers, cares, "again")
    assert lake.version == before + 1, "nothing to do"
    assert lake.fsck().problems == ()
    assert lake.gc(dry_run=True, grace=0).as_dict()["unknown"] == []


def test_statistics_by_partition_are_in_the_order_of_partitions(lake: Lake) -> None:
    """As the specification wants them, nulls first: they came as manifests have them."""
    kinds = {"a": pa.string(), "n": pa.int64(), "b": pa.bool_()}
    table = lake.create_table("db.t", pa.schema(kinds.items()), format="iceberg")
    with table.to_iceberg().update_spec() as spec:
        for name in kinds:
            spec.add_field(name, IdentityTransform(), name)
    first = [(None, None, None), (None, 2, True), ("a", -1, False)]
    wanted = [*first, ("a", -1, True), ("a", 2, None), ("b", None, None)]
    for some in (wanted[3:], wanted[2::-1]):
        table.append([dict(zip(kinds, values, strict=True)) for values in some])
    read = pq.read_table(pa.BufferReader(statistics_file(table.to_iceberg())))
    assert [tuple(one["partition"].values()) for one in read.to_pylist()] == wanted


def test_failures_after_a_commit_change_nothing_for_the_client(
    lake: Lake, clock: SimulatedClock, cares: list[Aftercare], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = filled(lake, 2, KEEPING_AN_HOUR)
    servers = server(lake, clock)
    clock.advance(7200)

    def broken(*_: Any) -> Any:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr("seiche.gateway.iceberg_rest.aftercare.outdated", broken)
        assert touch(servers, cares) == 200
    assert snapshots(lake) == made
    with monkeypatch.context() as patched:
        patched.setattr("seiche.gateway.iceberg_rest.aftercare._asks_for_care", broken)
        assert touch(servers, cares, "2") == 200
    assert snapshots(lake) == made
    with pytest.raises(InvalidInput, match="has to be a whole number"), lake.transaction() as tx:
        tx.set_properties("db.t", {"history.expire.max-snapshot-age-ms": "soon"})


def test_the_answer_does_not_wait(lake: Lake, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    filled(lake, 2, KEEPING_AN_HOUR)
    servers = server(lake, clock)
    clock.advance(timedelta(hours=2).total_seconds())
    go, began, plain = threading.Event(), threading.Event(), Aftercare._expire

    def slow(self: Aftercare, name: Any) -> None:
        began.set()
        assert go.wait(60)
        plain(self, name)

    monkeypatch.setattr(Aftercare, "_expire", slow)
    body = {"updates": [{"action": "set-properties", "updates": {"touched": "1"}}]}
    changes = [{"identifier": {"namespace": ["db"], "name": "t"}, "requirements": [], **body}]
    assert servers.ask("POST", "/v1/lake/transactions/commit", {"table-changes": changes}).status == 204
    assert began.wait(60)
    assert len(snapshots(lake)) == 2
    go.set()
    for thread in threading.enumerate():
        if thread.name == "seiche-aftercare":
            thread.join(60)
    assert len(snapshots(lake)) == 1
