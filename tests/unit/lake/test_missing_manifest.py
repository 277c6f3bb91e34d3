"""A staged manifest that is gone, or is another: damage if the newest version of the lake names it."""

from uuid import uuid4

import pyarrow as pa
import pytest

import seiche
from seiche.core.runtime import SYSTEM
from seiche.errors import Corrupt, NotFound
from seiche.lake.objects import rows
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.rows import TableRow
from seiche.lake.states import States
from seiche.lake.versions import LakeVersions
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.table.format import file
from seiche.table.format.manifest import Manifest


def newest_row(store: Store) -> TableRow:
    state = States(store, SYSTEM).latest()
    return rows.decode(state.get(table_key(("s", "t"))) or b"", TableRow)


def test_it_is_missed_only_if_the_lake_still_names_it() -> None:
    lake = seiche.create(f"memory://missing-{uuid4().hex}")
    lake.create_namespace("s")
    table = lake.create_table("s.t", pa.schema([("a", pa.int64())]))
    table.append([{"a": 1}])
    first = newest_row(lake.store)
    table.append([{"a": 2}])
    for row, expected in ((first, NotFound), (newest_row(lake.store), Corrupt)):
        assert row.manifest is not None
        path = join(row.location, row.manifest.path)
        lake.store.delete(path)
        with pytest.raises(expected) as caught:
            LakeVersions(lake.store, row).read(row.table_version)
        assert caught.value.remedy
    assert path in caught.value.message


def test_one_that_was_damaged_is_neither_read_nor_built_upon() -> None:
    """It may be readable, with fewer rows: the next commit would have made that the truth."""
    place = f"memory://damaged-{uuid4().hex}"
    lake = seiche.create(place)
    lake.create_namespace("s")
    table = lake.create_table("s.t", pa.schema([("a", pa.int64())]))
    table.append([{"a": 1}])
    table.append([{"a": 2}])
    row = newest_row(lake.store)
    assert row.manifest is not None
    path = join(row.location, row.manifest.path)
    found = file.decode(lake.store.get(path), path=path)
    assert found.transaction is not None
    fewer = Manifest(found.manifest.copy_header(), found.manifest.fragments.replaced({1: None}))
    lake.store.put(path, b"".join(file.encode(fewer, found.transaction.SerializeToString())))
    other = seiche.open(place)
    for use in (
        lambda: other.table("s.t").to_arrow(),
        lambda: other.table("s.t").append([{"a": 3}]),
        lambda: other.table("s.t").changes(1),
        lambda: other.table("s.t").delete("a = 1"),
    ):
        with pytest.raises(Corrupt, match="not the manifest that the lake decided on") as caught:
            use()
        assert "fsck --repair" in caught.value.remedy
    other.fsck(repair=True)
    assert sorted(other.table("s.t").to_arrow()["a"].to_pylist()) == [1, 2]
