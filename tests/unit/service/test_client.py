"""`seiche.connect`: the transactions of a lake, decided by a server."""

import gc
import multiprocessing
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import seiche
from seiche import (
    CommitUnknown,
    ConflictError,
    InvalidInput,
    Lake,
    NotFound,
    PermissionDenied,
    RetryableConflict,
    Unavailable,
)
from seiche.core.retry import Patience
from seiche.lake.commit.committer import Committer
from seiche.lake.transaction import Transaction
from seiche.service import transactions_pb2 as pb
from seiche.service.auth import Authenticator, Principal, Tokens
from seiche.service.client import RemoteLake, channel, connect, remote
from seiche.service.client.channel import Address, Channel
from seiche.service.client.direct import DirectCall
from seiche.service.client.lines import Failed
from seiche.service.host import Host
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from seiche.service.states import State
from tests.service_lake import SCHEMA, make_lake, numbers_in, payload, rows, shifted


@pytest.fixture
def server(lake: Lake, tmp_path: Path) -> Iterator[Running]:
    with running(Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"))) as made:
        yield made


@pytest.fixture
def client(server: Running) -> Iterator[RemoteLake]:
    with connect(server.address, durability="os") as made:
        assert isinstance(made, RemoteLake)
        yield made


def data(*numbers: int) -> pa.Table:
    return pa.table({"writer": [1] * len(numbers), "number": list(numbers)}, schema=SCHEMA)


def until(holds: Callable[[], object]) -> None:
    moment = threading.Event()
    while not holds():
        moment.wait(0.001)


def decided(server: Running) -> int:
    return server.server.host.services["default"].group.figures.decided


def test_statements_in_a_transaction(client: RemoteLake, server: Running, lake: Lake) -> None:
    with client.transaction() as tx:
        tx.append("shop.orders", data(1, 2))
        tx.append("shop.orders", data(3))
        tx.append("shop.stock", data(4))
        assert tx.table("shop.orders").to_arrow().num_rows == 3, "reads its own writes"
    assert tx.version == lake.version
    assert lake.status(tx.id).outcome == "committed"
    assert (numbers_in(lake), numbers_in(lake, "shop.stock")) == ([1, 2, 3], [4])
    record = server.server.host.services["default"].get(tx.id)
    until(lambda: decided(server) == 1)  # counted after it is told
    assert record.state is State.APPLIED


def test_every_verb_goes_through_the_server(client: RemoteLake, server: Running, lake: Lake) -> None:
    client.create_table("shop.new", SCHEMA)
    table = client.table("shop.new")
    table.append(data(1, 2, 3))
    table.delete("number = 1")
    table.update({"number": "number + 10"}, where="number = 2")
    table.merge(data(12, 99), on="number").when_not_matched_insert_all().execute()
    table.compact()
    client.rename_table("shop.new", "shop.other")
    client.create_namespace("attic")
    assert numbers_in(lake, "shop.other") == [3, 12, 99]
    # The merge reads and inserts in one transaction; compaction may need more than one.
    until(lambda: decided(server) >= 8)  # the last is counted after it is told
    client.drop_table("shop.other")
    assert ("shop", "other") not in lake.tables("shop")


@pytest.mark.parametrize("days", [-400, -3, 3])
def test_a_client_whose_clock_is_wrong(server: Running, lake: Lake, days: int) -> None:
    runtime, clock = shifted()
    clock.later = timedelta(days=days)
    with connect(server.address, durability="os", runtime=runtime) as client:
        client.table("shop.orders").append(data(1, 2, 3))
        client.table("shop.orders").delete("number = 1")
        with client.transaction(isolation="serializable") as tx:
            tx.update("shop.orders", {"number": "number * 10"}, where="number = 2")
            tx.append("shop.stock", tx.table("shop.orders").to_arrow())
    assert numbers_in(lake, "shop.orders") == numbers_in(lake, "shop.stock") == [3, 20]


@pytest.mark.parametrize("answered", ["told", "lost", "replayed"])
@pytest.mark.parametrize("verb", ["append", "update", "delete"])
def test_a_result_has_the_version_that_it_made(client: RemoteLake, lake: Lake, verb: str, answered: str) -> None:
    """Not the one that it would have made if nobody else had come."""
    table = client.table("shop.orders")
    table.append(data(1, 2))
    execute = client.channel.execute

    def late(request: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        for number in (10, 11):
            lake.table("shop.orders").append(data(number))
        answer = execute(request)
        if answered == "lost":
            raise CommitUnknown("the answer was lost")
        if answered == "replayed":
            lake.table("shop.orders").append(data(12))
            return execute(request)
        return answer

    client.channel.execute = late  # type: ignore[method-assign]
    if verb == "append":
        result = table.append(data(3))
    elif verb == "update":
        result = table.update({"number": "number + 100"}, where="number = 1")
    else:
        result = table.delete("number = 1")
    expected = {"append": [1, 2, 3, 10, 11], "update": [2, 10, 11, 101], "delete": [2, 10, 11]}
    then = seiche.open(lake.uri, version=str(result.notes["lake_version"]))
    assert numbers_in(then) == expected[verb]
    assert then.table("shop.orders").version == result.version
    assert result.version == lake.table("shop.orders").version - (answered == "replayed")


def test_members_of_a_group_know_their_own_versions(client: RemoteLake, server: Running, lake: Lake) -> None:
    """Two that change one table in one root make a version each."""
    client.table("shop.orders").append(data(1, 2))
    (service,) = server.server.host.services.values()
    decide, both = service.group._decider.decide, threading.Event()

    def wait(group: Any) -> None:
        both.wait(30)
        decide(group)

    service.group._decider.decide = wait  # type: ignore[method-assign]
    with ThreadPoolExecutor(3) as threads:
        # The first one keeps the server busy, so that the others are decided together.
        first = threads.submit(client.table("shop.stock").append, data(9))
        until(lambda: service.group._current)
        made = [threads.submit(client.table("shop.orders").delete, f"number = {number}") for number in (1, 2)]
        until(lambda: service.group.waiting == 2)
        both.set()
        versions = [one.result(30).version for one in made]
        first.result(30)
    assert len(set(versions)) == 2
    assert max(versions) == lake.table("shop.orders").version
    assert numbers_in(lake) == []


def test_conflicts_are_what_they_are_without_a_server(client: RemoteLake, lake: Lake) -> None:
    client.table("shop.orders").append(data(1, 2, 3))
    first, second = client.transaction(), client.transaction()
    first.delete("shop.orders", "number = 1")
    second.delete("shop.orders", "number = 1")
    first.commit()
    with pytest.raises(RetryableConflict):
        second.commit()
    reader = client.transaction("serializable")
    reader.table("shop.orders").to_arrow()
    reader.append("shop.stock", data(1))
    lake.table("shop.orders").append(data(7))
    with pytest.raises(ConflictError):
        reader.commit()
    assert numbers_in(lake, "shop.stock") == []


def test_what_is_not_there_any_more_is_called_that(client: RemoteLake) -> None:
    for number in range(3):
        client.table("shop.orders").append(data(number))
    client.expire(older_than=0, keep=1)
    with pytest.raises(NotFound, match="expired"):
        client.table("shop.orders").restore(2)


@pytest.mark.parametrize("answered", ["told", "lost"])
@pytest.mark.parametrize("met", ["rows", "overwritten", "read", "name"])
def test_a_conflict_says_as_much_as_without_a_server(
    client: RemoteLake, lake: Lake, monkeypatch: pytest.MonkeyPatch, met: str, answered: str
) -> None:
    """Who won and when, also for programs: not only in its text. Also to whoever asks again, the answer being lost."""
    client.table("shop.orders").append(data(1, 2, 3))
    told = []
    both = [one.transaction("serializable" if met == "read" else "snapshot") for one in (lake, client)]
    for tx in both:
        match met:
            case "rows":
                tx.delete("shop.orders", "number = 1")
            case "overwritten":
                tx.append("shop.orders", data(4))
            case "read":
                tx.table("shop.orders").to_arrow()
                tx.append("shop.stock", data(1))
            case "name":
                tx.create_table("shop.fresh", SCHEMA)
    with lake.transaction() as winner:
        match met:
            case "rows":
                winner.delete("shop.orders", "number = 1")
            case "name":
                winner.create_table("shop.fresh", SCHEMA)
            case _:
                winner.overwrite("shop.orders", data(5))
    if answered == "lost":
        execute = client.channel.execute
        monkeypatch.setattr(client.channel, "execute", lambda request: (execute(request), execute(request))[1])
    for tx in both:
        with pytest.raises(ConflictError) as caught:
            tx.commit()
        error = caught.value
        details = {name: value for name, value in error.details.items() if name not in ("transaction_id", "code")}
        told.append((type(error), error.message, error.remedy, details))
    assert told[0] == told[1]
    assert (told[1][3]["winner"], told[1][3]["winner_version"]) == (winner.id, winner.version)


def test_a_table_that_was_dropped_meanwhile_is_a_conflict(client: RemoteLake, lake: Lake) -> None:
    """The server only sees an id that means nothing to it; that it did mean something is known to the client."""
    told = []
    for here in (client, lake):
        transaction = here.transaction()
        transaction.append("shop.orders", data(1))
        lake.drop_table("shop.orders")
        with pytest.raises(RetryableConflict, match="it was dropped meanwhile") as caught:
            transaction.commit()
        error = caught.value
        assert (error.winner, error.winner_version) == (lake.log()[0].transactions[0].id, lake.version)
        told.append(error.message.split(" (")[0])
        lake.create_table("shop.orders", SCHEMA)
    assert told[0] == told[1]


@pytest.mark.parametrize("sent", [True, False])
def test_a_refusal_says_nothing_about_a_request_before_it_that_was_not_answered(
    client: RemoteLake, lake: Lake, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    line = client.channel._opened_line()
    assert line is not None
    ask = line.ask

    def lose(request: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        monkeypatch.setattr(line, "ask", ask)
        if sent:
            ask(request)
        lake.drop_table("shop.orders")
        raise Failed(grpc.StatusCode.UNAVAILABLE, "the answer was lost", ())

    transaction = client.transaction()
    transaction.append("shop.orders", data(1))
    monkeypatch.setattr(line, "ask", lose)
    if sent:
        transaction.commit()
        assert lake.status(transaction.id).outcome == "committed"
    else:
        with pytest.raises(CommitUnknown) as caught:
            transaction.commit()
        assert caught.value.details["transaction_id"] == transaction.id
        assert lake.status(transaction.id).outcome == "undecided"


@pytest.mark.parametrize("then", [Unavailable("the database is away"), InvalidInput("no", reason="table.not-found")])
def test_a_refusal_says_nothing_about_an_attempt_before_it_that_was_left_open(
    client: RemoteLake, monkeypatch: pytest.MonkeyPatch, then: Exception
) -> None:
    """The server could not find out whether its root stands, and is asked again."""
    answers: list[Any] = [pb.ExecuteTransactionResponse(), then]
    answers[0].transaction.state = pb.TS_APPLY_FAILED_RETRYABLE

    def answer(_: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    monkeypatch.setattr(client.channel, "execute", answer)
    transaction = client.transaction()
    transaction.append("shop.orders", data(1))
    with pytest.raises(CommitUnknown) as caught:
        transaction.commit()
    assert caught.value.details["transaction_id"] == transaction.id
    assert answers == []


def test_why_the_server_cannot_decide_is_told(client: RemoteLake, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> bool:
        raise PermissionDenied("the bucket says no", remedy="Ask its owner.")

    monkeypatch.setattr(remote, "_AGAIN", Patience(attempts=2, first_delay=0.001))
    monkeypatch.setattr(Committer, "_put", denied)
    transaction = client.transaction()
    transaction.append("shop.orders", data(1))
    with pytest.raises(CommitUnknown, match="could not decide the transaction: the bucket says no") as told:
        transaction.commit()
    assert told.value.remedy.startswith("Ask its owner. Ask with lake.status("), "what to do about it, too"


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    "lost",
    [
        ["INTERNAL"],  # what gRPC makes of a stream that a proxy has reset
        ["UNAVAILABLE", "UNIMPLEMENTED"],  # and of a proxy behind which there is nobody any more
        ["UNAVAILABLE", "PERMISSION_DENIED"],
        ["ABORTED", "DATA_LOSS"],
    ],
)
def test_what_somebody_on_the_way_says_is_nothing_about_what_was_done(
    client: RemoteLake, lake: Lake, monkeypatch: pytest.MonkeyPatch, lost: list[str], done: bool
) -> None:
    """Whoever is told that nothing was decided does it again, as another transaction."""
    line, codes = client.channel._opened_line(), [*lost]
    assert line is not None
    ask = line.ask

    def lose(request: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        if done:
            ask(request)
        raise Failed(grpc.StatusCode[codes.pop(0) if codes else lost[-1]], "", ())

    monkeypatch.setattr(line, "ask", lose)
    monkeypatch.setattr(client.channel, "_patience", Patience(attempts=3, first_delay=0))
    transaction = client.transaction()
    transaction.append("shop.orders", data(1))
    if done:
        transaction.commit()
        assert lake.status(transaction.id).outcome == "committed"
    else:
        with pytest.raises(CommitUnknown):
            transaction.commit()
    assert numbers_in(lake) == [1][: int(done)]


@pytest.mark.parametrize(("code", "kind"), [("PERMISSION_DENIED", PermissionDenied), ("UNIMPLEMENTED", InvalidInput)])
def test_who_is_turned_away_on_the_way_has_done_nothing(
    client: RemoteLake, monkeypatch: pytest.MonkeyPatch, code: str, kind: type[Exception]
) -> None:
    line = client.channel._opened_line()

    def refuse(_: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        raise Failed(grpc.StatusCode[code], "no", ())

    monkeypatch.setattr(line, "ask", refuse)
    with pytest.raises(kind, match="refused the call"):
        client.table("shop.orders").append(data(1))


def test_if_nobody_can_be_asked_it_is_not_known(client: RemoteLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither server nor storage answer: that says nothing about what they did before."""

    def lost(_: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        def away() -> None:
            raise Unavailable("storage is away")

        monkeypatch.setattr(type(client.states), "latest", lambda _: away())
        raise CommitUnknown("the answer was lost")

    transaction = client.transaction()
    transaction.append("shop.orders", data(1))
    monkeypatch.setattr(client.channel, "execute", lost)
    with pytest.raises(CommitUnknown) as caught:
        transaction.commit()
    assert caught.value.details["transaction_id"] == transaction.id


def test_what_was_decided_against_while_the_answer_was_lost_did_not_happen(
    client: RemoteLake, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        assert lake.settle(transaction.id).outcome == "aborted"
        raise CommitUnknown("the answer was lost")

    transaction = client.transaction()
    transaction.append("shop.orders", data(1))
    monkeypatch.setattr(client.channel, "execute", lost)
    with pytest.raises(RetryableConflict, match="aborted") as caught:
        transaction.commit()
    assert "Nothing was written" in caught.value.remedy
    assert lake.table("shop.orders").to_arrow().num_rows == 0


def test_files_are_there_and_last_before_the_server_hears_of_them(
    client: RemoteLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the client's word for it."""
    transaction = client.transaction()
    transaction.append("shop.orders", data(1))
    intent = transaction.intent()
    assert intent is not None
    assert intent.unflushed
    flushed: list[str] = []
    execute = client.channel.execute

    def heard(request: pb.ExecuteTransactionRequest) -> pb.ExecuteTransactionResponse:
        assert client.store.get("late/file") == b"late", "as it is left to the commit where storage is far away"
        assert set(intent.unflushed) <= set(flushed)
        return execute(request)

    monkeypatch.setattr(type(client.store), "flush", lambda _, paths: flushed.extend(paths))
    monkeypatch.setattr(client.channel, "execute", heard)
    client.decide(replace(intent, unwritten={"late/file": b"late"}))


@pytest.mark.parametrize("verb", ["append", "delete"])
def test_what_is_too_large_to_be_sent_did_not_happen(
    client: RemoteLake, lake: Lake, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """That is known before anything is sent; it is not tried again and again and then called unknown."""
    client.table("shop.orders").append(data(1))
    monkeypatch.setattr(channel, "_MOST_BYTES", 100)
    before = lake.version
    with pytest.raises(InvalidInput) as caught, client.transaction() as tx:
        _ = tx.append("shop.orders", data(2)) if verb == "append" else tx.delete("shop.orders", "number = 1")
    assert caught.value.reason == "request.too-large"
    assert "seiche.open" in caught.value.remedy
    assert (lake.version, numbers_in(lake)) == (before, [1])


def test_run_tries_again(client: RemoteLake, lake: Lake) -> None:
    client.table("shop.orders").append(data(1))
    calls = []

    def act(tx: Transaction) -> None:
        calls.append(1)
        tx.update("shop.orders", {"number": "number + 1"})
        if len(calls) == 1:
            lake.table("shop.orders").update({"number": "number + 10"})

    client.run(act)
    assert len(calls) == 2
    assert numbers_in(lake) == [12]


def test_a_key_is_applied_once(client: RemoteLake, lake: Lake) -> None:
    versions = []
    for _ in range(2):
        tx = client.transaction(key="nightly")
        tx.append("shop.orders", data(1))
        versions.append((tx.commit(), tx.replayed))
    assert versions == [(versions[0][0], False), (versions[0][0], True)]
    assert numbers_in(lake) == [1]


@pytest.mark.parametrize("verb", ["append", "delete"])
def test_a_key_is_not_used_up_by_a_conflict(client: RemoteLake, lake: Lake, verb: str) -> None:
    """Under a key the same work is done anew until it is applied; nobody has to be told that it never will be."""
    lake.table("shop.orders").append(data(1, 2))
    tx = client.transaction(key="nightly")
    if verb == "append":
        tx.append("shop.orders", data(3))
        lake.table("shop.orders").overwrite(data(1, 2))
    else:
        tx.delete("shop.orders", "number = 1")
        lake.table("shop.orders").update({"writer": "2"}, where="number = 1")
    with pytest.raises(ConflictError):
        tx.commit()
    assert lake.status(tx.id).outcome == "undecided"
    for _ in range(2):
        client.run(lambda again: again.append("shop.orders", data(4)), key="nightly")
    assert numbers_in(lake) == [1, 2, 4]


def test_epochs_of_a_stream(client: RemoteLake, lake: Lake) -> None:
    for epoch in (1, 1, 2):
        with client.transaction(stream="s", epoch=epoch, owner="run") as tx:
            tx.append("shop.orders", data(epoch))
    assert numbers_in(lake) == [1, 2]


def test_what_only_storage_can_do_is_done_there(client: RemoteLake, lake: Lake) -> None:
    client.table("shop.orders").append(data(1))
    client.rollback(to=client.version - 1)
    assert numbers_in(lake) == []
    client.tag("now", client.version)
    assert client.fsck().problems == ()


def test_a_table_that_others_commit_to_is_changed_where_it_was_seen(
    client: RemoteLake, lake: Lake, tmp_path: Path
) -> None:
    """The server would look at another version of it than the client did, and nothing could be put on top of that."""
    others = load_catalog("others", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/theirs")
    others.create_namespace("n")
    theirs = others.create_table("n.t", SCHEMA)
    client.register_table(
        "shop.fed", "n.t", type="federated", format="iceberg", catalog={"name": "others", **others.properties}
    )
    theirs.append(data(1))
    with client.transaction() as tx:
        assert tx.table("shop.fed").count_rows() == 1
        theirs.append(data(2))
        tx.append("shop.fed", data(3))
        tx.append("shop.fed", data(4))
        tx.append("shop.orders", data(5))
    assert (numbers_in(client, "shop.fed"), numbers_in(lake)) == ([1, 2, 3, 4], [5])
    others.close()


@pytest.mark.parametrize(
    "properties",
    [
        {"lineage": "x" * 20_000},
        {f"column {number}": "v" for number in range(300)},
        {"seiche.keyed": "no", "seiche.flushed": "no", "seiche.reserved-table-id:shop.x": "no"},
    ],
    ids=["long", "many", "names of the service's own"],
)
def test_properties_are_what_they_are_without_a_server(
    client: RemoteLake, lake: Lake, properties: dict[str, str]
) -> None:
    with client.transaction(properties=properties) as tx:
        tx.append("shop.orders", data(1))
    ((record,),) = [one.transactions for one in lake.log(limit=1)]
    assert record.properties == properties


def test_settling(client: RemoteLake) -> None:
    tx = client.transaction()
    tx.append("shop.orders", data(1))
    settled = client.settle(tx.id)
    assert settled.outcome == "aborted"
    with pytest.raises(RetryableConflict, match=f"was aborted in version {settled.version}") as caught:
        tx.commit()
    assert caught.value.details == {"transaction_id": tx.id, "version": settled.version}
    assert "Begin a new transaction" in caught.value.remedy


def test_a_handle_can_be_sent_to_another_process(client: RemoteLake) -> None:
    channel = pickle.loads(pickle.dumps(client.channel))
    assert isinstance(channel, Channel)


def in_child(channel: Channel, expected: str) -> None:
    found = channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse)
    os._exit(0 if found.lake_id == expected else 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_forked_process_has_a_connection_of_its_own(tmp_path: Path) -> None:
    """The parent has used its channel, and goes on using it."""
    from tests.service_process import serving

    lake = make_lake(tmp_path)
    with serving(tmp_path) as server:
        client = connect(server.address, durability="os")
        client.table("shop.orders").append(data(1))
        lake_id = lake.state().definition.id
        child = multiprocessing.get_context("fork").Process(target=in_child, args=(client.channel, lake_id))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        client.table("shop.orders").append(data(3))
        client.close()
    assert numbers_in(lake) == [1, 3]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_has_not(tmp_path: Path) -> None:
    """One of the parent's is about to open a connection, or to close it, when another one forks."""
    from tests.service_process import serving

    lake_id = make_lake(tmp_path).state().definition.id
    with serving(tmp_path) as server, connect(server.address, durability="os") as client:
        child = multiprocessing.get_context("fork").Process(target=in_child, args=(client.channel, lake_id))
        with client.channel._lock:
            child.start()
        child.join(30)
        child.kill()
        child.join()
    assert child.exitcode == 0


def test_a_handle_that_is_forgotten_leaves_nothing(server: Running) -> None:
    """Its thread kept it, and both connections, for as long as the process lived."""
    client = connect(server.address, durability="os")
    assert isinstance(client, RemoteLake)
    client.table("shop.orders").append(data(1))
    line = client.channel._opened_line()
    assert line is not None
    watch, call = line._watch, line._call
    assert watch is not None
    assert isinstance(call, DirectCall)
    del client, line
    gc.collect()
    watch.join(30)
    assert not watch.is_alive()
    assert call._over


@pytest.mark.parametrize("stays_open", [True, False])
def test_who_asks_while_another_thread_closes_the_connection_asks_over_a_new_one(
    server: Running, lake: Lake, monkeypatch: pytest.MonkeyPatch, stays_open: bool
) -> None:
    """As one does that was not trusted. The other was told that the channel is closed, or had nobody who watches."""
    asked = Channel(Address.parse(server.address))
    name = "_opened_line" if stays_open else "_method"
    found = getattr(Channel, name)
    closed: list[Any] = []

    def close_then(*given: Any) -> Any:
        way = found(*given)
        if not closed:
            closed.append(way)
            asked.close()
        return way

    monkeypatch.setattr(Channel, name, close_then)
    table = lake.table("shop.orders")
    request = pb.ExecuteTransactionRequest(tx_id=str(uuid.uuid4()))
    request.changes.add(payload=payload(lake, "shop.orders", rows(lake, "shop.orders", 1, [1]), table.version))
    request.changes[0].table_id.id = table.row.id
    if stays_open:
        done = asked.execute(request)
        assert closed[0]._call is None
    else:
        done = asked.call("ExecuteTransaction", request, pb.ExecuteTransactionResponse)
    assert done.transaction.state == pb.TS_APPLIED
    asked.close()


def test_another_lake_is_refused(server: Running, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    other = make_lake(tmp_path / "x")
    with pytest.raises(NotFound, match="another lake"):
        connect(server.address, uri=other.uri)


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from seiche.service.client import remote

    monkeypatch.setattr(remote, "Channel", partial(Channel, patience=Patience(attempts=1)))
    with pytest.raises(Unavailable):
        connect("grpc://127.0.0.1:1")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://x:1",
        "grpc://",
        "grpc://host",
        "host:1",
        "grpc://host:99999",
        "grpc://host:port",
        "grpc://[::1:7",
        "grpc://host:1/lake",
        "grpc://token@host:1",
        "grpc://host:1?token=x",
    ],
)
def test_addresses(address: str) -> None:
    with pytest.raises(InvalidInput):
        Address.parse(address)


@pytest.mark.parametrize("token", ["secret\n", "secr\u00e9t", "sec\x00ret"])
def test_a_token_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(InvalidInput, match="token") as caught:
        Address.parse("grpc://host:1", token=token)
    assert "sec" not in str(caught.value)


@pytest.mark.parametrize("token", [None, 5, b"secret"])
def test_a_token_that_is_none(token: Any) -> None:
    with pytest.raises(InvalidInput, match="token") as caught:
        Address.parse("grpc://host:1", token=token)
    assert "secret" not in str(caught.value)


class Rotating(Authenticator):
    """Takes one token, and soon another."""

    good = "first"

    def principal(self, authorization: str | None) -> Principal:
        return Tokens([{"token": self.good, "account": "default"}]).principal(authorization)


def test_a_token_that_changes(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open call was let in with the old one; the next request over it is the first to hear that it is not good."""
    taken, asked = Rotating(), []

    def token() -> str:
        asked.append(taken.good)
        return taken.good

    host = Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"), authenticator=taken)
    with running(host) as server, connect(server.address, token=token, durability="os") as client:
        client.table("shop.orders").append(data(1, 2))
        taken.good = "second"
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: client.table("shop.orders").append(data(number)), range(3, 7)))
        client.table("shop.orders").delete("number = 1")
        times = len(asked)
        client.table("shop.orders").append(data(7))
        assert len(asked) == times, "the call that is open is good"
        monkeypatch.setattr(channel, "_LARGE", 0)
        taken.good = "third"
        client.table("shop.orders").append(data(8))
    assert numbers_in(lake) == [2, 3, 4, 5, 6, 7, 8]


def test_a_token_that_is_not_good_any_more(lake: Lake, tmp_path: Path) -> None:
    taken, calls = Rotating(), []

    def token() -> str:
        calls.append(1)
        return "first"

    host = Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"), authenticator=taken)
    with running(host) as server, connect(server.address, token=token, durability="os") as client:
        client.table("shop.orders").append(data(1))
        calls.clear()
        taken.good = "second"
        with pytest.raises(PermissionDenied, match="not known"):
            client.table("shop.orders").append(data(2))
        assert len(calls) == 1, "asked for another one once"
    assert numbers_in(lake) == [1]


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ("sec\nret", InvalidInput, "line break"),
        (None, InvalidInput, "not NoneType"),
        ("", PermissionDenied, "no bearer"),
    ],
    ids=["line break", "none", "empty"],
)
def test_a_token_that_is_asked_for_and_is_none(
    lake: Lake, tmp_path: Path, given: Any, kind: type[Exception], said: str
) -> None:
    host = Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"), authenticator=Rotating())
    with running(host) as server, pytest.raises(kind, match=said):
        connect(server.address, token=lambda: given)


def test_who_has_no_token_for_the_second_try_does_not_know_what_became_of_the_first(
    client: RemoteLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise OSError("the provider is away")

    with pytest.raises(PermissionDenied, match="there is no token: OSError: the provider is away"):
        connect("grpc://127.0.0.1:1", token=none)
    sent = client.channel._once

    def lost(*asked: Any) -> Any:
        sent(*asked)
        object.__setattr__(client.channel._address, "token", none)
        raise Failed(grpc.StatusCode.UNAVAILABLE, "the connection was lost", ())

    monkeypatch.setattr(channel, "_LARGE", 0)
    monkeypatch.setattr(client.channel, "_once", lost)
    tx = client.transaction()
    tx.append("shop.orders", data(1))
    tx.commit()
    assert client.status(tx.id).outcome == "committed", "the tree was asked, and says so"


@pytest.mark.parametrize("name", ["ca", "certificate"])
def test_a_certificate_is_a_path(name: str) -> None:
    with pytest.raises(InvalidInput, match="7"):
        connect("grpcs://host:1", **{"certificate_key": 7 if name == "certificate" else None, name: 7})  # type: ignore[arg-type]


def test_a_version_of_the_lake_stays_that_version(client: RemoteLake, server: Running, lake: Lake) -> None:
    """It is read as it was, and read-only, as without a server; also by whom the handle is sent to."""
    client.table("shop.orders").append(data(1))
    at = lake.version
    client.table("shop.orders").append(data(2))
    for options in ({"version": at}, {"version": at, "lease": "1h"}, {"as_of": lake.log()[1].time}):
        with connect(server.address, durability="os", **options) as before:
            for one in (before, pickle.loads(pickle.dumps(before))):
                assert (one.version, numbers_in(one)) == (at, [1])
                with pytest.raises(InvalidInput, match="read-only"):
                    one.table("shop.orders").append(data(3))
                one.close()
    assert numbers_in(lake) == [1, 2]
    assert list(lake.store.list("_leases")) == []


def test_a_client_needs_no_server_code() -> None:
    import subprocess
    import sys

    code = (
        "import sys, seiche; seiche.connect;"
        "names = ('seiche.service.host', 'seiche.service.wire.server', 'seiche.service.core');"
        "bad = [name for name in names if name in sys.modules];"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
