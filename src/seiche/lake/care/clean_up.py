"""What a clean-up of a lake found and did."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

__all__ = ["CleanUp", "Unneeded"]


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A file that nothing needs, and why. `moved`: it is in the trash now, or would be; else it waits."""

    path: str
    size: int
    modified: datetime
    sort: str
    reason: str
    fate: Literal["moved", "waits"] = "waits"


@dataclass(frozen=True, slots=True)
class CleanUp:
    """What a run of the clean-up found and did, or would do.

    `waiting_for` says why files that nothing needs are not moved yet. `foreign` and `unknown` files are none of the
    lake's; `closed` are tables that could not be looked into, by location: of all these nothing is ever touched.
    `restored` should be empty: it names files that were taken although something needs them, and put back.
    """

    version: int
    done: bool
    files: int
    bytes: int
    versions: int
    unneeded: tuple[Unneeded, ...]
    waiting_for: str = ""
    foreign: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    closed: dict[str, str] = field(default_factory=dict)
    fence: int | None = None
    run: str | None = None
    removed: int = 0
    removed_bytes: int = 0
    restored: tuple[str, ...] = ()

    @property
    def moved(self) -> tuple[Unneeded, ...]:
        """Those that are, or would be, in the trash."""
        return tuple(one for one in self.unneeded if one.fate == "moved")

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        unneeded = [
            {"path": one.path, "bytes": one.size, "sort": one.sort, "reason": one.reason, "fate": one.fate}
            for one in self.unneeded
        ]
        return {
            "done": self.done,
            "version": self.version,
            "files": self.files,
            "bytes": self.bytes,
            "versions": self.versions,
            "unneeded": unneeded,
            "waiting_for": self.waiting_for,
            "foreign": list(self.foreign),
            "unknown": list(self.unknown),
            "closed": self.closed,
            "fence": self.fence,
            "run": self.run,
            "removed": self.removed,
            "removed_bytes": self.removed_bytes,
            "restored": list(self.restored),
        }
