"""What a call that stays open does, and how it ends."""

from typing import Any, Protocol

__all__ = ["Call", "Ended", "Failed", "Garbled"]


class Ended(Exception):
    """The server has ended the call in order, because it stops: nothing is known about what was not answered."""


class Failed(Exception):
    """The call has failed."""

    def __init__(self, code: Any, details: str, trailers: Any) -> None:
        super().__init__(code, details, trailers)
        self.code = code
        self.details = details
        self.trailers = trailers


class Garbled(Failed):
    """The call has failed, and only gRPC itself can read why."""


class Call(Protocol):
    """A call in both directions. One thread at a time may `send` or `listen`, one may be in `next`, anybody may
    `cancel`.

    Whoever was told by `next` that it is over calls `finish`, when nobody can send any more.
    """

    listening: bool
    """Whether `next` has been promised what comes."""

    def send(self, message: bytes, *, alone: bool = False) -> bool:
        """Send. True if that takes a while, and `next` says when it is done: before that nothing else is sent.

        Who is `alone` hears of it only with the answer.
        """
        ...

    def listen(self) -> None:
        """Let `next` say what comes: it does so once, or after something was sent."""
        ...

    def next(self) -> bytes | None:
        """Wait for a message, or `None` when what was sent is sent. Raises `Ended` or `Failed` once the call has."""
        ...

    def glance(self) -> None:
        """Heed what has come while nobody is in `next`, without waiting. Raises as `next` does."""
        ...

    def finish(self) -> None:
        """Let go of a call that is over."""
        ...

    def cancel(self) -> None:
        """End it: whoever is in `next` is told so."""
        ...
