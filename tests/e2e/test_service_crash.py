"""Servers that are killed and answers that are lost, under load: every acknowledged commit is there once, and no other
twice.
"""

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seiche
from seiche.core.retry import Patience
from seiche.errors import SeicheError
from seiche.service import transactions_pb2 as pb
from seiche.service.client import channel, lines, signs
from seiche.service.client.channel import Address, Channel
from seiche.service.states import State
from tests.cutting_proxy import cutting_proxy
from tests.databases import restartable
from tests.service_lake import make_lake, numbers_in, payload, rows
from tests.service_process import serving

CLIENTS = 8
PATIENCE = Patience(attempts=60, timeout=60.0, first_delay=0.05, longest_delay=0.5)


class Client:
    """Appends numbered rows, one in each transaction, in both ways; asks again until it knows what became of each."""

    def __init__(self, address: str, table: str, fragments: list[bytes], number: int) -> None:
        self.channel = Channel(Address.parse(address), patience=PATIENCE)
        self.table = table
        self.fragments = fragments
        self.number = number
        self.told: dict[str, tuple[int, int]] = {}
        self.failures: list[str] = []

    def run(self) -> None:
        for number, data in enumerate(self.fragments):
            self.append(number, data)

    def run_until(self, lake: seiche.Lake, stop: threading.Event) -> None:
        while not stop.is_set():
            number = len(self.told)
            fragments = rows(lake, "shop.orders", self.number, [number])
            self.append(number, payload(lake, "shop.orders", fragments, 1))

    def append(self, number: int, data: bytes) -> None:
        try:
            tx = self.execute(number, data) if number % 2 else self.step_by_step(number, data)
        except SeicheError as error:
            self.failures.append(f"{number}: {error}")
        else:
            self.told[tx.tx_id] = (number, tx.state)

    def execute(self, number: int, data: bytes) -> pb.Transaction:
        request = pb.ExecuteTransactionRequest(base_version=0)
        request.idempotency.key = f"{self.number}-{number}"
        request.changes.add(table_fq=self.table, payload=data)
        if self.number % 2:
            return self.again(lambda: self.channel.execute(request))
        return self.again(lambda: self.channel.call("ExecuteTransaction", request, pb.ExecuteTransactionResponse))

    def step_by_step(self, number: int, data: bytes) -> pb.Transaction:
        begin = pb.BeginTransactionRequest()
        begin.idempotency.key = f"{self.number}-{number}"
        tx = self.again(lambda: self.channel.call("BeginTransaction", begin, pb.BeginTransactionResponse))
        prepare = pb.PrepareTransactionRequest(tx_id=tx.tx_id)
        prepare.changes.add(table_fq=self.table, payload=data)
        if tx.state == pb.TS_OPEN:
            self.again(lambda: self.channel.call("PrepareTransaction", prepare, pb.PrepareTransactionResponse))
        commit = pb.CommitTransactionRequest(tx_id=tx.tx_id)
        return self.again(lambda: self.channel.call("CommitTransaction", commit, pb.CommitTransactionResponse))

    @staticmethod
    def again(call: Callable[[], Any]) -> pb.Transaction:
        """Until it is answered for good."""
        for _ in range(100):
            try:
                tx: pb.Transaction = call().transaction
            except seiche.CommitUnknown:
                continue
            if tx.state != pb.TS_APPLY_FAILED_RETRYABLE:
                return tx
            time.sleep(0.05)
        raise AssertionError("never answered")


def clients(lake: seiche.Lake, address: str, each: int) -> list[Client]:
    made = []
    for number in range(CLIENTS):
        data = [payload(lake, "shop.orders", rows(lake, "shop.orders", number, [one]), 1) for one in range(each)]
        made.append(Client(address, "lake.shop.orders", data, number))
    return made


def check(lake: seiche.Lake, crowd: list[Client], each: int) -> None:
    for client in crowd:
        assert client.failures == []
        assert {state for _, state in client.told.values()} == {int(State.APPLIED)}
        assert numbers_in(lake, writer=client.number) == list(range(each)), "each exactly once"
        assert {lake.status(tx).outcome for tx in client.told} == {"committed"}


def run_all(crowd: list[Client], meanwhile: Callable[[Callable[[], bool]], None]) -> None:
    threads = [threading.Thread(target=client.run) for client in crowd]
    for thread in threads:
        thread.start()
    meanwhile(lambda: any(thread.is_alive() for thread in threads))
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_lost_answers(tmp_path: Path) -> None:
    """The proxy loses answers: what was done is not done again."""
    each = 6
    lake = make_lake(tmp_path)
    with serving(tmp_path) as server, cutting_proxy(("127.0.0.1", server.port)) as proxy:
        crowd = clients(lake, f"grpc://127.0.0.1:{proxy.port}", each)

        def lose(running: Callable[[], bool]) -> None:
            for _ in range(12):
                done = sum(len(client.told) for client in crowd)
                while running() and sum(len(client.told) for client in crowd) < done + 2:
                    time.sleep(0.005)
                proxy.cuts += 1

        run_all(crowd, lose)
        check(lake, crowd, each)
        assert proxy.cut >= 5


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_servers_on_postgresql(
    tmp_path: Path, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    """Half of the clients talk to the one, half to the other. One is killed every few seconds, the database restarted.

    Two minutes in the long form.
    """
    lake = make_lake(tmp_path)
    kills, stop = 0, threading.Event()
    with (
        restartable() as (state, restart),
        serving(tmp_path, state=state) as first,
        serving(tmp_path, state=state) as second,
    ):
        crowd = [Client((first, second)[one % 2].address, "lake.shop.orders", [], one) for one in range(CLIENTS)]
        threads = [threading.Thread(target=client.run_until, args=(lake, stop)) for client in crowd]
        for thread in threads:
            thread.start()
        until = time.monotonic() + effort(0, 120)
        while kills < 2 or time.monotonic() < until:
            done = sum(len(client.told) for client in crowd)
            # Not by the clock alone: each life of a server has to get something done.
            while sum(len(client.told) for client in crowd) < done + 8:
                time.sleep(0.01)
            stop.wait(effort(0, 3))
            (first, second)[kills % 2].kill()
            if kills == 1:
                restart()
            (first, second)[kills % 2].start()
            kills += 1
        stop.set()
        for thread in threads:
            thread.join()
        for client in crowd:
            check(lake, [client], len(client.told))
    record_property("kills", kills)
    record_property("commits", sum(len(client.told) for client in crowd))


def test_a_stop_answers_those_who_wait(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    with serving(tmp_path) as server:
        crowd = clients(lake, server.address, 2)
        threads = [threading.Thread(target=client.run) for client in crowd]
        for thread in threads:
            thread.start()
        while sum(len(client.told) for client in crowd) < 2:
            time.sleep(0.005)
        assert server.end() == 0, "asked to stop, it stops in order"
        server.start()
        for thread in threads:
            thread.join()
        check(lake, crowd, 2)


def test_locks_of_the_dead_are_free_when_their_time_is_up(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    table = lake.table("shop.orders").row.id

    def prepare(channel: Channel, name: str) -> None:
        begin = pb.BeginTransactionRequest()
        begin.ttl.seconds = 2
        tx = channel.call("BeginTransaction", begin, pb.BeginTransactionResponse).transaction.tx_id
        request = pb.PrepareTransactionRequest(tx_id=tx)
        change = request.changes.add()
        change.table_id.id = table
        change.table.display_name = name
        change.table.resource_id.account_id, change.table.resource_id.id = "default", table
        channel.call("PrepareTransaction", request, pb.PrepareTransactionResponse)

    with serving(tmp_path) as first, serving(tmp_path) as second:
        channels = [Channel(Address.parse(one.address), patience=PATIENCE) for one in (first, second)]
        for channel in channels:
            channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse)
        prepare(channels[0], "first")
        first.kill()
        with pytest.raises(seiche.RetryableConflict) as caught:
            prepare(channels[1], "second")
        assert caught.value.reason == "target.locked"
        for _ in range(200):
            try:
                prepare(channels[1], "second")
                break
            except seiche.RetryableConflict:
                time.sleep(0.1)
        else:
            raise AssertionError("the lock was never free")


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_who_waits_for_a_server_that_is_stopped_is_told(
    tmp_path: Path, effort: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes from it, and nothing is closed. It is not the time of the call that ends it."""
    monkeypatch.setattr(channel, "_CALL_SECONDS", 3600.0)
    if not effort(0, 1):
        soon = tuple(
            (name, value and 300 if name.endswith(("_time_ms", "_timeout_ms")) else value)
            for name, value in channel._OPTIONS
        )
        monkeypatch.setattr(channel, "_OPTIONS", soon)
        for name, seconds in (("_SILENT", 0.1), ("_LATEST", 0.2)):
            monkeypatch.setattr(signs, name, seconds)
        monkeypatch.setattr(lines, "_LONGEST_LOOK", 0.1)
    lake = make_lake(tmp_path)
    with serving(tmp_path) as server:
        calls = Channel(Address.parse(server.address), patience=Patience(attempts=1))
        request = pb.ExecuteTransactionRequest(tx_id=str(uuid.uuid4()), base_version=0)
        fragments = rows(lake, "shop.orders", 1, [1])
        request.changes.add(table_fq="lake.shop.orders", payload=payload(lake, "shop.orders", fragments, 1))

        def ask() -> None:
            calls.execute(request)
            calls.call("ExecuteTransaction", request, pb.ExecuteTransactionResponse)

        ask()
        server.pause()
        with pytest.raises(seiche.CommitUnknown):
            calls.execute(request)
        with pytest.raises(seiche.CommitUnknown):
            calls.call("ExecuteTransaction", request, pb.ExecuteTransactionResponse)
        server.resume()
        ask()
    assert numbers_in(lake, writer=1) == [1]
