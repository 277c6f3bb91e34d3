"""What is wrong with a lake, found without stumbling over it."""

import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt, InvalidInput, NotFound, PermissionDenied, SeicheError

__all__ = ["Findings", "Mending", "Problem", "Severity"]

# A note is nothing to worry about: something was not finished, or only costs time.
Severity: TypeAlias = Literal["error", "note"]

# What comes of reading wrong bytes.
_DAMAGE: Final = (
    Corrupt,
    InvalidInput,
    DecodeError,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    struct.error,
    MemoryError,
)
_RESTORE: Final = "Restore it from a copy of the lake, or give up the versions that need it."


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: a stable `kind`, where, what, and what to do about it."""

    kind: str
    path: str
    message: str
    remedy: str
    severity: Severity = "error"
    repairable: bool = False
    repaired: bool = False

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "kind": self.kind,
            "path": self.path,
            "message": self.message,
            "remedy": self.remedy,
            "severity": self.severity,
            "repairable": self.repairable,
            "repaired": self.repaired,
        }


@dataclass(frozen=True, slots=True)
class Mending:
    """How something is repaired, in words and as an act."""

    remedy: str
    act: Callable[[], object]


@dataclass(slots=True)
class Findings:
    """Problems as they are found, and how to repair those that can be."""

    problems: list[Problem] = field(default_factory=list)
    repairs: dict[int, Callable[[], object]] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        path: str,
        message: str,
        remedy: str = _RESTORE,
        *,
        severity: Severity = "error",
        repair: Callable[[], object] | None = None,
    ) -> None:
        """Take down a problem."""
        if repair is not None:
            self.repairs[len(self.problems)] = repair
        self.problems.append(Problem(kind, path, message, remedy, severity, repair is not None))

    def join(self, other: "Findings") -> None:
        """Take down what was found elsewhere, behind what stands here."""
        first = len(self.problems)
        self.repairs |= {first + number: act for number, act in other.repairs.items()}
        self.problems += other.problems

    @contextmanager
    def looking_at(
        self, what: str, path: str, *, needed_by: str = "", mending: Callable[[], Mending | None] = lambda: None
    ) -> Iterator[None]:
        """Around whatever reads a file: if it is missing or damaged, that is a problem, and the rest is skipped.

        `mending` is asked then whether it can be repaired.
        """
        needed = f", which {needed_by} needs" if needed_by else ""
        try:
            yield
        except NotFound:
            self._add(f"{what}.missing", path, f"{path} is missing{needed}", mending())
        except PermissionDenied as error:
            self.add(f"{what}.unreadable", path, error.message, error.remedy)
        except _DAMAGE as error:
            said = error.message if isinstance(error, SeicheError) else f"{type(error).__name__}: {error}"
            self._add(f"{what}.damaged", path, f"{said}{needed}", mending())

    def _add(self, kind: str, path: str, message: str, mending: Mending | None) -> None:
        if mending is None:
            self.add(kind, path, message)
        else:
            self.add(kind, path, message, mending.remedy, repair=mending.act)

    def places(self) -> set[tuple[str, str]]:
        """What is wrong where, in whichever words."""
        return {(one.kind, one.path) for one in self.problems}

    def keep(self, places: Collection[tuple[str, str]]) -> None:
        """Of the problems, only those that are in these places."""
        kept = [number for number, one in enumerate(self.problems) if (one.kind, one.path) in places]
        self.repairs = {new: self.repairs[old] for new, old in enumerate(kept) if old in self.repairs}
        self.problems = [self.problems[number] for number in kept]

    def repair(self) -> None:
        """Repair what can be."""
        for number, act in self.repairs.items():
            try:
                act()
            except SeicheError as error:
                found = self.problems[number]
                self.problems[number] = replace(found, message=f"{found.message} (not repaired: {error.message})")
            else:
                self.problems[number] = replace(self.problems[number], repaired=True)
