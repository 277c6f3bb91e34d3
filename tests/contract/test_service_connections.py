"""What the service's memory does with its connections, on a real PostgreSQL."""

import os
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt
from seiche.service.state import connections
from seiche.service.state.connections import Connections
from seiche.service.state.opening import open_database
from seiche.service.state.postgres import PostgresDatabase
from tests.cutting_proxy import cutting_proxy

psycopg = pytest.importorskip("psycopg")


@contextmanager
def database(address: str, **options: str) -> Iterator[PostgresDatabase]:
    more = "&".join(f"{name}={value}" for name, value in options.items())
    opened = open_database(f"{address}&{more}" if more else address)
    assert isinstance(opened, PostgresDatabase)
    yield opened
    opened.close()


def asked(opened: PostgresDatabase, question: str) -> Any:
    return opened.read(lambda session: session.run(question))[0][0]


def test_there_is_an_end_to_connections_however_many_threads_ask(postgres: str) -> None:
    """Two servers with one for each thread had more than PostgreSQL takes, and kept them: commits were refused."""
    name = f"crowd-{uuid.uuid4()}"
    with database(postgres, application_name=name) as opened, ThreadPoolExecutor(40) as threads:
        answers = [threads.submit(asked, opened, "SELECT 7 FROM pg_sleep(0.02)") for _ in range(80)]
        assert {one.result() for one in answers} == {7}
        held = asked(opened, f"SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = '{name}'")
    assert 1 < held <= 16


@pytest.mark.parametrize(("pooled", "prepared"), [(False, True), (True, False)])
def test_nothing_is_prepared_behind_a_pooler(
    postgres: str, monkeypatch: pytest.MonkeyPatch, pooled: bool, prepared: bool
) -> None:
    """It gives each SQL transaction to another backend, which does not know the statement, or knows another one."""
    monkeypatch.setattr(connections, "_OFTEN", 0)
    if pooled:
        monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 1)
    with database(postgres) as opened:
        assert asked(opened, "SELECT 7") == 7
        assert (asked(opened, "SELECT COUNT(*) FROM pg_prepared_statements") > 0) == prepared


def test_nothing_is_set_beyond_a_transaction(postgres: str) -> None:
    """Behind a pooler it would be set for others."""
    setting = "SHOW idle_in_transaction_session_timeout"
    held = Connections(postgres, {})
    with database(postgres) as opened, held.one() as connection:
        assert asked(opened, setting) == "10s"
        assert asked(opened, "SELECT 7") == 7
        with opened._connections.one() as used:
            assert used.execute(setting).fetchone() == connection.execute(setting).fetchone()
    held.close()


def test_a_transaction_that_failed_is_not_left_open(postgres: str) -> None:
    with database(postgres) as opened:
        with pytest.raises(ZeroDivisionError):
            opened.transact(lambda session: session.run("SELECT 1") and 1 // 0)
        with opened._connections.one() as used:
            assert used.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_a_machine_that_is_gone_is_noticed(postgres: str) -> None:
    """Who waits for an answer would wait for a quarter of an hour, or for two. What the address says counts more."""
    (folder,) = parse_qs(urlsplit(postgres).query)["host"]
    with cutting_proxy(f"{folder}/.s.PGSQL.5432") as proxy:
        address = f"postgresql://postgres:secret@127.0.0.1:{proxy.port}/postgres?keepalives_interval=7"
        with (
            database(address) as opened,
            opened._connections.one() as used,
            socket.socket(fileno=os.dup(used.fileno())) as same,
        ):
            options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
            found = [same.getsockopt(socket.IPPROTO_TCP, one) for one in options]
    assert found == [20_000, 10, 7]


def test_tables_that_were_removed_are_made_anew(postgres: str) -> None:
    """As a server says that has another lake, without this one being started again."""
    schema = f"s{uuid.uuid4().hex}"
    with database(postgres) as other:
        other.transact(lambda session: session.run(f"CREATE SCHEMA {schema}"))
        with database(postgres, options=f"-c%20search_path%3D{schema}") as opened:
            count = "SELECT COUNT(*) FROM seiche_transactions"
            assert asked(opened, count) == 0
            other.transact(lambda session: session.run(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}"))
            with pytest.raises(Corrupt, match=r"seiche_\*"):
                asked(opened, count)
            assert asked(opened, count) == 0
        other.transact(lambda session: session.run(f"DROP SCHEMA {schema} CASCADE"))


def test_a_database_that_is_away_for_half_a_minute_is_waited_for(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until another one has taken over. It was given up after twenty tries, which are seven seconds."""
    runtime = Runtime.seeded(1)
    connect, begin = psycopg.connect, runtime.clock.monotonic()

    def away(*given: Any, **more: Any) -> Any:
        if runtime.clock.monotonic() < begin + 25:
            raise psycopg.OperationalError("connection refused")
        return connect(*given, **more)

    monkeypatch.setattr(psycopg, "connect", away)
    opened = open_database(postgres, runtime=runtime)
    assert opened.read(lambda session: session.run("SELECT 7")) == [(7,)]
    opened.close()
