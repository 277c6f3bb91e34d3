"""Files that a client wrote long before it asked: a clean-up that had noted them must not take them from a root."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from seiche import InvalidInput, Lake
from seiche.core.runtime import SYSTEM
from seiche.gateway.credentials import NoCredentials
from seiche.gateway.iceberg_rest.catalog import Catalog
from seiche.gateway.iceberg_rest.requests import TableChange
from seiche.gateway.sessions import Sessions
from seiche.lake.commit import written
from tests.service_lake import make_lake, reopened
from tests.unit.service.test_fences import GRACE, clean_up, clean_up_before_the_root


def appended(lake: Lake, value: int) -> TableChange:
    """An append whose files are there, as a client asks for it."""
    tx = lake.transaction()
    tx.append("shop.facts", pa.table({"a": [value]}))
    tx.state.store.flush(tx.unflushed)
    (snapshot,) = tx.iceberg("shop.facts").metadata.snapshots
    ref: Any = {"ref_name": "main", "type": "branch", "snapshot_id": snapshot.snapshot_id}
    updates = (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate(**ref))
    return TableChange(("shop", "facts"), (), updates, {"made": value})


def test_files_from_before_a_clean_up_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "BLUR", GRACE / 2)
    lake = make_lake(tmp_path)
    lake.create_table("shop.facts", pa.schema([("a", pa.int64())]), format="iceberg")
    commits = Catalog(lake, "lake", Sessions(lake, SYSTEM), NoCredentials(lake.store), SYSTEM).commits
    early = appended(lake, 1)
    assert clean_up(lake) == 0, "it only notes them"
    lake.table("shop.stock").append({"writer": [1], "number": [1]})
    taken = clean_up_before_the_root(lake, monkeypatch)
    # Planned again after the clean-up, it is seen that they are gone.
    with pytest.raises(InvalidInput, match="cannot be read"):
        commits.commit([early], None)
    assert taken[0] >= 3, "a list, a manifest and a data file"
    assert reopened(lake).fsck(deep=True).problems == ()
    commits.commit([appended(lake, 2)], None)
    assert reopened(lake).table("shop.facts").to_arrow()["a"].to_pylist() == [2]
