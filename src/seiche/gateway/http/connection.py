"""One connection of a server: how long it waits for its client, and how much it takes."""

from asyncio import TimerHandle, Transport
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from seiche.gateway.http.limits import Limits

__all__ = ["Connection"]

_HEAD_BYTES: Final = 64 * 1024
_UNANSWERED: Final = 1000


class Connection(HttpToolsProtocol):
    """A connection of uvicorn's that nobody can keep by doing nothing, or little: if a client does not send the head of
    a request, or take an answer, within the `seconds` of `Limits`, it ends. So it does if a head, or a body that nobody
    wants any more, goes on and on, or requests come without end while the first is worked on: uvicorn waits for ever,
    and keeps all of it.

    The time for a body that is wanted, and for the work on it, is the application's matter.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits: Limits = getattr(self.config.app, "limits", Limits())
        # uvicorn's five seconds are less than proxies keep a connection for: they would send a request into nothing.
        self.timeout_keep_alive = self._limits.seconds  # type: ignore[assignment]
        self._in_head = True
        self._taken = 0
        self._timer: TimerHandle | None = None
        self._worked_on: Any = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._hurry()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)
        # uvicorn tells the newest request only: the answer to an older one would be written into nothing, and that be
        # logged as a failure.
        if self._worked_on is not None:
            self._worked_on.disconnected = True

    def data_received(self, data: bytes) -> None:
        self._taken += len(data)
        super().data_received(data)
        # Bodies come in chunks that may be small, each with a few bytes around it.
        if self._taken > (_HEAD_BYTES if self._in_head else 2 * self._limits.body_bytes):
            self.send_400_response("The request is too large.")
        elif len(self.pipeline) > _UNANSWERED:
            self.transport.abort()
        elif getattr(self.cycle, "response_complete", True):  # of the newest request, if there was one
            self._hurry()
        elif not self.flow.write_paused:
            self._rest()

    def on_message_begin(self) -> None:
        self._taken = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # and not behind a body, where nobody reads them
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._worked_on = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        self._in_head, self._taken = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._hurry()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._hurry()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._hurry()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._rest()

    def _hurry(self) -> None:
        """From now on it is the client's turn."""
        if self._timer is None:
            self._timer = self.loop.call_later(self._limits.seconds, self.transport.abort)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
