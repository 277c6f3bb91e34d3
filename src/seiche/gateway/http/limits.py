"""How much of everything one server takes on."""

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a server. `seconds` is for the head of one request to arrive, for its body, for the work on it, which
    goes on if it takes longer, though nobody waits for it, and for the answer to be taken. Of who need not say who it
    is no more than `public_bytes` are taken.

    `at_once` requests are worked on at a time; `waiting` more may wait, and reads beyond that are turned away.
    """

    body_bytes: int = 64 * 1024 * 1024
    public_bytes: int = 64 * 1024
    seconds: float = 120.0
    at_once: int = 32
    waiting: int = 512
