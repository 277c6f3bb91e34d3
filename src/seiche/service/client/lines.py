"""Open calls to a server, each used by one thread at a time for one question after the other."""

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Final

from google.protobuf.message import Message

from seiche.core.clock import Clock

__all__ = ["Ended", "Lines"]

_LOOK_SECONDS: Final = 2.0


class Ended(Exception):
    """The server has ended the call without an answer, because it stops: nothing is known about the last question."""


class _Line:
    """One open call."""

    def __init__(self, method: Callable[..., Any], metadata: Any) -> None:
        self._questions: SimpleQueue[Message | None] = SimpleQueue()
        self._call = method(iter(self._questions.get, None), metadata=metadata)

    def ask(self, question: Message) -> Any:
        self._questions.put(question)
        try:
            return next(self._call)
        except StopIteration:
            raise Ended from None

    def close(self) -> None:
        # The thread that sends waits for questions; this is the last one.
        self._questions.put(None)
        self._call.cancel()


class Lines:
    """As many open calls as there are threads that ask at once. One that fails, or is not answered in time, is closed.

    gRPC has no deadline for a message in an open call; a thread of our own looks every few seconds who waits too long.
    """

    def __init__(self, method: Callable[..., Any], metadata: Any, clock: Clock, seconds: float) -> None:
        self._method = method
        self._metadata = metadata
        self._clock = clock
        self._seconds = seconds
        self._lock = Lock()
        self._free: list[_Line] = []
        self._due: dict[_Line, float] = {}
        self._closed = Event()
        self._watch: Thread | None = None

    def ask(self, question: Message) -> Any:
        """The answer; `grpc.RpcError` or `Ended` if there is none."""
        line = self._taken()
        self._due[line] = self._clock.monotonic() + self._seconds
        try:
            answer = line.ask(question)
        except BaseException:
            line.close()
            raise
        finally:
            del self._due[line]
        with self._lock:
            if not self._closed.is_set():
                self._free.append(line)
                return answer
        line.close()
        return answer

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            free, self._free = self._free, []
        for line in free:
            line.close()

    def _taken(self) -> _Line:
        with self._lock:
            if self._free:
                return self._free.pop()
            if self._watch is None:
                self._watch = Thread(target=self._look, name=f"seiche-lines-{os.getpid()}", daemon=True)
                self._watch.start()
        return _Line(self._method, self._metadata)

    def _look(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            now = self._clock.monotonic()
            for line, due in list(self._due.items()):
                if now > due:
                    line.close()
