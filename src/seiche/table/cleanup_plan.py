"""What a clean-up is to keep, and what it found: values, and the decisions that need no storage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from seiche.core.counts import counted
from seiche.core.durations import Duration, duration
from seiche.errors import InvalidInput
from seiche.table.versions.stored import FRESH_SECONDS

__all__ = ["Cleanup", "Policy", "Removal", "choose"]

_USUAL_AGE = timedelta(days=7)

# Writers of ours go without looking at all versions for this long after they did so; twice that, because the clocks of
# writer and storage need not run alike.
_FLOOR = timedelta(seconds=2 * FRESH_SECONDS)

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept.

    Versions: the newest `retain`, and every one that was the latest at some time in the last `older_than`. Files that
    no version names: those younger than `grace`, for they may belong to a commit that is under way.
    """

    older_than: timedelta
    retain: int
    grace: timedelta
    gaps: bool = False

    @classmethod
    def of(cls, older_than: Duration | None, retain: int | None, grace: Duration, *, gaps: bool = False) -> "Policy":
        """As a user says it; without any wish, versions of the last seven days are kept."""
        if retain is not None and (type(retain) is not int or retain < 1):
            raise InvalidInput(
                f"retain cannot be {retain!r}", remedy="Give the number of versions to keep, at least 1."
            )
        if older_than is None:
            age = _USUAL_AGE if retain is None else timedelta(0)
        else:
            age = duration(older_than, "older_than")
        return cls(age, retain or 1, duration(grace, "grace"), gaps)

    @property
    def version_age(self) -> timedelta:
        """How long ago a version must have ceased to be the latest before it may go.

        Not right away, whatever the user says, unless nobody else is at work (no grace): a writer that looked just
        before may still count on the number of that version being taken.
        """
        return max(self.older_than, min(self.grace, _FLOOR))

    @property
    def detached_age(self) -> timedelta:
        """How old a version outside of the line must be. When it ceased to be of use cannot be seen."""
        return max(self.older_than, self.grace)


@dataclass(frozen=True, slots=True)
class Removal:
    """A file that can go, and why."""

    path: str
    size: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a clean-up would remove, or has removed if it is `done`.

    `held` says for versions that are old enough to go why they stay. `young` counts files that no version needs but
    that are not old enough to be sure that nobody is about to.
    """

    table: str
    versions: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    removals: tuple[Removal, ...] = ()
    held: Mapping[int, str] = field(default_factory=dict)
    young: int = 0
    temporary: int = 0
    done: bool = False

    @property
    def files(self) -> int:
        """How many files."""
        return len(self.removals)

    @property
    def bytes(self) -> int:
        """How large they are together."""
        return sum(removal.size for removal in self.removals)

    @property
    def kept(self) -> tuple[int, ...]:
        """The versions that stay."""
        gone = set(self.dropped)
        return tuple(version for version in self.versions if version not in gone)

    def __repr__(self) -> str:
        parts = [
            f"versions {_span(self.dropped)}" if self.dropped else "no version",
            f"{counted(self.files, 'file')}, {counted(self.bytes, 'byte')}",
        ]
        if self.held:
            reasons = list(dict.fromkeys(self.held.values()))
            shown = "; ".join(reasons[:_SHOWN]) + ("; ..." if len(reasons) > _SHOWN else "")
            parts.append(f"held back: {_span(tuple(self.held))} ({shown})")
        if self.young:
            parts.append(f"{counted(self.young, 'file')} too young to tell")
        if self.temporary:
            parts.append(counted(self.temporary, "temporary file"))
        hint = "" if self.done else "; nothing was removed yet: call with dry_run=False"
        return f"<cleanup {'removed' if self.done else 'would remove'} {', '.join(parts)}{hint}>"


def choose(
    stored: Mapping[int, datetime], policy: Policy, now: datetime, protected: Mapping[int, str]
) -> tuple[list[int], dict[int, str]]:
    """Which versions go, oldest first, and why others stay that are old enough.

    `stored` has the time at which storage got each version, `protected` those that are referred to, with the reason.
    What goes is the beginning of the line and nothing else: with a gap behind a version, a writer that stands on it
    takes the first missing number for free, and pylance does not check against what was there. With `gaps` only the
    protected versions themselves stay.
    """
    versions = sorted(stored)
    latest_until = dict(zip(versions, (stored[version] for version in versions[1:]), strict=False))
    old: list[int] = []
    for version in versions[: -policy.retain]:
        if latest_until[version] > now - policy.version_age:
            break
        old.append(version)
    rest = versions[len(old) : -policy.retain]
    held = {one: "in use until just now" for one in rest if latest_until[one] <= now - policy.older_than}
    needed = [version for version in old if version in protected]
    if not needed:
        return old, held
    if policy.gaps:
        gone = [version for version in old if version not in protected]
        return gone, {one: protected[one] for one in needed} | held
    first = needed[0]
    why = f"follows version {first}, {protected[first]}"
    return (
        [version for version in old if version < first],
        {one: protected.get(one, why) for one in old if one >= first} | held,
    )


def _span(versions: Sequence[int]) -> str:
    if len(versions) > _SHOWN and versions[-1] - versions[0] + 1 == len(versions):
        return f"{versions[0]} to {versions[-1]}"
    return _some(versions)


def _some(versions: Iterable[int]) -> str:
    ordered = list(versions)
    return ", ".join(map(str, ordered[:_SHOWN])) + (f" ... {ordered[-1]}" if len(ordered) > _SHOWN else "")
