"""The state machine, cell by cell: what the table says, and what the service does."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from seiche.errors import InvalidInput
from seiche.service.core import Service
from seiche.service.states import FINAL, TABLE, Action, Call, State
from tests.service_lake import ShiftedClock, appending, defining, make_lake, make_service, shifted

# What each call does to a transaction in each state: the state after it, and the reason if it is refused. Written down
# from the protocol, not from the code. "+": its time is up.
EXPECTED = """
OPEN                     prepare: PREPARED
OPEN                     commit:  OPEN transaction.not-prepared
OPEN                     abort:   ABORTED
OPEN                     get:     OPEN
OPEN                     reserve: OPEN
OPEN+                    prepare: ABORTED transaction.expired
OPEN+                    commit:  ABORTED transaction.expired
OPEN+                    abort:   ABORTED
OPEN+                    get:     OPEN
OPEN+                    reserve: OPEN
PREPARED                 prepare: PREPARED
PREPARED                 commit:  APPLIED
PREPARED                 abort:   ABORTED
PREPARED                 get:     PREPARED
PREPARED                 reserve: PREPARED transaction.not-open
PREPARED+                prepare: ABORTED transaction.expired
PREPARED+                commit:  ABORTED transaction.expired
PREPARED+                abort:   ABORTED
PREPARED+                get:     PREPARED
PREPARED+                reserve: PREPARED transaction.not-open
APPLY_FAILED_RETRYABLE   prepare: APPLY_FAILED_RETRYABLE transaction.not-open
APPLY_FAILED_RETRYABLE   commit:  APPLIED
APPLY_FAILED_RETRYABLE   abort:   ABORTED
APPLY_FAILED_RETRYABLE   get:     APPLY_FAILED_RETRYABLE
APPLY_FAILED_RETRYABLE   reserve: APPLY_FAILED_RETRYABLE transaction.not-open
APPLY_FAILED_RETRYABLE+  prepare: ABORTED transaction.expired
APPLY_FAILED_RETRYABLE+  commit:  ABORTED transaction.expired
APPLY_FAILED_RETRYABLE+  abort:   ABORTED
APPLY_FAILED_RETRYABLE+  get:     APPLY_FAILED_RETRYABLE
APPLY_FAILED_RETRYABLE+  reserve: APPLY_FAILED_RETRYABLE transaction.not-open
APPLIED                  prepare: APPLIED transaction.not-open
APPLIED                  commit:  APPLIED
APPLIED                  abort:   APPLIED transaction.already-committed
APPLIED                  get:     APPLIED
APPLIED                  reserve: APPLIED transaction.not-open
APPLIED+                 prepare: APPLIED transaction.not-open
APPLIED+                 commit:  APPLIED
APPLIED+                 abort:   APPLIED transaction.already-committed
APPLIED+                 get:     APPLIED
APPLIED+                 reserve: APPLIED transaction.not-open
APPLY_FAILED_CONFLICT    prepare: APPLY_FAILED_CONFLICT transaction.not-open
APPLY_FAILED_CONFLICT    commit:  APPLY_FAILED_CONFLICT
APPLY_FAILED_CONFLICT    abort:   APPLY_FAILED_CONFLICT transaction.already-committed
APPLY_FAILED_CONFLICT    get:     APPLY_FAILED_CONFLICT
APPLY_FAILED_CONFLICT    reserve: APPLY_FAILED_CONFLICT transaction.not-open
APPLY_FAILED_CONFLICT+   prepare: APPLY_FAILED_CONFLICT transaction.not-open
APPLY_FAILED_CONFLICT+   commit:  APPLY_FAILED_CONFLICT
APPLY_FAILED_CONFLICT+   abort:   APPLY_FAILED_CONFLICT transaction.already-committed
APPLY_FAILED_CONFLICT+   get:     APPLY_FAILED_CONFLICT
APPLY_FAILED_CONFLICT+   reserve: APPLY_FAILED_CONFLICT transaction.not-open
ABORTED                  prepare: ABORTED transaction.not-open
ABORTED                  commit:  ABORTED transaction.not-prepared
ABORTED                  abort:   ABORTED
ABORTED                  get:     ABORTED
ABORTED                  reserve: ABORTED transaction.not-open
ABORTED+                 prepare: ABORTED transaction.not-open
ABORTED+                 commit:  ABORTED transaction.not-prepared
ABORTED+                 abort:   ABORTED
ABORTED+                 get:     ABORTED
ABORTED+                 reserve: ABORTED transaction.not-open
"""
CELLS = [line.replace(":", "").split() for line in EXPECTED.strip().splitlines()]


def test_the_table_is_complete() -> None:
    """Every state, in time and late, with every call; and nothing is missing from what is expected here."""
    cells = {(state, expired, call) for state in State for expired in (False, True) for call in Call}
    assert set(TABLE) == cells
    assert len(CELLS) == len(cells)


def test_final_states_are_left_by_nothing() -> None:
    changing = {Action.PREPARE, Action.APPLY, Action.ABORT, Action.EXPIRE, Action.RESERVE}
    assert not [cell for cell, action in TABLE.items() if cell[0] in FINAL and action in changing]


class Bench:
    """A service, and transactions in any state."""

    def __init__(self, folder: Path) -> None:
        runtime, self.clock = shifted()
        self.lake = make_lake(folder)
        self.service: Service = make_service(self.lake, folder, runtime=runtime)
        # Of the same table each time, made before the clock is moved.
        self.changes = [appending(self.lake, "shop.orders")]

    def in_state(self, state: State, patch: pytest.MonkeyPatch) -> str:
        if state is State.APPLY_FAILED_CONFLICT:
            tx = self.service.begin().id
            self.service.prepare(tx, [defining(self.lake, "shop.stock", "taken", version="1")])
            self.lake.run(lambda each: each.set_properties("shop.stock", {"moved": tx}))
            return self.reached(tx, state, self.service.commit(tx).state)
        tx = self.service.begin().id
        if state is State.OPEN:
            return tx
        if state is State.ABORTED:
            return self.reached(tx, state, self.service.abort(tx).state)
        self.service.prepare(tx, self.changes)
        if state is State.APPLIED:
            return self.reached(tx, state, self.service.commit(tx).state)
        if state is State.APPLY_FAILED_RETRYABLE:
            with patch.context() as broken:
                broken.setattr(type(self.service._blobs), "get", missing)
                return self.reached(tx, state, self.service.commit(tx).state)
        return self.reached(tx, state, self.service.get(tx).state)

    @staticmethod
    def reached(tx: str, wanted: State, found: State) -> str:
        assert found is wanted
        return tx

    def call(self, name: str, tx: str) -> object:
        calls: dict[str, Callable[[], object]] = {
            "prepare": lambda: self.service.prepare(tx, self.changes),
            "commit": lambda: self.service.commit(tx),
            "abort": lambda: self.service.abort(tx),
            "get": lambda: self.service.get(tx),
            "reserve": lambda: self.service.reserve(tx, "lake.shop.new"),
        }
        return calls[name]()


def missing(*_: object) -> bytes:
    from seiche.errors import Unavailable

    raise Unavailable("the payload is not there", code="TABLE_BLOB_MISSING")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("states"))
    yield made
    made.service.close()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell[0]}-{cell[1]}")
def test_cell(bench: Bench, cell: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    name, call, after, *refusal = cell
    clock: ShiftedClock = bench.clock
    tx = bench.in_state(State[name.removesuffix("+")], monkeypatch)
    clock.later += timedelta(seconds=601 if name.endswith("+") else 0)
    if refusal:
        with pytest.raises(InvalidInput) as caught:
            bench.call(call, tx)
        assert caught.value.reason == refusal[0]
    else:
        bench.call(call, tx)
    assert bench.service.get(tx).state is State[after]
    released = State[after] in (State.APPLIED, State.ABORTED)
    assert not released or bench.service.intents(tx) == [], "who is decided holds nothing"


@pytest.mark.parametrize("call", ["prepare", "commit", "abort", "get", "reserve"])
@pytest.mark.parametrize("tx", ["", "nothing", "00000000-0000-4000-8000-000000000000"])
def test_a_transaction_that_does_not_exist(bench: Bench, call: str, tx: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        bench.call(call, tx)
    assert caught.value.reason in ("transaction.not-found", "tx-id.missing")
