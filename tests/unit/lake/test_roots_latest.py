"""Finding the latest root: hints of every quality, and what it costs."""

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import NotFound, SeicheError, Unavailable
from seiche.lake.tree.latest import latest_root, read_hint, read_root, write_hint, write_oldest
from seiche.lake.tree.names import HINT, HINT_FALLBACK, root_name
from seiche.lake.tree.root import millis
from seiche.testing import CountingStore, DictStore, SimulatedStore
from tests.unit.lake.roots import a_root, chain, fake_roots

HUNDRED_THOUSAND = 100_000


@pytest.fixture(scope="module")
def long_lake() -> DictStore:
    store = DictStore()
    fake_roots(store, 0, HUNDRED_THOUSAND)
    return store


@pytest.fixture
def counting(long_lake: DictStore) -> CountingStore:
    for name in (HINT, HINT_FALLBACK, "_oldest"):
        long_lake.delete(name)
    return CountingStore(long_lake)


def test_without_a_hint_the_latest_of_100000_is_found_in_40_requests(counting: CountingStore) -> None:
    assert latest_root(counting).version == HUNDRED_THOUSAND
    assert counting.requests <= 40
    assert counting.counts["list"] == 0


def test_with_a_good_hint_two_requests_find_it_and_one_reads_it(counting: CountingStore) -> None:
    write_hint(counting, HUNDRED_THOUSAND)
    counting.reset()
    assert latest_root(counting).version == HUNDRED_THOUSAND
    assert counting.requests == 3
    assert counting.counts["get"] == 1


@pytest.mark.parametrize("behind", [1, 2, 5, 1_000, HUNDRED_THOUSAND])
def test_a_hint_too_low_costs_no_more_than_the_logarithm_of_the_gap(counting: CountingStore, behind: int) -> None:
    write_hint(counting, HUNDRED_THOUSAND - behind)
    counting.reset()
    assert latest_root(counting).version == HUNDRED_THOUSAND
    assert counting.requests <= 3 + 2 * behind.bit_length() + 1


@pytest.mark.parametrize("ahead", [1, 2, 77, 10**12])
def test_a_hint_ahead_of_the_lake_is_survived(counting: CountingStore, ahead: int) -> None:
    write_hint(counting, HUNDRED_THOUSAND + ahead)
    counting.reset()
    assert latest_root(counting).version == HUNDRED_THOUSAND
    assert counting.requests <= 42


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\0", b"abc", b"-1", b"1e5", b"0x10", b"9" * 19, b"9" * 25, b"9" * 4000, "١٢".encode(), b"\xff\xfe", b"1 2"],
)
def test_garbage_in_a_hint_is_survived(counting: CountingStore, garbage: bytes) -> None:
    counting.put(HINT, garbage)
    assert latest_root(counting).version == HUNDRED_THOUSAND


def test_blanks_around_a_hint_do_not_matter_and_the_other_name_is_read_too(counting: CountingStore) -> None:
    counting.put(HINT_FALLBACK, b" 99999 \n")
    assert read_hint(counting) == 99_999
    counting.put(HINT, b"99998")
    assert read_hint(counting) == 99_998
    counting.put(HINT, b"0")
    assert read_hint(counting) == 0
    assert latest_root(counting).version == HUNDRED_THOUSAND


def test_the_slower_of_two_writers_may_leave_the_older_hint(counting: CountingStore) -> None:
    write_hint(counting, HUNDRED_THOUSAND)
    write_hint(counting, HUNDRED_THOUSAND - 1)
    counting.reset()
    assert latest_root(counting).version == HUNDRED_THOUSAND
    assert counting.requests <= 6


def test_a_hint_that_cannot_be_read_or_written_is_no_error(long_lake: DictStore) -> None:
    refused = SimulatedStore(long_lake, plan={1: "before", 2: "before"})
    assert latest_root(refused).version == HUNDRED_THOUSAND
    for fault in ("before", "lost", "after"):
        write_hint(SimulatedStore(DictStore(), plan={1: fault}), 5)


def test_an_unavailable_root_is_not_taken_for_a_missing_one(long_lake: DictStore) -> None:
    long_lake.put(HINT, b"5")
    for number in range(2, 12):
        with pytest.raises(Unavailable):
            latest_root(SimulatedStore(long_lake, plan={number: "before"}))


def test_a_lake_whose_first_versions_expired_is_found_through_their_tombstones() -> None:
    runtime = Runtime.seeded(1)
    store = CountingStore(DictStore(runtime=runtime))
    roots = chain(store, 20, runtime)
    for root in roots[:15]:
        store.put(root.name, root.tombstone(runtime.clock.now()).encode(128))
    store.reset()
    assert latest_root(store) == roots[20]
    assert store.counts["list"] == 0
    assert read_root(store, 3).expired_at_millis == millis(runtime.clock.now())


def test_missing_first_versions_are_survived_with_the_note_and_without() -> None:
    store = CountingStore(DictStore())
    fake_roots(store, 500, 900)
    write_oldest(store, 600)
    store.reset()
    assert latest_root(store).version == 900
    assert store.counts["list"] == 0
    for note in (b"", b"nonsense", b"7", b"5000"):
        store.put("_oldest", note)
        store.reset()
        assert latest_root(store).version == 900
        assert store.counts["list"] == 1


@pytest.mark.parametrize("hint", [None, b"0", b"5", b"junk"])
def test_a_store_without_roots_is_not_a_lake(hint: bytes | None) -> None:
    store = DictStore()
    store.put("_00.ipc", b"")
    store.put("something/" + root_name(3), b"")
    if hint is not None:
        store.put(HINT, hint)
    with pytest.raises(NotFound, match="holds no lake"):
        latest_root(store)


def test_a_version_that_does_not_exist_yet_is_not_found() -> None:
    with pytest.raises(NotFound, match="version 5 of the lake does not exist"):
        read_root(DictStore(), 5)


def test_versions_past_32_digits_are_found() -> None:
    store = DictStore()
    last = 2**32 + 3
    fake_roots(store, 2**32 - 3, last)
    write_hint(store, 2**32 - 2)
    assert latest_root(store) == a_root(last)


def test_whatever_the_hint_the_answer_is_the_same(long_lake: DictStore) -> None:
    answers = set()
    for hint in (None, b"0", b"99999", b"100000", b"100001", b"123456789", b"x"):
        long_lake.delete(HINT)
        if hint is not None:
            long_lake.put(HINT, hint)
        try:
            answers.add(latest_root(long_lake).version)
        except SeicheError as error:
            raise AssertionError(f"hint {hint!r}") from error
    assert answers == {HUNDRED_THOUSAND}
