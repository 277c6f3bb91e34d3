"""Transactions over calls that stay open: an answer for each, refusals included, and no call outlives its use."""

import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest

from seiche import CommitUnknown, InvalidInput, Lake, PermissionDenied, Unavailable
from seiche.core.clock import SystemClock
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM
from seiche.service import transactions_pb2 as pb
from seiche.service.auth import READ, Tokens
from seiche.service.client import channel as channels
from seiche.service.client import lines
from seiche.service.client.calls import Ended, Failed
from seiche.service.client.channel import Address, Channel
from seiche.service.client.direct import DirectCall
from seiche.service.client.lines import Line
from seiche.service.host import Host
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from seiche.service.wire.bounds import Bounds
from tests.service_lake import appending, held, numbers_in

TOKENS = Tokens(
    [{"token": "writer", "account": "default"}, {"token": "reader", "account": "default", "permissions": [READ]}]
)
ONCE = Patience(attempts=2, timeout=10.0, first_delay=0.01, longest_delay=0.01)


@pytest.fixture
def server(lake: Lake, tmp_path: Path) -> Iterator[Running]:
    host = Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"), authenticator=TOKENS)
    with running(host) as made:
        yield made


def channel(server: Running, token: str = "writer") -> Channel:
    return Channel(Address.parse(server.address, token=token), patience=ONCE)


def request(lake: Lake, number: int) -> pb.ExecuteTransactionRequest:
    made = pb.ExecuteTransactionRequest(tx_id=str(uuid.uuid4()))
    made.changes.add(table_fq="lake.shop.orders", payload=appending(lake, "shop.orders", numbers=[number]).payload)
    return made


def test_a_refusal_is_an_answer_and_the_call_goes_on(server: Running, lake: Lake) -> None:
    calls = channel(server)
    first = request(lake, 1)
    applied = calls.execute(first)
    assert (applied.transaction.state, applied.version) == (pb.TS_APPLIED, lake.version)
    wrong = pb.ExecuteTransactionRequest(tx_id=str(uuid.uuid4()))
    wrong.changes.add(table_fq="lake.shop.none", payload=b"")
    for bad, reason in ((wrong, "table.not-found"), (pb.ExecuteTransactionRequest(tx_id="x"), "tx-id.invalid")):
        with pytest.raises(InvalidInput) as caught:
            calls.execute(bad)
        assert caught.value.reason == reason
    assert calls.execute(request(lake, 2)).transaction.state == pb.TS_APPLIED
    for again in (calls.execute(first), calls.call("ExecuteTransaction", first, pb.ExecuteTransactionResponse)):
        assert (again.transaction.tx_id, again.transaction.state) == (first.tx_id, pb.TS_APPLIED)
        assert again.version == applied.version, "the same transaction again"
    assert numbers_in(lake) == [1, 2]


def test_who_may_only_read_executes_nothing(server: Running, lake: Lake) -> None:
    for token in ("reader", "unknown", ""):
        with pytest.raises(PermissionDenied):
            channel(server, token).execute(request(lake, 1))
    assert numbers_in(lake) == []


@pytest.mark.timeout(60)
def test_a_server_that_stops_does_not_wait_for_open_calls(server: Running, lake: Lake) -> None:
    calls = channel(server)
    calls.execute(request(lake, 1))
    server.stop(grace=3600)
    with pytest.raises((CommitUnknown, Unavailable)):  # it is sent, or there is nobody to send it to
        calls.execute(request(lake, 2))
    assert numbers_in(lake) == [1]


@pytest.mark.timeout(60)
def test_threads_share_one_call_and_each_gets_its_own_answer(
    server: Running, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    def make(*args: Any) -> Any:
        opened.append(DirectCall(*args))
        return opened[-1]

    monkeypatch.setattr(channels, "DirectCall", make)
    calls = channel(server)
    requests = [[request(lake, 10 * thread + number) for number in range(5)] for thread in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for asked, answers in zip(
            requests, threads.map(lambda some: [*map(calls.execute, some)], requests), strict=True
        ):
            assert [one.transaction.tx_id for one in answers] == [one.tx_id for one in asked]
            assert {one.transaction.state for one in answers} == {pb.TS_APPLIED}
    assert len(opened) == 1
    assert numbers_in(lake) == [10 * thread + number for thread in range(8) for number in range(5)]


@pytest.mark.timeout(60)
def test_a_call_that_cannot_be_read_ends_and_the_next_one_is_served(server: Running, lake: Lake) -> None:
    calls = channel(server)
    calls.execute(request(lake, 1))
    line = calls._opened_line()
    assert line is not None
    bad = line._make()
    assert not bad.send(b"\xff") or bad.next() is None, "sent"
    with pytest.raises(Failed) as caught:
        bad.next()
    bad.finish()
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert calls.execute(request(lake, 2)).transaction.state == pb.TS_APPLIED


@pytest.mark.timeout(60)
def test_a_call_that_is_refused_answers_first_what_was_taken(server: Running, lake: Lake) -> None:
    """Otherwise those who wait would be told that they were refused, and would be in the lake nevertheless."""
    calls = channel(server)
    line = calls._opened_line()
    assert line is not None
    call = line._make()
    with held(server):
        for message in (pb.ExecuteTransactionsRequest(requests=[request(lake, 1)]).SerializeToString(), b"\xff"):
            assert not call.send(message) or call.next() is None, "sent"
    answer = call.next()
    assert answer is not None
    (told,) = pb.ExecuteTransactionsResponse.FromString(answer).responses
    assert told.transaction.state == pb.TS_APPLIED
    with pytest.raises(Failed) as caught:
        call.next()
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    call.finish()
    assert numbers_in(lake) == [1]


def test_large_ones_and_those_behind_a_proxy_take_a_call_each(
    server: Running, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = request(lake, 1)
    large.properties["note"] = "x" * (1 << 13)
    monkeypatch.setattr(channels, "_LARGE", 1 << 13)
    monkeypatch.setattr(channels, "DirectCall", None)
    assert channel(server).execute(large).transaction.state == pb.TS_APPLIED
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert channel(server).execute(request(lake, 2)).transaction.state == pb.TS_APPLIED
    assert numbers_in(lake) == [1, 2]


def test_whoever_reaches_nobody_is_told_that_nothing_was_sent(server: Running, lake: Lake) -> None:
    calls = channel(server)
    server.stop(grace=0)
    with pytest.raises(Unavailable, match="cannot be reached"):
        calls.execute(request(lake, 1))


@pytest.mark.timeout(60)
def test_who_closes_a_connection_does_not_wait_for_who_waits(server: Running, lake: Lake) -> None:
    calls = channel(server)
    calls.execute(request(lake, 1))
    line = calls._opened_line()
    assert line is not None
    silent = threading.Thread(target=ask_in_vain, args=(line, Ended, pb.ExecuteTransactionRequest(work=b"x")))
    with held(server):
        silent.start()
        until(lambda: bool(line._waiting))
        calls.close()
        silent.join(30)
    assert not silent.is_alive()


class Silent:
    """A call that is answered only as far as somebody lets it be."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.happened: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        self.finished = False
        self.heard = self.pings = 0
        self.done = False

    def send(self, message: bytes) -> bool:
        self.sent.append([one.number for one in pb.ExecuteTransactionsRequest.FromString(message).requests])
        return True

    def next(self) -> bytes | None:
        found = self.happened.get(timeout=30)
        if isinstance(found, Exception):
            raise found
        return found

    def glance(self) -> bool:
        return self.done

    def ping(self) -> None:
        self.pings += 1

    def finish(self) -> None:
        self.finished = True

    def cancel(self) -> None:
        self.happened.put(Failed(grpc.StatusCode.CANCELLED, "cancelled", ()))

    def answer(self, *numbers: int) -> None:
        responses = [pb.ExecuteTransactionResponse(number=number, version=number) for number in numbers]
        self.happened.put(pb.ExecuteTransactionsResponse(responses=responses).SerializeToString())


class LateClock(SystemClock):
    def __init__(self) -> None:
        self.later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


def ask_in_vain(given: Line, failure: type[Exception], question: pb.ExecuteTransactionRequest) -> None:
    with pytest.raises((failure, Failed)):
        given.ask(question)


def until(holds: Callable[[], bool]) -> None:
    moment = threading.Event()
    while not holds():
        moment.wait(0.001)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Line, list[Silent], LateClock]]:
    monkeypatch.setattr(lines, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(lines, "_LONGEST_LOOK", 0.01)
    made: list[Silent] = []
    clock = LateClock()

    def make() -> Silent:
        made.append(Silent())
        return made[-1]

    given = Line(make, clock, 60.0)
    yield given, made, clock
    given.close()


def test_who_finds_that_another_thread_has_sent_everything_holds_up_nobody(
    asked: tuple[Line, list[Silent], LateClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there when he looked, and gone when it was his turn. All waited then until their time was up."""
    given, made, _ = asked
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(given.ask, pb.ExecuteTransactionRequest())
        until(lambda: bool(made) and bool(made[0].sent))
        made[0].happened.put(None)
        made[0].answer(1)
        assert first.result(30).version == 1
        with monkeypatch.context() as late:
            late.setattr(Line, "_ready", True)
            given._send()
        assert not given._sending
        again = threads.submit(given.ask, pb.ExecuteTransactionRequest())
        until(lambda: len(made[0].sent) == 2)
        made[0].answer(2)
        assert again.result(30).version == 2


def test_who_waits_too_long_is_let_go(asked: tuple[Line, list[Silent], LateClock]) -> None:
    """gRPC would let him wait for ever."""
    given, made, clock = asked
    waiting = [
        threading.Thread(target=ask_in_vain, args=(given, Failed, pb.ExecuteTransactionRequest())) for _ in range(2)
    ]
    for one in waiting:
        one.start()
    until(lambda: len(given._waiting) == 2)
    clock.later = 61.0
    for one in waiting:
        one.join(30)
        assert not one.is_alive()
    assert made[0].finished
    with ThreadPoolExecutor(1) as threads:
        again = threads.submit(given.ask, pb.ExecuteTransactionRequest())
        until(lambda: len(made) == 2 and bool(made[1].sent))
        made[1].answer(3)
        assert again.result(30).version == 3, "over another call"


@pytest.mark.timeout(60)
def test_who_waits_for_nobody_is_let_go_soon(asked: tuple[Line, list[Silent], LateClock]) -> None:
    """And who waits for one that only takes its time is not."""
    given, made, clock = asked
    given._seconds = 1e9
    waiting = threading.Thread(target=ask_in_vain, args=(given, Failed, pb.ExecuteTransactionRequest()))
    waiting.start()
    until(lambda: bool(made and made[0].sent))
    for pings in range(1, 4):
        assert waiting.is_alive()
        made[0].heard += 1
        while made[0].pings < pings:
            clock.later += 1.0
            threading.Event().wait(0.02)
    clock.later += 11.0
    waiting.join(30)
    assert not waiting.is_alive()
    assert made[0].finished


@pytest.mark.timeout(60)
def test_one_who_listens_and_never_answers_is_not_waited_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(lines, "_LONGEST_LOOK", 0.01)
    monkeypatch.setattr(channels, "_CALL_SECONDS", 1e9)
    clock = LateClock()
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        address = Address.parse(f"grpc://127.0.0.1:{listener.getsockname()[1]}")
        calls = Channel(address, runtime=replace(SYSTEM, clock=clock), patience=Patience(attempts=1))
        asking = threads.submit(calls.execute, request(lake, 1))
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0.05)
            come = b""
            while b"there?" not in come:
                clock.later += 1.0
                with suppress(TimeoutError):
                    come += connection.recv(1 << 16)
            clock.later += 11.0
            with pytest.raises(CommitUnknown):
                asking.result(30)


@pytest.mark.timeout(60)
def test_a_server_lets_those_who_wait_ask_whether_it_is_there(lake: Lake, tmp_path: Path) -> None:
    host = Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"), authenticator=TOKENS)
    with running(host, bounds=Bounds(asking_seconds=0.0)) as server:
        calls = channel(server)
        line = calls._opened_line()
        assert line is not None
        call = line._make()
        message = pb.ExecuteTransactionsRequest(requests=[request(lake, 1)]).SerializeToString()
        with held(server):
            assert not call.send(message) or call.next() is None, "sent"
            for _ in range(6):
                heard = call.heard
                call.ping()
                while call.heard == heard:
                    call.glance()
        answer = call.next()
        assert answer is not None
        (told,) = pb.ExecuteTransactionsResponse.FromString(answer).responses
        assert told.transaction.state == pb.TS_APPLIED
        call.finish()


def test_what_is_asked_meanwhile_travels_together(asked: tuple[Line, list[Silent], LateClock]) -> None:
    given, made, _ = asked
    with ThreadPoolExecutor(5) as threads:
        answers = [threads.submit(given.ask, pb.ExecuteTransactionRequest())]
        until(lambda: bool(made and made[0].sent))
        for count in range(2, 6):
            answers.append(threads.submit(given.ask, pb.ExecuteTransactionRequest()))
            until(lambda count=count: len(given._waiting) == count)  # type: ignore[misc]
        assert made[0].sent == [[1]], "one message at a time"
        made[0].happened.put(None)
        until(lambda: len(made[0].sent) == 2)
        assert made[0].sent == [[1], [2, 3, 4, 5]]
        # The one who looks first gets his answer, and another one looks on.
        for numbers in ((1, 4), (5,), (2, 3)):
            made[0].answer(*numbers)
        assert [one.result(30).version for one in answers] == [1, 2, 3, 4, 5]
    assert len(made) == 1


def test_what_is_large_is_not_put_together(
    asked: tuple[Line, list[Silent], LateClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, made, _ = asked
    monkeypatch.setattr(lines, "_MOST_TOGETHER", 250)
    with ThreadPoolExecutor(5) as threads:
        answers = []
        for count in range(1, 6):
            answers.append(threads.submit(given.ask, pb.ExecuteTransactionRequest(work=bytes(100))))
            until(lambda count=count: len(given._waiting) == count)  # type: ignore[misc]
        for _ in range(3):
            made[0].happened.put(None)
        until(lambda: len(made[0].sent) == 3)
        assert made[0].sent == [[1], [2, 3], [4, 5]]
        made[0].answer(1, 2, 3, 4, 5)
        assert [one.result(30).version for one in answers] == [1, 2, 3, 4, 5]


@pytest.mark.timeout(60)
def test_one_thread_asks_on_and_others_join_it(server: Running, lake: Lake) -> None:
    calls = channel(server)
    for number in range(16):
        assert calls.execute(request(lake, number)).transaction.state == pb.TS_APPLIED
    later = [[request(lake, 100 * thread + number) for number in range(5)] for thread in range(1, 5)]
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda some: [*map(calls.execute, some)], later):
            pass
    for number in range(20, 36):
        calls.execute(request(lake, number))
    server.stop(grace=3600)
    with pytest.raises((CommitUnknown, Unavailable)):
        calls.execute(request(lake, 40))
    alone = [*range(16), *range(20, 36)]
    assert numbers_in(lake) == [*alone, *(100 * thread + number for thread in range(1, 5) for number in range(5))]


def test_who_was_answered_together_asks_together(asked: tuple[Line, list[Silent], LateClock]) -> None:
    """And who does not come back holds nobody up for long."""
    given, made, clock = asked
    slept = threading.Event()
    come = threading.Event()

    def sleep(seconds: float) -> None:
        slept.set()
        come.wait(30)

    clock.sleep = sleep  # type: ignore[assignment]
    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(given.ask, pb.ExecuteTransactionRequest())]
        until(lambda: bool(made and made[0].sent))
        answers += [threads.submit(given.ask, pb.ExecuteTransactionRequest()) for _ in range(2)]
        until(lambda: len(given._waiting) == 3)
        made[0].happened.put(None)
        until(lambda: len(made[0].sent) == 2)
        made[0].happened.put(None)
        made[0].answer(1, 2, 3)
        assert sorted(one.result(30).version for one in answers) == [1, 2, 3]
        again = [threads.submit(given.ask, pb.ExecuteTransactionRequest())]
        assert slept.wait(30), "two others may come"
        again.append(threads.submit(given.ask, pb.ExecuteTransactionRequest()))
        until(lambda: len(given._waiting) == 2)
        assert len(made[0].sent) == 2
        come.set()
        until(lambda: len(made[0].sent) == 3)
        assert made[0].sent[2] == [4, 5], "the third did not come"
        made[0].happened.put(None)
        made[0].answer(4, 5)
        assert sorted(one.result(30).version for one in again) == [4, 5]


@pytest.mark.timeout(60)
def test_who_has_waited_for_others_is_sent_though_more_are_answered_just_then(
    asked: tuple[Line, list[Silent], LateClock],
) -> None:
    """They may never come back, and then nobody else sends what he asks."""
    given, made, _ = asked
    plain = given._send

    def late() -> None:
        given._away = 2
        plain()

    given._send = late  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as threads:
        given._away = 2
        answer = threads.submit(given.ask, pb.ExecuteTransactionRequest())
        until(lambda: bool(made and made[0].sent))
        made[0].answer(1)
        assert answer.result(30).version == 1


@pytest.mark.timeout(60)
def test_who_finds_the_pen_taken_is_sent_all_the_same(asked: tuple[Line, list[Silent], LateClock]) -> None:
    given, made, _ = asked
    with ThreadPoolExecutor(1) as threads:
        with given._pen:
            answer = threads.submit(given.ask, pb.ExecuteTransactionRequest())
            until(lambda: len(given._waiting) == 1)
        given._glance()
        until(lambda: bool(made[0].sent))
        made[0].happened.put(None)
        made[0].answer(1)
        assert answer.result(30).version == 1


@pytest.mark.timeout(60)
def test_who_asks_after_one_who_left_while_he_was_being_sent_is_sent_too(
    asked: tuple[Line, list[Silent], LateClock],
) -> None:
    given, made, _ = asked

    def interrupted() -> bytes:
        raise KeyboardInterrupt

    made.append(Silent())
    given._call = made[0]
    made[0].next = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        given.ask(pb.ExecuteTransactionRequest())
    made[0].next = lambda: Silent.next(made[0])  # type: ignore[method-assign]
    made[0].done = True
    given._glance()
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(given.ask, pb.ExecuteTransactionRequest())
        until(lambda: made[0].sent == [[1], [2]])
        made[0].answer(2)
        assert answer.result(30).version == 2


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", ["sending", "telling"])
def test_nobody_waits_for_what_was_interrupted(
    asked: tuple[Line, list[Silent], LateClock], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whoever asked after a Ctrl-C at that moment waited for a minute, and was told that nothing is known."""
    given, made, _ = asked

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    made.append(Silent())
    given._call = made[0]
    with monkeypatch.context() as patch:
        if where == "sending":
            patch.setattr(made[0], "send", interrupted)
        else:
            made[0].answer(1)
            patch.setattr(given, "_tell", interrupted)
        with pytest.raises(KeyboardInterrupt):
            given.ask(pb.ExecuteTransactionRequest())
    with pytest.raises(Failed):
        given.ask(pb.ExecuteTransactionRequest())
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(given.ask, pb.ExecuteTransactionRequest())
        until(lambda: len(made) == 2 and made[1].sent == [[3]])
        made[1].answer(3)
        assert answer.result(30).version == 3
