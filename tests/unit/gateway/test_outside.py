"""Addresses that clients send: a server opens its lake's files, and no others unless its operator has said so."""

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile, read_manifest_list, write_manifest_list

import seiche
from seiche import Lake, PermissionDenied
from seiche.gateway import apps
from seiche.gateway.http.auth import ServiceAuth
from seiche.lake.engines.native_manifest import check_bases
from seiche.lake.iceberg import file_io
from seiche.lake.outside import Outside
from seiche.service.auth import Nobody
from seiche.table.build import empty
from tests.gateway_server import Direct, Said, direct, lake_with_table

ROWS = pa.table({"id": [1, 2, 3]})
SECRET = "classified:x:0:0:everything"
REGISTER = "/v1/lake/namespaces/db/register"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lake_with_table(tmp_path, ROWS)
    (tmp_path / "secret").write_text(SECRET)
    made.states.confine([])
    return made


@pytest.fixture
def servers(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Direct:
    """Nothing outside of the lake may even be looked for: whether it is there is nobody's business."""

    def opened(_: Any, location: str) -> None:
        raise AssertionError(f"{location} was opened")

    monkeypatch.setattr(file_io, "load_file_io", opened)
    return direct(lake)


def elsewhere(lake: Lake, tmp_path: Path) -> str:
    """The address of the metadata of a table outside of the lake, with all its files."""
    table = lake.table("db.t").to_iceberg()
    place = tmp_path / "elsewhere" / "t"
    shutil.copytree(table.location().removeprefix("file://"), place)
    # Each list and metadata file is rewritten so that it names the copies.
    old, new, io = table.location(), f"file://{place}", PyArrowFileIO()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = [
        ManifestFile(one.manifest_path.replace(old, new), *list(one._data)[1:])
        for one in read_manifest_list(io.new_input(snapshot.manifest_list))
    ]
    _write_list(snapshot.manifest_list.replace(old, new), snapshot, manifests)
    where = table.metadata_location.replace(old, new)
    path = Path(where.removeprefix("file://"))
    path.write_text(path.read_text().replace(old, new))
    return where


def _write_list(where: str, snapshot: Any, manifests: list[ManifestFile]) -> None:
    Path(where.removeprefix("file://")).unlink(missing_ok=True)
    with write_manifest_list(
        format_version=2,
        output_file=PyArrowFileIO().new_output(where),
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=None,
        sequence_number=snapshot.sequence_number,
        avro_compression="deflate",
    ) as writer:
        writer.add_manifests(manifests)


def appended(lake: Lake) -> list[dict[str, Any]]:
    """The updates of an append that PyIceberg has prepared."""
    transaction = lake.table("db.t").to_iceberg().transaction()
    transaction.append(ROWS)
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in transaction._updates]


def committed(servers: Direct, route: str, prepared: list[dict[str, Any]] | None = None, **changed: Any) -> Said:
    """An append, with other values in its snapshot."""
    add, point = prepared or appended(servers.lake)
    snapshot = add["snapshot"] | changed
    updates = [{**add, "snapshot": snapshot}, {**point, "snapshot-id": snapshot["snapshot-id"]}]
    one = {"identifier": {"namespace": ["db"], "name": "t"}, "requirements": [], "updates": updates}
    if route == "several":
        return servers.ask("POST", "/v1/lake/transactions/commit", {"table-changes": [one]})
    return servers.ask("POST", "/v1/lake/namespaces/db/tables/t", one)


ADDRESSES: list[Callable[[Path], str]] = [
    lambda path: f"file://{path}/secret",
    lambda path: f"file:{path}/secret",
    lambda path: f"{path}/secret",
    lambda path: f"file://{path}/lake/../secret",
    lambda path: f"file://{path}/lakeside/secret",
    lambda _: "file:///etc/passwd",
    lambda _: "s3://others/list.avro",
    lambda _: "http://169.254.169.254/latest/meta-data",
]


def test_a_manifest_list_outside_of_the_lake_is_not_opened(servers: Direct, tmp_path: Path) -> None:
    before, prepared = servers.lake.version, appended(servers.lake)
    for address, route in product(ADDRESSES, ("one", "several")):
        where = address(tmp_path)
        said = committed(servers, route, prepared, **{"manifest-list": where})
        assert said.error == (403, "ForbiddenException"), where
        assert SECRET not in said.body.decode()
    assert servers.lake.version == before
    assert committed(servers, "one", prepared).status == 200


def test_a_manifest_outside_of_the_lake_is_not_opened_for_a_list_inside(servers: Direct, tmp_path: Path) -> None:
    table = servers.lake.table("db.t").to_iceberg()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    own = 4711
    (manifest,) = read_manifest_list(PyArrowFileIO().new_input(snapshot.manifest_list))
    values = list(manifest._data)
    planted = ManifestFile(f"file://{tmp_path}/secret", *values[1:6], own, *values[7:])
    assert planted.added_snapshot_id == own
    where = f"{table.location()}/metadata/planted.avro"
    _write_list(where, snapshot, [planted])
    said = committed(servers, "one", None, **{"manifest-list": where, "snapshot-id": own})
    assert said.error == (403, "ForbiddenException")
    assert SECRET not in said.body.decode()


def test_what_is_in_a_file_of_the_lake_is_not_told_either(servers: Direct) -> None:
    where = servers.lake.table("db.t").to_iceberg().location()
    Path(f"{where.removeprefix('file://')}/other").write_text(SECRET * 100)
    said = committed(servers, "one", None, **{"manifest-list": f"{where}/other"})
    assert said.error == (400, "ValidationException")
    assert "is something else" in said.body.decode()
    assert "classified" not in said.body.decode()


def test_a_table_elsewhere_is_registered_where_the_operator_allows_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = elsewhere(lake, tmp_path)
    body = {"name": "r", "metadata-location": where}
    servers = direct(lake)
    with monkeypatch.context() as patched:
        patched.setattr(file_io, "load_file_io", lambda *_: pytest.fail("opened"))
        assert servers.ask("POST", REGISTER, body).error == (403, "ForbiddenException")
        beside = {"name": "r", "metadata-location": where.replace("/elsewhere/", "/elsewhere-too/")}
        assert servers.ask("POST", REGISTER, beside).error == (403, "ForbiddenException")
    object.__setattr__(servers, "apps", apps(lake, outside=[f"file://{tmp_path}/elsewhere"]))
    assert servers.ask("POST", REGISTER, body).status == 200
    assert lake.table("db.r").to_arrow().equals(ROWS)
    # What is allowed there is reading: it goes on with files of its own, and the old ones stay.
    lake.table("db.r").append(ROWS)
    assert lake.table("db.r").to_arrow().num_rows == 6
    assert lake.table("db.r").to_iceberg().location().startswith(f"file://{tmp_path}/lake/")


def test_callers_who_are_not_asked_who_they_are_are_trusted_unless_places_are_named(lake: Lake) -> None:
    opened = seiche.open(lake.store)
    apps(opened)
    assert opened.states.outside == Outside()
    apps(opened, outside=["/a"])
    assert opened.states.outside == Outside.below(["/a"])
    apps(opened, ServiceAuth(Nobody(), "default"))
    assert opened.states.outside == Outside.below([])


def test_metadata_inside_that_leads_outside_is_not_registered(servers: Direct, tmp_path: Path) -> None:
    table = servers.lake.table("db.t").to_iceberg()
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    metadata["snapshots"][0]["manifest-list"] = f"file://{tmp_path}/secret"
    where = Path(table.location().removeprefix("file://"), "metadata", "00009-planted.metadata.json")
    where.write_text(json.dumps(metadata))
    servers.lake.drop_table("db.t")
    said = servers.ask("POST", REGISTER, {"name": "r", "metadata-location": f"file://{where}"})
    assert said.error == (403, "ForbiddenException")


def test_a_view_is_not_registered_from_outside(servers: Direct, tmp_path: Path) -> None:
    body = {"name": "v", "metadata-location": f"file://{tmp_path}/secret"}
    said = servers.ask("POST", "/v1/lake/namespaces/db/register-view", body)
    assert said.error == (403, "ForbiddenException")
    assert SECRET not in said.body.decode()


def test_a_lance_table_outside_gets_a_name_only_where_the_operator_allows_it(lake: Lake, tmp_path: Path) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "elsewhere" / "l.lance"))
    body = {"location": f"{tmp_path}/elsewhere/l.lance"}
    said = direct(lake).ask("POST", "/v1/table/db$l/register", body, lance=True)
    assert said.status == 403
    servers = direct(lake)
    object.__setattr__(servers, "apps", apps(lake, outside=[f"{tmp_path}/elsewhere/"]))
    assert servers.ask("POST", "/v1/table/db$l/register", body, lance=True).status == 200


def test_a_version_of_a_lance_table_leads_nobody_to_a_place_that_is_not_allowed(lake: Lake, tmp_path: Path) -> None:
    before, after = empty(), empty()
    after.header.base_paths.add(id=1, path=f"{tmp_path}/lake/tables/other.lance")
    lake.states.confine([])
    check_bases(before, after, lake.state())
    after.header.base_paths.add(id=2, path=f"{tmp_path}/others")
    with pytest.raises(PermissionDenied):
        check_bases(before, after, lake.state())
    check_bases(after, after, lake.state())
    lake.states.confine([str(tmp_path)])
    check_bases(before, after, lake.state())


@pytest.mark.parametrize(
    ("places", "where", "allowed"),
    [
        (["s3://a/b"], "s3://a/b/c", True),
        (["s3://a/b/"], "s3a://a/b/c", True),
        (["s3://a/b"], "s3://a/bc", False),
        (["s3://a/b"], "s3://a/b/../c", False),
        (["s3://a/b"], "s3://a/b/%2E%2E/c", False),
        (["file:///a"], "/a/b", True),
        (["/a"], "file:/a/b", True),
        (["/a"], "file:///a", True),
        (["/a"], "file:///ab", False),
        ([], "file:///a", False),
        ([], "", False),
    ],
)
def test_a_place_is_allowed_with_all_below_it_and_nothing_beside_it(
    places: list[str], where: str, allowed: bool
) -> None:
    outside = Outside.below(places)
    if allowed:
        outside.check(where)
    else:
        with pytest.raises(PermissionDenied):
            outside.check(where)
    Outside().check(where)
