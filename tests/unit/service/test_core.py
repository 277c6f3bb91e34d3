"""The calls of the protocol: what they do, what they refuse, and what they say."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seiche import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    IncompatibleConflict,
    InvalidInput,
    Lake,
    RetryableConflict,
    SeicheError,
    Unavailable,
)
from seiche.lake.saved import encode
from seiche.service.blobs import blob_uri, delete_uri
from seiche.service.changes import Change, pointer_key
from seiche.service.core import LONGEST_TTL, Service, Settings
from seiche.service.properties import RESERVED
from seiche.service.state.keys import KeyStore
from seiche.service.state.records import Record
from seiche.service.states import State
from seiche.table.format.manifest_pb2 import UUID, DataFile, DataFragment, IndexFile, IndexMetadata
from seiche.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
)
from tests.service_lake import (
    SCHEMA,
    appending,
    defining,
    definition,
    make_service,
    numbers_in,
    overwriting,
    payload,
    shifted,
)

ORDERS = "lake.shop.orders"
ICEBERG = json.dumps(
    {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "long"}]}
)


def prepared(service: Service, *changes: Change) -> str:
    tx = service.begin().id
    service.prepare(tx, changes)
    return tx


def refusal(caught: pytest.ExceptionInfo[Any]) -> str:
    return str(caught.value.reason)


def test_a_commit_is_applied_and_holds_nothing(service: Service, lake: Lake) -> None:
    """Scenario 1."""
    tx = prepared(service, appending(lake, "shop.orders", numbers=[1, 2]))
    done = service.commit(tx)
    assert done.state is State.APPLIED
    assert done.lake_version == lake.version == lake.status(tx).version
    assert service.intents(tx) == []
    assert numbers_in(lake) == [1, 2]


@pytest.mark.parametrize("spelled", ["{}", "{{{}}}", "urn:uuid:{}"])
def test_an_id_is_the_same_however_it_is_spelled(service: Service, lake: Lake, spelled: str) -> None:
    """A client may have chosen it, in its own spelling, and asks for it by that."""
    made = service.begin().id
    tx = spelled.format(made.upper())
    assert service.get(tx).id == made
    assert service.reserve(tx, "lake.shop.new") == service.reserve(made, "lake.shop.new")
    assert service.prepare(tx, [appending(lake, "shop.orders", numbers=[1])]).id == made
    assert len(service.intents(tx)) == 1
    assert service.commit(tx).state is State.APPLIED
    assert service.abort(spelled.format(service.begin().id.upper())).state is State.ABORTED


def test_several_tables_change_with_one_version(service: Service, lake: Lake) -> None:
    """Scenario 2: one new version of each, however many intents there are."""
    before = lake.version
    tx = prepared(service, appending(lake, "shop.orders"), appending(lake, "shop.stock"), appending(lake, "shop.carts"))
    assert service.commit(tx).state is State.APPLIED
    assert lake.version == before + 1
    assert [lake.table(name).version for name in ("shop.orders", "shop.stock", "shop.carts")] == [2, 2, 2]


def test_a_failure_that_may_pass_keeps_intents_and_says_why(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenarios 3 and 6: from there a new commit can be applied."""
    tx = prepared(service, appending(lake, "shop.orders"))
    with monkeypatch.context() as patch:
        patch.setattr(lake, "decide_group", raising(Unavailable("the storage is away")))
        failed = service.commit(tx)
    assert failed.state is State.APPLY_FAILED_RETRYABLE
    assert (failed.error_code, failed.error_message) == ("UNAVAILABLE", "the storage is away")
    (kept,) = service.intents(tx)
    assert kept.error is not None
    assert kept.error.code == "UNAVAILABLE"
    applied = service.commit(tx)
    assert (applied.state, applied.error_code, applied.error_message) == (State.APPLIED, "", "")
    assert service.get(tx) == applied
    assert numbers_in(lake) == [0]


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (Unavailable("away"), State.APPLY_FAILED_RETRYABLE, "UNAVAILABLE"),
        (CommitUnknown("perhaps"), State.APPLY_FAILED_RETRYABLE, "COMMIT_UNKNOWN"),
        (RetryableConflict("outrun", reason="outrun"), State.APPLY_FAILED_RETRYABLE, None),
        (SeicheError("a defect"), State.APPLY_FAILED_RETRYABLE, None),
        (Corrupt("damaged"), State.APPLY_FAILED_RETRYABLE, "CORRUPT"),
        (Corrupt("not taken", reason="lost"), State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD"),
        (RetryableConflict("changed"), State.APPLY_FAILED_CONFLICT, "RETRYABLE_CONFLICT"),
        (IncompatibleConflict("gone"), State.APPLY_FAILED_CONFLICT, "INCOMPATIBLE_CONFLICT"),
        (AlreadyExists("taken"), State.APPLY_FAILED_CONFLICT, "NAME_POINTER_CONFLICT"),
        (InvalidInput("wrong"), State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD"),
    ],
)
def test_what_a_failure_of_the_lake_means(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch, error: SeicheError, state: State, code: str | None
) -> None:
    tx = prepared(service, appending(lake, "shop.orders"))
    monkeypatch.setattr(lake, "decide_group", raising(error))
    failed = service.commit(tx)
    assert (failed.state, failed.error_message) == (state, error.message)
    assert failed.error_code == code or code is None
    assert len(service.intents(tx)) == 1


def test_intents_that_cannot_be_deleted_change_no_answer(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tx = prepared(service, appending(lake, "shop.orders"))
    with monkeypatch.context() as patch:
        patch.setattr(service.store, "finish", raising(Unavailable("the database is away")))
        assert service.commit(tx).state is State.APPLIED
        assert len(service.intents(tx)) == 1
        assert [one.levelname for one in caplog.records if "not noted" in one.message] == ["WARNING"]
        assert service.commit(tx).state is State.APPLIED, "also while it is still away"
    assert service.sweep() == 1
    assert service.intents(tx) == []
    assert numbers_in(lake) == [0]


def test_what_was_executed_in_one_call_can_be_committed_by_its_id(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same states, the same records: what failed and may still succeed is kept, and anybody can try again."""
    saved = lake.transaction()
    saved.append("shop.stock", [{"writer": 0, "number": 7}])
    intent = saved.intent()
    assert intent is not None
    work = encode(intent, 2**60).SerializeToString()
    with monkeypatch.context() as patch:
        patch.setattr(lake, "decide_group", raising(Unavailable("the storage is away")))
        failed = [
            service.execute([appending(lake, "shop.orders", numbers=[3])]).record,
            service.execute([appending(lake, "shop.carts", numbers=[5], expected_version=1)]).record,
            service.execute(work=work).record,
        ]
    assert [one.state for one in failed] == [State.APPLY_FAILED_RETRYABLE] * 3
    kept = [intent for one in failed for intent in service.intents(one.id)]
    assert [intent.error and intent.error.code for intent in kept] == ["UNAVAILABLE"] * 3
    with pytest.raises(RetryableConflict) as caught:
        prepared(service, defining(lake, "shop.carts", "other"))
    assert caught.value.reason == "target.locked"
    assert [service.commit(one.id).state for one in failed] == [State.APPLIED] * 3
    assert [service.intents(one.id) for one in failed] == [[], [], []]
    assert [numbers_in(lake, name) for name in ("shop.orders", "shop.carts", "shop.stock")] == [[3], [5], [7]]


def test_that_an_append_in_one_call_will_not_happen_is_a_root(service: Service, lake: Lake) -> None:
    """It was not written down before it was tried: another server may be at the same one, and must find that."""
    given = appending(lake, "shop.orders")
    service.execute([overwriting(lake, "shop.orders")])
    record = service.execute([given], key="k").record
    assert record.state is State.APPLY_FAILED_CONFLICT
    assert lake.status(record.id).outcome == "aborted"
    assert service.execute([given], key="k").record.state is State.APPLY_FAILED_CONFLICT


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommitUnknown("perhaps"), "COMMIT_UNKNOWN"),
        (Unavailable("away"), "UNAVAILABLE"),
        (RetryableConflict("changed"), "UNAVAILABLE"),
    ],
)
@pytest.mark.parametrize("asked", ["status", "settle"])
def test_what_cannot_be_found_out_now_is_open(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch, error: SeicheError, code: str, asked: str
) -> None:
    """The root was put, perhaps, and then storage is away: that nothing was decided would be a lie."""
    with monkeypatch.context() as patch:
        patch.setattr(lake, "decide_group", raising(error))
        patch.setattr(lake, asked, raising(Unavailable("storage is away")))
        record = service.execute([appending(lake, "shop.orders")]).record
    if asked == "settle" and not isinstance(error, RetryableConflict):
        assert record.error_message == error.message
    assert (record.state, record.error_code) == (State.APPLY_FAILED_RETRYABLE, code)
    assert service.commit(record.id).state is State.APPLIED, "anybody may find it out later"
    assert numbers_in(lake) == [0]


def raising(error: Exception) -> Any:
    def act(*_: object, **__: object) -> None:
        raise error

    return act


def test_a_failure_after_somebody_else_applied_it_is_none(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenarios 4, 5 and 8: the tree is asked before a failure is recorded."""
    tx = prepared(service, appending(lake, "shop.orders"))
    real = lake.decide_group

    def applied_but_lost(intents: Any, _: object) -> Any:
        real(intents)
        raise Unavailable("the answer was lost")

    monkeypatch.setattr(lake, "decide_group", applied_but_lost)
    done = service.commit(tx)
    assert (done.state, done.lake_version) == (State.APPLIED, lake.version)
    assert numbers_in(lake) == [0]


def test_a_moved_version_is_a_conflict_with_both_versions(service: Service, lake: Lake) -> None:
    """Scenarios 7 and 36: neither rename happens."""
    tx = prepared(service, defining(lake, "shop.orders", "a"), defining(lake, "shop.stock", "b"))
    lake.rename_table("shop.stock", "shop.elsewhere")
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "EXPECTED_VERSION_MISMATCH")
    errors = {one.target: one.error for one in service.intents(tx)}
    stock = errors[pointer_key("default", lake.table("shop.elsewhere").row.id)]
    assert stock is not None
    assert (stock.expected_version, stock.actual_version) == (1, 2)
    assert stock.at > 0
    assert [name[-1] for name in lake.tables("shop")] == ["carts", "elsewhere", "orders"]
    assert service.commit(tx).state is State.APPLY_FAILED_CONFLICT, "the same each time"


def test_the_version_of_a_definition_is_captured_when_it_is_prepared(service: Service, lake: Lake) -> None:
    """Scenario 11; operations of Lance leave it to the matrix."""
    renaming = prepared(service, defining(lake, "shop.orders", "a"))
    assert [one.expected_version for one in service.intents(renaming)] == [1]
    adding = prepared(service, appending(lake, "shop.stock"))
    assert [one.expected_version for one in service.intents(adding)] == [None]


def test_a_precondition_is_strict(service: Service, lake: Lake) -> None:
    change = appending(lake, "shop.orders")
    with pytest.raises(RetryableConflict) as caught:
        prepared(service, replace(change, expected_version=7))
    assert refusal(caught) == "precondition.version"
    tx = prepared(service, replace(change, expected_version=1))
    lake.table("shop.orders").append([{"writer": 1, "number": 9}])
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "EXPECTED_VERSION_MISMATCH")
    assert numbers_in(lake) == [9]


def test_preparing_again_is_compared_not_checked_again(service: Service, lake: Lake) -> None:
    """Scenario 13: also when the table has moved since."""
    change = defining(lake, "shop.orders", "a")
    tx = prepared(service, change)
    before = service.get(tx)
    lake.rename_table("shop.orders", "shop.moved")
    assert service.prepare(tx, [change]) == before
    with pytest.raises(InvalidInput) as caught:
        service.prepare(tx, [appending(lake, "shop.stock")])
    assert refusal(caught) == "prepare.mismatch"


def test_a_table_is_deleted_by_its_sentinel(service: Service, lake: Lake) -> None:
    """Scenarios 14, 15 and 27: id and name go together."""
    tx = service.begin().id
    table = lake.table("shop.orders").row.id
    uri = delete_uri("default", tx, pointer_key("default", table))
    service.prepare(tx, [Change(table_id=table, blob_uri=uri)])
    assert service.commit(tx).state is State.APPLIED
    assert ("shop", "orders") not in lake.tables("shop")
    assert lake.state().key_of(table) is None
    with pytest.raises(InvalidInput) as caught:
        prepared(service, Change(table_id=table, blob_uri=uri))
    assert refusal(caught) == "table.not-found"


def test_a_table_that_is_gone_is_deleted_already(service: Service, lake: Lake) -> None:
    """Scenario 15."""
    tx = service.begin().id
    table = lake.table("shop.orders").row.id
    uri = delete_uri("default", tx, pointer_key("default", table))
    service.prepare(tx, [Change(table_id=table, blob_uri=uri)])
    lake.drop_table("shop.orders")
    assert service.commit(tx).state is State.APPLIED
    assert (lake.status(tx).outcome, service.intents(tx)) == ("committed", [])


def test_what_changes_nothing_is_guarded_too(service: Service, lake: Lake) -> None:
    """Scenario 31: a definition that is the present one, of a table that somebody has changed since."""
    tx = prepared(service, defining(lake, "shop.orders", "orders"))
    lake.table("shop.orders").append([{"writer": 1, "number": 9}])
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "EXPECTED_VERSION_MISMATCH")


def test_two_tables_swap_their_names(service: Service, lake: Lake) -> None:
    tx = prepared(service, defining(lake, "shop.orders", "stock"), defining(lake, "shop.stock", "orders"))
    ids = [lake.table(f"shop.{name}").row.id for name in ("orders", "stock")]
    assert service.commit(tx).state is State.APPLIED
    assert [lake.table(f"shop.{name}").row.id for name in ("stock", "orders")] == ids
    third = prepared(service, defining(lake, "shop.orders", "stock"), defining(lake, "shop.stock", "carts"))
    taken = service.commit(third)
    assert (taken.state, taken.error_code) == (State.APPLY_FAILED_CONFLICT, "NAME_POINTER_CONFLICT")
    assert [lake.table(f"shop.{name}").row.id for name in ("stock", "orders")] == ids, "neither"


def test_a_name_is_free_once_its_table_is_deleted(service: Service, lake: Lake) -> None:
    """Whichever of the two is named first."""
    tx = service.begin().id
    orders, stock = (lake.table(f"shop.{name}").row.id for name in ("orders", "stock"))
    gone = Change(table_id=stock, blob_uri=delete_uri("default", tx, pointer_key("default", stock)))
    service.prepare(tx, [defining(lake, "shop.orders", "stock"), gone])
    assert service.commit(tx).state is State.APPLIED
    assert lake.table("shop.stock").row.id == orders
    assert [name[-1] for name in lake.tables("shop")] == ["carts", "stock"]


def test_a_sentinel_is_for_one_transaction_and_target(service: Service, lake: Lake) -> None:
    tx = service.begin().id
    orders, stock = (lake.table(f"shop.{name}").row.id for name in ("orders", "stock"))
    for other in (
        delete_uri("default", tx, pointer_key("default", stock)),
        delete_uri("default", "other", pointer_key("default", orders)),
        delete_uri("other", tx, pointer_key("default", orders)),
    ):
        with pytest.raises(InvalidInput) as caught:
            service.prepare(tx, [Change(table_id=orders, blob_uri=other)])
        assert refusal(caught) == "blob.scope"


def test_expiry_leaves_a_conflict_alone(lake: Lake, tmp_path: Path) -> None:
    """Scenario 16."""
    runtime, clock = shifted()
    service = make_service(lake, tmp_path, runtime=runtime)
    tx = prepared(service, defining(lake, "shop.orders", "a"))
    lake.rename_table("shop.orders", "shop.b")
    service.commit(tx)
    clock.later = timedelta(hours=1)
    assert service.sweep() == 0
    assert service.commit(tx).state is State.APPLY_FAILED_CONFLICT
    service.close()


def test_the_sweep_ends_what_is_overdue(lake: Lake, tmp_path: Path) -> None:
    """Scenario 40, for what is undecided."""
    runtime, clock = shifted()
    service = make_service(lake, tmp_path, runtime=runtime)
    tx, other = prepared(service, defining(lake, "shop.orders", "a")), service.begin(ttl=3600).id
    clock.later = timedelta(seconds=601)
    assert service.sweep() == 1
    assert service.get(tx).state is State.ABORTED
    assert service.get(other).state is State.OPEN
    assert service.intents(tx) == []
    service.close()


def test_one_that_cannot_be_ended_now_is_in_nobodys_way(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, clock = shifted()
    service = make_service(lake, tmp_path, runtime=runtime)
    first, second = service.begin(ttl=1).id, service.begin(ttl=2).id
    clock.later = timedelta(minutes=1)
    abandon = service.store.abandon

    def failing(account: str, tx: str, *rest: Any) -> Any:
        if tx == first:
            raise Unavailable("not now")
        return abandon(account, tx, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "abandon", failing)
        assert service.sweep() == 1
    assert [service.get(tx).state for tx in (first, second)] == [State.OPEN, State.ABORTED]
    assert service.sweep() == 1
    service.close()


def test_a_reserved_id_is_the_same_each_time(service: Service, lake: Lake) -> None:
    """Scenario 19, and the table that is made under it."""
    tx = service.begin().id
    table = service.reserve(tx, "lake.shop.fresh")
    assert service.reserve(tx, "lake.shop.fresh") == table
    assert service.get(tx).properties == {RESERVED + "shop.fresh": table}
    made = definition(table, "fresh", "shop", ICEBERG, owner="me")
    service.prepare(tx, [Change(table_id=table, table=made)])
    assert service.reserve(tx, "lake.shop.fresh") == table
    with pytest.raises(InvalidInput):
        service.reserve(tx, "lake.shop.other")
    assert service.commit(tx).state is State.APPLIED
    row = lake.table("shop.fresh").row
    assert (row.id, dict(row.properties)) == (table, {"owner": "me"})
    assert lake.table("shop.fresh").schema.names == ["a"]


def test_an_id_that_nobody_keeps_is_not_given(service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is prepared, or forgotten, by another client at the moment in which one asks for an id."""
    reserve = service.store.reserve

    def late(act: Callable[[], object]) -> Callable[..., Record | None]:
        def done(*given: Any) -> Record | None:
            act()
            return reserve(*given)

        return done

    tx = service.begin().id
    change = appending(lake, "shop.orders")
    monkeypatch.setattr(service.store, "reserve", late(lambda: service.prepare(tx, [change])))
    with pytest.raises(InvalidInput, match="transaction not open: TS_PREPARED"):
        service.reserve(tx, "lake.shop.fresh")
    tx = service.begin(ttl=1).id
    monkeypatch.setattr(service.store, "reserve", late(lambda: forget(service, tx)))
    with pytest.raises(InvalidInput, match="transaction not found"):
        service.reserve(tx, "lake.shop.fresh")


def forget(service: Service, tx: str) -> None:
    service.abort(tx)
    service.store.collect(service.get(tx).expires + 1)


@pytest.mark.parametrize("form", ["lance", "iceberg"])
def test_a_definition_with_other_columns_is_refused_as_it_does_not_change_them(
    service: Service, lake: Lake, form: str
) -> None:
    lake.create_table("shop.facts", pa.schema([("a", pa.int64())]), format=form)
    table = lake.table("shop.facts").row.id

    def ended(schema: str) -> Record:
        return service.execute([Change(table_id=table, table=definition(table, "renamed", "shop", schema))]).record

    for schema in (ICEBERG.replace('"a"', '"b"'), ICEBERG.replace('"long"', '"string"'), "garbage"):
        refused = ended(schema)
        assert refused.state is State.APPLY_FAILED_CONFLICT
        assert refused.error_code == "TABLE_INTENT_INVALID_PAYLOAD"
        assert "schema_json" in refused.error_message
    assert ended(ICEBERG).state is State.APPLIED
    assert lake.table("shop.renamed").schema.names == ["a"]


def test_who_begins_cannot_reserve_an_id_of_his_own(service: Service, lake: Lake) -> None:
    """With the id of a table that was dropped, a new one would be made in the place where that still is."""
    given = {RESERVED + "shop.fresh": lake.table("shop.orders").row.id}
    lake.drop_table("shop.orders")
    for call in (service.begin, lambda **options: service.execute([appending(lake, "shop.stock")], **options)):
        with pytest.raises(InvalidInput) as caught:
            call(properties=given)
        assert refusal(caught) == "properties.reserved"


def test_changes_beside_work_are_not_left_out(service: Service, lake: Lake) -> None:
    tx = lake.transaction()
    tx.append("shop.stock", [{"writer": 1, "number": 1}])
    tx.late.write()
    asked = tx.intent()
    assert asked is not None
    with pytest.raises(InvalidInput) as caught:
        service.execute([appending(lake, "shop.orders")], work=encode(asked, 1 << 60).SerializeToString())
    assert refusal(caught) == "changes.and-work"
    assert numbers_in(lake) == numbers_in(lake, "shop.stock") == []


def test_two_creates_of_one_name_have_one_winner(service: Service, lake: Lake) -> None:
    """Scenario 62: the loser's id is never found."""
    ids = []
    for _ in range(2):
        tx = service.begin().id
        table = service.reserve(tx, "lake.shop.fresh")
        service.prepare(tx, [Change(table_id=table, table=definition(table, "fresh", "shop", ICEBERG))])
        ids.append((tx, table))
    (first, winner), (second, loser) = ids
    assert service.commit(first).state is State.APPLIED
    lost = service.commit(second)
    assert (lost.state, lost.error_code) == (State.APPLY_FAILED_CONFLICT, "NAME_POINTER_CONFLICT")
    (noted,) = service.intents(second)
    assert noted.error is not None
    assert noted.error.conflict_owner == winner
    assert lake.state().key_of(loser) is None


@pytest.mark.parametrize(
    "schema", ["", "[]", ICEBERG.replace("long", "decimal(99, 1)"), ICEBERG.replace("long", "void")]
)
def test_a_schema_that_is_none_fails_for_good(service: Service, schema: str) -> None:
    """Tried again it would be none again, and its name would be locked meanwhile."""
    tx = service.begin().id
    table = service.reserve(tx, "lake.shop.fresh")
    service.prepare(tx, [Change(table_id=table, table=definition(table, "fresh", "shop", schema))])
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "TABLE_INTENT_INVALID_PAYLOAD")
    assert "shop.fresh: schema_json" in done.error_message


def test_no_intents_means_no_commit(service: Service, lake: Lake) -> None:
    """Scenario 21: what is missing is not taken for nothing to do."""
    tx = prepared(service, appending(lake, "shop.orders"))
    service.store.database.transact(lambda one: one.run("DELETE FROM seiche_intents WHERE tx = ?", (tx,)))
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_RETRYABLE, "EMPTY_TRANSACTION")
    assert numbers_in(lake) == []


def test_too_many_operations(lake: Lake, tmp_path: Path) -> None:
    """Scenario 22: refused when it is prepared, not when it is committed."""
    service = make_service(lake, tmp_path, settings=Settings(max_operations=2))
    changes = [appending(lake, f"shop.{name}") for name in ("orders", "stock", "carts")]
    with pytest.raises(InvalidInput) as caught:
        prepared(service, *changes)
    assert refusal(caught) == "POINTER_TXN_TOO_LARGE"
    assert service.commit(prepared(service, *changes[:2])).state is State.APPLIED
    service.close()


def test_a_target_once(service: Service, lake: Lake) -> None:
    """Scenario 23, by name and by id."""
    by_name = appending(lake, "shop.orders")
    by_id = Change(table_id=lake.table("shop.orders").row.id, payload=by_name.payload)
    with pytest.raises(InvalidInput) as caught:
        prepared(service, by_name, by_id)
    assert refusal(caught) == "target.duplicate"


def test_a_definition_of_another_table(service: Service, lake: Lake) -> None:
    """Scenario 25."""
    wrong = defining(lake, "shop.orders", "a").table
    with pytest.raises(InvalidInput) as caught:
        prepared(service, Change(table_id=lake.table("shop.stock").row.id, table=wrong))
    assert refusal(caught) == "TABLE_INTENT_TARGET_MISMATCH"


def test_a_name_that_another_table_has(service: Service, lake: Lake) -> None:
    """Scenarios 28, 33 and 37: a conflict that names the owner, and nothing is applied."""
    tx = prepared(service, defining(lake, "shop.orders", "taken"), appending(lake, "shop.stock"))
    lake.run(lambda other: other.create_table("shop.taken", SCHEMA))
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "NAME_POINTER_CONFLICT")
    assert {one.error.conflict_owner for one in service.intents(tx) if one.error} == {lake.table("shop.taken").row.id}
    assert numbers_in(lake, "shop.stock") == []


def test_a_view_has_its_name_too(service: Service, lake: Lake) -> None:
    """Scenario 33."""
    lake.run(lambda other: other.create_view("shop.taken", "SELECT 1"))
    done = service.commit(prepared(service, defining(lake, "shop.orders", "taken")))
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "NAME_POINTER_CONFLICT")


def test_renames_happen_together(service: Service, lake: Lake) -> None:
    """Scenarios 34 and 35."""
    tx = prepared(service, defining(lake, "shop.orders", "a"), defining(lake, "shop.stock", "b"))
    assert service.commit(tx).state is State.APPLIED
    assert service.get(tx).state is State.APPLIED
    assert [name[-1] for name in lake.tables("shop")] == ["a", "b", "carts"]


def test_a_table_moves_to_another_namespace(service: Service, lake: Lake) -> None:
    lake.create_namespace("attic")
    tx = prepared(service, defining(lake, "shop.orders", "orders", "attic", kept="yes"))
    assert service.commit(tx).state is State.APPLIED
    assert dict(lake.table("attic.orders").row.properties) == {"kept": "yes"}


def test_an_expected_version_is_expected_also_when_the_root_is_put(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may come in between, with what an append by itself would not mind."""
    tx = prepared(service, appending(lake, "shop.orders", numbers=[1], expected_version=1))
    real = lake.decide_group

    def late(*given: Any) -> Any:
        lake.table("shop.orders").append({"writer": [0], "number": [2]})
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(lake, "decide_group", late)
        done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "EXPECTED_VERSION_MISMATCH")
    assert numbers_in(lake) == [2]


def test_an_exclusive_target_is_locked(service: Service, lake: Lake) -> None:
    """Scenario 38; appends do not wait for each other."""
    first = prepared(service, defining(lake, "shop.orders", "a"))
    with pytest.raises(RetryableConflict) as caught:
        prepared(service, defining(lake, "shop.orders", "b"))
    assert (refusal(caught), caught.value.owner) == ("target.locked", first)
    prepared(service, appending(lake, "shop.orders"))
    service.abort(first)
    prepared(service, defining(lake, "shop.orders", "b"))


def test_appends_that_were_prepared_together_are_all_applied(service: Service, lake: Lake) -> None:
    all_of_them = [prepared(service, appending(lake, "shop.orders", numbers=[number])) for number in range(4)]
    assert {service.commit(tx).state for tx in all_of_them} == {State.APPLIED}
    assert numbers_in(lake) == [0, 1, 2, 3]


def test_the_matrix_decides_about_operations(service: Service, lake: Lake) -> None:
    tx = prepared(service, appending(lake, "shop.orders", numbers=[1]))
    other = prepared(service, overwriting(lake, "shop.orders"))
    assert service.commit(other).state is State.APPLIED
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_CONFLICT, "INCOMPATIBLE_CONFLICT")
    assert numbers_in(lake) == []


def test_that_files_are_flushed_is_for_the_server_and_not_remembered(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    flush = lake.store.flush

    def noting(paths: Iterable[str]) -> int:
        named = list(paths)
        flushed.extend(named)
        return flush(named)

    monkeypatch.setattr(lake.store, "flush", noting)
    for number, base in ((1, lake.version), (2, None)):
        given = {"seiche.flushed": "true", "note": "mine"}
        change = appending(lake, "shop.orders", numbers=[number])
        flushed.clear()
        made = service.execute([change], base_version=base, properties=given)
        assert (dict(made.record.properties), dict(lake.log(1)[0].transactions[0].properties)) == (
            {"note": "mine"},
            {"note": "mine"},
        )
        assert any("/data/" in path for path in flushed) is (base is None), "believed only with a base"


def test_a_key_gives_the_transaction_as_it_is_now(service: Service, lake: Lake) -> None:
    """Scenario 42, for begin."""
    first = service.begin(key="k", properties={"a": "b"})
    assert service.begin(key=" k ", properties={"a": "b"}) == first
    assert service.begin().id != first.id
    service.abort(first.id)
    assert service.begin(key="k", properties={"a": "b"}).state is State.ABORTED
    with pytest.raises(IncompatibleConflict) as caught:
        service.begin(key="k", properties={"a": "c"})
    assert (refusal(caught), caught.value.op, caught.value.key) == ("idempotency.mismatch", "BeginTransaction", "k")


@pytest.mark.parametrize("how", ["applied", "unnoted", "aborted by a root"])
def test_a_key_of_a_begin_stands_for_its_request_once_that_is_decided_too(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Whoever begins something else under it would be told that it is applied, and leave it at that."""
    tx = service.begin(key="k", properties={"a": "b"}).id
    service.prepare(tx, [appending(lake, "shop.orders")])
    if how == "aborted by a root":
        service.store.start("default", [], [tx], 0)
        service.abort(tx)
    with monkeypatch.context() as patch:
        if how == "unnoted":
            patch.setattr(service.store, "finish", raising(Unavailable("away")))
        if how != "aborted by a root":
            service.commit(tx)
    with pytest.raises(IncompatibleConflict) as caught:
        service.begin(key="k", properties={"a": "c"})
    assert refusal(caught) == "idempotency.mismatch"
    expected = State.ABORTED if how == "aborted by a root" else State.APPLIED
    assert service.begin(key="k", properties={"a": "b"}).state is expected


def test_a_key_of_a_prepare_and_of_a_commit(service: Service, lake: Lake) -> None:
    """Scenario 42, for the others: replayed without running."""
    change = appending(lake, "shop.orders")
    tx = service.begin().id
    done = service.prepare(tx, [change], key="p")
    assert service.prepare(tx, [change], key="p") == done
    with pytest.raises(IncompatibleConflict):
        service.prepare(tx, [appending(lake, "shop.stock")], key="p")
    service.commit(tx, key="c")
    assert service.commit(tx, key="c").state is State.APPLIED
    assert service.prepare(tx, [change], key="p").state is State.APPLIED, "as it is now"
    with pytest.raises(IncompatibleConflict):
        service.commit(service.begin().id, key="c")
    assert numbers_in(lake) == [0]


@pytest.mark.parametrize("met", ["expiry", "conflict"])
def test_what_is_begun_anew_under_its_keys_is_done_anew(lake: Lake, tmp_path: Path, met: str) -> None:
    """Keys of prepare and commit are remembered longer than the transaction that they were used for."""
    runtime, clock = shifted()
    service = make_service(lake, tmp_path, runtime=runtime)
    change = defining(lake, "shop.orders", "taken")

    def done() -> Record:
        tx = service.begin(ttl=60, key="b").id
        assert service.prepare(tx, [change], key="p").state is State.PREPARED
        return service.commit(tx, key="c") if met == "conflict" or clock.later else service.get(tx)

    if met == "conflict":
        lake.run(lambda other: other.create_view("shop.taken", "SELECT 1"))
    assert done().state is (State.APPLY_FAILED_CONFLICT if met == "conflict" else State.PREPARED)
    if met == "conflict":
        lake.run(lambda other: other.drop_view("shop.taken"))
    clock.later = timedelta(minutes=3)
    service.sweep()
    service.store.collect(service._ledger.now())
    assert done().state is State.APPLIED
    assert lake.table("shop.taken").row.id == change.table_id
    service.close()


def test_a_key_is_not_used_up_by_a_failure_that_may_pass(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = prepared(service, appending(lake, "shop.orders"))
    with monkeypatch.context() as patch:
        patch.setattr(lake, "decide_group", raising(Unavailable("away")))
        assert service.commit(tx, key="c").state is State.APPLY_FAILED_RETRYABLE
    assert service.commit(tx, key="c").state is State.APPLIED


def test_a_key_that_cannot_be_noted_changes_no_answer(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was applied is not answered with an error because the database went away after it."""
    for name in ("done", "release", "forget"):
        monkeypatch.setattr(KeyStore, name, raising(Unavailable("the database is away")))
    tx = service.begin().id
    with pytest.raises(InvalidInput) as caught:
        service.prepare(tx, [], key="none")
    assert refusal(caught) == "changes.missing"
    assert service.prepare(tx, [appending(lake, "shop.orders")], key="p").state is State.PREPARED
    assert service.commit(tx, key="c").state is State.APPLIED


@pytest.mark.parametrize("failing", ["decide_group", "submit"])
def test_a_key_stays_that_of_a_request_of_which_the_end_is_open(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """What is asked for next under the same key must be the same: the first may be applied yet."""
    first, other = (prepared(service, appending(lake, name)) for name in ("shop.orders", "shop.stock"))
    with monkeypatch.context() as patch:
        away = raising(Unavailable("away"))
        patch.setattr(*((service.group, "submit", away) if failing == "submit" else (lake, "decide_group", away)))
        try:
            assert service.commit(first, key="k").state is State.APPLY_FAILED_RETRYABLE
        except Unavailable:
            assert failing == "submit"
    with pytest.raises(IncompatibleConflict) as caught:
        service.commit(other, key="k")
    assert refusal(caught) == "idempotency.mismatch"
    assert service.commit(first, key="k").state is State.APPLIED


def test_a_refused_request_gives_its_key_back(service: Service, lake: Lake) -> None:
    tx = service.begin().id
    with pytest.raises(InvalidInput):
        service.prepare(tx, [], key="p")
    assert service.prepare(tx, [appending(lake, "shop.orders")], key="p").state is State.PREPARED


@pytest.mark.parametrize("ttl", [-1.0, 0.5, LONGEST_TTL + 1, float("nan"), float("inf")])
def test_how_long_a_transaction_may_live(service: Service, ttl: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        service.begin(ttl=ttl)
    assert refusal(caught) == "ttl.out-of-range"


def test_the_default_is_ten_minutes(service: Service) -> None:
    made = service.begin()
    assert made.expires - made.created == 600_000
    made = service.begin(ttl=5)
    assert made.expires - made.created == 5_000


def test_a_blob_of_an_earlier_transaction_can_be_named(service: Service, lake: Lake) -> None:
    change = appending(lake, "shop.orders", numbers=[7])
    earlier = prepared(service, change)
    assert change.payload is not None
    uri = blob_uri("default", earlier, change.payload)
    service.abort(earlier)
    tx = prepared(service, Change(table_name="lake.shop.orders", blob_uri=uri))
    assert service.commit(tx).state is State.APPLIED
    assert numbers_in(lake) == [7]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change(), "target.missing"),
        (Change(table_name=ORDERS), "payload.missing"),
        (Change(table_name=ORDERS, payload=b"x", blob_uri="y"), "payload.missing"),
        (Change(table_name="lake.shop.nothing", payload=b"x"), "table.not-found"),
        (Change(table_name="other.shop.orders", payload=b"x"), "table.not-found"),
        (Change(table_name="lake.orders", payload=b"x"), "table.not-found"),
        (Change(table_name="lake", payload=b"x"), "table.name"),
        (Change(table_name="lake..orders", payload=b"x"), "table.name"),
        (Change(table_id="nothing", payload=b"x"), "table.not-found"),
        (Change(table_name=ORDERS, payload=b"not a message"), "payload.invalid"),
        (Change(table_name=ORDERS, payload=b""), "payload.invalid"),
        (Change(table_name=ORDERS, blob_uri=""), "blob.scope"),
        (Change(table_name=ORDERS, blob_uri="/accounts/default/../../etc/passwd"), "blob.scope"),
        (Change(table_name=ORDERS, blob_uri=blob_uri("other", "t", b"")), "blob.scope"),
        (Change(table_name=ORDERS, blob_uri=blob_uri("default", "t", b"never handed in")), "blob.not-found"),
        (Change(table_name=ORDERS, target_key="/accounts/default/transactions/by-id/x", payload=b"x"), "target.scope"),
        (Change(table_name=ORDERS, target_key="/accounts/other/tables/by-id/x", payload=b"x"), "target.scope"),
        (Change(target_key="/accounts/default/tables/by-id/../x", payload=b"x"), "target.scope"),
        (Change(table_id="x", table_account="other", payload=b"x"), "account.foreign"),
    ],
)  # fmt: skip
def test_refused_before_anything_is_written(service: Service, lake: Lake, change: Change, reason: str) -> None:
    before, version = {info.path for info in lake.store.list()}, lake.version
    tx = service.begin().id
    with pytest.raises(InvalidInput) as caught:
        service.prepare(tx, [change])
    assert refusal(caught) == reason
    assert ({info.path for info in lake.store.list()}, lake.version) == (before, version)
    assert service.get(tx).state is State.OPEN


OUTSIDE = DataFragment(files=[DataFile(path="../../../secret.lance", fields=[0, 1])])
OUTSIDE_INDEX = IndexMetadata(uuid=UUID(uuid=bytes(16)), name="by", files=[IndexFile(path="../../secret.idx")])


@pytest.mark.parametrize(
    "operation",
    [
        Append((OUTSIDE,)),
        Overwrite((OUTSIDE,)),
        Delete((OUTSIDE,)),
        Update(updated_fragments=(OUTSIDE,)),
        Update(new_fragments=(OUTSIDE,)),
        Merge((OUTSIDE,)),
        Rewrite((RewriteGroup(new_fragments=[OUTSIDE]),)),
        Rewrite(rewritten_indices=(RewrittenIndex(new_id=OUTSIDE_INDEX.uuid, new_index_files=OUTSIDE_INDEX.files),)),
        DataReplacement((DataReplacementGroup(new_file=OUTSIDE.files[0]),)),
        CreateIndex((OUTSIDE_INDEX,)),
        CreateIndex((IndexMetadata(uuid=UUID(uuid=b"short"), name="by"),)),
    ],
    ids=lambda one: one.name,
)
def test_a_file_outside_of_the_table_is_refused(service: Service, lake: Lake, operation: Operation) -> None:
    with pytest.raises(InvalidInput) as caught:
        prepared(service, Change(table_name="lake.shop.orders", payload=payload(lake, "shop.orders", operation)))
    assert refusal(caught) == "payload.path"


def test_an_operation_from_the_future_is_refused(service: Service, lake: Lake) -> None:
    change = Change(table_name="lake.shop.orders", payload=payload(lake, "shop.orders", Append(), 99))
    with pytest.raises(InvalidInput) as caught:
        prepared(service, change)
    assert refusal(caught) == "payload.read-version"


def test_other_operations_go_through_the_matrix_too(service: Service, lake: Lake) -> None:
    lake.table("shop.orders").append([{"writer": 1, "number": 1}])
    data = payload(lake, "shop.orders", Restore(1))
    assert service.commit(prepared(service, Change(table_name="lake.shop.orders", payload=data))).state is State.APPLIED
    assert numbers_in(lake) == []


def test_a_catalog_with_dots_in_its_name(lake: Lake, tmp_path: Path) -> None:
    service = make_service(lake, tmp_path, settings=Settings(catalog="acme.lake"))
    change = replace(appending(lake, "shop.orders", numbers=[1]), table_name="acme.lake.shop.orders")
    assert service.execute([change]).record.state is State.APPLIED
    with pytest.raises(InvalidInput) as caught:
        service.execute([replace(change, table_name="acme.shop.orders")])
    assert refusal(caught) == "table.not-found"
    service.close()


def test_no_account_no_service(lake: Lake, tmp_path: Path) -> None:
    from seiche.service.state.opening import open_database

    with pytest.raises(InvalidInput) as caught:
        Service(lake, open_database(f"sqlite://{tmp_path}/s.db"), account="")
    assert refusal(caught) == "account.missing"


def test_a_key_that_the_tree_remembers_is_not_begun_again(service: Service, lake: Lake) -> None:
    tx = service.begin(key="k").id
    service.prepare(tx, [appending(lake, "shop.orders")])
    service.commit(tx)
    service.store.database.transact(lambda one: one.run("DELETE FROM seiche_transactions"))
    assert (service.begin(key="k").id, service.begin(key="k").state) == (tx, State.APPLIED)


def test_an_address_of_a_database_that_cannot_be_read_does_not_tell_its_password() -> None:
    from seiche.service.state.opening import open_database

    with pytest.raises(InvalidInput) as refused:
        open_database("postgresql://me:topsecret@[::1/db")
    assert "topsecret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
