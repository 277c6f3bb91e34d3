"""The headers of a request."""

from collections.abc import Mapping, Sequence
from typing import Final

from seiche.errors import InvalidInput

__all__ = ["check_headers", "headers_of"]

# Each of them stands for one thing: who asks, which request this is, in which transaction.
_SINGLE: Final = frozenset({"authorization", "x-api-key", "idempotency-key", "x-seiche-transaction"})
_NAMING: Final = ("idempotency-key", "x-seiche-transaction")

Given = Sequence[tuple[bytes, bytes]]


def headers_of(given: Given) -> dict[str, str]:
    """By name, in lower case. What came several times is a list with commas, which is what it means in HTTP."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in given}
    if len(found) < len(given):
        values: dict[bytes, list[bytes]] = {}
        for name, value in given:
            values.setdefault(name, []).append(value)
        found |= {name.decode("latin-1"): b", ".join(several).decode("latin-1") for name, several in values.items()}
    return found


def check_headers(headers: Mapping[str, str], given: Given) -> None:
    """Refuse what could be taken for something else than was meant.

    An empty name of a transaction, as that of a variable which nobody has set, may stand for none or be forgotten: work
    would be committed that was to wait, or wait for a commit that never comes. Of two values for one thing, somebody on
    the way may have heeded the other one.
    """
    for name in _NAMING:
        if headers.get(name) == "":
            raise InvalidInput(f"the header {name} is empty", remedy="Say which one you mean, or leave the header out.")
    packed = headers.get("content-encoding", "").strip().lower()
    if packed not in ("", "identity"):
        raise InvalidInput(f"the body is packed as {packed!r}, and read here as it is", remedy="Send it unpacked.")
    if len(headers) < len(given):
        names = [name.decode("latin-1") for name, _ in given]
        twice = sorted(name for name in _SINGLE if names.count(name) > 1)
        if twice:
            raise InvalidInput(f"the header {twice[0]} is there twice", remedy="Send it once.")
