"""Transactions over calls that stay open: an answer for each, refusals included, and no call outlives its use."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from seiche import CommitUnknown, InvalidInput, Lake, PermissionDenied
from seiche.core.clock import SystemClock
from seiche.core.retry import Patience
from seiche.service import transactions_pb2 as pb
from seiche.service.auth import READ, Tokens
from seiche.service.client import lines
from seiche.service.client.channel import Address, Channel
from seiche.service.client.lines import Lines
from seiche.service.host import Host
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from tests.service_lake import appending, numbers_in

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
    assert calls._lines is not None
    assert len(calls._lines._free) == 1, "all of them over one call"
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
    with pytest.raises(CommitUnknown):
        calls.execute(request(lake, 2))
    assert numbers_in(lake) == [1]


class Cancelled(grpc.RpcError):  # type: ignore[misc]
    """What gRPC raises when a call was cancelled."""


class Silent:
    """A call that is answered only if somebody lets it be."""

    def __init__(self, questions: Iterator[Any], metadata: Any) -> None:
        self.questions = questions
        self.ended = threading.Event()
        self.answers: list[str] = []

    def __next__(self) -> str:
        next(self.questions)
        if self.answers:
            return self.answers.pop()
        assert self.ended.wait(30)
        raise Cancelled

    def cancel(self) -> None:
        self.ended.set()


class LateClock(SystemClock):
    def __init__(self) -> None:
        self.later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


def ask_in_vain(given: Lines) -> None:
    with pytest.raises(Cancelled):
        given.ask(pb.DescribeLakeRequest())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> tuple[Lines, list[Silent], LateClock]:
    monkeypatch.setattr(lines, "_LOOK_SECONDS", 0.01)
    made: list[Silent] = []
    clock = LateClock()

    def method(questions: Iterator[Any], metadata: Any) -> Silent:
        made.append(Silent(questions, metadata))
        made[-1].answers = ["first"] if len(made) == 1 else []
        return made[-1]

    return Lines(method, None, clock, 60.0), made, clock


def test_who_waits_too_long_is_let_go(asked: tuple[Lines, list[Silent], LateClock]) -> None:
    """gRPC would let him wait for ever."""
    given, made, clock = asked
    assert given.ask(pb.DescribeLakeRequest()) == "first"
    clock.later = 61.0
    made[0].answers = []
    waiting = threading.Thread(target=ask_in_vain, args=(given,))
    waiting.start()
    while not given._due:
        waiting.join(0.001)
    clock.later = 200.0
    waiting.join(30)
    assert not waiting.is_alive()
    assert given._free == [], "it is not used again"
    given.close()


def test_those_who_ask_at_once_have_a_call_each(asked: tuple[Lines, list[Silent], LateClock]) -> None:
    given, made, _ = asked
    threads = [threading.Thread(target=ask_in_vain, args=(given,)) for _ in range(2)]
    assert given.ask(pb.DescribeLakeRequest()) == "first"
    for thread in threads:
        thread.start()
    while len(given._due) < 2:
        threads[0].join(0.001)
    assert len(made) == 2
    for one in made:
        one.cancel()
    for thread in threads:
        thread.join(30)
    given.close()
