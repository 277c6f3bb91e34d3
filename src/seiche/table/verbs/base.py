"""The frame of all verbs."""

from abc import ABC, abstractmethod

from seiche.table.change import Prepare, Result

__all__ = ["Verbs"]


class Verbs(ABC):
    """The base of every group of verbs: a class that inherits one gets its verbs by saying how a change is run.

    A verb checks what it was given, makes a `Prepare` of it, and hands that to `_run`. Two kinds of classes implement
    that: a table of its own runs the preparation on its latest version and commits, again and again until it succeeds;
    a table inside a transaction runs it once, on the version that the transaction has made so far, and keeps the change
    until the transaction commits. So a verb must never assume that a commit follows, that the snapshot is published, or
    that the number of its version is final.
    """

    @abstractmethod
    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Prepare the change and bring it into the table; `verb` is what the result and messages call it.

        `attempts` and `timeout` (seconds) bound how often and how long a change is prepared again after a retryable
        conflict. When there was nothing to do, no version is made and the result says so.
        """
