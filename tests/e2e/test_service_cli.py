"""`seiche serve` on the command line, and the throughput that many clients share."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import seiche
from seiche.cli import main, serve
from seiche.service.host import Host
from seiche.service.running import running
from seiche.service.state import postgres
from seiche.store.local import Durability, LocalStore
from tests.gateway_server import ask
from tests.service_lake import SCHEMA, make_lake, numbers_in
from tests.service_process import free_port, serving

CLIENTS, EACH = 16, 6


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--no-auth", "--host", "0.0.0.0"], "loopback"),
        ([], "nobody could call"),
        (["--no-auth", "--state", "mysql://x"], "state store"),
        (["--no-auth", "--tls-cert", "missing.pem"], "TLS"),
        (["--config", "missing.toml"], "cannot be read"),
        (["--config", "{junk}"], "junk"),
        (["--config", "{tokens}"], "token"),
        (["--no-auth", "--state", "sqlite://{folder}/missing/state.db"], "Check that the directory exists"),
        (["--no-auth", "--state", "sqlite://{junk}"], "remove the file"),
        (["--no-auth", "--state", "postgresql://nobody@127.0.0.1:1/none"], "127.0.0.1"),
        (["--no-auth", "--port", "{taken}"], "Choose another port"),
        (["--no-auth", "--metrics-port", "{taken}"], "Choose another port"),
        (["--no-auth", "--tls-cert", "{junk}", "--tls-key", "{junk}"], "certificate"),
        (["--no-auth", "--client-ca", "{junk}"], "without TLS"),
        (["--no-auth", "--catalog", ""], "catalog"),
        (["--no-auth", "--durability", "none"], "'fsync', 'os'"),
        (["--config", "{other}"], "both to be the lake"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, arguments: list[str], what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(postgres, "_PATIENCE", replace(postgres._PATIENCE, longest_delay=0.02))
    lake = make_lake(tmp_path)
    junk, tokens = tmp_path / "junk", tmp_path / "tokens.toml"
    junk.write_text("junk = junk = junk, and so on until it is long enough to be taken for a file of something")
    tokens.write_text('[[tokens]]\naccount = "default"\n')
    other_lake = tmp_path / "other.toml"
    other_lake.write_text('[accounts.default]\nuri = "elsewhere"\n[[tokens]]\ntoken = "t"\naccount = "default"\n')
    with socket.create_server(("127.0.0.1", 0)) as other:
        names = {"folder": tmp_path, "junk": junk, "tokens": tokens, "other": other_lake}
        names["taken"] = other.getsockname()[1]
        given = [one.format(**names) for one in arguments]
        assert main(["serve", lake.uri, *([] if "--port" in given else ["--port", "0"]), *given]) != 0
    error = capsys.readouterr().err
    assert what in error
    assert "Traceback" not in error
    assert error.count("seiche: ") == 1


def test_where_there_is_no_home_the_place_of_the_state_must_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    assert main(["serve", lake.uri, "--no-auth", "--port", "0"]) == 2
    assert "--state sqlite://" in capsys.readouterr().err
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    assert main(["serve", lake.uri, "--no-auth", "--port", "0"]) == 2
    assert "--state sqlite://" in capsys.readouterr().err


def test_servers_of_a_lake_and_of_its_copy_do_not_take_each_others_transactions_for_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second was told that its transaction is committed, since the other lake has one of that key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lake = make_lake(tmp_path)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    copy = seiche.open(str(tmp_path / "copy"))
    assert serve._default_state(lake.uri) == serve._default_state(str(tmp_path / "lake"))
    for one in (lake, copy):
        with (
            running(Host({"default": one.uri}, serve._default_state(one.uri))) as server,
            seiche.connect(server.address) as client,
            client.transaction(key="nightly") as tx,
        ):
            tx.append("shop.orders", [{"writer": 1, "number": 1}])
        assert numbers_in(one) == [1]


def nowhere() -> Path:
    """As for a user whom the machine does not know."""
    raise RuntimeError("Could not determine home directory.")


def test_no_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--no-auth"]) == 2
    assert "no lake" in capsys.readouterr().err


def test_everybody_is_an_account_that_has_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a server would start that refuses every call."""
    config = tmp_path / "server.toml"
    config.write_text(f'[accounts.shop]\nuri = "{make_lake(tmp_path).uri}"\n')
    assert main(["serve", "--no-auth", "--config", str(config), "--port", "0"]) != 0
    assert "without a lake" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "expected"), [([], "fsync"), (["--durability", "os"], "os")])
def test_what_is_answered_survives_a_power_failure_unless_told_otherwise(
    tmp_path: Path, given: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Durability] = []

    def started(host: Host, ports: object) -> None:
        store = host.services["default"].lake.store
        assert isinstance(store, LocalStore)
        found.append(store.durability)
        host.close()
        raise seiche.InvalidInput("enough was seen")

    monkeypatch.setattr("seiche.service.wire.server.Server", started)
    state = f"sqlite://{tmp_path}/state.db"
    main(["serve", make_lake(tmp_path).uri, "--no-auth", "--port", "0", "--state", state, *given])
    assert found == [expected]


def test_who_says_that_it_listens_stops_in_order_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Server:
        port = 1
        ports = SimpleNamespace(certificate=None, address=str)

        async def start(self) -> None:
            done.append("started")

        async def stop(self) -> None:
            done.append("stopped")

    monkeypatch.setattr(serve, "print_line", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("it would be killed"))
    try:
        asyncio.run(serve._until_stopped(cast("Any", Server()), {}))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == ["started", "stopped"]


def test_many_clients_share_roots(tmp_path: Path) -> None:
    """With 16 clients, a root carries more than four transactions on average."""
    lake = make_lake(tmp_path)
    before = lake.version
    barrier = threading.Barrier(CLIENTS)
    failures: list[BaseException] = []

    def work(number: int, address: str) -> None:
        try:
            client = seiche.connect(address, durability="os")
            prepared = []
            for one in range(EACH):
                tx = client.transaction()
                tx.append("shop.orders", [{"writer": number, "number": one}])
                prepared.append(tx)
            barrier.wait(60)
            for tx in prepared:
                tx.commit()
        except BaseException as error:
            failures.append(error)

    with serving(tmp_path) as server:
        threads = [threading.Thread(target=work, args=(number, server.address)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert numbers_in(lake) == sorted(list(range(EACH)) * CLIENTS)
    roots = lake.version - before
    assert CLIENTS * EACH / roots > 4, f"{CLIENTS * EACH} transactions in {roots} roots"


def test_the_catalog_has_a_name(tmp_path: Path) -> None:
    from seiche.service import transactions_pb2 as pb

    lake = make_lake(tmp_path)
    assert lake.table("shop.orders").schema == SCHEMA
    with serving(tmp_path, "--catalog", "warehouse", "--max-operations", "1") as server:
        client = seiche.connect(server.address)
        described = client.channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse)
        assert described.catalog == "warehouse"
        tx = client.transaction()
        tx.append("shop.orders", [{"writer": 1, "number": 1}])
        tx.append("shop.stock", [{"writer": 1, "number": 1}])
        with pytest.raises(seiche.InvalidInput, match="more than 1"):
            tx.commit()


# Without a quicker loop than Python's own, and with commits that take a while.
SLOW = """
import sys, time
sys.modules["uvloop"] = None
from seiche.cli import main
from seiche.lake.commit.committer import Committer

decide = Committer.commit_group

def slowly(self, *given):
    print("deciding", flush=True)
    time.sleep(1)
    return decide(self, *given)

Committer.commit_group = slowly
sys.exit(main())
"""


def test_a_second_signal_does_not_end_a_server_whose_catalogs_still_answer(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    command = ["serve", str(tmp_path / "lake"), "--state", f"sqlite://{tmp_path}/state.db", "--no-auth"]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *command, "--port", "0", "--iceberg-port", "0"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            assert "grpc://" in server.stdout.readline()
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            made = b'{"namespace": ["late"]}'
            with ThreadPoolExecutor(1) as thread:
                answer = thread.submit(ask, f"{found[0]}/v1/lake/namespaces", "POST", made)
                assert server.stdout.readline() == "deciding\n"
                server.send_signal(signal.SIGTERM)
                time.sleep(0.3)
                server.send_signal(signal.SIGTERM)
                assert answer.result().status == 200
            assert server.wait(30) == 0
        finally:
            server.kill()
    assert ("late",) in lake.namespaces()


def test_figures_count_what_comes_through_the_gateways_too(tmp_path: Path) -> None:
    """They knew calls over gRPC only: a server that was busy as a catalog seemed to do nothing."""
    make_lake(tmp_path)
    figures, iceberg, lance = free_port(), free_port(), free_port()
    ports = ("--metrics-port", str(figures), "--iceberg-port", str(iceberg), "--lance-port", str(lance))
    with serving(tmp_path, *ports) as server, seiche.connect(server.address) as remote:
        remote.table("shop.orders").append([{"writer": 1, "number": 1}])
        catalog = f"http://127.0.0.1:{iceberg}/v1/lake/namespaces"
        names = ({"namespace": [name]} for name in ("a", "b", "a"))
        assert [ask(catalog, "POST", json.dumps(one).encode()).status for one in names] == [200, 200, 409]
        assert ask(f"http://127.0.0.1:{lance}/v1/namespace/c/create", "POST", b"{}").status == 200
        assert [ask(f"http://127.0.0.1:{iceberg}/{path}", "GET").status for path in ("x", "y")] == [404, 404]
        page = ask(f"http://127.0.0.1:{figures}/metrics", "GET").body.decode()
    for line in (
        'seiche_calls_total{method="execute",status="OK"} 1.0',
        'seiche_calls_total{method="iceberg.createNamespace",status="200"} 2.0',
        'seiche_calls_total{method="iceberg.createNamespace",status="409"} 1.0',
        'seiche_calls_total{method="iceberg.unknown",status="404"} 2.0',
        'seiche_calls_total{method="lance.create_namespace",status="200"} 1.0',
        'seiche_call_seconds_count{method="iceberg.createNamespace"} 3.0',
        'seiche_decided{account="default"} 1.0',
        'seiche_versions{account="default"} 4.0',
        'seiche_committed{account="default"} 4.0',
    ):
        assert line in page.splitlines()
