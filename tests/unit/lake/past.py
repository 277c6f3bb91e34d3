"""What an expiry does to a lake, step by step, for tests of whatever must not be misled by it."""

from typing import Any

from seiche import Lake
from seiche.lake.care.given_up import GIVEN_UP, GivenUp
from seiche.lake.care.ranges import Ranges
from seiche.lake.commit.intent import Intent, RowEdit
from seiche.lake.objects import rows
from seiche.lake.objects.rows import RetentionRow, Row
from seiche.lake.tree.latest import read_root


def give_up(lake: Lake, *versions: int) -> None:
    """The first step: a root that says that these versions are not to be needed again."""
    decided = GivenUp.of(lake.states.latest())
    made = GivenUp(decided.versions | Ranges.of(versions), decided.tombstones).row()
    row = rows.decode(made[GIVEN_UP], RetentionRow)
    put_row(lake, GIVEN_UP, row, min_base=max(versions) + 1)


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
