"""What clients can make a server hold at once, however they behave."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final

from seiche.errors import Unavailable

__all__ = ["DEFAULT", "Bounds", "Intake", "Taken", "Watches", "exhausted"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Whatever is beyond is refused with `RESOURCE_EXHAUSTED` and a reason, or waits where the client feels it."""

    message_bytes: int = 64 << 20
    """One message."""
    message_parts: int = 200_000
    """Messages within one message: two bytes on the wire can become a hundred in memory."""
    requests: int = 4096
    """Transactions in one message of an open call."""
    calls: int = 4096
    """Calls that are not over, of all clients."""
    calls_each: int = 1024
    """The same over one connection; the client's own library lets more wait."""
    watches: int = 256
    """Calls that watch a transaction: each looks at the database several times a second."""
    taken_bytes: int = 256 << 20
    """Requests that were taken in and are not answered yet, of all clients, also of those that are gone."""
    unread: int = 1024
    """Answers that a client has not read from an open call, and those that are still to come: it is not read from."""
    unread_seconds: float = 30.0
    """How long it may go on reading none of them."""
    handshake_seconds: float = 20.0
    """How long a connection may take to say what it wants."""
    silent_seconds: float = 60.0
    """After how long a connection without a sign of life is asked for one, and dropped if there is none."""
    asking_seconds: float = 1.0
    """Clients who wait for long ask for one as well. Who does so more often than this, several times, is dropped."""


DEFAULT: Final = Bounds()


def exhausted(message: str, reason: str, remedy: str) -> Unavailable:
    """More than a server holds for one client, or for all of them; nothing was done."""
    return Unavailable(message, remedy=remedy, reason=reason)


class Intake:
    """Bytes of requests that were taken in and are not answered yet."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Threads end work that nobody in the event loop waits for any more.
        self._lock = Lock()
        self.held = 0

    def take(self, size: int) -> None:
        """Count a request in. One that comes when there is no other is never too large."""
        with self._lock:
            if self.held and self.held + size > self._most:
                raise exhausted(
                    f"requests of {self.held} bytes wait to be answered, and no more are taken",
                    "queue.full",
                    "Nothing was decided. Try again later, more slowly.",
                )
            self.held += size

    def done(self, size: int) -> None:
        with self._lock:
            self.held -= size

    @contextmanager
    def of(self, size: int) -> Iterator["Taken"]:
        """One that is answered at the end of the block, unless somebody is still at it then."""
        self.take(size)
        taken = Taken(self, size)
        try:
            yield taken
        finally:
            taken.done()


class Taken:
    """One request that was taken in: it counts until all who are at it are done."""

    def __init__(self, intake: Intake, size: int) -> None:
        self._intake = intake
        self._size = size
        self._lock = Lock()
        self._hands = 1

    def again(self) -> None:
        """One more is at it."""
        with self._lock:
            self._hands += 1

    def done(self) -> None:
        """One of them is done."""
        with self._lock:
            self._hands -= 1
            last = self._hands == 0
        if last:
            self._intake.done(self._size)


class Watches:
    """How many calls watch a transaction. A block of it is one of them. In the event loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    def __enter__(self) -> None:
        if self._count >= self._most:
            raise exhausted(
                f"{self._count} calls watch transactions, and no more are taken",
                "watch.too-many",
                "Ask with GetTransaction, or watch later.",
            )
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
