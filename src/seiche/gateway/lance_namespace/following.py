"""Desks that are kept up to date while clients try to commit once more.

pylance, told that others were faster, waits for a second or more, and then goes by the versions that it finds on the
desk. It asks nobody before. If these are the ones that were there when it was told, and others have committed
meanwhile, the next try is refused as well, and so are all others: beside a writer that commits twice a second a client
would never get through.
"""

import atexit
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Final
from weakref import WeakSet

from lance_namespace import LanceNamespaceError

from seiche.errors import SeicheError

__all__ = ["Following"]

log = logging.getLogger("seiche.gateway")

# Seconds between two looks, where the last one found something new and where it did not.
_BUSY: Final = 0.01
_QUIET: Final = 0.05
# How many looks that find nothing new there are after the last refusal: pylance tries for half a minute.
_LOOKS: Final = 600
# So many seconds a process that ends waits for a look that is under way.
_LAST_LOOK: Final = 10.0

_ending: Final = Event()
_workers: Final[WeakSet[Thread]] = WeakSet()


@atexit.register
def _end_all() -> None:
    """A thread that comes out of native code when there is no interpreter any more would take the process down."""
    _ending.set()
    for worker in tuple(_workers):
        worker.join(_LAST_LOOK)


@dataclass(slots=True)
class _Followed:
    """A table, how to show its newest version, and whose commits to it were refused."""

    show: Callable[[], object]
    waiting: set[str] = field(default_factory=set)
    shown: object = None
    looks: int = 0

    def look(self) -> bool:
        """Show what is the newest version now; whether it is another one than the last time."""
        before, self.shown = self.shown, self.show()
        return self.shown != before


class Following:
    """The tables of which commits were refused a moment ago."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: dict[str, _Followed] = {}
        self._worker: Thread | None = None

    def refused(self, table_id: str, transaction: str, show: Callable[[], object]) -> None:
        """A client was told that it lost; until it has committed, or gives up, `show` is called again and again."""
        with self._lock:
            followed = self._tables.setdefault(table_id, _Followed(show))
            followed.show = show
            followed.waiting.add(transaction)
            followed.looks = 0
            if self._worker is None or not self._worker.is_alive():  # a process that was forked has none
                # It ends when nobody waits: a server at rest has no thread for it, and stopping needs no care.
                self._worker = Thread(target=self._work, name="seiche-following", daemon=True)
                _workers.add(self._worker)
                self._worker.start()

    def has_lost(self, table_id: str, transaction: str) -> bool:
        """Whether a client was told that it lost, and comes back."""
        with self._lock:
            followed = self._tables.get(table_id)
            return followed is not None and transaction in followed.waiting

    def committed(self, table_id: str, transaction: str) -> None:
        """A client has got through."""
        with self._lock:
            followed = self._tables.get(table_id)
            if followed is not None:
                followed.waiting.discard(transaction)
                if not followed.waiting:
                    del self._tables[table_id]

    def _work(self) -> None:
        seconds = _BUSY
        while not _ending.wait(seconds):
            seconds = _QUIET
            for table_id, followed in self._followed():
                try:
                    if followed.look():
                        seconds = _BUSY
                except (SeicheError, LanceNamespaceError) as error:
                    log.debug("%s is not followed any more: %s", table_id, error)
                    with self._lock:
                        self._tables.pop(table_id, None)
            with self._lock:
                if not self._tables:
                    self._worker = None
                    return

    def _followed(self) -> list[tuple[str, _Followed]]:
        with self._lock:
            for table_id, followed in list(self._tables.items()):
                followed.looks += 1
                if followed.looks > _LOOKS:
                    del self._tables[table_id]
            return list(self._tables.items())
