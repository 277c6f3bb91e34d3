"""What happened to a lake: its versions, newest first, read as they are asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, overload

from seiche.core import given
from seiche.core.counts import counted
from seiche.errors import InvalidInput, NotFound
from seiche.lake.care.given_up import GivenUp
from seiche.lake.history.changes import ObjectChange, changes_made, object_changes
from seiche.lake.history.tags import Point, tags, version_of
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree import transactions
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.root import Root, at_micros, at_millis, micros
from seiche.lake.tree.transactions import Isolation, Outcome, TransactionRecord

__all__ = ["Log", "LogEntry", "LoggedTransaction", "history"]

_AT_ONCE: Final = 16
_SHOWN: Final = 10
_MENTIONED: Final = 5


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """A transaction that a version decided. `objects` is what it changed, `None` if that is no longer known."""

    id: str
    outcome: Outcome
    isolation: Isolation
    base: int
    properties: Mapping[str, str]
    objects: tuple[ObjectChange, ...] | None

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        objects = None if self.objects is None else [one.as_dict() for one in self.objects]
        return {
            "id": self.id,
            "outcome": self.outcome,
            "isolation": self.isolation,
            "base": self.base,
            "properties": dict(self.properties),
            "objects": objects,
        }


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One version of a lake.

    `time` is when it became the newest: never before that of an earlier version, and what `as_of` goes by. Of that,
    `storage_time` is what the storage said, and `created_at` the writer's own clock. An expired version is a tombstone:
    who did what is known, what was changed is not, and it cannot be opened. `rollback_to` is set if the version rolled
    the whole lake back; `tags` are the names that it has now.
    """

    version: int
    time: datetime
    storage_time: datetime
    created_at: datetime
    transactions: tuple[LoggedTransaction, ...]
    tags: tuple[str, ...] = ()
    rollback_to: int | None = None
    min_base: int = 0
    expired_at: datetime | None = None

    @property
    def objects(self) -> tuple[ObjectChange, ...]:
        """Everything that its transactions changed."""
        return tuple(one for transaction in self.transactions for one in transaction.objects or ())

    @property
    def summary(self) -> str:
        """What happened, in a line."""
        if self.expired_at is not None:
            return f"expired at {self.expired_at:%Y-%m-%d %H:%M:%S}"
        parts = [] if self.rollback_to is None else [f"rolled back to version {self.rollback_to}"]
        aborted = sum(one.outcome == "aborted" for one in self.transactions)
        changed = [str(one) for one in dict.fromkeys(self.objects)]
        parts += changed[:_MENTIONED]
        parts += [f"and {len(changed) - _MENTIONED} more"] if len(changed) > _MENTIONED else []
        parts += [f"aborted {counted(aborted, 'transaction')}"] if aborted else []
        return ", ".join(parts) or ("created the lake" if self.version == 0 else "no object changed")

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "version": self.version,
            "time": self.time.isoformat(),
            "storage_time": self.storage_time.isoformat(),
            "created_at": self.created_at.isoformat(),
            "tags": list(self.tags),
            "rollback_to": self.rollback_to,
            "min_base": self.min_base,
            "expired_at": None if self.expired_at is None else self.expired_at.isoformat(),
            "transactions": [one.as_dict() for one in self.transactions],
        }

    def __repr__(self) -> str:
        tags = f" [{', '.join(self.tags)}]" if self.tags else ""
        return f"<version {self.version}{tags}, {self.time:%Y-%m-%d %H:%M:%S}: {self.summary}>"


class Log(Sequence[LogEntry]):
    """Versions of a lake, newest first. How many there are is known at once; what they did is read when asked for.

    Going through it reads a few roots at a time, in parallel. It does not grow when the lake does.
    """

    def __init__(
        self, states: States, newest: int, versions: range, tags: Mapping[int, tuple[str, ...]], first: int = 0
    ) -> None:
        """Use `lake.log()`. `first` and `newest` are versions that exist, and all of `versions`, which descend, lie
        between them.
        """
        self._states = states
        self._newest = newest
        self._versions = versions
        self._tags = tags
        self._first = first

    def __len__(self) -> int:
        return len(self._versions)

    @overload
    def __getitem__(self, index: int) -> LogEntry: ...

    @overload
    def __getitem__(self, index: slice) -> "Log": ...

    def __getitem__(self, index: int | slice) -> "LogEntry | Log":
        if isinstance(index, slice):
            return Log(self._states, self._newest, self._versions[index], self._tags, self._first)
        version = self._versions[index]
        return next(self._read(range(version, version - 1, -1)))

    def __iter__(self) -> Iterator[LogEntry]:
        for first in range(0, len(self._versions), _AT_ONCE):
            yield from self._read(self._versions[first : first + _AT_ONCE])

    def __repr__(self) -> str:
        lines = [f"<log of {counted(len(self), 'version')}>", *(f"  {one}" for one in self[:_SHOWN])]
        return "\n".join([*lines, f"  and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else lines)

    def _read(self, versions: range) -> Iterator[LogEntry]:
        """The entries of some versions. What a version did shows against the one before, its time in the one after."""
        near = {version + step for version in versions for step in (-1, 0, 1)}
        wanted = sorted(version for version in near if self._first <= version <= self._newest)
        store = self._states.store
        read = store.in_parallel(lambda version: read_root(store, version), wanted)
        roots = dict(zip(wanted, read, strict=True))
        for version in versions:
            yield self._entry(roots[version], roots.get(version - 1), roots.get(version + 1))

    def _entry(self, root: Root, before: Root | None, after: Root | None) -> LogEntry:
        time, storage_time = self._times(root, after)
        return LogEntry(
            version=root.version,
            time=time,
            storage_time=storage_time,
            created_at=at_millis(root.created_at_millis),
            transactions=self._transactions(root, before),
            tags=self._tags.get(root.version, ()),
            rollback_to=root.rollback_to,
            min_base=root.min_base,
            expired_at=None if root.expired_at_millis is None else at_millis(root.expired_at_millis),
        )

    def _times(self, root: Root, after: Root | None) -> tuple[datetime, datetime]:
        if after is not None and after.prev_eff_micros is not None and after.prev_storage_micros is not None:
            return at_micros(after.prev_eff_micros), at_micros(after.prev_storage_micros)
        stored = self._states.store.head(root.name).modified.astimezone(UTC)
        written = micros(min(stored, self._states.runtime.clock.now()))
        return at_micros(max(root.prev_eff_micros or 0, written)), stored

    def _transactions(self, root: Root, before: Root | None) -> tuple[LoggedTransaction, ...]:
        records = root.transactions
        if root.transactions_file is not None:
            records = transactions.load(self._states.store, root.transactions_file)
        state = self._states.of(root) if any(record.keys for record in records) else None
        previous = None if before is None or before.expired_at_millis is not None else self._states.of(before)
        return tuple(_logged(record, state, previous) for record in records)


def _logged(record: TransactionRecord, state: State | None, previous: State | None) -> LoggedTransaction:
    objects: tuple[ObjectChange, ...] | None = ()
    if record.keys is None:
        objects = None
    elif state is not None:
        objects = _changed(record.keys, state, previous)
    return LoggedTransaction(
        record.id, record.outcome, record.isolation, record.base_version, record.properties, objects
    )


def _changed(keys: Sequence[bytes], state: State, previous: State | None) -> tuple[ObjectChange, ...]:
    after = {key: state.get(key) for key in keys}
    if previous is None:
        return tuple(changes_made(after))
    return tuple(object_changes({key: previous.get(key) for key in keys}, after))


def history(states: States, newest: int, *, limit: int | None = None, since: Point | None = None) -> Log:
    """The versions from `newest` down to the one after `since`, at most `limit` of them."""
    if limit is not None and given.number(limit, "limit", "Give a number, or nothing for all versions.") < 0:
        raise InvalidInput(f"{limit} versions cannot be shown", remedy="Give a `limit=` of 0 or more.")
    latest = states.latest()
    names: dict[int, tuple[str, ...]] = {}
    for tag in tags(latest).values():
        names[tag.version] = (*names.get(tag.version, ()), tag.name)
    first = GivenUp.of(latest).first
    last = max(_last_before(states, since), first - 1)
    return Log(states, latest.version, range(newest, last, -1)[:limit], names, first)


def _last_before(states: States, since: Point | None) -> int:
    """The last version that is not wanted any more."""
    if since is None:
        return -1
    if isinstance(since, int) and since < 0:
        raise InvalidInput(
            f"{since} is not a version", remedy="Versions begin with 0; leave `since=` out for all of them."
        )
    try:
        return version_of(states, since)
    except NotFound:
        if isinstance(since, datetime):
            return -1  # before there was a lake
        raise
