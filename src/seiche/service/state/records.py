"""What the service remembers about transactions, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from seiche.service.states import FINAL, State

__all__ = ["ApplyError", "IntentRecord", "Record"]


def _nothing() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Record:
    """A transaction as it stands. Times are in milliseconds since 1970.

    `base_version` is the lake's version when it began: nothing that it names was written before. `attempts` counts the
    commits that were begun; as long as there was none, no root can have it, and the record alone may decide against it.
    """

    account: str
    id: str
    state: State
    created: int
    updated: int
    expires: int
    base_version: int
    attempts: int = 0
    properties: Mapping[str, str] = field(default_factory=_nothing)
    # What the idempotency key that made it stands for.
    request_hash: str = ""
    # What was prepared.
    changes_hash: str = ""
    reason: str = ""
    # The version of the lake that it made, once applied.
    lake_version: int = 0
    error_code: str = ""
    error_message: str = ""

    @property
    def final(self) -> bool:
        return self.state in FINAL

    def expired(self, now: int) -> bool:
        """Whether its time is up; the last moment still counts."""
        return now > self.expires

    def became(self, state: State, now: int, *, lake_version: int = 0) -> "Record":
        """The same transaction in another state. What once failed is of no account if it was applied in the end."""
        applied = state is State.APPLIED
        # Not by `replace`, which takes three times as long: this is done for every transaction.
        return Record(
            self.account,
            self.id,
            state,
            self.created,
            now,
            self.expires,
            self.base_version,
            self.attempts,
            self.properties,
            self.request_hash,
            self.changes_hash,
            self.reason,
            lake_version or self.lake_version,
            "" if applied else self.error_code,
            "" if applied else self.error_message,
        )


@dataclass(frozen=True, slots=True)
class ApplyError:
    """Why a commit failed, for one target or for all of them."""

    code: str
    message: str
    at: int = 0
    expected_version: int | None = None
    actual_version: int | None = None
    conflict_owner: str | None = None


@dataclass(frozen=True, slots=True)
class IntentRecord:
    """What a transaction wants of one target. At most one transaction has an exclusive intent on a target."""

    account: str
    tx: str
    target: str
    kind: str
    blob: str
    exclusive: bool
    expected_version: int | None = None
    created: int = 0
    position: int = 0
    error: ApplyError | None = None
