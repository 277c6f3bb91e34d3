"""What kept a transaction from being applied, with everything that whoever meets it without a server would know."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from seiche import errors
from seiche.errors import CommitUnknown, ConflictError, NotFound, SeicheError
from seiche.service import transactions_pb2 as pb

__all__ = ["KINDS", "details", "from_text", "raised", "remedy", "sayable", "to_text", "write"]

KINDS: Final[Mapping[str, type[SeicheError]]] = {
    kind.kind: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SeicheError)
}
# Where something is on the server's machine is nothing to a client.
_NEVER_SENT: Final = frozenset({"path", "uri"})
# A list of very many rows or fragments is left out.
_LONGEST: Final = 10_000
# PostgreSQL keeps no NUL, and half of a pair of surrogates, which JSON may have, is no text for anybody else.
_UNSAYABLE: Final = re.compile("[\0\ud800-\udfff]")


def sayable(text: str) -> str:
    """The text without characters that cannot be kept in SQL, or sent: it may have names in it that a client made up,
    and nothing would be noted of the whole group.
    """
    return _UNSAYABLE.sub("\ufffd", text)


def write(error: SeicheError, message: pb.Failure) -> None:
    """Write an error into a message."""
    message.kind, message.remedy = error.kind, sayable(error.remedy)
    message.details.update(_told(error))


def to_text(error: SeicheError) -> str:
    """An error as it is kept for whoever asks again, without its message, which is kept anyway."""
    return json.dumps({"kind": error.kind, "remedy": error.remedy, "details": _told(error)})


def from_text(text: str, message: str) -> SeicheError:
    """The error that was kept."""
    kept = json.loads(text)
    kind = KINDS.get(kept["kind"], SeicheError)
    return kind(message, remedy=kept["remedy"], **_read(kept["details"]))


def _told(error: SeicheError) -> dict[str, str]:
    """What an error says about who and what was involved, each in JSON."""
    found = {}
    for name, value in error.details.items():
        encoded = "" if name in _NEVER_SENT else json.dumps(value, default=str)
        if 0 < len(encoded) <= _LONGEST:
            found[name] = encoded
    return found


def raised(message: pb.Failure) -> type[ConflictError | NotFound] | None:
    """What is raised without a server: the kind of conflict that it is, or `NotFound`; none if it is something else."""
    kind = KINDS.get(message.kind)
    return kind if kind is not None and issubclass(kind, ConflictError | NotFound) else None


def remedy(message: pb.Failure) -> str:
    """What somebody has to do about it; nothing if it may pass by itself, or if nobody knows."""
    kind = KINDS.get(message.kind, CommitUnknown)
    return "" if kind.retryable or kind is CommitUnknown else message.remedy


def details(message: pb.Failure) -> dict[str, Any]:
    """What it says about who and what was involved. Lists are tuples, as they are without a server."""
    return _read(message.details)


def _read(told: Mapping[str, str]) -> dict[str, Any]:
    found = {name: json.loads(value) for name, value in told.items() if name not in ("message", "remedy")}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
