"""What a commit names is on disk before its root is, whoever wrote it and when: a power failure must not take rows that
were acknowledged.
"""

from collections.abc import Callable

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import Lake, RetryableConflict
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.intent import Intent
from seiche.lake.handles import LakeTable
from seiche.lake.transaction import Transaction
from seiche.lake.versions import LakeVersions
from seiche.table.reachable import Reach
from tests.unit.lake.disk import Disk
from tests.unit.lake.test_foreign import unfence

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def rows(first: int, count: int = 10) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"id": list(numbers), "n": [one % 3 for one in numbers], "s": [f"word{one}" for one in numbers]}, SCHEMA
    )


@pytest.fixture
def lake(disk: Disk) -> Lake:
    made = seiche.open(disk)
    made.create_namespace("shop")
    table = made.create_table("shop.a", SCHEMA)
    for number in range(3):
        table.append(rows(10 * number))
    return made


def at_risk(lake: Lake, disk: Disk) -> list[str]:
    """The files of the newest version that a power failure could take."""
    row = lake.table("shop.a").row
    reach = Reach()
    reach.add_manifest(LakeVersions(lake.store, row).read(row.table_version).manifest)
    inside = [info.path.removeprefix(f"{row.location}/") for info in disk.list(row.location)]
    needed = [path for path in inside if reach.holds(path) and not path.startswith("_transactions/")]
    assert needed
    return [path for path in needed if f"{row.location}/{path}" not in disk.flushed]


def upsert(table: LakeTable) -> object:
    builder = table.merge(rows(25), on="id")
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


VERBS: dict[str, Callable[[LakeTable], object]] = {
    "append": lambda table: table.append(rows(30)),
    "append of rows that come once": lambda table: table.append(iter(rows(30).to_batches())),
    "overwrite": lambda table: table.overwrite(rows(30)),
    "delete": lambda table: table.delete("id = 3"),
    "update": lambda table: table.update({"n": "9"}, where="id = 3"),
    "merge": upsert,
    "add_columns": lambda table: table.add_columns({"m": "n + 1"}),
    "compact": lambda table: table.compact(),
    "reorder": lambda table: table.reorder("n"),
    "create_index": lambda table: table.create_index("n"),
    "full text": lambda table: table.create_index("s", "FTS"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("lost", [False, True], ids=["at once", "after a conflict"])
def test_what_a_verb_names_lasts(
    lake: Lake, disk: Disk, monkeypatch: pytest.MonkeyPatch, verb: str, *, lost: bool
) -> None:
    commit = Committer.commit

    def refused(self: Committer, intent: Intent) -> Answer:
        monkeypatch.setattr(Committer, "commit", commit)
        raise RetryableConflict("others were faster")

    if lost:
        monkeypatch.setattr(Committer, "commit", refused)
    before = lake.version
    VERBS[verb](lake.table("shop.a"))
    assert lake.version == before + 1
    assert at_risk(lake, disk) == []
    assert lake.fsck(deep=True).ok


def test_rows_that_took_longer_than_a_transaction_may_are_there_and_last(
    lake: Lake, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Transaction.intent

    def late(self: Transaction) -> Intent | None:
        monkeypatch.setattr(Transaction, "intent", asked)
        monkeypatch.setattr(self, "expires_at_millis", 1)
        return self.intent()

    monkeypatch.setattr(Transaction, "intent", late)
    # They come once: the next attempt, which is young, has nothing but the files of the first.
    assert lake.table("shop.a").append(iter(rows(30).to_batches())).attempts == 2
    assert at_risk(lake, disk) == []
    assert lake.table("shop.a").to_arrow().num_rows == 40


def test_what_is_left_of_a_compaction_that_others_came_into_lasts(lake: Lake, disk: Disk) -> None:
    table = lake.table("shop.a")
    table.delete("id IN (1, 11, 21)")
    met: list[object] = []

    def meet(_done: int, _all: int) -> None:
        if not met:
            met.append(seiche.open(disk).table("shop.a").delete("id = 2"))

    done = table.compact(target_rows_per_fragment=5, materialize_deletions_threshold=0.0, progress=meet)
    assert (len(met), done.attempts) == (1, 3), "one conflict, and one more round for what was left out"
    assert at_risk(lake, disk) == []
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted({*range(30)} - {1, 2, 11, 21})


@pytest.mark.parametrize("together", [False, True], ids=["by themselves", "in one transaction"])
@pytest.mark.parametrize("steps", ["compaction", "BTREE", "FTS"])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_made_in_steps_lasts(lake: Lake, disk: Disk, steps: str, workers: int, *, together: bool) -> None:
    with lake.transaction() as tx:
        table = tx.table("shop.a") if together else lake.table("shop.a")
        if steps == "compaction":
            plan = table.compaction()
            plan.commit([plan.execute(task) for task in plan.plan()])
        else:
            build = table.index_build("s" if steps == "FTS" else "n", steps)
            build.commit([build.execute(task) for task in build.plan(workers)])
    assert at_risk(lake, disk) == []
    assert lake.fsck(deep=True).ok


def test_what_plain_writers_left_lasts_once_it_is_adopted(lake: Lake, disk: Disk) -> None:
    table = lake.table("shop.a")
    unfence(table.uri, table.version)
    lance.write_dataset(rows(30), table.uri, mode="append")
    lance.dataset(table.uri).delete("id = 4")
    assert [one.operation for one in lake.adopt("shop.a")] == ["Append", "Delete"]
    assert table.to_arrow().num_rows == 39
    assert at_risk(lake, disk) == []


def test_who_saves_what_a_clean_up_took_is_told_so(lake: Lake, disk: Disk) -> None:
    tx = lake.transaction()
    tx.append("shop.a", rows(30))
    tx.table("shop.a").to_arrow()  # writes what was held
    seiche.open(disk).gc(dry_run=False, grace=0)
    with pytest.raises(RetryableConflict, match="began at version"):
        tx.save()


def test_a_full_text_index_finds_rows(lake: Lake) -> None:
    lake.table("shop.a").create_index("s", "FTS")
    found = lake.table("shop.a").to_lance().to_table(full_text_query="word7")
    assert found["id"].to_pylist() == [7]
