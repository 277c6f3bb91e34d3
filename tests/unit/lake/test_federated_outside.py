"""Tables that are not a lake's own, through a handle that serves others: nothing is opened unless it is allowed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import seiche
from seiche import Lake, PermissionDenied
from seiche.lake.iceberg.foreign import catalog as foreign_catalog
from seiche.store import open_store
from tests.unit.lake.conftest import SCHEMA, rows
from tests.unit.lake.test_federated_iceberg import InCatalog, InFolder, Place


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("n")
    return made


def served(lake: Lake, *places: str) -> Lake:
    """A handle as a server has it."""
    handle = seiche.open(lake.store)
    handle.states.confine(places)
    return handle


@pytest.fixture(params=[InCatalog, InFolder])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made: Place = request.param(tmp_path / "there")
    yield made
    if isinstance(made, InCatalog):
        made.catalog.close()


def test_a_table_elsewhere_is_opened_only_where_it_is_allowed(place: Place, lake: Lake, tmp_path: Path) -> None:
    lake.register_table("n.t", place.location, type="federated", format="iceberg", **place.options)
    closed = served(lake)
    for attempt in (
        lambda: closed.table("n.t").to_arrow(),
        lambda: closed.table("n.t").append(rows(7)),
        lambda: closed.transaction().iceberg("n.t"),
        lambda: closed.register_table("n.u", place.location, format="iceberg", **place.options),
        lambda: served(lake, str(tmp_path / "the")).table("n.t").to_arrow(),
    ):
        with pytest.raises(PermissionDenied, match="outside of the lake"):
            attempt()
    opened = served(lake, str(tmp_path / "there"))
    before = place.ids()
    opened.table("n.t").append(rows(7))
    assert place.ids() == sorted(opened.table("n.t").to_arrow()["id"].to_pylist()) == [*before, 7]


def test_what_metadata_names_elsewhere_is_not_opened_either(lake: Lake, tmp_path: Path) -> None:
    """Neither the place that a file of metadata speaks of, nor files that manifests name."""
    InFolder(tmp_path / "there")
    newest = max((tmp_path / "there" / "n" / "t" / "metadata").glob("v*.metadata.json"))
    (tmp_path / "allowed").mkdir()
    file = tmp_path / "allowed" / "1.metadata.json"
    file.write_text(newest.read_text())
    opened = served(lake, str(tmp_path / "allowed"))
    with pytest.raises(PermissionDenied, match="there/n/t lies outside"):
        opened.register_table("n.t", str(file), format="iceberg")


def test_the_files_of_a_catalogs_table_are_not_opened_where_nobody_allows_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the catalog is one that the server itself is configured for."""
    place = InCatalog(tmp_path / "there")
    monkeypatch.setattr(foreign_catalog, "load_catalog", lambda *_, **__: place.catalog)
    lake.register_table("n.t", place.location, format="iceberg", catalog="theirs")
    with pytest.raises(PermissionDenied, match="outside of the lake"):
        served(lake).table("n.t").to_arrow()
    assert served(lake, str(tmp_path / "there")).table("n.t").to_arrow().num_rows == len(place.ids())
    place.catalog.close()


def test_a_lance_table_elsewhere_is_opened_only_where_it_is_allowed(lake: Lake, tmp_path: Path) -> None:
    there = tmp_path / "there" / "t"
    seiche.Table.create(str(there), SCHEMA).append(rows(1))
    lake.register_table("n.t", str(there), type="federated")
    closed = served(lake)
    for attempt in (
        lambda: closed.table("n.t").to_arrow(),
        lambda: closed.table("n.t").append(rows(7)),
        lambda: closed.register_table("n.u", str(there)),
    ):
        with pytest.raises(PermissionDenied, match="outside of the lake"):
            attempt()
    opened = served(lake, str(tmp_path / "there"))
    opened.table("n.t").append(rows(2))
    assert sorted(opened.table("n.t").to_arrow()["id"].to_pylist()) == [1, 2]
