"""The rules of the protocol, one by one: each holds, and each is missed when it is switched off.

`RULES` has all of them. Those that speak of rows are in `test_lake_rules_rows`; what expiries and leases do under every
schedule is with the model of those.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from seiche import AlreadyExists, Corrupt, IncompatibleConflict, Lake, NotFound, RetryableConflict
from seiche.core.runtime import Runtime
from seiche.lake import creating as creating_module
from seiche.lake.care import expiry as expiry_module
from seiche.lake.commit import committer as commit_module
from seiche.lake.commit import edits as edits_module
from seiche.lake.commit import group as group_module
from seiche.lake.commit.committer import Committer
from seiche.lake.commit.intent import Intent
from seiche.lake.history.rollback import Rollback
from seiche.lake.lake import open_lake
from seiche.lake.publish import Publisher
from seiche.lake.states import States
from seiche.lake.tree import latest as latest_module
from seiche.lake.tree import swap
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.names import HINT
from seiche.lake.tree.swap import Lost, Won
from seiche.table.operations import ReserveFragments
from seiche.table.pending import Pending
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming
from seiche.testing import DictStore, SimulatedStore, Stopped
from seiche.testing.wrapping import Call
from tests.simulation.lake_model import TABLES, append, contents, opened, prepared, published

A, B, C = TABLES

ROWS, CARE, TAGS = "test_lake_rules_rows.py", "test_lake_care.py", "../unit/lake/test_tags.py"

# For each rule the tests in which it holds and in which it is switched off; in this file if nothing else is said.
RULES = {
    1: ["test_rule_1_a_writer_from_before_the_fence_aborts_when_it_meets_it"],
    2: ["test_rule_2_a_negative_answer_is_decided_by_a_root"],
    3: ["test_rule_3_one_id_is_applied_once_however_many_replicas_try"],
    4: [
        "test_rule_4_a_missing_version_is_an_error_and_is_not_skipped",
        "test_rule_4_names_and_numbers_are_never_used_again",
        f"{CARE}::test_without_the_versions_between_a_table_has_gaps",
    ],
    5: ["test_rule_5_absent_is_not_no"],
    6: [f"{ROWS}::test_rule_6_plain_writers_are_fenced_out"],
    7: ["test_rule_7_a_version_is_published_before_the_next_is_decided"],
    8: [f"{ROWS}::test_rule_8_statements_of_one_transaction_rebase_as_a_chain"],
    9: [f"{ROWS}::test_rule_9_compatible_does_not_mean_applied_blindly"],
    10: [f"{ROWS}::test_rule_10_predicates_are_reads"],
    11: ["test_rule_11_members_of_a_group_are_checked_against_those_before_them"],
    12: [
        "test_rule_12_a_rollback_states_what_it_saw",
        f"{TAGS}::test_a_version_that_expires_meanwhile_is_not_tagged",
    ],
    13: [
        "test_rule_13_who_reads_an_old_version_holds_a_lease",
        f"{CARE}::test_without_the_rules_of_leases_a_reader_is_robbed",
    ],
    14: ["test_rule_14_no_hint_can_mislead", "test_rule_14_a_hint_that_is_trusted_misleads"],
}


def named(rule: int) -> Iterator[ast.FunctionDef]:
    """The tests of a rule, as they stand in their files."""
    for test in RULES[rule]:
        file, _, name = test.rpartition("::")
        tree = ast.parse((Path(__file__).parent / (file or Path(__file__).name)).read_text())
        yield next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name)


@pytest.mark.parametrize("rule", range(1, 15))
def test_every_rule_has_a_test_that_switches_it_off(rule: int) -> None:
    switching = [one.name for one in named(rule) if "monkeypatch" in {argument.arg for argument in one.args.args}]
    assert switching
    assert set(RULES) == set(range(1, 15))


@pytest.fixture
def store() -> DictStore:
    return prepared()


def intent(lake: Lake, mark: str, *tables: str, key: str | None = None) -> Intent:
    """A transaction that appends a mark, not committed yet."""
    tx = lake.transaction(key=key)
    for name in tables or TABLES:
        tx.table(name).apply(append(mark))
    made = tx.intent()
    assert made is not None
    return made


def raise_fence(lake: Lake, version: int) -> None:
    """What an expiry does first: a root that says that versions below are being given up."""
    base = lake.state()
    root = base.root.successor(
        base.root.node,
        root_id=str(lake._runtime.uuid()),
        now=lake._runtime.clock.now(),
        storage_time=lake.store.head(base.root.name).modified,
        min_base=version,
    )
    assert isinstance(swap.publish(lake.store, root, base.root, order=base.definition.order), Won)


def test_rule_1_a_writer_from_before_the_fence_aborts_when_it_meets_it(
    store: DictStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = opened(store)
    tx = lake.transaction()
    tx.table(A).apply(append("slow"))
    raise_fence(opened(store, seed=2), lake.version + 1)
    with pytest.raises(RetryableConflict, match="given up"):
        tx.commit()
    assert contents(lake)[A] == []
    monkeypatch.setattr(Intent, "_check_fence", lambda self, state: None)
    lake.store  # noqa: B018
    late = open_lake(store, version=lake.version - 1).transaction()
    late._read_only = False
    late.table(A).apply(append("slow"))
    late.commit()
    assert contents(lake)[A] == ["slow"], "without the rule the writer gets through"


def test_rule_2_a_negative_answer_is_decided_by_a_root(store: DictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, operator = opened(store), opened(store, seed=2)
    tx = lake.transaction()
    tx.table(A).apply(append("slow"))
    assert operator.settle(tx.id).outcome == "aborted"
    with pytest.raises(RetryableConflict, match="aborted"):
        tx.commit()
    monkeypatch.setattr(Committer, "abort", lambda self, transaction_id: None)
    other = lake.transaction()
    other.table(A).apply(append("slow"))
    operator.settle(other.id)
    other.commit()
    assert contents(lake)[A] == ["slow"], "without the rule it commits although it was called aborted"


def two_replicas(store: DictStore, key: str | None) -> list[str]:
    """Two processes that commit the same thing; returns what the first table holds afterwards."""
    one, other = opened(store, seed=2), opened(store, seed=3)
    first, second = intent(one, "mine", key=key), intent(other, "mine", key=key)
    version = one._committer.commit(first).version
    one.create_namespace("between")
    answer = other._committer.commit(second)
    assert answer.replayed == (key is not None)
    assert (answer.version == version) == (key is not None)
    return contents(opened(store, seed=4))[A]


def test_rule_3_one_id_is_applied_once_however_many_replicas_try(monkeypatch: pytest.MonkeyPatch) -> None:
    assert two_replicas(prepared(), "same") == ["mine"]
    assert two_replicas(prepared(), None) == ["mine", "mine"], "without a key they are two transactions"
    monkeypatch.setattr(group_module, "_decided", lambda intent, state: None)
    with pytest.raises(AlreadyExists):
        two_replicas(prepared(), "same")


def commit_over_a_gap(store: DictStore) -> Lake:
    """A slow writer, two commits of others meanwhile, and of the first of these the manifest is gone."""
    lake = opened(store)
    slow = intent(lake, "slow", A)
    for mark in ("one", "two"):
        lake._committer.commit(intent(lake, mark, A))
    location = lake.state().table(("bank", "a")).location
    missing = [info.path for info in store.list(f"{location}/_versions")][-2]
    store.delete(missing)
    lake._committer.commit(slow)
    return lake


def test_rule_4_a_missing_version_is_an_error_and_is_not_skipped(
    store: DictStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Corrupt, match="missing although a later one exists"):
        commit_over_a_gap(store)
    assert contents(opened(store, seed=7))[A] == ["one", "two"]
    real = Pending._message

    def skipping(pending: Pending, version: int, built_upon: int) -> Any:
        try:
            return real(pending, version, built_upon)
        except Corrupt:
            return Transaction(version - 1, str(UUID(int=version)), ReserveFragments(0)).to_proto()

    monkeypatch.setattr(Pending, "_message", skipping)
    lake = commit_over_a_gap(prepared(seed=8))
    assert contents(lake)[A][-1] == "slow", "without the rule it commits over something that nobody has looked at"


def recreated(store: DictStore) -> Lake:
    lake = opened(store)
    lake.run(lambda tx: tx.table(A).apply(append("old")))
    lake.drop_table(A)
    lake.create_table(A, lake_schema())
    lake.run(lambda tx: tx.table(A).apply(append("new")))
    return lake


def test_rule_4_names_and_numbers_are_never_used_again(store: DictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = opened(store).state().table(("bank", "a"))
    lake = recreated(store)
    after = lake.state().table(("bank", "a"))
    assert before.id != after.id
    assert before.location != after.location
    assert contents(lake)[A] == ["new"]
    assert contents(lake, lake.version - 3)[A] == ["old"]
    monkeypatch.setattr(creating_module, "location", lambda name, table_id: "tables/" + "/".join(name))
    with pytest.raises(Corrupt, match="somebody who does not know the lake"):
        recreated(prepared(seed=5))


def lake_schema() -> Any:
    from tests.simulation.lake_model import SCHEMA

    return SCHEMA


def put_that_arrives_late(monkeypatch: pytest.MonkeyPatch, seed: int) -> list[str]:
    """The root's put is answered by a time-out and arrives afterwards; returns what the first table then holds."""
    inner = prepared(seed)
    rehearsal = SimulatedStore(inner_copy(inner))
    with opened(rehearsal).transaction() as tx:
        tx.table(A).apply(append("mine"))
    number = next(n for n, call in enumerate(rehearsal.calls, 1) if call.verb == "put_if_absent" and is_root(call))
    late = SimulatedStore(inner, plan={number: "late"})
    lake = opened(late)
    lake.run(lambda tx: tx.table(A).apply(append("mine")))
    late.deliver()
    return contents(opened(inner, seed=9))[A]


def inner_copy(store: DictStore) -> DictStore:
    copy = DictStore()
    for info in store.list():
        copy.put(info.path, store.get(info.path))
    return copy


def is_root(call: Call) -> bool:
    return call.path.startswith("_") and call.path.endswith(".ipc")


def test_rule_5_absent_is_not_no(monkeypatch: pytest.MonkeyPatch) -> None:
    assert put_that_arrives_late(monkeypatch, 0) == ["mine"]
    real = swap.publish

    def hasty(store: Any, root: Any, base: Any, **options: Any) -> Won | Lost:
        """Takes a missing file after an unclear answer for a failure."""
        from seiche import CommitUnknown

        try:
            store.put_if_absent(root.name, root.encode(options["order"]))
        except CommitUnknown:
            try:
                return Lost(read_root(store, root.version))
            except NotFound:
                raise RetryableConflict("it did not happen") from None
        return Won(root)

    assert real is not hasty
    monkeypatch.setattr(commit_module, "publish", hasty)
    # Here the retry takes the same name before the late put arrives; had another writer come in between, it would have
    # been a second commit. What shows is that the transaction is run again.
    calls: list[Any] = []
    monkeypatch.setattr(Intent, "plan", spy(Intent.plan, calls))
    put_that_arrives_late(monkeypatch, 1)
    assert len(calls) > 2, "without the rule the transaction is run again although it may have happened"


def spy(function: Callable[..., Any], calls: list[Any]) -> Callable[..., Any]:
    def spied(*args: Any) -> Any:
        calls.append(args)
        return function(*args)

    return spied


def crash_before_publishing(store: DictStore) -> None:
    """A committer that dies right behind its root, and another commit after it."""

    def die(call: Call) -> None:
        if call.verb == "put_if_absent" and call.path.endswith(Naming.V2.path(2)):
            raise Stopped

    with pytest.raises(Stopped):
        opened(SimulatedStore(store, on_call=die), seed=2).run(lambda tx: tx.table(A).apply(append("first")))
    opened(store, seed=3).run(lambda tx: tx.table(A).apply(append("second")))


def test_rule_7_a_version_is_published_before_the_next_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    store = prepared()
    crash_before_publishing(store)
    assert published(store, opened(store, seed=4))[A] == 3
    monkeypatch.setattr(Committer, "_publish_before", lambda self, base, planned: ())
    store = prepared(seed=5)
    crash_before_publishing(store)
    with pytest.raises(AssertionError, match="gap"):
        published(store, opened(store, seed=6))


def test_rule_11_members_of_a_group_are_checked_against_those_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def group(seed: int) -> list[bool]:
        lake = opened(prepared(seed), seed=seed + 1)
        members = []
        for _ in range(2):
            tx = lake.transaction()
            tx.create_table("bank.same", lake_schema())
            made = tx.intent()
            assert made is not None
            members.append(made)
        members.append(intent(lake, "fine"))
        answers = lake._committer.commit_group(members)
        assert contents(lake)[A] == ["fine"]
        assert len({answer.version for answer in answers if answer.error is None}) == 1, "one root for all"
        return [answer.error is None for answer in answers]

    assert group(0) == [True, False, True]
    monkeypatch.setattr(edits_module.TableEdit, "_check_free", lambda self, state, key, freed: None)
    assert group(2) == [True, True, True]


def test_rule_11_appends_of_a_group_to_one_table_keep_their_order() -> None:
    store = prepared()
    lake = opened(store)
    members = [intent(lake, f"m{number}") for number in range(5)]
    before = lake.version
    answers = lake._committer.commit_group(members)
    assert [answer.error for answer in answers] == [None] * 5
    assert lake.version == before + 1
    assert contents(opened(store, seed=3)) == {name: [f"m{number}" for number in range(5)] for name in TABLES}
    assert published(store, lake)[A] == 6


@pytest.mark.parametrize("hint", [None, b"", b"\x00\xff", b"0", b"2", b"999999", b"-1", b"4e2", b"4\n", b"9" * 70])
def test_rule_14_no_hint_can_mislead(store: DictStore, hint: bytes | None) -> None:
    lake = opened(store)
    lake.run(lambda tx: tx.table(A).apply(append("mine")))
    if hint is None:
        store.delete(HINT)
    else:
        store.put(HINT, hint)
    again = opened(store, seed=5)
    assert again.version == lake.version
    again.run(lambda tx: tx.table(A).apply(append("next")))
    assert contents(opened(store, seed=6))[A] == ["mine", "next"]


def test_rule_14_a_hint_that_is_trusted_misleads(store: DictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = opened(store)
    lake.run(lambda tx: tx.table(A).apply(append("mine")))
    store.put(HINT, b"2")
    monkeypatch.setattr(latest_module, "_exists", lambda store, version: False)
    monkeypatch.setattr(States, "_exists", lambda *_: False)
    assert opened(store, seed=5).version == 2, "without the rule a reader is given what was true long ago"


def rolled_back(store: DictStore) -> Lake:
    """An operator looks, somebody else commits, and the operator undoes what it has seen."""
    lake, other = opened(store), opened(store, seed=2)
    before = lake.version
    lake.run(lambda tx: tx.table(A).apply(append("unwanted")))
    seen = lake.version
    other.run(lambda tx: tx.table(B).apply(append("unseen")))
    lake.rollback(to=before, expected_version=seen)
    return lake


def test_rule_12_a_rollback_states_what_it_saw(store: DictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IncompatibleConflict, match="as was expected"):
        rolled_back(store)
    assert contents(opened(store, seed=3))[B] == ["unseen"]
    real = Rollback.plan
    monkeypatch.setattr(
        Rollback, "plan", lambda self, *arguments: real(replace(self, expected_version=None), *arguments)
    )
    assert contents(rolled_back(prepared(seed=4)))[B] == [], "without the rule it undoes what nobody has looked at"


def read_while_it_expires(store: DictStore) -> list[str]:
    """What a reader of an old version finds when that was given up and cleared away behind its back."""
    lake = opened(store)
    lake.run(lambda tx: tx.table(A).apply(append("old")))
    old = lake.version
    lake.run(lambda tx: tx.table(A).apply(append("newer")))
    with open_lake(store, version=old, lease=timedelta(hours=1), runtime=Runtime.seeded(3)) as reader:
        operator = opened(store, seed=4)
        operator.expire(older_than=0, keep=1)
        operator.gc(dry_run=False, grace=0, window=0)
        return contents(reader, old)[A]


def test_rule_13_who_reads_an_old_version_holds_a_lease(store: DictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_while_it_expires(store) == ["old"]
    monkeypatch.setattr(expiry_module, "leases", lambda store: [])
    with pytest.raises(NotFound, match="expired"):
        read_while_it_expires(prepared(seed=5))


def test_publishing_twice_is_publishing_once(store: DictStore) -> None:
    lake = opened(store)
    lake.run(lambda tx: tx.table(A).apply(append("mine")))
    row = lake.state().table(("bank", "a"))
    before = {info.path: store.get(info.path) for info in store.list(f"{row.location}/_versions")}
    Publisher(store, lake._runtime).publish(row)
    after = {info.path: store.get(info.path) for info in store.list(f"{row.location}/_versions")}
    assert before == after
