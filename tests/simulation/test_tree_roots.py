"""Writers of roots on a store that fails: every version has one winner, and nobody is told a lie."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, NotFound, Unavailable
from seiche.lake.objects.keys import transaction_key
from seiche.lake.tree import swap
from seiche.lake.tree.create import create_lake
from seiche.lake.tree.latest import latest_root, read_root, write_hint
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.lake.tree.swap import Lost, Won
from seiche.lake.tree.tree import Tree
from seiche.store.base import Store
from seiche.testing import DictStore, Faults, SimulatedStore
from tests.unit.lake.roots import SHAPE, commit

FAULTS = Faults(before=0.06, lost=0.05, after=0.08, late=0.05, conflict=0.04, delay=0.1, longest_delay=0.1)
# So impatient that some writers end without an answer.
IMPATIENT = Patience(attempts=2)
TOLD = ("won", "lost", "unknown", "unavailable")


@dataclass
class History:
    """What the writers were told, by transaction id."""

    won: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    unavailable: set[str] = field(default_factory=set)
    faults: int = 0

    def check(self, store: Store) -> None:
        """Every root follows the one before, and what it holds agrees with what its writers were told."""
        latest = latest_root(store)
        decided: dict[str, int] = {}
        for version in range(latest.version + 1):
            root = read_root(store, version)
            assert root.ids.isdisjoint(decided), f"version {version} applies a transaction again"
            decided |= dict.fromkeys(root.ids, version)
        for txn, version in self.won.items():
            assert decided.get(txn) == version, f"{txn} was told that it is version {version}"
        for txn in self.lost | self.unavailable:
            assert txn not in decided, f"{txn} was told that it did not happen"
        assert set(decided) <= set(self.won) | self.unknown
        tree = Tree(latest.node, Nodes(store), SHAPE)
        assert {key for key, _ in tree.scan_prefix(b"E===")} == {transaction_key(txn) for txn in decided}


def simulate(seed: int, *, rounds: int = 25, writers: int = 3) -> tuple[History, Store]:
    """Writers in turns, each from a root that may be old, so that most of them race for the same version."""
    runtime = Runtime.seeded(seed)
    inner = DictStore(runtime=runtime)
    create_lake(inner, runtime=runtime)
    stores = [
        SimulatedStore(inner, seed=seed * 10 + number, faults=FAULTS, runtime=runtime) for number in range(writers)
    ]
    seen: list[Root] = [read_root(inner, 0)] * writers
    history = History()
    for _ in range(rounds):
        number = runtime.random.randrange(writers)
        store, base = stores[number], seen[number]
        txn = str(runtime.uuid())
        try:
            outcome = commit(store, base, runtime, txn, IMPATIENT)
            if isinstance(outcome, Won):
                history.won[txn] = outcome.root.version
                seen[number] = outcome.root
                write_hint(store, outcome.root.version)
            else:
                history.lost.add(txn)
                seen[number] = outcome.winner
        except CommitUnknown as error:
            assert error.transactions == [txn]  # noqa: PT017
            history.unknown.add(txn)
        except (Unavailable, NotFound):
            history.unavailable.add(txn)
        if runtime.random.random() < 0.3:
            seen[number] = latest_root(inner)
    for store in stores:
        store.deliver()
        history.faults += len(store.injected)
    return history, inner


@pytest.mark.soak
def test_every_version_has_one_winner_and_every_answer_is_true(effort: Callable[[int, int], int]) -> None:
    seeds = effort(150, 5_000)
    totals = dict.fromkeys((*TOLD, "faults"), 0)
    for seed in range(seeds):
        history, store = simulate(seed)
        try:
            history.check(store)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        for told in TOLD:
            totals[told] += len(getattr(history, told))
        totals["faults"] += history.faults
    print(f"{seeds} seeds: {totals}")
    assert totals["won"] >= 8 * seeds
    assert totals["lost"] >= seeds
    assert totals["faults"] >= 10 * seeds
    assert totals["unknown"] >= seeds // 10


def test_a_run_repeats_from_its_seed() -> None:
    (one, store), (other, again) = simulate(7), simulate(7)
    assert one == other
    assert [info.path for info in store.list()] == [info.path for info in again.list()]


def caught(seeds: int = 60) -> bool:
    for seed in range(seeds):
        history, store = simulate(seed)
        try:
            history.check(store)
        except AssertionError:
            return True
    return False


def test_taking_absence_for_no_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def guessing(store: Store, root: Root, base: Root | None, **options: object) -> Won | Lost:
        try:
            store.put_if_absent(root.name, root.encode(128))
        except (CommitUnknown, AlreadyExists):
            if not store.exists(root.name):
                raise Unavailable("not there, so it did not happen") from None
            found = read_root(store, root.version)
            return Won(root) if found.root_id == root.root_id else Lost(found)
        return Won(root)

    monkeypatch.setattr("tests.unit.lake.roots.publish", guessing)
    assert caught()


def test_taking_a_taken_name_for_a_loss_without_looking_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(store: Store, root: Root, base: Root | None, **options: object) -> Won | Lost:
        for _ in range(20):
            try:
                store.put_if_absent(root.name, root.encode(128))
                return Won(root)
            except AlreadyExists:
                return Lost(read_root(store, root.version))
            except (CommitUnknown, Unavailable):
                continue
        raise Unavailable("gave up")

    monkeypatch.setattr("tests.unit.lake.roots.publish", hasty)
    assert caught()


def test_the_real_compare_and_swap_is_not_caught() -> None:
    assert swap.publish.__module__ == "seiche.lake.tree.swap"
    assert not caught()
