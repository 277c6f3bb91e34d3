"""Tables of the lake from metadata that others wrote: what a lake cannot keep is refused, and said."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import seiche
from seiche import InvalidInput, Lake, NotFound
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.fixture
def theirs(lake: Lake) -> dict[str, Any]:
    """Metadata of a table that lies elsewhere."""
    lake.create_table("shop.i", SCHEMA, format="iceberg", properties={"format-version": "3"})
    found: dict[str, Any] = json.loads(lake.store.get(lake.table("shop.i").row.iceberg.location))  # type: ignore[union-attr]
    snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": "file:///none.avro"}
    return {**found, "location": "file:///elsewhere", "snapshots": [snapshot], "properties": {}}


def register(lake: Lake, path: Path, metadata: dict[str, Any]) -> None:
    data = json.dumps(metadata).encode()
    path.write_bytes(gzip.compress(data) if ".gz" in path.name else data)
    with lake.transaction() as tx:
        tx.register_iceberg("shop.new", str(path))


@pytest.mark.parametrize("name", ["v1.metadata.json", "v1.gz.metadata.json", "v1.metadata.json.gz"])
def test_a_table_with_encryption_keys_is_refused(lake: Lake, theirs: dict[str, Any], tmp_path: Path, name: str) -> None:
    """They would be missing in the lake's own metadata, and nobody could read the table."""
    keys = [{"key-id": "k", "encrypted-key-metadata": "AAAA"}]
    encrypted = [{**theirs["snapshots"][0], "key-id": "k"}]
    for more in ({"encryption-keys": keys}, {"snapshots": encrypted}):
        with pytest.raises(InvalidInput, match="has encryption keys"):
            register(lake, tmp_path / name, {**theirs, **more})
    register(lake, tmp_path / name, {**theirs, "encryption-keys": [], "properties": {"key-id": "k"}})
    assert lake.table("shop.new").metadata.properties == {"key-id": "k"}  # type: ignore[attr-defined]


def test_a_type_that_is_not_known_here_is_said(lake: Lake, theirs: dict[str, Any], tmp_path: Path) -> None:
    theirs["schemas"][0]["fields"].append({"id": 9, "name": "x", "type": "no-such-type", "required": False})
    with pytest.raises(InvalidInput, match="has a type or a format version that PyIceberg does not know"):
        register(lake, tmp_path / "v1.metadata.json", {**theirs, "last-column-id": 9})


def test_properties_stay_but_for_those_that_say_where_files_go(
    lake: Lake, theirs: dict[str, Any], tmp_path: Path
) -> None:
    kept = {"source.path": "raw/clicks", "owner": "me"}
    gone = {"write.data.path": "file:///elsewhere/data", "write.metadata.path": "file:///elsewhere/metadata"}
    gone |= {"write.py-location-provider.impl": "their.Provider", "write.location-provider.impl": "their.Provider"}
    register(lake, tmp_path / "v1.metadata.json", {**theirs, "properties": {**kept, **gone}})
    assert lake.table("shop.new").metadata.properties == kept  # type: ignore[attr-defined]


def test_a_table_of_another_lake_is_for_reading_there(lake: Lake, tmp_path: Path) -> None:
    other = seiche.create(str(tmp_path / "other"))
    other.create_namespace("shop")
    other.create_table("shop.i", SCHEMA, format="iceberg")
    other.table("shop.i").append(rows(1))
    where = other.table("shop.i").metadata_location  # type: ignore[attr-defined]
    with pytest.raises(NotFound, match='type="external"'), lake.transaction() as tx:
        tx.register_iceberg("shop.new", where)
    lake.register_table("shop.new", where, type="external", format="iceberg")
    assert ids(lake, "shop.new") == [1]
