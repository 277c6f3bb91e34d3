"""Which versions an expiry gives up, which it keeps and why, and what is left of those that are gone."""

import random
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

import seiche
from seiche import Corrupt, InvalidInput, Lake, NotFound, PermissionDenied, RetryableConflict, SeicheError, Unavailable
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.lake.care import expiry
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.leases import FOLDER, HeldVersion, leases
from seiche.lake.care.ranges import NONE, Ranges
from seiche.lake.lake import open_lake
from seiche.lake.objects.keys import export_key, retention_key
from seiche.lake.objects.rows import ExportRow
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.names import OLDEST, root_name
from seiche.testing import DictStore
from tests.simulation.lake_model import SCHEMA, append
from tests.unit.lake.conftest import ids, rows
from tests.unit.lake.past import put_row

DAY = timedelta(days=1).total_seconds()


class Model:
    """A lake on a clock of its own, one version a day."""

    def __init__(self, **settings: object) -> None:
        self.runtime = Runtime.seeded(1)
        self.store = DictStore(runtime=self.runtime)
        self.lake = seiche.create(self.store, runtime=self.runtime, settings=settings)
        self.days(1)
        self.lake.create_namespace("shop")
        self.days(1)
        self.lake.create_table("shop.a", SCHEMA)
        self.days(1)

    def days(self, number: float) -> None:
        assert isinstance(self.runtime.clock, SimulatedClock)
        self.runtime.clock.advance(number * DAY)

    def commits(self, number: int) -> None:
        """So many versions more, one a day."""
        for count in range(number):
            self.lake.run(lambda tx: tx.table("shop.a").apply(append(f"{self.lake.version}-{count}")))  # noqa: B023
            self.days(1)

    def live(self) -> list[int]:
        newest = self.lake.version
        return [one for one in range(newest + 1) if read_root(self.store, one).expired_at_millis is None]


@pytest.fixture
def model() -> Model:
    """Versions 0 to 12, the last one made a day ago."""
    made = Model()
    made.commits(10)
    assert made.lake.version == 12
    return made


@pytest.mark.parametrize("days", [1, 365])
def test_an_operator_whose_clock_is_ahead_gives_up_nothing_too_early(model: Model, days: int) -> None:
    """How old a version is, the storage's clock says: it has no other for when the version was made."""
    ahead = Runtime.seeded(2)
    assert isinstance(ahead.clock, SimulatedClock)
    ahead.clock.advance((model.runtime.clock.now() - ahead.clock.now()).total_seconds() + days * DAY)
    done = open_lake(model.store, runtime=ahead).expire()
    assert done.versions == Ranges(((0, 6),))
    assert model.live() == list(range(6, 14))
    assert list(model.store.list("_leases")) == [], "nothing is left of the question what time it is"


def test_an_operator_whose_clock_is_behind_gives_up_less(model: Model) -> None:
    behind = Runtime.seeded(2)
    assert isinstance(behind.clock, SimulatedClock)
    behind.clock.advance((model.runtime.clock.now() - behind.clock.now()).total_seconds() - 2 * DAY)
    assert open_lake(model.store, runtime=behind).expire().versions == Ranges(((0, 4),))


def test_by_default_the_last_week_is_kept(model: Model) -> None:
    plan = model.lake.expire(dry_run=True)
    # Version 5 ceased to be the newest seven days ago, at the end of its day; 6 was still the newest after that.
    assert plan.versions == Ranges(((0, 6),))
    assert not plan.done
    assert model.live() == list(range(13)), "a dry run does nothing"
    assert model.lake.version == 12
    done = model.lake.expire()
    assert (done.versions, done.done) == (plan.versions, True)
    assert model.live() == list(range(6, 14)), "and the one that says so"
    assert model.lake.expire().versions == NONE
    assert model.lake.version == 13, "with nothing to do nothing is committed"


def test_a_version_counts_as_old_from_when_it_ceased_to_be_the_newest(model: Model) -> None:
    model.days(100)
    model.commits(1)
    assert model.lake.expire(dry_run=True, keep=1).versions == Ranges(((0, 12),))
    moment = model.runtime.clock.now() - timedelta(days=6)
    model.lake.expire(keep=1)
    assert open_lake(model.store, as_of=moment, runtime=model.runtime).version == 12


def test_some_are_kept_however_old(model: Model) -> None:
    model.days(1000)
    assert model.lake.expire(dry_run=True).versions == Ranges(((0, 10),))
    assert model.lake.expire(keep=5, dry_run=True).versions == Ranges(((0, 8),))
    assert model.lake.expire(keep=99, dry_run=True).versions == NONE
    assert model.lake.expire(older_than="0s", keep=1, dry_run=True).versions == Ranges(((0, 12),))


def test_policy_of_the_definition() -> None:
    model = Model(maximum_version_age_millis=int(2 * DAY * 1000), minimum_versions_to_keep=2)
    model.commits(10)
    assert model.lake.expire(dry_run=True).versions == Ranges(((0, 11),))
    plan = Model(
        maximum_version_age_millis=int(2 * DAY * 1000),
        minimum_versions_to_keep=2,
        maximum_version_age_millis_overrides={0: int(900 * DAY * 1000), 3: int(900 * DAY * 1000), 4: 1},
    )
    plan.commits(10)
    found = plan.lake.expire(dry_run=True)
    assert {0, 3}.isdisjoint(found.versions), "nor the first one, though nothing was there so long ago"
    assert 4 in found.versions
    assert found.why(3) == ("the lake's definition keeps it for 900 days",)
    plan.days(900)
    assert {0, 3}.issubset(plan.lake.expire(dry_run=True).versions)


def test_versions_may_be_kept_for_ever() -> None:
    for_ever = 2**62
    model = Model(maximum_version_age_millis=for_ever, maximum_version_age_millis_overrides={3: for_ever})
    model.commits(10)
    assert model.lake.expire().versions == NONE
    assert model.lake.expire(older_than="1000000d", keep=1).versions == NONE
    assert not model.lake.gc(dry_run=False, grace="1000000d", window="1000000d").moved
    assert model.lake.expire(older_than=0, keep=1, dry_run=True).why(3)
    assert model.lake.expire(older_than=0, keep=1, dry_run=True).versions


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"keep": -1}, {"older_than": "soon"}, {"older_than": -1}])
def test_nonsense_is_refused(model: Model, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        model.lake.expire(**wrong)  # type: ignore[arg-type]
    assert model.lake.version == 12


def test_what_is_needed_is_kept_and_the_plan_says_why(model: Model) -> None:
    lake = model.lake
    lake.tag("first", 2)
    lake.tag("also", 2)
    put_row(lake, export_key("small"), ExportRow(version=3, location="elsewhere", mode="minimal"))
    put_row(lake, export_key("whole"), ExportRow(version=4, location="elsewhere", mode="full"))
    reader = open_lake(model.store, version=5, lease="1h", runtime=model.runtime)
    plan = lake.expire(older_than="0s", keep=1)
    assert plan.versions == Ranges.of([0, 1, 4, *range(6, 16)])
    assert plan.why(2) == ("tag also needs it", "tag first needs it")
    assert plan.why(3) == ("export small needs it",)
    assert plan.why(5)[0].startswith("a reader holds it until")
    assert plan.why(16) == (
        "it is the newest",
        "it is one of the newest 1",
        "it was the newest less than 0 seconds ago",
    )
    assert plan.why(0) == ()
    assert model.live() == [2, 3, 5, 16, 17]
    reader.close()
    lake.untag("first")
    lake.untag("also")
    assert lake.expire(older_than="0s", keep=1).versions == Ranges.of([2, 5, 16, 17, 18])


def test_a_saved_transaction_keeps_its_base_and_all_that_came_since(model: Model) -> None:
    tx = open_lake(model.store, runtime=model.runtime).transaction(lifetime=30 * DAY)
    tx.table("shop.a").apply(append("mine"))
    tx.save()
    model.commits(5)
    plan = model.lake.expire(older_than="0s", keep=1)
    assert plan.versions == Ranges(((0, 12),))
    assert any(tx.id in why for why in plan.why(13))
    model.lake.resume(tx.id).commit()
    assert model.lake.expire(older_than="0s", keep=1).versions.spans[0][0] == 12, "once decided it holds nothing"


def test_a_saved_transaction_that_is_too_old_holds_nothing(model: Model) -> None:
    tx = model.lake.transaction(lifetime=DAY)
    tx.table("shop.a").apply(append("mine"))
    tx.save()
    model.commits(1)
    assert 12 not in model.lake.expire(older_than="0s", keep=1, dry_run=True).versions
    model.days(2)
    assert 12 in model.lake.expire(older_than="0s", keep=1, dry_run=True).versions


def test_an_expired_version_leaves_its_name_its_ids_and_its_times(model: Model) -> None:
    with model.lake.transaction(key="the one", properties={"who": "me"}) as tx:
        tx.table("shop.a").apply(append("mine"))
    model.commits(3)
    before = read_root(model.store, tx.version or 0)
    at = [model.lake.log()[-1 - version].time for version in range(model.lake.version)]
    model.lake.expire(older_than="0s", keep=1)
    root = read_root(model.store, tx.version or 0)
    assert root.expired_at_millis is not None
    assert [(one.id, one.outcome, one.properties) for one in root.transactions] == [(tx.id, "committed", {"who": "me"})]
    assert (root.root_id, root.prev_eff_micros, root.version) == (before.root_id, before.prev_eff_micros, tx.version)
    assert not root.node.keys
    assert not root.node.buffer
    entries = model.lake.log()
    assert [entries[-1 - version].time for version in range(len(at))] == at
    assert entries[-1].expired_at is not None
    with pytest.raises(NotFound, match="has expired"):
        open_lake(model.store, version=tx.version)
    with pytest.raises(NotFound, match="has expired"):
        open_lake(model.store, as_of=at[3], runtime=model.runtime)


def test_outcomes_are_forgotten_by_id_only_below_the_fence_and_epochs_never(model: Model) -> None:
    lake = model.lake
    with lake.transaction(key="old", stream="s", epoch=7, owner="me") as old:
        old.table("shop.a").apply(append("old"))
    model.commits(3)
    with lake.transaction(key="young") as young:
        young.table("shop.a").apply(append("young"))
    done = lake.expire(older_than="0s", keep=1)
    assert done.forgotten > 10
    assert lake.status(old.id).outcome == "undecided"
    assert lake.status(young.id).outcome == "committed", "it is in a version that is kept"
    again = lake.transaction(stream="s", epoch=7, owner="me")
    again.table("shop.a").apply(append("twice"))
    again.commit()
    assert again.replayed, "an epoch is remembered for ever"


def test_what_was_committed_long_ago_is_not_told_as_aborted(model: Model) -> None:
    """The tree has forgotten it, the tombstones have not; who was told that it never was would do it again."""
    lake = model.lake
    made = []
    for name in ("expired", "tagged"):
        with lake.transaction() as tx:
            tx.table("shop.a").apply(append(name))
        made.append(tx)
    lake.tag("kept", made[1].version)
    given_up = lake.transaction()
    lake.settle(given_up.id)
    never = lake.transaction()
    model.commits(3)
    lake.expire(older_than="0s", keep=1)
    model.runtime.clock.sleep(30 * 86400)
    model.commits(3)
    lake.expire(older_than="1d", keep=1)
    for tx in made:
        assert lake.states.latest().outcome(tx.id) is None, "or this would prove nothing"
        for told in (lake.status(tx.id), lake.settle(tx.id)):
            assert (told.outcome, told.version) == ("committed", tx.version)
    assert lake.status(given_up.id).outcome == "aborted"
    assert lake.status(never.id).outcome == "undecided"
    assert lake.settle(never.id).outcome == "aborted"
    young = lake.transaction()
    assert lake.status(young.id).outcome == "undecided"
    assert lake.status("ffffffff-ffff-7fff-bfff-ffffffffffff").outcome == "undecided"


def test_a_clean_up_does_not_make_it_forget(model: Model) -> None:
    """A clean-up raises the fence too, far above what may expire."""
    with model.lake.transaction(key="young") as young:
        young.table("shop.a").apply(append("young"))
    tx = model.lake.transaction()
    model.store.put(f"{model.lake.table('shop.a').row.location}/data/lost.lance", b"")
    assert model.lake.gc(dry_run=False, grace=0).fence == model.lake.version
    tx.table("shop.a").apply(append("late"))
    with pytest.raises(RetryableConflict):
        tx.commit()
    model.lake.expire()
    assert model.lake.status(young.id).outcome == "committed"
    model.lake.tag("kept", 9)
    assert model.lake.rollback(to=9) > 9, "versions below a clean-up's fence are as good as any other"


def test_what_was_given_up_cannot_be_needed_again(model: Model) -> None:
    lake = model.lake
    lake.expire()
    for act in (
        lambda: lake.tag("late", 3),
        lambda: lake.rollback(to=3),
        lambda: open_lake(model.store, version=3, lease="1h", runtime=model.runtime),
    ):
        with pytest.raises(NotFound, match="expired"):
            act()


def test_given_up_is_decided_before_any_root_is_touched(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "_bury", lambda states, state: NONE)
    model.lake.expire()
    assert model.live() == list(range(14))
    with pytest.raises(NotFound, match="being given up"):
        model.lake.tag("late", 3)
    with pytest.raises(NotFound, match="being given up"):
        open_lake(model.store, version=3, lease="1h", runtime=model.runtime)
    assert open_lake(model.store, version=3, runtime=model.runtime).version == 3, "reading it is still possible"
    assert list(model.store.list("_leases")) == []
    monkeypatch.undo()
    model.lake.expire()
    assert model.live()[0] == 6


@pytest.mark.parametrize("kind", [Unavailable, PermissionDenied, Corrupt])
def test_who_gets_no_answer_after_the_decision_is_not_told_that_there_was_none(
    model: Model, kind: type[SeicheError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is who may make roots and not overwrite them, or meets a damaged one."""

    def away(*_: object) -> Ranges:
        raise kind("the storage does not do it")

    monkeypatch.setattr(expiry, "_bury", away)
    with pytest.raises(kind, match=r"given up \(0-5\)") as caught:
        model.lake.expire()
    assert caught.value.remedy.startswith("There is no way back to these versions.")
    with pytest.raises(NotFound):
        model.lake.tag("late", 3)
    with pytest.raises(kind, match="given up, and"):
        model.lake.expire()
    monkeypatch.undo()
    assert model.lake.expire().done
    assert model.live()[0] == 6


@pytest.mark.parametrize(("gone", "cut"), [([], [4]), ([4], []), ([4, 5], [])], ids=["cut", "missing", "two missing"])
def test_a_lost_root_is_told_and_does_not_keep_the_files_of_all_others(
    lake: Lake, tmp_path: Path, gone: list[int], cut: list[int]
) -> None:
    for one in range(6):
        lake.table("shop.a").append(rows(one))
    lake.table("shop.a").overwrite(rows(9))
    newest, data = lake.version, set((tmp_path / "lake").glob("tables/shop/a*/data/*.lance"))
    kept = {version: lake.store.get(root_name(version)) for version in (*gone, *cut)}
    for version in gone:
        lake.store.delete(root_name(version))
    for version in cut:
        lake.store.put(root_name(version), kept[version][:-9])
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"given up.* not done: ") as caught:
            lake.expire(older_than=0, keep=1)
        assert "Then run it again" in caught.value.remedy
    others = set(range(newest + 1)) - kept.keys()
    assert all(read_root(lake.store, version).expired_at_millis is not None for version in others)
    lease = f"{FOLDER}/{4:020}-3600-{UUID(int=4)}"
    lake.store.put(lease, b"of somebody who has read that root before, and still goes by it")
    with pytest.raises((Corrupt, NotFound)):
        lake.gc(dry_run=False, grace=0, window=0)
    lake.store.delete(lease)
    lake.gc(dry_run=False, grace=0, window=0)
    left = set((tmp_path / "lake").glob("tables/shop/a*/data/*.lance"))
    assert (len(data), len(left)) == (7, 1)
    assert ids(lake, "shop.a") == [9]
    assert lake.fsck(deep=True).kinds() == {"root.missing" if gone else "root.damaged"}
    for version, whole in kept.items():
        lake.store.put(root_name(version), whole)
    assert lake.expire(older_than=0, keep=1).done
    assert lake.fsck(deep=True).problems == ()


def test_tombstones_are_not_looked_at_again(model: Model) -> None:
    from seiche.testing import CountingStore

    model.lake.expire(older_than="0s", keep=1)
    model.commits(2)
    model.lake.expire(older_than="0s", keep=1)
    model.commits(1)
    given_up = GivenUp.of(model.lake.state())
    assert len(given_up.tombstones) == 12
    counting = CountingStore(model.store)
    lake = open_lake(counting, runtime=model.runtime)
    counting.reset()
    lake.gc(dry_run=True)
    read = counting.counts["get"]
    assert read < 12, f"{read} files were read for {len(model.live())} versions and a table"


def test_names_are_never_freed_and_the_oldest_is_noted(model: Model) -> None:
    model.lake.expire(older_than="0s", keep=1)
    assert all(model.store.exists(root_name(version)) for version in range(14))
    assert int(model.store.get(OLDEST)) == 12
    model.store.delete("_latest_hint")
    assert open_lake(model.store, runtime=model.runtime).version == 13


def test_a_reader_that_comes_between_decision_and_tombstone_is_late(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took its lease just before the decision, and the expiry did not see it when it planned."""
    looks = 0
    reader: list[Lake] = []

    def looked_for(store: DictStore) -> list[HeldVersion]:
        """The first two times are those of plans."""
        nonlocal looks
        looks += 1
        if looks == 1:
            reader.append(open_lake(model.store, version=3, lease="1h", runtime=model.runtime))
        return leases(store) if looks > 2 else []

    monkeypatch.setattr(expiry, "leases", looked_for)
    done = model.lake.expire()
    assert done.late == Ranges.of([3])
    assert model.live()[0] == 3
    assert reader[0].table("shop.a") is not None
    monkeypatch.undo()
    assert model.lake.expire().late == Ranges.of([3])
    reader[0].close()
    assert model.lake.expire().late == NONE
    assert model.live()[0] == 6


def ahead_of(model: Model, days: float) -> Runtime:
    """The clock of an operator who is so many days ahead of the storage."""
    ahead = Runtime.seeded(2)
    assert isinstance(ahead.clock, SimulatedClock)
    ahead.clock.advance((model.runtime.clock.now() - ahead.clock.now()).total_seconds() + days * DAY)
    return ahead


def test_nor_is_he_robbed_by_an_operator_whose_clock_is_ahead(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = GivenUp.of(model.lake.state()).versions

    def looked_for(store: DictStore) -> list[HeldVersion]:
        """Before the decision he is not seen."""
        return leases(store) if GivenUp.of(model.lake.state()).versions != decided else []

    reader = open_lake(model.store, version=3, lease="1h", runtime=model.runtime)
    monkeypatch.setattr(expiry, "leases", looked_for)
    assert open_lake(model.store, runtime=ahead_of(model, 2)).expire().late == Ranges.of([3])
    assert reader.table("shop.a") is not None
    assert 3 in model.live()


def test_who_only_has_to_finish_an_expiry_goes_by_the_clock_of_the_storage_too(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = model.lake.transaction()
    saved.table("shop.a").apply(append("saved"))
    saved_id = saved.save()
    for version in range(6, 15):
        model.lake.tag(f"v{version}", version)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(expiry, "_bury", lambda _states, _state: NONE)
        assert model.lake.expire().versions == Ranges(((0, 6),))
    newest = model.lake.version
    done = open_lake(model.store, runtime=ahead_of(model, 365)).expire(keep=newest + 1 - 15)
    assert done.versions == NONE, "the others have tags"
    assert model.live()[0] == 6
    assert model.lake.state().root.min_base == 6, "by his own clock all are old, and what was saved is out of date"
    model.lake.resume(saved_id).commit()


def test_given_up_is_kept_through_a_rollback(model: Model) -> None:
    before = GivenUp.of(model.lake.state())
    model.lake.expire()
    model.lake.rollback(to=7)
    assert GivenUp.of(model.lake.state()).versions == Ranges(((0, 6),)) != before.versions
    assert model.lake.state().get(retention_key("given_up")) is not None


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8"), ([2, 1, 2], "1-2")]
)
def test_ranges(numbers: list[int], text: str) -> None:
    made = Ranges.of(numbers)
    assert str(made) == text
    assert Ranges.parse(text) == made
    assert list(made) == sorted(set(numbers))
    assert len(made) == len(set(numbers))
    assert all(number in made for number in numbers)
    assert 4 not in made
    assert list(made.missing(9)) == [number for number in range(9) if number not in numbers]
    assert made | Ranges.of([4, 6]) == Ranges.of([*numbers, 4, 6])


@pytest.mark.parametrize("text", ["x", "3-1", "-4", "1-2-3", "1.5"])
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Ranges.parse(text)


def test_sets_of_versions_are_compared_by_their_spans() -> None:
    """Those that were given up grow for ever: with a thousand tags between a million, each was looked for in all."""
    chance = random.Random(0)
    for _ in range(200):
        one, other = ({chance.randrange(20) for _ in range(chance.randrange(12))} for _ in range(2))
        assert Ranges.of(one) - Ranges.of(other) == Ranges.of(one - other)
        assert [number for number in range(-1, 21) if number in Ranges.of(one)] == sorted(one)
    many = Ranges(tuple((at, at + 999) for at in range(0, 1_000_000, 1000)))
    assert GivenUp(many, many).unburied == []
