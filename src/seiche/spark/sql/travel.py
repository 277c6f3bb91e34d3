"""Time travel in queries: `VERSION AS OF`, `TIMESTAMP AS OF`, and both with FOR and with SYSTEM_.

The clauses are taken out before sqlglot sees the query: it rejects FOR SYSTEM_VERSION, and which version is meant is
nothing that it could know. A number is a version of the lake, any other text a tag.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from seiche.spark.sql.refusals import refusal
from seiche.spark.sql.words import Word

__all__ = ["WRITTEN_OUT", "Travel", "travels"]

WRITTEN_OUT = "A version is a whole number or the name of a tag in quotes, a time a text in quotes."
_KINDS = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "time", "SYSTEM_TIME": "time"}


@dataclass(frozen=True, slots=True)
class Travel:
    """One clause: what it says, and where it stands. `after` is where the word before it ends."""

    kind: Literal["version", "time"]
    value: str
    after: int
    start: int
    end: int

    def point(self, text: str) -> int | str | datetime:
        """The version that is meant, as the lake takes it; a time may be without a zone."""
        if self.kind == "version":
            return int(self.value) if self.value.isdecimal() and self.value.isascii() else self.value
        try:
            return datetime.fromisoformat(self.value.strip())
        except ValueError as error:
            remedy = "Write it as '2030-12-31 23:59:59' or with a zone, as '2030-12-31T23:59:59+01:00'."
            raise refusal(text, self.start, f"{self.value!r} is not a time", remedy) from error


def travels(text: str, found: Sequence[Word]) -> list[Travel]:
    """The clauses of a statement. `SELECT version AS of` is none: what is travelled to is written out."""
    clauses = []
    for at, word in enumerate(found):
        kind = _KINDS.get(word.key)
        following = [one.key for one in found[at + 1 : at + 3]]
        if kind is None or following != ["AS", "OF"] or at == 0:
            continue
        first = at - 1 if found[at - 1].key == "FOR" else at
        last = at + 3
        if kind == "time" and last + 1 < len(found) and found[last].key in {"TIMESTAMP", "DATE"}:
            last += 1
        if last >= len(found) or found[last].sort not in {"number", "string"}:
            if first != at or word.key.startswith("SYSTEM"):
                raise _unclear(text, word)
            continue
        if (kind == "version" and found[last].sort == "number" and not found[last].value.isdecimal()) or (
            kind == "time" and found[last].sort == "number"
        ):
            raise _unclear(text, word)
        before = found[first - 1].end if first else 0
        literal: Literal["version", "time"] = "version" if kind == "version" else "time"
        clauses.append(Travel(literal, found[last].value, before, found[first].start, found[last].end))
    return clauses


def _unclear(text: str, word: Word) -> Exception:
    return refusal(text, word.start, f"what {word.text} AS OF leads to is not understood", WRITTEN_OUT)
