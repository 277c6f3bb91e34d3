"""A table that is dropped and made anew while work for it is under way: files that lie with the old one are never named
by the new one.
"""

from collections.abc import Callable

import pytest

import seiche
from seiche import ConflictError, Lake
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.intent import Intent
from seiche.lake.handles import LakeTable
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.test_fences import VERBS, compaction, index


def made_anew(lake: Lake) -> None:
    """By another process, with as many fragments of other rows."""
    other = seiche.open(lake.store)
    other.drop_table("shop.a")
    table = other.create_table("shop.a", SCHEMA)
    for number in (8, 9):
        table.append(rows(number))


WRITES: dict[str, Callable[[LakeTable], object]] = {
    **VERBS,
    "append": lambda table: table.append(rows(5)),
    "overwrite": lambda table: table.overwrite(rows(8, 9)),
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_verb_writes_its_files_anew(lake: Lake, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    table = lake.table("shop.a")
    for number in range(2):
        table.append(rows(number))
    commit = Committer.commit

    def late(self: Committer, intent: Intent) -> Answer:
        monkeypatch.setattr(Committer, "commit", commit)
        made_anew(lake)
        return commit(self, intent)

    monkeypatch.setattr(Committer, "commit", late)
    WRITES[verb](table)
    assert lake.fsck(deep=True).problems == ()
    assert ids(lake, "shop.a")[-2:] == [8, 9]


@pytest.mark.parametrize("work", [compaction, index])
def test_work_from_elsewhere_is_refused(lake: Lake, work: Callable[[Lake], Callable[[], object]]) -> None:
    for number in range(2):
        lake.table("shop.a").append(rows(number))
    commit = work(lake)
    made_anew(lake)
    with pytest.raises(ConflictError):
        commit()
    assert lake.fsck(deep=True).problems == ()
    assert ids(lake, "shop.a") == [8, 9]
