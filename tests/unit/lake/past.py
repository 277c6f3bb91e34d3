"""What an expiry does to a lake, step by step, for tests of whatever must not be misled by it."""

from typing import Any

from seiche import Lake
from seiche.lake.care.given_up import GIVEN_UP, GivenUp
from seiche.lake.care.ranges import Ranges
from seiche.lake.intent import Intent, RowEdit
from seiche.lake.objects import rows
from seiche.lake.objects.rows import Row
from seiche.lake.pins import pins
from seiche.lake.tree.latest import read_root


def raise_fence(lake: Lake, version: int) -> None:
    """The first step: a root that says that versions below are being given up."""
    base = lake.states.latest()
    gone = Ranges.of(one for one in range(version) if one not in pins(base))
    edit = RowEdit(base.get(GIVEN_UP), GivenUp(gone).row()[GIVEN_UP])
    lake.decide(Intent(str(lake.states.runtime.uuid()), base.version, rows={GIVEN_UP: edit}, min_base=version))


def bury(lake: Lake, *versions: int) -> None:
    """The second step: tombstones."""
    for version in versions:
        root = read_root(lake.store, version).live()
        buried = root.tombstone(lake.states.runtime.clock.now())
        lake.store.put(root.name, buried.encode(lake.state().definition.order))


def put_row(lake: Lake, key: bytes, row: Row | None, **options: Any) -> int:
    """Write a row as it is."""
    edit = RowEdit(lake.state().get(key), None if row is None else rows.encode(row))
    return lake.decide(Intent(str(lake.states.runtime.uuid()), lake.version, rows={key: edit}, **options))
