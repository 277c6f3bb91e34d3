"""What a store really does, found out by trying. Some servers accept a condition and then ignore it."""

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from seiche.core.given import wrong
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import CommitUnknown, InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.store.base import Store
from seiche.store.promises import ESSENTIAL, FACTS, THOROUGH, Broken, Check, Trial

__all__ = ["ProbeReport", "ProbeRow", "probe"]

# "ok": as promised. "wrong": the store breaks a promise. "failed": an error instead of an answer. "unanswered": the
# storage could not be asked, which says nothing about it; nor does "denied": whoever tried may not. "info": a fact.
Result: TypeAlias = Literal["ok", "wrong", "failed", "unanswered", "denied", "info"]

# An answer that is lost, or a server that has too much to do, is no reason to distrust a store: it is asked again.
_AGAIN = Patience(attempts=5, timeout=60.0, first_delay=0.2, longest_delay=2.0)
_UNANSWERED = (CommitUnknown, Unavailable)

_REMEDY = (
    "Use a store with conditional writes: a local disk, S3, Google Cloud Storage, Azure or SeaweedFS. A single table"
    " can live on this one with an external manifest store; a lake cannot."
)


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One thing that was tried."""

    check: str
    result: Result
    detail: str


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a probe found. A store is trusted if it kept every promise that was tried."""

    uri: str
    rows: tuple[ProbeRow, ...]

    @property
    def trusted(self) -> bool:
        """Whether a lake can live in this store."""
        return all(row.result in ("ok", "info") for row in self.rows)

    def require(self) -> None:
        """Raise `InvalidInput`, with what to do instead, if the store is not to be trusted. If nothing is wrong with it
        but that not everything may be done there, `PermissionDenied`; if not all answers came, `Unavailable`.
        """
        for row in self.rows:
            if row.result in ("wrong", "failed"):
                raise InvalidInput(
                    f"{self.uri}: not a store for a lake: {row.check}: {row.detail}",
                    remedy=_REMEDY,
                    uri=self.uri,
                    check=row.check,
                )
        for row in self.rows:
            if row.result == "denied":
                raise PermissionDenied(
                    f"{self.uri}: {row.check}: {row.detail}",
                    remedy="A lake needs the rights to read, write, list and delete there.",
                    uri=self.uri,
                    check=row.check,
                )
        for row in self.rows:
            if row.result == "unanswered":
                raise Unavailable(
                    f"{self.uri}: gave no answer when it was tried: {row.check}: {row.detail}",
                    uri=self.uri,
                    check=row.check,
                )

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {"uri": self.uri, "trusted": self.trusted, "rows": [asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        width = max(len(row.check) for row in self.rows)
        lines = [f"{row.check:{width}}  {row.result:10}  {row.detail}" for row in self.rows]
        return "\n".join([self.uri, *lines, "trusted" if self.trusted else "NOT to be trusted"])


def probe(store: Store, *, quick: bool = False, runtime: Runtime = SYSTEM) -> ProbeReport:
    """Try out every promise that a lake depends on; with `quick` only those without which commits would be lost.

    Works below a random name, which it removes again. Raises what the first write raises, such as `PermissionDenied`,
    `NotFound` for a missing bucket or `Unavailable`: then there is nothing to report.
    """
    given: object = store
    if not isinstance(given, Store):
        raise wrong("what is probed", store, "Give a store: `probe(open_store(uri))`.")
    trial = Trial(store, f".seiche-probe-{runtime.uuid().hex}", 2 if quick else 6, 4 if quick else 8, runtime)
    try:
        _reach(trial)
        checks = ESSENTIAL if quick else ESSENTIAL + THOROUGH
        rows = [_tried(name, check, trial) for name, check in checks]
    except BaseException:
        with suppress(SeicheError):  # what went wrong first says more
            trial.clean_up()
        raise
    tidied = _tried("tidying up", lambda _: _tidy_up(trial), trial)
    return ProbeReport(store.uri, tuple(rows if tidied.result == "ok" else [*rows, tidied]))


def _tidy_up(trial: Trial) -> str:
    trial.clean_up()
    return "nothing is left"


def _reach(trial: Trial) -> None:
    """Write something, so that a mistake in the address or the credentials is told as what it is."""
    for attempt in _AGAIN.tries(trial.runtime):
        try:
            trial.store.put_if_absent(trial.path(f"first-{attempt}"), b"here")
            return
        except _UNANSWERED as error:
            unanswered = error
    # Whether this one file was written is nobody's question: whoever makes a lake must not look for one.
    raise Unavailable(unanswered.message, uri=trial.store.uri) from unanswered


def _tried(name: str, check: Check, trial: Trial) -> ProbeRow:
    for attempt in _AGAIN.tries(trial.runtime):
        try:
            detail = check(trial if attempt == 1 else replace(trial, prefix=trial.path(f"again-{attempt}")))
            return ProbeRow(name, "info" if check in FACTS else "ok", detail)
        except Broken as broken:
            return ProbeRow(name, "wrong", str(broken))
        except _UNANSWERED as error:
            row = ProbeRow(name, "unanswered", error.message)
        except PermissionDenied as error:
            return ProbeRow(name, "denied", error.message)
        except SeicheError as error:
            return ProbeRow(name, "failed", error.message)
    return row
