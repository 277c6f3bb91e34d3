"""What a call that stays open does, and how it ends."""

from typing import Any, Protocol

__all__ = ["Call", "Ended", "Failed", "Unreached"]


class Ended(Exception):
    """The server has ended the call in order, because it stops: nothing is known about what was not answered."""


class Failed(Exception):
    """The call has failed."""

    def __init__(self, code: Any, details: str, trailers: Any) -> None:
        super().__init__(code, details, trailers)
        self.code = code
        self.details = details
        self.trailers = trailers


class Unreached(Failed):
    """Nobody was there to call: nothing was sent."""


class Call(Protocol):
    """A call in both directions. One thread at a time may `send`, one may be in `next`, anybody may `cancel`.

    Whoever was told by `next` that it is over calls `finish`, when nobody can send any more.
    """

    def send(self, message: bytes) -> bool:
        """Send. True if that takes a while, and `next` says when it is done: before that nothing else is sent."""
        ...

    def next(self) -> bytes | None:
        """Wait for a message, or `None` when what was sent is sent. Raises `Ended` or `Failed` once the call has."""
        ...

    def glance(self) -> bool:
        """Heed what has come, without waiting, when nobody is in `next`: a server that stops waits for all.

        Whether what was to be sent is sent now.
        """
        ...

    @property
    def heard(self) -> int:
        """How often something has come from the other side, whatever it was."""
        ...

    def ping(self) -> None:
        """Ask the other side for a sign of life, which it gives at once, whatever else it is doing."""
        ...

    def finish(self) -> None:
        """Let go of a call that is over."""
        ...

    def cancel(self) -> None:
        """End it: whoever is in `next` is told so."""
        ...
