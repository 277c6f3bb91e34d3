"""Tables of the lake from metadata that others wrote: what a lake cannot keep is refused, and said."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from seiche import InvalidInput, Lake
from tests.unit.lake.conftest import SCHEMA


@pytest.fixture
def theirs(lake: Lake) -> dict[str, Any]:
    """Metadata of a table that lies elsewhere."""
    lake.create_table("shop.i", SCHEMA, format="iceberg", properties={"format-version": "3"})
    found: dict[str, Any] = json.loads(lake.store.get(lake.table("shop.i").row.iceberg.location))  # type: ignore[union-attr]
    snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": "file:///none.avro"}
    return {**found, "location": "file:///elsewhere", "snapshots": [snapshot], "properties": {}}


def register(lake: Lake, path: Path, metadata: dict[str, Any]) -> None:
    data = json.dumps(metadata).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz.metadata.json") else data)
    with lake.transaction() as tx:
        tx.register_iceberg("shop.new", str(path))


@pytest.mark.parametrize("name", ["v1.metadata.json", "v1.gz.metadata.json"])
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
