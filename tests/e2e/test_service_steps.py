"""A server that is killed with -9 at every step of begin, prepare, commit and abort, with eight clients at it."""

import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

import seiche
from seiche.core.retry import Patience
from seiche.errors import SeicheError
from seiche.service import transactions_pb2 as pb
from seiche.service.client.channel import Address, Channel
from tests.dying_server import STEPS
from tests.service_lake import make_lake, numbers_in, payload, rows
from tests.service_process import free_port

PATIENCE = Patience(attempts=200, timeout=60.0, first_delay=0.02, longest_delay=0.1)
TTL = 2
# The short form has only those after which something is half done.
MATTER_MOST = (
    "after-claim",
    "after-prepare",
    "after-start",
    "before-root",
    "after-root",
    "before-note",
    "before-finish",
    "after-abandon",
    "before-settle",
    "after-settle",
)


@dataclass(frozen=True)
class Told:
    """What a client knows for certain about one of its transactions."""

    tx: str
    state: int
    number: int


class Client:
    """Appends numbered rows until it is told to stop: in one call, in three, or begun and given up again.

    Whoever gives up does so at the first sign of trouble, when a commit may or may not have begun.
    """

    def __init__(self, address: str, lake: seiche.Lake, writer: int) -> None:
        self.channel = Channel(Address.parse(address), patience=PATIENCE)
        self.hasty = Channel(Address.parse(address), patience=Patience(1, 5.0, 0.01, 0.01))
        self.lake = lake
        self.writer = writer
        self.kind = (self.execute, self.steps, self.give_up)[writer % 3]
        self.told: list[Told] = []
        self.sent: list[bytes] = []
        self.failure: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                number = len(self.sent)
                fragments = rows(self.lake, "shop.orders", self.writer, [number])
                self.sent.append(payload(self.lake, "shop.orders", fragments, 1))
                self.told.append(self.kind(number))
        except BaseException as error:
            self.failure = error

    def repeat(self) -> list[Told]:
        """All requests once more, under their keys and ids."""
        return [self.kind(number) for number in range(len(self.told))]

    def execute(self, number: int) -> Told:
        request = pb.ExecuteTransactionRequest(base_version=0)
        request.changes.add(table_fq="lake.shop.orders", payload=self.sent[number])
        if self.writer % 2:
            # As `seiche.connect` does: what has an id is written down once, after; what has a key, before too.
            request.tx_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.writer}-{number}"))
            return self.until_decided(lambda: self.channel.execute(request).transaction, number)
        request.idempotency.key = f"{self.writer}-{number}"
        return self.until_decided(
            lambda: self.channel.call("ExecuteTransaction", request, pb.ExecuteTransactionResponse).transaction, number
        )

    def steps(self, number: int) -> Told:
        tx = self.prepared(number)
        request = pb.CommitTransactionRequest(tx_id=tx)
        request.idempotency.key = f"commit-{self.writer}-{number}"
        return self.until_decided(
            lambda: self.channel.call("CommitTransaction", request, pb.CommitTransactionResponse).transaction, number
        )

    def give_up(self, number: int) -> Told:
        tx = self.prepared(number)
        commit = pb.CommitTransactionRequest(tx_id=tx)
        abort = pb.AbortTransactionRequest(tx_id=tx, reason="given up")
        try:
            if number % 2:
                self.hasty.call("CommitTransaction", commit, pb.CommitTransactionResponse)
            self.channel.call("AbortTransaction", abort, pb.AbortTransactionResponse)
        except SeicheError:
            pass
        get = pb.GetTransactionRequest(tx_id=tx)
        return self.until_decided(
            lambda: self.channel.call("GetTransaction", get, pb.GetTransactionResponse).transaction, number, abort
        )

    def prepared(self, number: int) -> str:
        begin = pb.BeginTransactionRequest()
        begin.ttl.seconds = 60
        begin.idempotency.key = f"begin-{self.writer}-{number}"
        tx = self.ask("BeginTransaction", begin, pb.BeginTransactionResponse).transaction
        if tx.state in (pb.TS_OPEN, pb.TS_PREPARED):
            prepare = pb.PrepareTransactionRequest(tx_id=tx.tx_id)
            prepare.idempotency.key = f"prepare-{self.writer}-{number}"
            prepare.changes.add(table_fq="lake.shop.orders", payload=self.sent[number])
            self.ask("PrepareTransaction", prepare, pb.PrepareTransactionResponse)
        return str(tx.tx_id)

    def ask(self, method: str, request: Message, answer: type[Message]) -> Any:
        """Until there is an answer; for those who die while they are at it the next one will have it."""
        for _ in range(20):
            with suppress(seiche.CommitUnknown, seiche.Unavailable):
                return self.channel.call(method, request, answer)
        raise AssertionError("never answered")

    def until_decided(
        self, call: Callable[[], pb.Transaction], number: int, abort: pb.AbortTransactionRequest | None = None
    ) -> Told:
        final = (pb.TS_APPLIED, pb.TS_ABORTED, pb.TS_APPLY_FAILED_CONFLICT)
        # Some lives let one call through and no more, and last ten seconds where others need the processors as well.
        until = time.monotonic() + 600
        while time.monotonic() < until:
            try:
                found = call()
                if found.state in final:
                    return Told(found.tx_id, found.state, number)
                if abort is not None:
                    self.channel.call("AbortTransaction", abort, pb.AbortTransactionResponse)
            except seiche.InvalidInput as error:
                # Aborted already, by the one who gave up: committing is refused.
                if error.reason not in ("transaction.not-prepared", "transaction.already-committed"):
                    raise
            except (seiche.CommitUnknown, seiche.Unavailable):
                pass
            time.sleep(0.01)
        raise AssertionError("never decided")


@contextmanager
def dying(folder: Path, steps: list[str]) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    port = str(free_port())
    command = [sys.executable, "-m", "tests.dying_server", port, str(folder / "lake"), f"sqlite://{folder}/state.db"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([*command, *steps], stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            yield f"grpc://127.0.0.1:{port}", process
        finally:
            subprocess.run(["pkill", "-9", "-P", str(process.pid)], check=False)
            process.kill()


def prepare_exclusively(channel: Channel, table: str, name: str) -> str:
    begin = pb.BeginTransactionRequest()
    begin.ttl.seconds = TTL
    tx = channel.call("BeginTransaction", begin, pb.BeginTransactionResponse).transaction.tx_id
    request = pb.PrepareTransactionRequest(tx_id=tx)
    change = request.changes.add()
    change.table_id.id = table
    change.table.display_name = name
    change.table.resource_id.account_id, change.table.resource_id.id = "default", table
    channel.call("PrepareTransaction", request, pb.PrepareTransactionResponse)
    return tx


def keep_locking(channel: Channel, table: str, done: Callable[[], bool], overdue: list[float]) -> None:
    """Take a lock and leave it behind, again and again until it is `done`.

    Of each refusal note how long before it was asked for the lock's time was up: less than nothing, however long the
    server was dead meanwhile.
    """
    reasons = ("target.locked", "transaction.expired", "transaction.not-open", "idempotency.pending")
    while not done():
        asked = time.time()
        try:
            prepare_exclusively(channel, table, "mine")
        except seiche.SeicheError as error:
            reason = error.details.get("reason")
            if reason == "target.locked":
                overdue.append(asked - TTL - int(str(error.details["since"])) / 1000)
            # Locked still, or nobody there; or so long nobody there that its own time was up.
            elif reason not in reasons and not isinstance(error, (seiche.CommitUnknown, seiche.Unavailable)):
                raise
            time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_every_step(
    tmp_path: Path, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    lake = make_lake(tmp_path)
    steps = [f"{step}:2" for step in MATTER_MOST]
    if effort(0, 1):
        steps = [f"{step}:{nth}" for nth in range(2, 8) for step in STEPS]
    died: list[str] = []
    stop = threading.Event()
    with dying(tmp_path, steps) as (address, process):
        crowd = [Client(address, lake, writer) for writer in range(8)]
        threads = [threading.Thread(target=client.run, args=(stop,)) for client in crowd]
        overdue: list[float] = []
        carts = lake.table("shop.carts").row.id
        locker = threading.Thread(target=keep_locking, args=(crowd[0].channel, carts, stop.is_set, overdue))
        for thread in (*threads, locker):
            thread.start()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(("died", "never")):
                died.append(line.strip())
            if len(died) == len(steps):
                break
        stop.set()
        for thread in (*threads, locker):
            thread.join()
        assert [client.failure for client in crowd] == [None] * 8
        assert died == [f"died {step}" for step in steps]
        record_property("lives", len(died))
        # Where a server is dead for longer than a lock lasts, none may have been found taken until now.
        keep_locking(crowd[0].channel, carts, lambda: bool(overdue), overdue)
        time.sleep(TTL)
        assert max(overdue) <= 0, f"a lock was not free when its time was up: {overdue}"
        check_all(lake, crowd, record_property)
        check_locks(crowd[0].channel, lake, tmp_path)
    assert not lake.fsck().problems


def check_all(lake: seiche.Lake, crowd: list[Client], record_property: Callable[[str, object], None]) -> None:
    """Every acknowledged commit once, what was given up never, and the first answers again for whoever asks again."""
    applied = 0
    for client in crowd:
        wanted = [one.number for one in client.told if one.state == pb.TS_APPLIED]
        assert numbers_in(lake, writer=client.writer) == wanted, "each acknowledged commit exactly once"
        if client.kind != client.give_up:
            assert len(wanted) == len(client.told), "nobody was in anybody's way"
        applied += len(wanted)
        for one in client.told:
            if one.state == pb.TS_APPLIED:
                assert lake.status(one.tx).outcome == "committed"
    record_property("applied", applied)
    before = lake.version
    for client in crowd:
        assert client.repeat() == client.told
    assert lake.version == before, "asking again changes nothing"


def check_locks(channel: Channel, lake: seiche.Lake, folder: Path) -> None:
    """Nobody holds anything any more: not the dead, once their time is up, nor those that were decided."""
    for table in ("shop.orders", "shop.carts"):
        tx = prepare_exclusively(channel, lake.table(table).row.id, "mine")
        channel.call("AbortTransaction", pb.AbortTransactionRequest(tx_id=tx), pb.AbortTransactionResponse)
    left = -1
    until = time.monotonic() + 20
    with closing(sqlite3.connect(folder / "state.db")) as state:
        while left and time.monotonic() < until:
            ((left,),) = state.execute("SELECT count(*) FROM seiche_intents").fetchall()
            time.sleep(0.1)
    assert left == 0
