"""Whether a server that somebody waits for is still there."""

from typing import Final

from seiche.service.client.calls import Call

__all__ = ["Signs"]

# How long nothing comes, in seconds, before a sign of life is asked for, and how long it is waited for then.
_SILENT: Final = 5.0
_LATEST: Final = 10.0


class Signs:
    """Signs of life in one open call at a time.

    A server that takes long to decide is waited for. One that is stopped, cut off, or something else altogether is not,
    although the network may say nothing about it for hours: nobody is left waiting for an answer that cannot come.
    """

    def __init__(self) -> None:
        self._call: Call | None = None
        self._heard = 0
        self._since = 0.0
        self._asked = False

    def look(self, call: Call | None, now: float) -> None:
        """See to the call in which somebody waits, if there is one. To be called now and then."""
        if call is None or call is not self._call or call.heard != self._heard:
            self._call, self._heard, self._since, self._asked = call, call.heard if call else 0, now, False
        elif self._asked and now - self._since > _LATEST:
            call.cancel()
        elif not self._asked and now - self._since > _SILENT:
            # It is asked also if it was not looked for very long, because this machine slept.
            self._since, self._asked = now, True
            call.ping()
