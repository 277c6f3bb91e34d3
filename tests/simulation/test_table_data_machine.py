"""Verbs with real rows, by Seiche and pylance in turn and amid each other: a dictionary says what must come of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lance.optimize import Compaction

from seiche.errors import IncompatibleConflict, SeicheError
from seiche.store import open_store
from seiche.table.change import Change, Prepare, Result
from seiche.table.rebase import TransactionRebase
from seiche.table.snapshot import Snapshot
from seiche.table.table import Table
from seiche.table.verbs.rows import RowVerbs
from seiche.table.verbs.settings import SettingVerbs

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.int64())])
TOTAL: Counter[str] = Counter()
_NAMES = count()

Rows: TypeAlias = dict[int, int]
# Does something and returns the version that it made, or None if it changed nothing.
Deed: TypeAlias = Callable[[], int | None]


@dataclass(frozen=True)
class Act:
    """A verb, and what it makes of the rows: those it looked at, and those that it is applied to."""

    name: str
    run: Callable[[Any], Result]
    effect: Callable[[Rows, Rows], Rows]


class Interrupted(RowVerbs, SettingVerbs):
    """A table whose verbs let somebody else commit between preparing a change and committing it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.meanwhile: Callable[[], None] | None = None

    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        def interrupted(snapshot: Snapshot) -> Change | None:
            change = prepare(snapshot)
            if self.meanwhile is not None:
                others, self.meanwhile = self.meanwhile, None
                others()
            return change

        return self.table._run(verb, interrupted, attempts=attempts, timeout=timeout)


class DataMachine(RuleBasedStateMachine):
    """Two tables of Seiche and a dataset of pylance, all at the same place."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = count(1)
        self.states: dict[int, Rows] = {}
        self.writers: list[Table] = []
        self.uri = ""

    @initialize(stable=st.booleans(), rows=st.integers(0, 6))
    def start(self, stable: bool, rows: int) -> None:
        store = open_store(f"memory://machine-{next(_NAMES)}")
        self.uri = store.native_uri()
        first = Table.create(store, SCHEMA, stable_row_ids=stable)
        self.writers = [first, Table.open(store)]
        self.states = {1: {}}
        if rows:
            act = self._appending(rows)
            self._note(act.run(first).version, act.effect({}, {}))

    def _note(self, version: int, rows: Rows) -> None:
        """The version holds these rows; versions in between, such as reservations, hold what was there before."""
        for number in range(max(self.states) + 1, version):
            self.states[number] = self.states[number - 1]
        self.states[version] = rows

    @property
    def rows(self) -> Rows:
        return self.states[max(self.states)]

    @rule(writer=st.integers(0, 1), data=st.data())
    def one_acts(self, writer: int, data: st.DataObject) -> None:
        act = self._act(data)
        self._apply(act, self.rows, act.run(self.writers[writer]))

    @rule(writer=st.integers(0, 1), natively=st.booleans(), data=st.data())
    def one_acts_amid_another(self, writer: int, natively: bool, data: st.DataObject) -> None:
        """What was prepared is carried over what came first, or prepared anew, or refused; never half of both."""
        act = self._act(data)
        interrupted = Interrupted(self.writers[writer])
        if natively:
            deed = data.draw(st.sampled_from([self._append_natively, self._delete_natively, self._compact_natively]))
            interrupted.meanwhile = lambda: deed(data)
        else:
            other = self._act(data)

            def others() -> None:
                self._apply(other, self.rows, other.run(self.writers[1 - writer]))

            interrupted.meanwhile = others
        before = self.rows
        try:
            result = act.run(interrupted)
        except IncompatibleConflict:
            TOTAL["refused"] += 1
            return
        TOTAL["prepared again" if result.attempts > 1 else "rebased"] += 1
        self._apply(act, before if result.attempts == 1 else self.rows, result)

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def pylance_acts(self, data: st.DataObject) -> None:
        deeds = [self._append_natively, self._delete_natively, self._update_natively, self._compact_natively]
        data.draw(st.sampled_from(deeds), "deed")(data)

    @rule(writer=st.integers(0, 1))
    def compact(self, writer: int) -> None:
        result = self.writers[writer].compact()
        if result.changed:
            self._note(result.version, self.rows)
            TOTAL["compact"] += 1

    @invariant()
    def the_newest_version_is_what_the_model_says(self) -> None:
        if not self.states:
            return
        dataset: Any = lance.dataset(self.uri)
        assert dataset.version == max(self.states)
        dataset.validate()
        assert scanned(dataset) == self.rows
        assert dataset.count_rows() == len(self.rows)

    def teardown(self) -> None:
        """Every version, by both readers."""
        if not self.writers:
            return
        table = Table.open(self.writers[0].store)
        assert [one.version for one in table.versions()] == sorted(self.states)
        for version, rows in self.states.items():
            assert scanned(lance.dataset(self.uri, version=version)) == rows
            assert in_dictionary(table.to_arrow(version=version)) == rows
        TOTAL["versions"] += len(self.states)

    def _apply(self, act: Act, seen: Rows, result: Result) -> None:
        if result.changed:
            self._note(result.version, act.effect(seen, self.rows))
            TOTAL[act.name] += 1

    def _act(self, data: st.DataObject) -> Act:
        make = data.draw(
            st.sampled_from(
                [self._append, self._delete, self._update, self._delete, self._update, self._merge, self._overwrite]
                + [self._restore] * (max(self.states) > 1)
            ),
            "what",
        )
        made: Act = make(data)
        return made

    def _append(self, data: st.DataObject) -> Act:
        return self._appending(data.draw(st.integers(1, 4), "rows"))

    def _appending(self, rows: int) -> Act:
        new = {next(self.ids): 0 for _ in range(rows)}
        return Act("append", lambda table: table.append(as_table(new)), lambda seen, rows: {**rows, **new})

    def _delete(self, data: st.DataObject) -> Act:
        matches, predicate = some_rows(data)

        def effect(seen: Rows, rows: Rows) -> Rows:
            return {one: value for one, value in rows.items() if not (one in seen and matches(one))}

        return Act("delete", lambda table: table.delete(predicate), effect)

    def _update(self, data: st.DataObject) -> Act:
        matches, predicate = some_rows(data)
        mode = data.draw(st.sampled_from([None, "rows", "columns"]), "mode")

        def effect(seen: Rows, rows: Rows) -> Rows:
            return rows | {one: value + 1 for one, value in seen.items() if matches(one)}

        return Act("update", lambda table: table.update({"value": "value + 1"}, predicate, mode=mode), effect)

    def _merge(self, data: st.DataObject) -> Act:
        """Some of the keys that are there, or were, and one that never was. (Not one that is only about to be appended:
        an append asks nobody about keys, and would make it two.)
        """
        there = sorted({one for rows in self.states.values() for one in rows})
        known = data.draw(st.sets(st.sampled_from(there), max_size=3), "keys") if there else set()
        new = dict.fromkeys([*known, next(self.ids)], data.draw(st.integers(100, 999), "value"))

        def run(table: Any) -> Result:
            builder = table.merge(as_table(new), on="id")
            result: Result = builder.when_matched_update_all().when_not_matched_insert_all().execute()
            return result

        return Act("merge", run, lambda seen, rows: rows | new)

    def _overwrite(self, data: st.DataObject) -> Act:
        new = {next(self.ids): 7 for _ in range(data.draw(st.integers(0, 3), "rows"))}
        return Act("overwrite", lambda table: table.overwrite(as_table(new)), lambda seen, rows: new)

    def _restore(self, data: st.DataObject) -> Act:
        version = data.draw(st.integers(1, max(self.states) - 1), "version")
        return Act("restore", lambda table: table.restore(version), lambda seen, rows: self.states[version])

    def _append_natively(self, data: st.DataObject) -> None:
        new = {next(self.ids): 1 for _ in range(data.draw(st.integers(1, 3), "rows"))}
        dataset = lance.write_dataset(as_table(new), self.uri, mode="append")
        self._natively("append", dataset, self.rows | new)

    def _delete_natively(self, data: st.DataObject) -> None:
        matches, predicate = some_rows(data)
        dataset: Any = lance.dataset(self.uri)
        dataset.delete(predicate)
        self._natively("delete", dataset, {one: value for one, value in self.rows.items() if not matches(one)})

    def _update_natively(self, data: st.DataObject) -> None:
        matches, predicate = some_rows(data)
        dataset: Any = lance.dataset(self.uri)
        dataset.update({"value": "value + 10"}, where=predicate)
        self._natively("update", dataset, {k: v + 10 if matches(k) else v for k, v in self.rows.items()})

    def _compact_natively(self, data: st.DataObject) -> None:
        dataset: Any = lance.dataset(self.uri)
        Compaction.execute(dataset, {})
        self._natively("compact", lance.dataset(self.uri), self.rows)

    def _natively(self, name: str, dataset: Any, rows: Rows) -> None:
        if dataset.version > max(self.states):
            self._note(dataset.version, rows)
            TOTAL[f"pylance {name}"] += 1


def some_rows(data: st.DataObject) -> tuple[Callable[[int], bool], str]:
    """A condition on ids, as a function and in SQL."""
    divisor = data.draw(st.integers(1, 4), "divisor")
    rest = data.draw(st.integers(0, divisor - 1), "rest")
    return lambda one: one % divisor == rest, f"id % {divisor} = {rest}"


def as_table(rows: Rows) -> pa.Table:
    return pa.table({"id": list(rows), "value": list(rows.values())}, schema=SCHEMA)


def in_dictionary(table: pa.Table) -> Rows:
    ids, values = table["id"].to_pylist(), table["value"].to_pylist()
    assert len(set(ids)) == len(ids), f"rows are there twice: {sorted(ids)}"
    return dict(zip(ids, values, strict=True))


def scanned(dataset: Any) -> Rows:
    return in_dictionary(dataset.to_table())


def run(examples: int, *, shrink: bool = True) -> None:
    TOTAL.clear()
    usual = settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
        print_blob=False,
    )
    run_state_machine_as_test(DataMachine, settings=usual if shrink else settings(usual, phases=[Phase.generate]))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_verbs_with_real_rows_follow_the_model(effort: Callable[[int, int], int]) -> None:
    runs = effort(40, 1000)
    run(runs)
    print(f"{runs} runs: {dict(TOTAL)}")
    assert TOTAL["versions"] >= 5 * runs, TOTAL
    assert TOTAL["rebased"] >= runs // 2, TOTAL
    assert TOTAL["prepared again"] >= runs // 40, TOTAL
    for verb in ("append", "delete", "update", "merge", "overwrite", "restore", "compact"):
        assert TOTAL[verb] >= runs // 20, (verb, TOTAL)
    assert sum(number for name, number in TOTAL.items() if name.startswith("pylance")) >= runs, TOTAL


def test_commits_that_are_not_checked_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionRebase, "against", lambda rebase, other: rebase)
    with pytest.raises((AssertionError, OSError, SeicheError)):
        run(300, shrink=False)
