"""Files that a client wrote before it began: a clean-up that had noted them by then must not take them from a root."""

import json
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from seiche import Lake
from seiche.lake.commit import written
from seiche.lake.commit.committer import Committer
from seiche.service.changes import Change
from seiche.service.properties import FLUSHED
from seiche.service.states import State
from tests.service_lake import appending, defining, make_service, numbers_in, payload, reopened

GRACE = timedelta(milliseconds=20)


def clean_up(lake: Lake) -> int:
    """A clean-up by another process; returns how many files it took."""
    Event().wait(GRACE.total_seconds() * 2)
    return len(reopened(lake).gc(dry_run=False, grace=GRACE).moved)


def clean_up_before_the_root(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a clean-up come between the last look at the files of the next commit and its root."""
    put = Committer._put
    taken: list[int] = []

    def late(self: Committer, *given: object) -> bool:
        monkeypatch.setattr(Committer, "_put", put)
        taken.append(clean_up(lake))
        return put(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "_put", late)
    return taken


@pytest.mark.parametrize("calls", ["three", "one"])
@pytest.mark.parametrize("expected", [None, 1])
def test_files_from_before_a_clean_up_are_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: str, expected: int | None
) -> None:
    monkeypatch.setattr(written, "BLUR", GRACE / 2)
    early = appending(lake, "shop.orders", numbers=[1], expected_version=expected)
    assert clean_up(lake) == 0, "it only notes them"
    lake.table("shop.stock").append({"writer": [1], "number": [1]})
    service = make_service(lake, tmp_path)
    taken = clean_up_before_the_root(lake, monkeypatch)
    if calls == "three":
        tx = service.begin().id
        service.prepare(tx, [early])
        ended = service.commit(tx)
    else:
        ended = service.execute([early]).record
    assert taken == [1]
    assert ended.state is State.APPLY_FAILED_CONFLICT
    assert "given up by an expiry or clean-up" in ended.error_message
    assert reopened(lake).fsck(deep=True).problems == ()
    # Written anew, they are taken.
    assert service.execute([appending(lake, "shop.orders", numbers=[2])]).record.state is State.APPLIED
    assert numbers_in(lake) == [2]
    service.close()


def snapshot_of(lake: Lake, value: int) -> dict[str, Any]:
    """Files of an append to an Iceberg table that nobody has committed: the table's metadata with it."""
    tx = lake.transaction()
    tx.append("shop.facts", pa.table({"a": [value]}))
    tx.state.store.flush(tx.unflushed)
    found: dict[str, Any] = json.loads(tx.iceberg("shop.facts").metadata.model_dump_json(by_alias=True))
    return found


@pytest.mark.parametrize("shape", ["whole", "updates"])
def test_iceberg_files_from_before_a_clean_up_are_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    monkeypatch.setattr(written, "BLUR", GRACE / 2)
    with lake.transaction() as tx:
        tx.create_table("shop.facts", pa.schema([("a", pa.int64())]), format="iceberg")

    def change(value: int) -> Change:
        made = snapshot_of(lake, value)
        if shape == "updates":
            (snapshot,) = made["snapshots"]
            ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
            updates = [{"action": "add-snapshot", "snapshot": snapshot}, ref | {"snapshot-id": snapshot["snapshot-id"]}]
            made = {"requirements": [], "updates": updates}
        return Change(table_name="lake.shop.facts", payload=json.dumps(made).encode())

    early = change(1)
    assert clean_up(lake) == 0, "it only notes them"
    lake.table("shop.stock").append({"writer": [1], "number": [1]})
    service = make_service(lake, tmp_path)
    taken = clean_up_before_the_root(lake, monkeypatch)
    ended = service.execute([early]).record
    assert taken[0] >= 3, "a list, a manifest and a data file"
    assert ended.state is State.APPLY_FAILED_CONFLICT
    assert "given up by an expiry or clean-up" in ended.error_message
    assert reopened(lake).fsck(deep=True).problems == ()
    # Written anew, they are taken.
    assert service.execute([change(2)]).record.state is State.APPLIED
    assert reopened(lake).table("shop.facts").to_arrow()["a"].to_pylist() == [2]
    service.close()


def test_new_metadata_must_not_name_files_that_are_not_there(lake: Lake, tmp_path: Path) -> None:
    with lake.transaction() as tx:
        tx.create_table("shop.facts", pa.schema([("a", pa.int64())]), format="iceberg")
    made = snapshot_of(lake, 1)
    data = next(one for one in lake.store.list() if one.path.endswith(".parquet"))
    lake.store.delete(data.path)
    service = make_service(lake, tmp_path)
    payload = json.dumps(made).encode()
    ended = service.execute([Change(table_name="lake.shop.facts", payload=payload)]).record
    assert (ended.state, ended.error_code) == (State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD")
    assert data.path in ended.error_message
    assert reopened(lake).fsck(deep=True).problems == ()
    service.close()


def some_rows(lake: Lake) -> None:
    for number in (1, 2):
        lake.table("shop.orders").append({"writer": [1, 1], "number": [number, number + 10]})


def deleting(table: Any) -> None:
    table.delete("number = 1")


def updating(table: Any) -> None:
    table.update({"number": "number + 100"}, where="number = 1")


def adding_a_column(table: Any) -> None:
    table.add_columns({"twice": "number * 2"})


def replacing_a_column(table: Any) -> None:
    table.replace_column("number", [5, 6, 7, 8])


def overwriting(table: Any) -> None:
    table.overwrite({"writer": [2], "number": [7]})


def indexing(table: Any) -> None:
    table.create_index("number", "BTREE", name="by_number")


def made_by(act: Any, lake: Lake) -> tuple[Change, list[str]]:
    """What a statement does, as an operation that nobody has committed, and the files that it wrote for that."""
    before = {one.path for one in lake.store.list()}
    tx = lake.transaction()
    act(tx.table("shop.orders"))
    tx.late.write()
    (edit,) = tx.edits.values()
    assert edit.work is not None
    (change,) = edit.work.statements
    files = [one.path for one in lake.store.list() if one.path not in before]
    data = payload(lake, "shop.orders", change.operation)
    return Change(table_name="lake.shop.orders", payload=data), files


STATEMENTS = pytest.mark.parametrize(
    "act",
    [deleting, updating, adding_a_column, replacing_a_column, overwriting, indexing],
    ids=lambda act: act.__name__,
)


@STATEMENTS
def test_an_operation_must_not_name_files_that_are_not_there(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any
) -> None:
    """Whatever it does: the table would not be readable any more."""
    some_rows(lake)
    change, files = made_by(act, lake)
    assert files
    service = make_service(lake, tmp_path)
    for path in files:
        kept = lake.store.get(path)
        lake.store.delete(path)
        ended = service.execute([change]).record
        lake.store.put(path, kept)
        assert (ended.state, ended.error_code) == (State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD"), path
        assert path in ended.error_message
    assert numbers_in(reopened(lake)) == [1, 2, 11, 12]
    # With all of them there it is done.
    flushed: list[str] = []
    flush = lake.store.flush

    def noting(paths: Iterable[str]) -> None:
        named = list(paths)
        flushed.extend(named)
        flush(named)

    monkeypatch.setattr(lake.store, "flush", noting)
    assert service.execute([change]).record.state is State.APPLIED
    assert set(files) <= set(flushed), "they are safe before it is said that they are committed"
    service.close()
    assert reopened(lake).fsck(deep=True).problems == ()


@STATEMENTS
def test_files_of_any_operation_from_before_a_clean_up_are_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any
) -> None:
    monkeypatch.setattr(written, "BLUR", GRACE / 2)
    some_rows(lake)
    early, _ = made_by(act, lake)
    assert clean_up(lake) == 0, "it only notes them"
    lake.table("shop.stock").append({"writer": [1], "number": [1]})
    service = make_service(lake, tmp_path)
    taken = clean_up_before_the_root(lake, monkeypatch)
    ended = service.execute([early]).record
    assert taken[0] >= 1
    assert ended.state is State.APPLY_FAILED_CONFLICT
    assert "given up by an expiry or clean-up" in ended.error_message
    assert reopened(lake).fsck(deep=True).problems == ()
    assert numbers_in(reopened(lake)) == [1, 2, 11, 12]
    service.close()


@pytest.mark.parametrize("call", ["begin", "execute", "flushed"])
def test_a_server_that_has_not_looked_since_a_fence_was_raised_takes_what_begins_behind_it(
    lake: Lake, tmp_path: Path, call: str
) -> None:
    other = reopened(lake)
    service = make_service(lake, tmp_path)
    other.table("shop.stock").append({"writer": [1], "number": [1]})
    other.expire(older_than=0, keep=1)
    if call == "flushed":
        change = appending(other, "shop.orders", numbers=[1])
        ended = service.execute([change], base_version=other.version, properties={FLUSHED: "true"}).record
    elif call == "execute":
        ended = service.execute([defining(other, "shop.orders", "renamed")]).record
    else:
        tx = service.begin().id
        service.prepare(tx, [defining(other, "shop.orders", "renamed")])
        ended = service.commit(tx)
    assert ended.state is State.APPLIED, ended.error_message
    service.close()
