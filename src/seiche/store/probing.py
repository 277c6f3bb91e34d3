"""What a store really does, found out by trying. Some servers accept a condition and then ignore it."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from seiche.core.given import wrong
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, SeicheError
from seiche.store.base import Store
from seiche.store.promises import ESSENTIAL, FACTS, THOROUGH, Broken, Check, Trial

__all__ = ["ProbeReport", "ProbeRow", "probe"]

# "ok": as promised. "wrong": the store breaks a promise. "failed": an error instead of an answer. "info": a fact.
Result: TypeAlias = Literal["ok", "wrong", "failed", "info"]

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
        """Raise `InvalidInput`, with what to do instead, if the store is not to be trusted."""
        for row in self.rows:
            if row.result in ("wrong", "failed"):
                raise InvalidInput(
                    f"{self.uri}: not a store for a lake: {row.check}: {row.detail}",
                    remedy=_REMEDY,
                    uri=self.uri,
                    check=row.check,
                )

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {"uri": self.uri, "trusted": self.trusted, "rows": [asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        width = max(len(row.check) for row in self.rows)
        lines = [f"{row.check:{width}}  {row.result:6}  {row.detail}" for row in self.rows]
        return "\n".join([self.uri, *lines, "trusted" if self.trusted else "NOT to be trusted"])


def probe(store: Store, *, quick: bool = False, runtime: Runtime = SYSTEM) -> ProbeReport:
    """Try out every promise that a lake depends on; with `quick` only those without which commits would be lost.

    Works below a random name, which it removes again. Raises what the first write raises, such as `PermissionDenied` or
    `NotFound` for a missing bucket: then there is nothing to report.
    """
    given: object = store
    if not isinstance(given, Store):
        raise wrong("what is probed", store, "Give a store: `probe(open_store(uri))`.")
    trial = Trial(store, f".seiche-probe-{runtime.uuid().hex}", 2 if quick else 6, 4 if quick else 8, runtime)
    try:
        store.put_if_absent(trial.path("first"), b"here")
        checks = ESSENTIAL if quick else ESSENTIAL + THOROUGH
        rows = [_tried(name, check, trial) for name, check in checks]
    except BaseException:
        with suppress(SeicheError):  # what went wrong first says more
            trial.clean_up()
        raise
    tidied = _tried("tidying up", _tidy_up, trial)
    return ProbeReport(store.uri, tuple(rows if tidied.result == "ok" else [*rows, tidied]))


def _tidy_up(trial: Trial) -> str:
    trial.clean_up()
    return "nothing is left"


def _tried(name: str, check: Check, trial: Trial) -> ProbeRow:
    try:
        detail = check(trial)
    except Broken as broken:
        return ProbeRow(name, "wrong", str(broken))
    except SeicheError as error:
        return ProbeRow(name, "failed", error.message)
    return ProbeRow(name, "info" if check in FACTS else "ok", detail)
