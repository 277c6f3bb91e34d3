"""Commits through a manifest store, interrupted at each request: the old version or the new, never neither."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, Unavailable
from seiche.store.base import Store
from seiche.table.versions.external import ExternalVersions, ManifestRecord, ManifestStore
from seiche.table.versions.naming import Naming
from seiche.testing import Aftermath, DictStore, Fault, SimulatedStore, crash_points
from tests.external_history import another_manifest, begin, check_version, history, plain_version
from tests.manifest_stores import KINDS, address, opened
from tests.simulated_manifest_store import SimulatedManifestStore

OLD, NEW = 2, 3
# The order of the four steps, as requests: the deciding part of every interrupted run below.
STEPS = ["put _versions/NAME-UUID", "put_if_absent record/3", "copy _versions/NAME-UUID _versions/NAME", "put record/3"]


@pytest.fixture(params=KINDS)
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ManifestStore]:
    store = opened(address(request.param, request, tmp_path))
    yield store
    store.close()


def fresh(records: ManifestStore) -> DictStore:
    store = DictStore(f"bucket/{uuid4()}")
    begin(store, records, OLD)
    return store


def half_done(records: ManifestStore) -> DictStore:
    """A table whose last writer died between claim and copy."""
    store = fresh(records)
    claim_only(store, records)
    return store


def claim_only(store: Store, records: ManifestStore) -> None:
    staged = f"{Naming.V2.path(NEW)}-{UUID(int=5)}"
    store.put(staged, history().manifests[NEW])
    base_uri = records.base_uri(store)
    records.put_if_absent(base_uri, ManifestRecord(NEW, f"{base_uri}/{staged}", len(history().manifests[NEW])))


def staged_files(store: Store) -> list[str]:
    return [info.path for info in store.list("_versions") if not info.path.endswith(".manifest")]


def process(store: SimulatedStore, records: ManifestStore) -> ExternalVersions:
    return ExternalVersions(store, SimulatedManifestStore(records, store), runtime=Runtime.seeded(7))


def write(store: SimulatedStore, records: ManifestStore) -> None:
    versions = process(store, records)
    versions.claim(versions.newest() + 1, history().manifests[NEW])


def read(store: SimulatedStore, records: ManifestStore) -> int:
    versions = process(store, records)
    newest = versions.newest()
    assert versions.read(newest).manifest.version == newest
    return newest


def short(call: object, staged: str) -> str:
    return str(call).replace(staged, "_versions/NAME-UUID").replace(Naming.V2.path(NEW), "_versions/NAME")


def test_the_four_steps_come_in_order(records: ManifestStore) -> None:
    store = SimulatedStore(fresh(records))
    write(store, records)
    staged = next(call.path for call in store.calls if call.verb == "put")
    assert [text for call in store.calls if (text := short(call, staged)) in STEPS] == STEPS
    assert short(store.calls[-1], staged) == "delete _versions/NAME-UUID"
    assert not staged_files(store)


def test_a_writer_that_dies_leaves_the_old_version_or_the_new(records: ManifestStore, tmp_path: Path) -> None:
    points = 0
    outcomes = set()
    for aftermath in crash_points(lambda: fresh(records), lambda store: write(store, records)):
        claimed = records.get(records.base_uri(aftermath.store), NEW) is not None
        expected = NEW if claimed else OLD
        plain = plain_version(aftermath.store, tmp_path / f"plain-{points}")
        assert expected - 1 <= plain <= expected, str(aftermath)
        go_on(aftermath.store, records, expected, tmp_path / f"after-{points}")
        points += 1
        outcomes.add((claimed, plain))
    assert outcomes == {(False, OLD), (True, OLD), (True, NEW)}
    assert points >= 2 * len(STEPS)


def test_a_reader_that_dies_in_its_repair_hinders_nobody(records: ManifestStore, tmp_path: Path) -> None:
    points = 0
    for aftermath in crash_points(lambda: half_done(records), lambda store: read(store, records)):
        assert plain_version(aftermath.store, tmp_path / f"plain-{points}") in (OLD, NEW)
        go_on(aftermath.store, records, NEW, tmp_path / f"after-{points}")
        points += 1
    assert points >= 2 * 4  # copy, flip, deletion and the read itself


def go_on(store: Store, records: ManifestStore, expected: int, folder: Path) -> None:
    """Others read `expected` and commit the next version, and no file is left that somebody could wait for."""
    others = ExternalVersions(store, records)
    check_version(others, expected)
    others.claim(expected + 1, history().manifests[expected + 1])
    check_version(ExternalVersions(store, records), expected + 1)
    assert plain_version(store, folder) == expected + 1
    for version in range(1, expected + 2):
        record = records.get(others.base_uri, version)
        assert record is not None
        assert record.path == f"{others.base_uri}/{Naming.V2.path(version)}"


@pytest.mark.parametrize("fault", ["before", "lost", "after", "late"])
def test_a_writer_is_told_the_truth_whatever_request_fails(records: ManifestStore, fault: Fault) -> None:
    """`Unavailable` means that nothing was decided, success that it was; only `CommitUnknown` says nothing."""
    outcomes = set()
    for aftermath in crash_points(lambda: fresh(records), lambda store: write(store, records), faults=[fault]):
        claimed = records.get(records.base_uri(aftermath.store), NEW) is not None
        told(aftermath, claimed)
        outcomes.add(claimed)
        check_version(ExternalVersions(aftermath.store, records), NEW if claimed else OLD)
    assert True in outcomes


def told(aftermath: Aftermath, claimed: bool) -> None:
    match aftermath.error:
        case None:
            assert claimed, str(aftermath)
            assert aftermath.store.get(Naming.V2.path(NEW)) == history().manifests[NEW], str(aftermath)
        case Unavailable():
            assert not claimed, str(aftermath)
        case CommitUnknown():
            pass
        case error:
            raise AssertionError(str(aftermath)) from error


@pytest.mark.parametrize("fault", ["before", "after", "lost", "late"])
def test_a_reader_gets_the_new_version_or_none(records: ManifestStore, fault: Fault) -> None:
    for aftermath in crash_points(lambda: half_done(records), lambda store: read(store, records), faults=[fault]):
        assert aftermath.result == NEW or isinstance(aftermath.error, Unavailable), str(aftermath)
        check_version(ExternalVersions(aftermath.store, records), NEW)


def test_an_unclear_claim_is_settled_by_reading_it_back(records: ManifestStore) -> None:
    """A reader has finished and flipped our version between the lost answer and the second request."""
    store = fresh(records)
    simulated = SimulatedStore(store)
    ours = process(simulated, records)

    def meddle(call: object) -> None:
        if str(call) == "put_if_absent record/3" and records.get(ours.base_uri, NEW) is not None:
            assert ExternalVersions(store, records).newest() == NEW

    simulated.on_call = meddle
    rehearsal = SimulatedStore(fresh(records))
    write(rehearsal, records)
    number = 1 + [str(call) for call in rehearsal.calls].index("put_if_absent record/3")
    simulated._plan[number] = "after"
    ours.claim(ours.newest() + 1, history().manifests[NEW])
    assert simulated.injected == [(number, "after")]
    assert [str(call) for call in simulated.calls].count("put_if_absent record/3") == 2
    check_version(ExternalVersions(store, records), NEW)


def test_a_claim_repeated_under_another_name_is_still_ours(records: ManifestStore) -> None:
    """The commit loop claims again after `CommitUnknown`; the first staged file may have won meanwhile."""
    store = fresh(records)
    ours = ExternalVersions(store, records)
    assert ours.newest() == OLD
    claim_only(store, records)  # an earlier attempt has staged and claimed the same manifest
    ours.claim(NEW, history().manifests[NEW])
    assert not staged_files(store)
    check_version(ExternalVersions(store, records), NEW)


def test_a_staged_file_that_was_swept_away_is_written_again(records: ManifestStore) -> None:
    store = fresh(records)
    simulated = SimulatedStore(store)

    def sweep(call: object) -> None:
        if str(call) == "put_if_absent record/3":
            (staged,) = staged_files(store)
            store.delete(staged)

    simulated.on_call = sweep
    write(simulated, records)
    check_version(ExternalVersions(store, records), NEW)


@pytest.mark.parametrize("competitor", [False, True])
def test_a_claim_that_arrives_after_the_writer_gave_up(records: ManifestStore, competitor: bool) -> None:
    """`CommitUnknown` means both: what was staged stays, so that the late claim can win, and another's may, too."""
    store = fresh(records)
    simulated = SimulatedStore(store)
    ours = process(simulated, records)
    assert ours.newest() == OLD

    def hold_up(call: object) -> None:
        if str(call) == "put_if_absent record/3":
            simulated._plan[len(simulated.calls) + 1] = "late"

    simulated.on_call = hold_up
    simulated._random = NeverDelivered()
    with pytest.raises(CommitUnknown) as raised:
        ours.claim(NEW, history().manifests[NEW])
    assert raised.value.version == NEW
    assert len(staged_files(store)) == 1
    if competitor:
        ExternalVersions(store, records).claim(NEW, another_manifest(NEW))
    simulated.deliver()
    others = ExternalVersions(store, records)
    assert others.newest() == NEW
    assert store.get(others.path(NEW)) == (another_manifest(NEW) if competitor else history().manifests[NEW])


class NeverDelivered(Random):
    """Keeps requests that were held up under way until they are asked for."""

    def random(self) -> float:
        return 0.99


def test_two_readers_repair_at_once(records: ManifestStore) -> None:
    """Before each request of one reader another one comes and does all of the repair."""
    rehearsal = SimulatedStore(half_done(records))
    read(rehearsal, records)
    for number in range(1, len(rehearsal.calls) + 1):
        store = half_done(records)
        simulated = SimulatedStore(store)

        def meddle(call: object, store: Store = store, simulated: SimulatedStore = simulated, at: int = number) -> None:
            if len(simulated.calls) + 1 == at:
                assert ExternalVersions(store, records).newest() == NEW

        simulated.on_call = meddle
        assert read(simulated, records) == NEW
        check_version(ExternalVersions(store, records), NEW)
