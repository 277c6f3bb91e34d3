"""What an expiry asks of the store."""

import pytest

import seiche
from seiche.lake.care import expiry
from seiche.store.memory import MemoryStore
from seiche.testing import CountingStore


@pytest.mark.parametrize("commits", [20, 40])
def test_each_version_is_read_a_few_times_however_many_roots_it_takes_to_forget(
    commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "_FORGOTTEN_AT_ONCE", 2)
    store = CountingStore(MemoryStore(f"expiry-{commits}"))
    lake = seiche.create(store)
    for number in range(commits):
        lake.create_namespace(f"n{number}")
    store.reset()
    done = lake.expire(older_than=0, keep=1)
    assert (len(done.versions), done.forgotten) == (commits, commits - 1)
    decisions = lake.version - commits
    assert decisions >= commits // 2
    # Each root that is buried is read once, and each decision looks at a few: it would be half of the square otherwise.
    assert store.counts["get"] <= commits + 4 * decisions
