"""One call that stays open, driven by the threads that use it.

gRPC's own way to ask and be answered over an open call takes two threads more in each process, one that sends and one
that waits for whatever happens, and each question wakes both of them: that is three quarters of what a question costs
the client. Below the interface that gRPC describes is the one on which it is built, where whoever waits looks for
himself. It is not promised to stay; where it is missing, `available` says so, and calls are made one by one.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import grpc

try:
    from grpc._cython import cygrpc
except ImportError:  # grpc without it would be another library
    cygrpc = None

from seiche.service.client.calls import Ended, Failed

__all__ = ["OpenCall", "available"]

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]] | None

_NEEDED: Final = (
    "ReceiveInitialMetadataOperation",
    "ReceiveMessageOperation",
    "ReceiveStatusOnClientOperation",
    "SegregatedCall",
    "SendInitialMetadataOperation",
    "SendMessageOperation",
)
_STARTED: Final = "started"
_STATUS: Final = "status"
_SENT: Final = "sent"
_MESSAGE: Final = "message"
_NO_FLAGS: Final = 0
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def available(channel: Any) -> bool:
    """Whether calls of this channel can be driven."""
    return all(hasattr(cygrpc, name) for name in _NEEDED) and hasattr(
        getattr(channel, "_channel", None), "segregated_call"
    )


class OpenCall:
    """A call in both directions. One thread at a time may `send` or `listen`, one may be in `next`, anybody may
    `cancel`.

    Whoever was told by `next` that it is over calls `finish`, when nobody can send any more.
    """

    def __init__(self, channel: Any, method: str, metadata: Metadata) -> None:
        operations = (
            ((cygrpc.SendInitialMetadataOperation(metadata, _NO_FLAGS),), _STARTED),
            ((cygrpc.ReceiveInitialMetadataOperation(_NO_FLAGS),), _STARTED),
            ((cygrpc.ReceiveStatusOnClientOperation(_NO_FLAGS),), _STATUS),
        )
        # What gRPC has been asked for and has not said yet. It must all be heard before it can forget the call.
        self._due = [tag for _, tag in operations]
        self._call = channel._channel.segregated_call(
            cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS,
            method.encode(),
            None,
            None,
            metadata,
            None,
            operations,
            None,
        )
        # Whether gRPC has been asked for what comes next.
        self.listening = False

    def send(self, message: bytes, *, alone: bool = False) -> bool:
        """Begin to send; `next` says when that is done, which must be before the next one is sent.

        Who is `alone` hears of it only with the answer, and is woken once instead of twice. False if the call is over.
        """
        sending = cygrpc.SendMessageOperation(message, _NO_FLAGS)
        if alone and not self.listening:
            self.listening = True
            return self._operate(_MESSAGE, sending, cygrpc.ReceiveMessageOperation(_NO_FLAGS))
        self.listen()
        return self._operate(_SENT, sending)

    def listen(self) -> None:
        """Let `next` say what comes: it does so once, or after something was sent."""
        if not self.listening:
            self.listening = True
            self._operate(_MESSAGE, cygrpc.ReceiveMessageOperation(_NO_FLAGS))

    def next(self) -> bytes | None:
        """Wait for a message, or `None` when what was sent is sent. Raises `Ended` or `Failed` once the call has."""
        while True:
            event = self._heard()
            if event.tag == _STATUS:
                raise _ending(event.batch_operations[0])
            if event.tag == _SENT:
                return None
            if event.tag == _MESSAGE:
                found: bytes | None = event.batch_operations[-1].message()
                # Without a message the call is about to end.
                if found is not None:
                    self.listening = False
                    return found

    def glance(self) -> None:
        """Nothing: gRPC heeds what comes by itself."""

    def finish(self) -> None:
        """Let gRPC forget a call that is over."""
        while self._due:
            self._heard()

    def cancel(self) -> None:
        self._call.cancel(grpc.StatusCode.CANCELLED.value[0], "nobody waits any more")

    def _heard(self) -> Any:
        event = self._call.next_event()
        self._due.remove(event.tag)
        return event

    def _operate(self, tag: str, *operations: Any) -> bool:
        self._due.append(tag)
        done: bool = self._call.operate(operations, tag)
        if not done:
            self._due.remove(tag)
        return done


def _ending(status: Any) -> Exception:
    code = _CODES.get(status.code(), grpc.StatusCode.UNKNOWN)
    if code is grpc.StatusCode.OK:
        return Ended()
    details = status.details()
    text = details if isinstance(details, str) else details.decode(errors="replace")
    return Failed(code, text, status.trailing_metadata())
