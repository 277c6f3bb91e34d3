"""What a verb prepares, and what it reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from pyroaring import BitMap

from seiche.core.counts import counted
from seiche.table.operations import Operation
from seiche.table.snapshot import Snapshot

__all__ = ["Change", "Prepare", "Result", "forget"]


@dataclass(frozen=True, slots=True)
class Change:
    """An operation that is ready to be committed, with what the commit and the user want to know about it.

    `files` and `bytes` count what was written for it; `rows` is the number of rows that it adds, removes or changes.
    """

    operation: Operation
    affected_rows: Mapping[int, BitMap] | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    notes: Mapping[str, object] = field(default_factory=dict)
    # Prepares the rest of the same work, on the very version that this change makes: what it reserved is known there.
    # What is reported of the whole is what the last change says.
    then: "Prepare | None" = None
    # The version of the lake at which files of it were written, if it was prepared from what had been done before.
    since: int | None = None


# Prepares a change of the given version, or finds that there is nothing to do. Called again, on a newer version, after
# a conflict that may be retried: what did not depend on the table's content is not written a second time.
Prepare: TypeAlias = Callable[[Snapshot], Change | None]


def forget(prepare: object) -> None:
    """Whatever was written so far must not be offered again: a clean-up may have taken it for garbage."""
    if isinstance(prepare, Forgetful):
        prepare.forget()


@runtime_checkable
class Forgetful(Protocol):
    """What prepares a change, and keeps files that it wrote from one attempt to the next."""

    def forget(self) -> None:
        """Write them anew when asked the next time."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a verb did. `version` is the one it made; if `changed` is false there was nothing to do and none was
    made.
    """

    verb: str
    version: int
    changed: bool = True
    rows: int = 0
    files: int = 0
    bytes: int = 0
    attempts: int = 1
    notes: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        if not self.changed:
            return f"<{self.verb}: nothing to do, still version {self.version}>"
        parts = [counted(self.rows, "row")] if self.rows else []
        if self.files:
            parts.append(f"{counted(self.files, 'file')}, {counted(self.bytes, 'byte')} written")
        parts += [f"{name}={value}" for name, value in self.notes.items()]
        if self.attempts > 1:
            parts.append(counted(self.attempts, "attempt"))
        return f"<{self.verb}: version {self.version}{''.join(', ' + part for part in parts)}>"
