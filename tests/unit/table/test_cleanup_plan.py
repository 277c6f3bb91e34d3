"""Which versions a clean-up lets go: a decision without storage."""

from datetime import UTC, datetime, timedelta

import pytest

from seiche.errors import InvalidInput
from seiche.table.cleanup_plan import Cleanup, Policy, Removal, choose

NOW = datetime(2030, 1, 31, tzinfo=UTC)


def stored(*days_ago: float) -> dict[int, datetime]:
    """Versions 1, 2, 3 ... with their ages."""
    return {version: NOW - timedelta(days=days) for version, days in enumerate(days_ago, 1)}


def gone(times: dict[int, datetime], *protected: int, gaps: bool = False, **policy: object) -> list[int]:
    made = Policy.of(policy.get("older_than"), policy.get("retain"), policy.get("grace", "7d"), gaps=gaps)  # type: ignore[arg-type]
    return choose(times, made, NOW, dict.fromkeys(protected, "tag"))[0]


class TestChoose:
    def test_a_version_goes_when_it_has_long_ceased_to_be_the_latest(self) -> None:
        times = stored(30, 20, 8, 6, 1)
        # Version 3 is 8 days old, but was the latest until 6 days ago: somebody may still read it.
        assert gone(times) == [1, 2]
        assert gone(times, older_than="7d") == [1, 2]
        assert gone(times, older_than="5d") == [1, 2, 3]
        assert gone(times, older_than="25d") == []
        assert gone(times, older_than=timedelta(days=20)) == [1]

    def test_the_latest_never_goes(self) -> None:
        assert gone(stored(400)) == []
        assert gone(stored(400, 300), older_than=0) == [1]

    def test_a_number_of_versions_stays(self) -> None:
        times = stored(30, 20, 8, 6, 1)
        assert gone(times, retain=2) == [1, 2, 3]
        assert gone(times, retain=2, older_than="10d") == [1]
        assert gone(times, retain=4, older_than="1d") == [1]
        assert gone(times, retain=9) == []

    def test_what_was_in_use_just_now_stays_whatever_is_said(self) -> None:
        seconds = 1 / 86400
        times = stored(1, 200 * seconds, 100 * seconds, 10 * seconds)
        assert gone(times, older_than=0) == [1]
        held = choose(times, Policy.of(0, None, "7d"), NOW, {})[1]
        assert held == {2: "in use until just now", 3: "in use until just now"}
        assert gone(times, older_than=0, grace=0) == [1, 2, 3]
        assert gone(times, older_than=0, grace=50) == [1, 2]

    def test_nothing_goes_behind_a_version_that_somebody_refers_to(self) -> None:
        times = stored(30, 25, 20, 15, 1)
        assert gone(times, 2) == [1]
        assert gone(times, 1) == []
        assert gone(times, 5) == [1, 2, 3]
        held = choose(times, Policy.of(None, None, "7d"), NOW, {2: "tag 'a'"})[1]
        assert held == {2: "tag 'a'", 3: "follows version 2, tag 'a'"}

    def test_with_gaps_only_it_itself_stays(self) -> None:
        times = stored(30, 25, 20, 15, 1)
        assert gone(times, 2, gaps=True) == [1, 3]
        assert gone(times, 4, 1, gaps=True) == [2, 3]

    def test_clocks_that_went_back_make_no_gap(self) -> None:
        assert gone(stored(30, 25, 1, 15, 1), older_than="5d") == [1]
        assert gone(stored(30, 25, 1, 15, 1), older_than="5d", gaps=True) == [1]

    def test_gaps_that_are_there_already(self) -> None:
        times = stored(30, 25, 20, 15, 1)
        del times[3]
        assert gone(times) == [1, 2]


class TestPolicy:
    @pytest.mark.parametrize("retain", [0, -1, 1.5, "3", True])
    def test_retain(self, retain: object) -> None:
        with pytest.raises(InvalidInput, match="retain cannot be"):
            Policy.of(None, retain, "7d")  # type: ignore[arg-type]

    @pytest.mark.parametrize("age", ["7", -1, "soon"])
    def test_ages(self, age: object) -> None:
        with pytest.raises(InvalidInput, match="older_than cannot be"):
            Policy.of(age, None, "7d")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="grace cannot be"):
            Policy.of(None, None, age)  # type: ignore[arg-type]


def test_what_it_says() -> None:
    planned = Cleanup(
        "t",
        versions=(1, 2, 3, 4, 5, 6, 7),
        dropped=(1, 2, 3, 4),
        removals=(Removal("a", 10, "data file", "no version needs it"),),
        held={5: "tag 'x'"},
        young=2,
    )
    assert repr(planned) == (
        "<cleanup would remove versions 1 to 4, 1 file, 10 bytes, held back: 5 (tag 'x'), 2 files too young to tell;"
        " nothing was removed yet: call with dry_run=False>"
    )
    assert planned.kept == (5, 6, 7)
    done = Cleanup("t", versions=(1, 5), dropped=(1,), temporary=3, done=True)
    assert repr(done) == "<cleanup removed versions 1, 0 files, 0 bytes, 3 temporary files>"
