"""An open call that all threads of a process share: what is ready is sent together, and answered as it is decided."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Lock, Thread
from typing import Final

import grpc

from seiche.core.clock import Clock
from seiche.service import transactions_pb2 as pb
from seiche.service.client.calls import Call, Ended, Failed, Unreached
from seiche.service.client.signs import Signs
from seiche.service.wire.parts import part

__all__ = ["Call", "Ended", "Failed", "Line"]

# How often it is looked who waits too long, and what the server says while nobody asks; more seldom as nobody does.
_LOOK_SECONDS: Final = 0.1
_LONGEST_LOOK: Final = 2.0
# How long, at most, those who were answered together are waited for, so that they ask together again.
_GATHER_SECONDS: Final = 0.0005
# Larger than this nothing is put together: a server takes no message that is too large, whatever it is made of.
_MOST_TOGETHER: Final = 1 << 20


class _Question:
    """What one thread waits for an answer to.

    `turn` is released once, to wake that thread: when there is an answer, or when it is the one to look for answers.
    """

    __slots__ = ("answer", "due", "failure", "turn")

    def __init__(self, due: float) -> None:
        self.due = due
        self.answer: pb.ExecuteTransactionResponse | None = None
        self.failure: Ended | Failed | None = None
        self.turn = Lock()
        self.turn.acquire()

    @property
    def done(self) -> bool:
        return self.answer is not None or self.failure is not None


@contextmanager
def _whole(call: Call) -> Iterator[None]:
    """Ends the call if the block is interrupted, which may leave a message half sent, or an answer untold.

    Those who wait then ask again in another call. Otherwise they would wait until their time is up.
    """
    try:
        yield
    except BaseException:
        call.cancel()
        raise


class Line:
    """One open call at a time, opened when it is first needed and after one that failed.

    Threads that were answered together are likely to ask together: the first that does waits for the others, half a
    millisecond at most. No other message is held back: while one is on its way, whatever else is asked gathers, and is
    sent next. Sending and receiving have no thread of their own. Of the threads that wait, one looks for answers, also
    for the others, until it has its own; then another one does. A message in an open call has no deadline: a watching
    thread looks now and then who waits too long, and whether the server is still there, and ends the call.
    """

    def __init__(
        self, make: Callable[[], Call], clock: Clock, seconds: float, wanted: Callable[[], object] = lambda: True
    ) -> None:
        """`wanted` gives nothing once nobody can ask any more: whoever has forgotten to close it leaves nothing."""
        self._make = make
        self._wanted = wanted
        self._clock = clock
        self._seconds = seconds
        self._numbers = count(1)
        self._asked = 0
        # Held by the thread that sends. Whoever needs both locks takes this one first.
        self._pen = Lock()
        # Guards everything below.
        self._lock = Lock()
        self._call: Call | None = None
        self._unsent: list[bytes] = []
        self._sending = False
        # How many of those who were answered together have not asked again yet.
        self._away = 0
        # Whether a thread waits for them. Until it has, and sends, nothing is sent unless all of them are there.
        self._gathering = False
        self._looker: _Question | None = None
        self._waiting: dict[int, _Question] = {}
        self._closed = Event()
        self._watch: Thread | None = None

    def ask(self, request: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        """The answer; `Failed` or `Ended` if there is none."""
        question = _Question(self._clock.monotonic() + self._seconds)
        request.number = self._asked = number = next(self._numbers)
        data = part(request.SerializeToString())
        try:
            with self._lock:
                self._open()
                self._waiting[number] = question
                self._looker = self._looker or question
                self._unsent.append(data)
                self._away = max(0, self._away - 1)
                gathers = self._away > 0 and not self._gathering
                self._gathering |= gathers
            if gathers:
                self._gather()
            self._send()
            if self._looker is not question:
                question.turn.acquire()
            while not question.done:
                self._look()
        finally:
            self._leave(number, question)
        if question.answer is None:
            # A copy for each: several threads must not raise the same exception.
            raise type(question.failure)(*question.failure.args) if question.failure else Ended
        return question.answer

    def close(self) -> None:
        """End the call. Those who wait are told so."""
        self._closed.set()
        with self._pen, self._lock:
            if self._call is not None:
                self._call.cancel()
                if self._looker is None:
                    self._end(Ended())

    def _open(self) -> None:
        if self._closed.is_set():
            # Whoever came to ask when it was being closed. Nobody would watch over another call.
            raise Unreached(grpc.StatusCode.UNAVAILABLE, "the connection was closed", ())
        if self._watch is None:
            self._watch = Thread(target=self._keep_watch, name=f"seiche-line-{os.getpid()}", daemon=True)
            self._watch.start()
        if self._call is None:
            self._call = self._make()

    def _gather(self) -> None:
        """Give those who were answered together a moment to come back."""
        try:
            self._clock.sleep(_GATHER_SECONDS)
        finally:
            with self._lock:
                self._gathering, self._away = False, 0

    def _send(self) -> None:
        """Send what has gathered, unless something is on its way. If the call is over, the thread that looks is told.

        A thread that finds another one sending, or about to, leaves it to that one, which looks again when it is done.
        """
        while self._ready and self._pen.acquire(blocking=False):
            try:
                with self._lock:
                    call, together = self._call, self._gathered()
                if call is None or not together:
                    return
                with _whole(call):
                    if not call.send(b"".join(together)):
                        self._sending = False
            finally:
                self._pen.release()

    @property
    def _ready(self) -> bool:
        """Whether there is something to be sent now."""
        return bool(self._unsent) and not self._sending and not (self._gathering and self._away)

    def _gathered(self) -> list[bytes]:
        """What is to be sent next, in one message."""
        if self._sending or self._call is None or not self._unsent:
            # Whoever came here had seen something that another thread has sent since. That is sent, and nobody would
            # hear so once more: all would wait until their time is up.
            return []
        count = size = 0
        for data in self._unsent:
            size += len(data)
            if count and size > _MOST_TOGETHER:
                break
            count += 1
        together, self._unsent = self._unsent[:count], self._unsent[count:]
        # Before it is sent: the thread that looks may hear that it was sent before the one that sends does.
        self._sending = True
        return together

    def _look(self) -> None:
        """Wait for what happens next, and tell the threads that it is about."""
        call = self._call
        if call is None:
            return
        try:
            message = call.next()
        except (Ended, Failed) as failure:
            with self._pen, self._lock:
                self._end(failure)
            return
        with _whole(call):
            self._tell(message)
        self._send()

    def _tell(self, message: bytes | None) -> None:
        """Wake the threads that a message has answers for; without a message, what was to be sent is sent."""
        answers = () if message is None else pb.ExecuteTransactionsResponse.FromString(message).responses
        with self._lock:
            for answer in answers:
                question = self._waiting.pop(answer.number, None)
                if question is not None:
                    question.answer = answer
                    self._wake(question)
            if answers:
                self._away = len(answers) if len(answers) > 1 else 0
            if message is None:
                self._sending = False

    def _end(self, failure: Ended | Failed) -> None:
        """The call is over: nobody who waits is answered any more."""
        call, self._call, self._sending, self._away = self._call, None, False, 0
        self._unsent.clear()
        for question in self._waiting.values():
            question.failure = failure
            self._wake(question)
        self._waiting.clear()
        if call is not None:
            call.finish()

    def _wake(self, question: _Question) -> None:
        if question is not self._looker:
            question.turn.release()

    def _leave(self, number: int, question: _Question) -> None:
        """Somebody else looks from now on, if anybody waits."""
        with self._lock:
            self._waiting.pop(number, None)
            if self._looker is question:
                self._looker = next(iter(self._waiting.values()), None)
                if self._looker is not None:
                    self._looker.turn.release()

    def _keep_watch(self) -> None:
        seconds, seen, signs = _LOOK_SECONDS, 0, Signs()
        while not self._closed.wait(seconds):
            asked = self._asked
            seconds, seen = (_LOOK_SECONDS if asked != seen else min(2 * seconds, _LONGEST_LOOK)), asked
            now = self._clock.monotonic()
            with self._lock:
                call = self._call if self._waiting else None
                if call is not None and any(now > one.due for one in self._waiting.values()):
                    call.cancel()
            signs.look(call, now)
            self._glance()
            if not self._wanted():
                self.close()

    def _glance(self) -> None:
        """Heed what the server says if nobody looks. As long as the lock is held, nobody begins to."""
        with self._pen, self._lock:
            if self._call is not None and self._looker is None:
                try:
                    self._sending &= not self._call.glance()
                except (Ended, Failed) as failure:
                    self._end(failure)
        # Whoever asked meanwhile has found the pen taken.
        self._send()
