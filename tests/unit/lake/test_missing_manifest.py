"""A staged manifest that is gone: damage if the newest version of the lake names it, and only then."""

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
