"""Work that was done before a clean-up and is handed in after it: its files may be gone, so it is refused (rule 1)."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import Lake, NotFound, RetryableConflict
from seiche.core.runtime import Runtime
from seiche.lake import saved
from seiche.lake.care.saved_work import saved_work
from seiche.lake.commit import decided
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.intent import Intent
from seiche.lake.handles import LakeTable
from seiche.lake.iceberg import statements
from seiche.lake.iceberg.new_files import named_by
from seiche.lake.transaction import Transaction
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.root import Root
from seiche.store.base import Store
from seiche.table.change import Result
from seiche.testing import DictStore, SimulatedStore
from seiche.testing.wrapping import Call
from tests.unit.lake.conftest import SCHEMA, ids, rows


def cleaned_up(lake: Lake) -> int:
    """A clean-up by another process, of everything that nothing needs; returns how many files it took."""
    return len(seiche.open(lake.store).gc(dry_run=False, grace=0).moved)


def meet_a_clean_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next commit find that one came after its files were written."""
    commit = Committer.commit

    def cleaned(self: Committer, intent: Intent) -> Answer:
        monkeypatch.setattr(Committer, "commit", commit)
        assert cleaned_up(lake)
        return commit(self, intent)

    monkeypatch.setattr(Committer, "commit", cleaned)


def compaction(lake: Lake) -> Callable[[], object]:
    """Results of a compaction by another process, and how they are committed."""
    steps = seiche.open(lake.store).table("shop.a").compaction()
    results = pickle.dumps([steps.execute(pickle.loads(pickle.dumps(task))) for task in steps.plan()])
    return lambda: lake.table("shop.a").compaction().commit(pickle.loads(results))


def index(lake: Lake) -> Callable[[], object]:
    """Segments of an index by another process, and how they are committed."""
    steps = seiche.open(lake.store).table("shop.a").index_build("id")
    segments = pickle.dumps([steps.execute(pickle.loads(pickle.dumps(task))) for task in steps.plan(2)])
    return lambda: lake.table("shop.a").index_build("id").commit(pickle.loads(segments))


@pytest.mark.parametrize("work", [compaction, index])
def test_work_from_elsewhere_is_as_old_as_its_plan(lake: Lake, work: Callable[[Lake], Callable[[], object]]) -> None:
    table = lake.table("shop.a")
    for number in range(2):
        table.append(rows(number))
    commit = work(lake)
    assert cleaned_up(lake)
    before = table.version
    with pytest.raises(RetryableConflict, match="given up by an expiry or clean-up"):
        commit()
    assert table.version == before
    assert lake.fsck(deep=True).problems == ()
    work(lake)()  # planned anew, it is committed
    assert table.version > before
    assert ids(lake, "shop.a") == [0, 1]


VERBS: dict[str, Callable[[LakeTable], Result]] = {
    "compact": lambda table: table.compact(),
    "create_index": lambda table: table.create_index("id"),
    "merge": lambda table: (
        table.merge(rows(1, 2, n=7), "id").when_matched_update_all().when_not_matched_insert_all().execute()
    ),
    "add_columns": lambda table: table.add_columns({"m": "n + 1"}),
    "add_columns in order": lambda table: table.add_columns(pa.table({"m": [5, 6]})),
    "alter_columns": lambda table: table.alter_columns({"path": "n", "data_type": pa.int32()}),
    "replace_column": lambda table: table.replace_column("n", [5, 6]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_meets_a_clean_up_writes_its_files_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Those of the first attempt are in the trash: nothing may name them."""
    table = lake.table("shop.a")
    for number in range(2):
        table.append(rows(number))
    meet_a_clean_up(lake, monkeypatch)
    assert VERBS[verb](table).attempts == 2
    assert lake.fsck(deep=True).problems == ()
    assert ids(lake, "shop.a")[:2] == [0, 1]


@pytest.fixture
def lasting(tmp_path: Path) -> Lake:
    """A lake as it is by default: files are flushed before the root names them, so whether they are there shows then,
    and not only at the root.
    """
    lake = seiche.create(tmp_path / "lasting")
    lake.create_namespace("shop")
    lake.create_table("shop.a", SCHEMA).append(rows(1, 2))
    return lake


def test_a_transaction_whose_files_were_cleared_away_meets_the_fence(lasting: Lake) -> None:
    tx = lasting.transaction()
    tx.delete("shop.a", "id = 1")
    assert cleaned_up(lasting)
    with pytest.raises(RetryableConflict, match="given up by an expiry or clean-up"):
        tx.commit()
    lasting.table("shop.a").delete("id = 2")
    assert ids(lasting, "shop.a") == [1]


def test_a_verb_whose_files_were_cleared_away_writes_them_anew(lasting: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    meet_a_clean_up(lasting, monkeypatch)
    assert lasting.table("shop.a").create_index("id").attempts == 2
    assert lasting.fsck(deep=True).problems == ()


def given_up(lake: Lake) -> int:
    """An expiry and a clean-up by another process: what only old versions have is gone."""
    seiche.open(lake.store).expire(older_than=0, keep=1)
    return cleaned_up(lake)


STATEMENTS: dict[str, Callable[[Transaction], object]] = {
    "read": lambda tx: tx.table("shop.a").to_arrow(),
    "delete": lambda tx: tx.delete("shop.a", "id = 2"),
    "update": lambda tx: tx.update("shop.a", {"n": "n + 1"}, "id = 2"),
    "compact": lambda tx: tx.table("shop.a").compact(),
    "index": lambda tx: tx.table("shop.a").create_index("id", replace=True),
    "append and read": lambda tx: (tx.append("shop.a", rows(9)), tx.table("shop.a").to_arrow()),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_transaction_whose_version_is_cleared_away_before_a_statement_is_run_again(
    lasting: Lake, statement: str
) -> None:
    check_run_again(lasting, "shop.a", STATEMENTS[statement])


ON_ICEBERG: dict[str, Callable[[Transaction], object]] = {
    "read": lambda tx: tx.table("shop.i").to_arrow(),
    "append": lambda tx: tx.append("shop.i", rows(9)),
    "delete": lambda tx: tx.delete("shop.i", "id = 2"),
    "update": lambda tx: tx.update("shop.i", {"n": "n + 1"}, "id = 2"),
    "overwrite": lambda tx: tx.overwrite("shop.i", rows(3, 9)),
    "upsert": lambda tx: tx.table("shop.i").to_iceberg().upsert(rows(2, 9), join_cols=["id"]),
}


@pytest.mark.parametrize("statement", ON_ICEBERG)
def test_so_is_one_on_an_iceberg_table(lasting: Lake, statement: str) -> None:
    lasting.create_table("shop.i", SCHEMA, format="iceberg").append(rows(1, 2))
    check_run_again(lasting, "shop.i", ON_ICEBERG[statement])


def check_run_again(lake: Lake, table: str, do: Callable[[Transaction], object]) -> None:
    """What the transaction began with is cleared away before the statement, the first time."""
    met: list[int] = []

    def work(tx: Transaction) -> None:
        if not met:
            tx.append(table, rows(4))
            lake.table(table).overwrite(rows(2, 3))
            met.append(given_up(lake))
        do(tx)

    lake.run(work)
    assert met[0]
    assert {3} <= set(ids(lake, table)) <= {2, 3, 9}
    assert lake.fsck(deep=True).problems == ()


def test_so_is_one_whose_files_are_cleared_away_before_it_has_named_them(
    lasting: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an Iceberg table: PyIceberg writes all files first, and hands them in then."""
    lasting.create_table("shop.i", SCHEMA, format="iceberg")
    met: list[int] = []

    def slowly(*named: Any) -> list[str]:
        if not met:
            met.append(cleaned_up(lasting))
        return named_by(*named)

    monkeypatch.setattr(statements, "named_by", slowly)
    lasting.run(lambda tx: tx.append("shop.i", rows(1)))
    assert met[0]
    assert ids(lasting, "shop.i") == [1]
    assert lasting.fsck(deep=True).problems == ()


def test_who_reads_in_a_block_while_the_version_is_cleared_away_is_told_to_run_it_again(lasting: Lake) -> None:
    tx = lasting.transaction()
    lasting.table("shop.a").overwrite(rows(2, 3))
    assert given_up(lasting)
    with pytest.raises(RetryableConflict, match="given up by an expiry or clean-up") as told, tx:
        tx.table("shop.a").to_arrow()
    assert isinstance(told.value.__cause__, seiche.SeicheError)
    assert tx.status == "rolled back"


def test_what_is_lost_without_a_clean_up_is_missing_at_once(lasting: Lake) -> None:
    tries = []

    def work(tx: Transaction) -> None:
        tries.append(tx)
        tx.table("shop.a").to_arrow()

    for info in list(lasting.store.list()):
        if "/data/" in info.path:
            lasting.store.delete(info.path)
    with pytest.raises(NotFound, match="data/"):
        lasting.run(work)
    assert len(tries) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_so_does_one_that_is_overtaken_while_it_commits(lasting: Lake, waits: bool) -> None:
    """While it waits for its turn, or between its look at the newest version and the root."""
    store = _Overtaken(lasting.store, waits, lambda: cleaned_up(lasting))
    late = seiche.open(store)
    tx = late.transaction()
    tx.delete("shop.a", "id = 1")
    lasting.create_namespace("other")
    store.armed = True
    with pytest.raises(RetryableConflict, match="given up by an expiry or clean-up"):
        tx.commit()
    assert not store.armed
    assert ids(lasting, "shop.a") == [1, 2]


def test_a_file_that_is_lost_for_another_reason_is_missing(lasting: Lake) -> None:
    tx = lasting.transaction()
    tx.delete("shop.a", "id = 1")
    lasting.store.delete(tx.unflushed[0])
    with pytest.raises(NotFound, match="_deletions/"):
        tx.commit()
    assert lasting.fsck(deep=True).problems == ()


class _Overtaken(SimulatedStore):
    """Another process comes between, once: while somebody waits for his turn, or before what he stages is written."""

    def __init__(self, inner: Store, waits: bool, other: Callable[[], object]) -> None:
        super().__init__(inner, on_call=self._met)
        self._waits = waits
        self._other = other
        self.armed = False

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        if self._waits and self.armed and meanwhile is not None:
            self._overtake()
            meanwhile()
        return nullcontext(self._waits)

    def _met(self, call: Call) -> None:
        if not self._waits and self.armed and "/_staged/" in call.path:
            self._overtake()

    def _overtake(self) -> None:
        self.armed = False
        assert self._other()


STREAMS: dict[str, Callable[[LakeTable, Iterator[pa.RecordBatch]], Result]] = {
    "m": lambda table, values: table.add_columns(values),
    "n": lambda table, values: table.replace_column("n", values),
}


@pytest.mark.parametrize("column", STREAMS)
def test_what_cannot_be_written_anew_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    table = lake.table("shop.a")
    table.append(rows(1, 2))
    meet_a_clean_up(lake, monkeypatch)
    with pytest.raises(RetryableConflict, match="stream") as refused:
        STREAMS[column](table, iter(pa.table({column: [5, 6]}).to_batches()))
    assert "tried" not in refused.value.message, "there is no point in that"
    assert lake.fsck(deep=True).problems == ()


def test_a_saved_transaction_stays_as_old_as_what_is_in_it(lake: Lake) -> None:
    """Also one that is sent to the service: there it is made again of what the statements saw, not of what is older."""
    table = lake.table("shop.a")
    for number in range(2):
        table.append(rows(number))
    steps = table.compaction()
    results = [steps.execute(task) for task in steps.plan()]
    then = lake.version
    lake.table("shop.b").append(rows(5))
    tx = lake.transaction()
    tx.table("shop.a").compaction().commit(results)
    tx.save()
    intent = tx.intent()
    assert intent is not None
    sent = saved.encode(intent, 0)
    assert (sent.base_version, sent.oldest_version) == (then + 1, then)
    resumed = seiche.open(lake.store).resume(tx.id)
    assert (resumed.base, resumed.oldest) == (then + 1, then)
    assert [work.base for work in saved_work(lake.store)] == [then]
    lake.store.delete(saved.saved_path(tx.id))  # otherwise the clean-up waits for it
    cleaned_up(lake)
    with pytest.raises(RetryableConflict, match="given up"):
        resumed.commit()


def expired(lake: Lake) -> None:
    """All versions but the newest are given up, and with them what is known of their transactions."""
    other = seiche.open(lake.store)
    other.table("shop.b").append(rows(9))
    other.expire(older_than=0, keep=1)


def test_who_slept_until_the_version_expired_in_which_another_committed_the_same_hears_that_it_is_done(
    lake: Lake,
) -> None:
    """Told that nothing was written, he would do it again."""
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    asleep = seiche.open(lake.store).resume(tx.save())
    done = lake.resume(tx.id).commit()
    expired(lake)
    assert (asleep.commit(), asleep.replayed) == (done, True)
    with pytest.raises(NotFound, match=f"it was committed in version {done}"):
        lake.resume(tx.id)
    assert ids(lake, "shop.a") == [1]


def test_who_began_long_before_the_fence_has_the_last_versions_behind_it_looked_through_and_no_more(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for that who are committed together with it."""
    for number in range(6):
        lake.table("shop.a").append(rows(number))
    expired(lake)
    state = seiche.open(lake.store).state()
    read: list[int] = []

    def noted(store: Store, version: int) -> Root:
        read.append(version)
        return read_root(store, version)

    monkeypatch.setattr(decided, "_FARTHEST", 3)
    monkeypatch.setattr(decided, "read_root", noted)
    assert decided.decided("00000000-0000-4000-8000-000000000000", 0, state) is None
    assert sorted(read) == [*range(state.root.min_base - 3, state.root.min_base)]


def test_a_saved_transaction_whose_version_has_expired_before_it_was_committed_is_to_be_run_again(lake: Lake) -> None:
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    expired(lake)
    with pytest.raises(RetryableConflict, match="given up by an expiry"):
        seiche.open(lake.store).resume(tx.save())


@pytest.mark.parametrize("lost", [False, True])
def test_what_another_did_under_the_same_key_is_not_done_again_when_its_version_has_expired(
    lake: Lake, lost: bool
) -> None:
    """Also if it does not get as far as its commit, because files that it reads are gone."""

    def append(tx: Transaction) -> None:
        tx.append("shop.a", rows(1))

    def slow(tx: Transaction) -> None:
        append(tx)
        seiche.open(lake.store).run(append, key="monday")
        expired(lake)
        if lost:
            raise NotFound("a file is gone")

    with pytest.raises(NotFound, match="it was committed") if lost else nullcontext():
        lake.run(slow, key="monday")
    assert ids(lake, "shop.a") == [1]


def test_a_transaction_that_another_committed_is_done_also_when_its_time_is_up() -> None:
    runtime = Runtime.seeded(1)
    lake = seiche.create(DictStore(runtime=runtime), runtime=runtime)
    tx = lake.transaction(lifetime=60)
    tx.create_namespace("shop")
    asleep = lake.resume(tx.save())
    done = tx.commit()
    runtime.clock.sleep(61)
    assert (asleep.commit(), asleep.replayed) == (done, True)
    with pytest.raises(NotFound, match=f"it was committed in version {done}"):
        lake.resume(tx.id)
