"""How much was committed through one handle of a lake."""

from collections.abc import Sequence
from threading import Lock

from seiche.lake.tree.transactions import TransactionRecord

__all__ = ["Tally"]


class Tally:
    """Counts versions that were made, and transactions that were committed with them. Any thread may do so."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.versions = 0
        self.committed = 0

    def note(self, records: Sequence[TransactionRecord]) -> None:
        """One more version, which has these."""
        with self._lock:
            self.versions += 1
            self.committed += sum(record.outcome == "committed" for record in records)
