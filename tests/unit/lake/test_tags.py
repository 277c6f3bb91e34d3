"""Names for versions: what they may be, what they keep, and what an expiry at the same time means for them."""

from collections.abc import Callable

import pytest

import seiche
from seiche import AlreadyExists, InvalidInput, Lake, NotFound
from seiche.lake.history import tags as tags_module
from seiche.lake.lake import open_lake
from seiche.lake.objects.keys import export_key
from seiche.lake.objects.rows import ExportRow
from seiche.lake.pins import pins
from seiche.testing import DictStore, SimulatedStore, crash_points
from seiche.testing.wrapping import Call
from tests.simulation.lake_model import append, contents, opened, prepared
from tests.unit.lake.conftest import ids, rows
from tests.unit.lake.past import bury, give_up, put_row


def test_a_tag_opens_its_version(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    version = lake.version
    assert lake.tag("nightly") == version
    lake.table("shop.a").append(rows(2))
    old = seiche.open(lake.store, version="nightly")
    assert (old.version, ids(old, "shop.a")) == (version, [1])
    assert seiche.open(lake.store, version=str(version)).version == version
    found = lake.tags()["nightly"]
    assert (found.name, found.version) == ("nightly", version)
    assert abs((found.created_at - lake.log(1)[0].created_at).total_seconds()) < 60
    assert lake.tag("first", 1) == 1
    assert lake.tag("also-first", "first") == 1
    assert {name: tag.version for name, tag in lake.tags().items()} == {"also-first": 1, "first": 1, "nightly": version}


def test_a_number_of_thousands_of_digits_is_no_version(lake: Lake) -> None:
    for ask in (
        lambda point: seiche.open(lake.store, version=point),
        lake.rollback,
        lambda point: lake.tag("x", point),
    ):
        with pytest.raises(NotFound, match="no version whose number has 5000 digits"):
            ask("9" * 5000)


def test_a_name_is_given_once_and_can_be_taken_away(lake: Lake) -> None:
    lake.tag("nightly", 1)
    before = lake.version
    for version in (1, 2):
        with pytest.raises(AlreadyExists, match="nightly"):
            lake.tag("nightly", version)
    lake.untag("nightly")
    with pytest.raises(NotFound, match="nightly"):
        lake.untag("nightly")
    with pytest.raises(NotFound, match="no tag 'nightly'"):
        seiche.open(lake.store, version="nightly")
    lake.tag("nightly", 2)
    assert lake.tags()["nightly"].version == 2
    assert lake.version == before + 2, "what was refused made no version"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\\b", "..", "a\n", "x" * 101, "12", "007", "١٢", "\ud800"])
def test_names_that_no_tag_may_have(lake: Lake, name: str) -> None:
    before = lake.version
    with pytest.raises(InvalidInput):
        lake.tag(name)
    assert lake.version == before


@pytest.mark.parametrize("name", ["v1", "2024-05-01", "größe", "a.b", "x" * 100])
def test_names_that_a_tag_may_have(lake: Lake, name: str) -> None:
    lake.tag(name, 1)
    assert seiche.open(lake.store, version=name).version == 1


def test_only_what_is_there_can_be_tagged(lake: Lake) -> None:
    with pytest.raises(NotFound, match="99"):
        lake.tag("future", 99)
    with pytest.raises(InvalidInput):
        lake.tag("past", -1)
    with pytest.raises(InvalidInput):
        lake.tag("truth", True)
    bury(lake, 1)
    with pytest.raises(NotFound, match="expired"):
        lake.tag("gone", 1)
    assert lake.tags() == {}


def test_a_pinned_lake_gives_no_names(lake: Lake) -> None:
    lake.tag("kept", 1)
    old = seiche.open(lake.store, version=1)
    for act in (lambda: old.tag("mine"), lambda: old.untag("kept")):
        with pytest.raises(InvalidInput, match="read-only"):
            act()
    assert list(old.tags()) == ["kept"]


def test_what_was_given_up_gets_no_name_even_if_it_still_stands(lake: Lake) -> None:
    """Rule 12: an expiry has decided, and may come to the version at any moment."""
    give_up(lake, 1, 2)
    assert seiche.open(lake.store, version=2).version == 2
    with pytest.raises(NotFound, match="given up"):
        lake.tag("late", 2)
    assert lake.tag("fine", 3) == 3


def meanwhile(store: DictStore, act: Callable[[], object]) -> SimulatedStore:
    """A store on which somebody else acts just before the first root is put."""
    done = False

    def on_call(call: Call) -> None:
        nonlocal done
        if call.verb == "put_if_absent" and call.path.startswith("_") and call.path.endswith(".ipc") and not done:
            done = True
            act()

    return SimulatedStore(store, on_call=on_call)


def expiry_at_the_last_moment() -> Lake:
    """A tag is made while an expiry gives up the version; returns the lake afterwards."""
    store = prepared()
    other = opened(store, seed=2)
    lake = opened(meanwhile(store, lambda: give_up(other, 1, 2)))
    lake.tag("nightly", 2)
    return other


def test_a_version_that_expires_meanwhile_is_not_tagged(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="given up"):
        expiry_at_the_last_moment()
    monkeypatch.setattr(tags_module, "check_kept", lambda state, version: None)
    assert expiry_at_the_last_moment().tags()["nightly"].version == 2, "without the check it is, and its files may go"


def test_of_two_who_give_the_same_name_one_does() -> None:
    store = prepared()
    other = opened(store, seed=2)
    lake = opened(meanwhile(store, lambda: other.tag("nightly", 2)))
    with pytest.raises(AlreadyExists, match="nightly"):
        lake.tag("nightly", 3)
    assert lake.tags()["nightly"].version == 2
    lake = opened(meanwhile(store, lambda: other.tag("weekly", 1)))
    lake.tag("monthly", 3)
    assert {name: tag.version for name, tag in other.tags().items()} == {"nightly": 2, "weekly": 1, "monthly": 3}


def test_an_export_has_a_name_too(lake: Lake) -> None:
    put_row(lake, export_key("copy"), ExportRow(version=2, location="memory://x", mode="minimal"))
    put_row(lake, export_key("whole"), ExportRow(version=1, location="memory://y", mode="full"))
    assert seiche.open(lake.store, version="copy").version == 2
    with pytest.raises(AlreadyExists, match="an export 'copy'"):
        lake.tag("copy", 1)
    lake.tag("two", 2)
    assert pins(lake.state()) == {2: ("tag two", "export copy")}, "a full export shares nothing"


def test_a_crash_at_any_call_leaves_the_tag_or_none() -> None:
    def tagging(store: SimulatedStore) -> None:
        opened(store).tag("nightly", 2)

    seen = set()
    for crash in crash_points(prepared, tagging):
        lake = opened(crash.store, seed=2)
        found = {name: tag.version for name, tag in lake.tags().items()}
        assert found in ({}, {"nightly": 2}), str(crash)
        seen.add(bool(found))
        if not found:
            lake.tag("nightly", 2)
        lake.run(lambda tx: tx.table("bank.a").apply(append("next")))
        assert contents(lake)["bank.a"] == ["next"]
        assert open_lake(crash.store, version="nightly").version == 2
    assert seen == {True, False}
