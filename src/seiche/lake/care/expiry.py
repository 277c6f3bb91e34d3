"""Giving up old versions of a lake.

First a root says which versions are given up, and puts up a fence against whoever began at one of them. Then leases are
looked for once more. Then the roots of those versions become tombstones, one by one: their names stay taken, and ids,
outcomes and times stay known. Interrupted anywhere, it is finished by the next expiry.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from seiche.core.durations import Duration, duration, in_words, of_millis
from seiche.core.given import a_flag, number
from seiche.core.insisting import insist
from seiche.errors import Corrupt, InvalidInput, NotFound, PermissionDenied, SeicheError, Unavailable
from seiche.lake.care.fence import Fence
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.leases import HeldVersion, leases, storage_clock
from seiche.lake.care.ranges import NONE, Ranges
from seiche.lake.care.saved_work import SavedWork, saved_work
from seiche.lake.objects import rows
from seiche.lake.objects.keys import STREAM, TRANSACTION, KeyRange
from seiche.lake.objects.rows import TransactionRow
from seiche.lake.pins import pins
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.definition import LakeDefinition
from seiche.lake.tree.latest import read_root, write_oldest
from seiche.lake.tree.root import Root
from seiche.lake.tree.timeline import version_at
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.care.verbs import CareVerbs

__all__ = ["Expiry", "Kept", "Policy", "expire"]

_TRANSACTIONS: Final = KeyRange(TRANSACTION, STREAM)
# So many rows of old transactions go with one root: a larger root would be a burden for whoever commits next.
_FORGOTTEN_AT_ONCE: Final = 1000
_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Policy:
    """How old a version must be to go, counted from when it ceased to be the newest; and how many stay in any case.

    `longer` are single versions that may become older than others.
    """

    older_than: timedelta
    keep: int
    longer: Mapping[int, timedelta] = field(default_factory=dict)

    @classmethod
    def of(cls, definition: LakeDefinition, older_than: Duration | None, keep: int | None) -> "Policy":
        """As it is asked for; what is not said is as the lake's definition has it."""
        remedy = "Give how many versions to keep, at least 1."
        if keep is not None and number(keep, "keep", remedy) < 1:
            raise InvalidInput(f"keep cannot be {keep!r}", remedy=remedy)
        usual = of_millis(definition.maximum_version_age_millis)
        age = usual if older_than is None else duration(older_than, "older_than")
        longer = {
            version: of_millis(millis) for version, millis in definition.maximum_version_age_millis_overrides.items()
        }
        return cls(age, keep or definition.minimum_versions_to_keep, longer)


@dataclass(frozen=True, slots=True)
class Kept:
    """Versions that stay, and why."""

    versions: Ranges
    reason: str


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiry gives up, or would: `versions`. A version may be kept for several reasons.

    `fence` is the version below which nobody can commit any more. `late` are versions that were given up but are still
    held by readers who came just before: a later expiry finishes them. `forgotten` counts transactions whose outcome is
    no longer remembered by id.
    """

    version: int
    fence: int
    versions: Ranges
    kept: tuple[Kept, ...]
    late: Ranges = NONE
    forgotten: int = 0
    done: bool = False

    def why(self, version: int) -> tuple[str, ...]:
        """Why a version is kept; nothing if it is not."""
        return tuple(one.reason for one in self.kept if version in one.versions)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "done": self.done,
            "version": self.version,
            "fence": self.fence,
            "expired": list(self.versions),
            "kept": [{"versions": str(one.versions), "reason": one.reason} for one in self.kept],
            "late": list(self.late),
            "forgotten": self.forgotten,
        }


def expire(
    lake: "CareVerbs", *, older_than: Duration | None = None, keep: int | None = None, dry_run: bool = False
) -> Expiry:
    """Give up versions by the lake's policy, or the one given; returns what was, or would be, given up and what not."""
    if not a_flag(dry_run, "dry_run"):
        lake.check_writable()
    states = lake.states
    state = states.latest()
    policy = Policy.of(state.definition, older_than, keep)
    now = states.runtime.clock.now()
    young = _current_at(states, state, now - policy.older_than)
    plan = _plan(states, state, policy, now, young)
    before = GivenUp.of(state)
    if dry_run:
        return plan
    # Looked for once: a tombstone stays one, and what is given up from here on is not buried before the end.
    buried = before.tombstones | Ranges.of(_buried(states, before))
    is_left = len(buried) < len(before.versions)
    if (plan.versions or is_left) and (clock := storage_clock(states, state.version)) < now:
        # Versions have their times from the storage. By a clock that is ahead of it, they would be older than they are.
        now, young = clock, _current_at(states, state, clock - policy.older_than)
        plan = _plan(states, state, policy, now, young)
    if not plan.versions and not is_left:
        return replace(plan, done=True)
    decision = _Decision(states, policy, plan, buried, now, young)
    forgotten = _decide(lake, decision, plan.fence)
    try:
        state = states.latest()
        gone = GivenUp.of(state).versions - before.versions
        late = _bury(states, state)
    except (Corrupt, PermissionDenied, Unavailable) as error:
        which = f" ({decision.plan.versions})" if decision.plan.versions else ""
        raise type(error)(
            f"versions have been given up{which}, and what follows is not done: {error.message}",
            remedy=f"There is no way back to these versions. {_finishing(error)}",
        ) from error
    return replace(decision.plan, versions=gone, late=late, forgotten=forgotten, done=True)


def _finishing(error: SeicheError) -> str:
    """How what is left to be done after the decision will be done."""
    if isinstance(error, Corrupt):
        return f"{error.remedy} Then run it again: that finishes it."
    when = "later" if isinstance(error, Unavailable) else "with the right to overwrite roots"
    return f"Run it again {when}: that finishes it."


def _decide(lake: "CareVerbs", decision: "_Decision", fence: int) -> int:
    """Give the versions up, by as many roots as the old transactions need; returns how many of these are forgotten."""
    states, forgotten = lake.states, 0
    while True:
        lake.decide(
            Fence(
                str(states.runtime.uuid()),
                states.latest().version,
                properties={"care": "expire"},
                min_base=fence,
                write=decision,
            )
        )
        forgotten += decision.forgotten
        if decision.forgotten < _FORGOTTEN_AT_ONCE:
            return forgotten


class _Decision:
    """What an expiry writes into the tree, made anew for each version that it is tried on."""

    def __init__(self, states: States, policy: Policy, plan: Expiry, buried: Ranges, now: datetime, young: int) -> None:
        """`buried` are versions that are tombstones; `young` is the oldest that is not old enough at the time `now`."""
        self._states = states
        self._now = now
        self._young = young
        self._policy = policy
        self._fence = plan.fence
        self._buried = buried
        self.plan = plan
        self.forgotten = 0

    def __call__(self, state: State) -> Mapping[bytes, bytes | None]:
        self.plan = _plan(self._states, state, self._policy, self._now, self._young, most=self._fence)
        before = GivenUp.of(state)
        buried = before.tombstones | self._buried
        after = replace(before, versions=before.versions | self.plan.versions, tombstones=buried)
        written: dict[bytes, bytes | None] = dict(after.row()) if after != before else {}
        old = _old_transactions(state, self._fence)
        written.update(old)
        self.forgotten = len(old)
        return written


def _plan(
    states: States, state: State, policy: Policy, now: datetime, young: int, *, most: int | None = None
) -> Expiry:
    """What to give up as `state` has it: nothing from version `young`, which is not old enough, or `most` on."""
    given_up = GivenUp.of(state).versions
    held = [one for one in leases(state.store) if one.until > now]
    waiting = [one for one in saved_work(state.store) if one.may_commit(state, now)]
    few = max(0, state.version + 1 - policy.keep)
    needed = min((one.base for one in waiting), default=state.version)
    fence = min(young, few, needed, state.version if most is None else most)
    reasons = dict(_pinned(state, policy, held, states, now))
    going = [version for version in given_up.missing(fence) if version not in reasons]
    kept = [
        Kept(Ranges(((state.version, state.version + 1),)), "it is the newest"),
        Kept(Ranges(((few, state.version + 1),)), f"it is one of the newest {policy.keep}"),
        Kept(Ranges(((young, state.version + 1),)), f"it was the newest less than {in_words(policy.older_than)} ago"),
        *(Kept(Ranges(((one.base, state.version + 1),)), _waits(one)) for one in waiting),
        *(Kept(Ranges.of([version]), reason) for version, why in sorted(reasons.items()) for reason in why),
    ]
    return Expiry(state.version, fence, Ranges.of(going), tuple(kept))


def _current_at(states: States, state: State, moment: datetime) -> int:
    """The version that was the newest at a time: those before it had ceased to be by then."""
    try:
        return version_at(state.store, state.root, moment, runtime=states.runtime)
    except NotFound:
        return 0


def _waits(work: SavedWork) -> str:
    return f"transaction {work.id}, which was saved, began at version {work.base} and may still commit"


def _pinned(
    state: State, policy: Policy, held: list[HeldVersion], states: States, now: datetime
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Versions that stay whatever their age, and why each does."""
    found: dict[int, list[str]] = {version: [f"{one} needs it" for one in who] for version, who in pins(state).items()}
    for lease in held:
        found.setdefault(lease.version, []).append(f"a reader holds it until {lease.until:%Y-%m-%d %H:%M:%S}")
    for version, age in policy.longer.items():
        if age > policy.older_than and version < state.version and _current_at(states, state, now - age) <= version:
            found.setdefault(version, []).append(f"the lake's definition keeps it for {in_words(age)}")
    return ((version, tuple(why)) for version, why in found.items())


def _old_transactions(state: State, fence: int) -> dict[bytes, None]:
    """The keys of transactions that were decided before the fence: nobody who could repeat one can commit any more."""
    found: dict[bytes, None] = {}
    for key, value in state.scan(_TRANSACTIONS):
        if rows.decode(value, TransactionRow).version < fence:
            found[key] = None
            if len(found) == _FORGOTTEN_AT_ONCE:
                break
    return found


def _buried(states: States, given_up: GivenUp) -> Iterator[int]:
    """Of versions that were given up, those that turn out to be tombstones, of which it was not known yet."""
    for some in _portions(given_up.unburied):
        for root in states.store.in_parallel(lambda version: _if_sound(states.store, version), some):
            if isinstance(root, Root) and root.expired_at_millis is not None:
                yield root.version


def _if_sound(store: Store, version: int) -> Root | Corrupt:
    """A root that was given up; what is wrong with it, if it is lost: that must not stand in the way of all others."""
    try:
        return read_root(store, version)
    except Corrupt as error:
        return error
    except NotFound as error:
        return Corrupt(error.message, remedy="Restore its root from a copy of the lake.", version=version)


def _bury(states: States, state: State) -> Ranges:
    """Make tombstones of all versions that were given up; returns those that a reader still holds.

    Leases are looked for only now: who took one before the decision is seen here, who came after it was refused.
    `Corrupt` at the end if one of the roots is lost: what transactions it decided is not known without it.
    """
    store, runtime = states.store, states.runtime
    given_up = GivenUp.of(state)
    now = states.storage_time(state)
    held = {one.version for one in leases(store) if one.until > now}
    todo = given_up.unburied
    order = state.definition.order

    lost: list[Corrupt] = []

    def bury(root: Root | Corrupt) -> None:
        if isinstance(root, Corrupt):
            lost.append(root)
        elif root.expired_at_millis is None:
            tombstone = root.tombstone(runtime.clock.now()).encode(order)
            insist(lambda: store.put(root.name, tombstone), runtime)

    for some in _portions([version for version in todo if version not in held]):
        store.in_parallel(bury, store.in_parallel(lambda version: _if_sound(store, version), some))
    oldest = next(iter(given_up.versions.missing(state.version + 1)))
    write_oldest(store, min([oldest, *(version for version in todo if version in held)]))
    if lost:
        raise lost[0]
    return Ranges.of(version for version in todo if version in held)


def _portions(versions: list[int]) -> Iterator[list[int]]:
    return (versions[first : first + _AT_ONCE] for first in range(0, len(versions), _AT_ONCE))
