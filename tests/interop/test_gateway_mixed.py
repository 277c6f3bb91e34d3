"""Tables of both formats in one transaction, by real clients of both protocols; and servers that die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.namespace import RestNamespace
from pyiceberg.catalog.rest import RestCatalog

import seiche
from seiche import Lake
from seiche.store import open_store
from tests.certificates import certificate
from tests.gateway_server import Gateways, ask, gateways
from tests.servers import S3Server

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("a")
    made.create_table("a.l", SCHEMA).append(rows(1))
    for name in ("a.i", "a.j"):
        made.create_table(name, SCHEMA, format="iceberg").append(rows(1))
    return made


@pytest.fixture
def servers(lake: Lake) -> Iterator[Gateways]:
    with gateways(lake) as made:
        yield made


def ids(lake: Lake) -> list[list[int]]:
    return [sorted(lake.table(name).to_arrow()["id"].to_pylist()) for name in ("a.l", "a.i", "a.j")]


def work(servers: Gateways, name: str) -> None:
    """pylance appends to one table and PyIceberg to two, both unmodified, in one transaction."""
    namespace = RestNamespace(uri=servers.lance, **{"header.x-seiche-transaction": name})  # type: ignore[no-untyped-call]
    lance.dataset(namespace_client=namespace, table_id=["a", "l"]).insert(rows(2))
    client = RestCatalog("c", uri=servers.iceberg, warehouse="lake", **{"header.X-Seiche-Transaction": name})
    for table in ("a.i", "a.j"):
        opened = client.load_table(table)
        opened.append(rows(2))
        opened.append(rows(3))
        assert sorted(client.load_table(table).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def decide(servers: Gateways, protocol: str, name: str) -> int:
    """Commit it, from either protocol."""
    if protocol == "lance":
        body = {"actions": [{"setStatusAction": {"status": "Succeeded"}}]}
        return servers.ask("POST", f"/v1/transaction/{name}/alter", body, lance=True).status
    headers = {"X-Seiche-Transaction": name}
    return servers.ask("POST", "/v1/lake/transactions/commit", {"table-changes": []}, headers=headers).status


@pytest.mark.parametrize("protocol", ["lance", "iceberg"])
@pytest.mark.parametrize("stale", ["nothing", "a.l", "a.j"])
def test_one_lance_and_two_iceberg_tables_change_together_or_not_at_all(
    servers: Gateways, protocol: str, stale: str
) -> None:
    lake = servers.lake
    work(servers, "T")
    assert ids(lake) == [[1], [1], [1]]
    if stale == "a.l":
        lake.table("a.l").overwrite(rows(7))
    elif stale == "a.j":
        lake.table("a.j").append(rows(7))
    before, found = lake.version, ids(lake)
    status = decide(servers, protocol, "T")
    if stale == "nothing":
        assert status in (200, 204)
        assert lake.version == before + 1
        assert ids(lake) == [[1, 2], [1, 2, 3], [1, 2, 3]]
        assert decide(servers, protocol, "T") in (200, 204), "asked again, it is done once"
        assert lake.version == before + 1
    else:
        assert status == 409
        assert (lake.version, ids(lake)) == (before, found)
    assert lake.fsck().problems == ()


@pytest.mark.slow
def test_tables_of_both_formats_in_a_bucket_change_together_or_not_at_all(seaweedfs: S3Server) -> None:
    lake = seiche.create(seaweedfs.uri(), **seaweedfs.options)
    lake.create_namespace("a")
    lake.create_table("a.l", SCHEMA).append(rows(1))
    for name in ("a.i", "a.j"):
        lake.create_table(name, SCHEMA, format="iceberg").append(rows(1))
    with gateways(lake) as servers:
        work(servers, "stale")
        lake.table("a.j").append(rows(7))
        before, found = lake.version, ids(lake)
        assert decide(servers, "iceberg", "stale") == 409
        assert (lake.version, ids(lake)) == (before, found)
        lake.table("a.j").delete("id = 7")
        work(servers, "T")
        assert decide(servers, "lance", "T") == 200
        assert ids(lake) == [[1, 2], [1, 2, 3], [1, 2, 3]]


SERVER = """
import sys, os, signal, threading
import seiche
from seiche.gateway.serving import serving
from seiche.store import open_store
from seiche.lake.commit.committer import Committer

when = sys.argv[2]
plain = Committer.commit_group

def deadly(self, intents):
    if when == "before" and os.path.exists(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    answers = plain(self, intents)
    if when == "after" and os.path.exists(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return answers

Committer.commit_group = deadly
with serving(seiche.open(open_store(sys.argv[1], durability="os")), iceberg_port=0, lance_port=0) as found:
    print(found["iceberg"], found["lance"], flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_server_that_is_killed_in_a_commit_leaves_no_client_deleting_what_counts(
    lake: Lake, tmp_path: Path, when: str
) -> None:
    """PyIceberg and pylance are told nothing. What was committed is whole, and what was not is not there."""
    poison = tmp_path / "poison"
    for table, change in (("a.i", iceberg_append), ("a.l", lance_append)):
        before = lake.version
        command = [sys.executable, "-c", SERVER, str(tmp_path / "lake"), when, str(poison)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        try:
            assert server.stdout is not None
            urls = server.stdout.readline().split()
            poison.touch()
            with pytest.raises(Exception):  # noqa: B017 - each client has its own
                change(*urls)
        finally:
            server.kill()
            server.wait(30)
            if server.stdout is not None:
                server.stdout.close()
            poison.unlink()
        assert server.returncode == -signal.SIGKILL
        assert lake.version == before + (when == "after")
        expected = [1, 2] if when == "after" else [1]
        assert sorted(lake.table(table).to_arrow()["id"].to_pylist()) == expected
        assert lake.fsck().problems == ()


def iceberg_append(iceberg: str, _: str) -> None:
    RestCatalog("c", uri=iceberg, warehouse="lake").load_table("a.i").append(rows(2))


def lance_append(_: str, url: str) -> None:
    namespace = RestNamespace(uri=url)  # type: ignore[no-untyped-call]
    lance.dataset(namespace_client=namespace, table_id=["a", "l"]).insert(rows(2))


@pytest.mark.parametrize("secure", [False, True])
def test_serve_opens_all_three(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch, secure: bool) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    script = "import sys; from seiche.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "serve", str(tmp_path / "lake"), "--no-auth", "--port", "0"]
    command += ["--iceberg-port", "0", "--lance-port", "0"]
    known: dict[str, Any] = {}
    trusted: dict[str, str] = {}
    if secure:
        cert, key = map(str, certificate(tmp_path))
        command += ["--tls-cert", cert, "--tls-key", key]
        known, trusted = {"ssl": {"cabundle": cert}}, {"tls.ssl_ca_cert": cert}
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # would count more than what the client is told
            monkeypatch.delenv(name, raising=False)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert server.stdout is not None
        found = {}
        for _ in range(3):
            words = server.stdout.readline().split()
            found[words[-1].strip("()") if len(words) > 3 else "grpc"] = words[2].replace("127.0.0.1", "localhost")
        with seiche.connect(found["grpc"], ca=tmp_path / "cert.pem" if secure else None) as remote:
            assert remote.version == lake.version
        client = RestCatalog("c", uri=found["iceberg"], warehouse="lake", **known)
        client.load_table("a.i").append(rows(5))
        namespace: Any = RestNamespace(uri=found["lance"], **trusted)  # type: ignore[no-untyped-call]
        assert lance.dataset(namespace_client=namespace, table_id=["a", "l"]).count_rows() == 1
        if not secure:
            assert ask(f"{found['lance']}/openapi.json").status == 200
        assert ids(lake)[1] == [1, 5]
    finally:
        server.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        assert server.wait(max(1.0, deadline - time.monotonic())) == 0
        if server.stdout is not None:
            server.stdout.close()
