"""What manifest stores say when their database fails, cuts the connection or is not what they expect."""

import json
import sqlite3
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import EndpointConnectionError
from psycopg import errors

from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, Corrupt, InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.table.versions.external import ManifestRecord, open_manifest_store
from seiche.table.versions.external.dynamodb import DynamoDBManifestStore
from seiche.table.versions.external.postgres import PostgresManifestStore
from seiche.table.versions.external.sqlite import SqliteManifestStore
from tests import servers
from tests.cutting_proxy import CuttingProxy, cutting_proxy
from tests.manifest_stores import DYNAMODB_TABLE, dynamodb

SECRET = "open sesame".replace(" ", "-")
ONE = ManifestRecord(1, "t/_versions/1.manifest-x", 10)


@pytest.fixture
def table() -> str:
    return f"t-{uuid.uuid4()}"


@pytest.fixture
def proxy(postgres: str) -> Iterator[CuttingProxy]:
    (folder,) = parse_qs(urlsplit(postgres).query)["host"]
    with cutting_proxy(f"{folder}/.s.PGSQL.5432") as proxy:
        yield proxy


@pytest.fixture
def cut_postgres(proxy: CuttingProxy) -> Iterator[PostgresManifestStore]:
    store = PostgresManifestStore(f"postgresql://postgres:secret@127.0.0.1:{proxy.port}/postgres")
    yield store
    store.close()


def test_postgres_a_lost_answer_is_neither_yes_nor_no(
    cut_postgres: PostgresManifestStore, proxy: CuttingProxy, postgres: str, table: str
) -> None:
    assert cut_postgres.get(table, 1) is None
    cut_postgres.put_if_absent(table, ManifestRecord(1, "p1", 1))
    proxy.cuts = 1
    with pytest.raises(CommitUnknown):
        cut_postgres.put_if_absent(table, ManifestRecord(2, "p2", 2))
    assert proxy.cut == 1
    direct = PostgresManifestStore(postgres)
    assert direct.get(table, 2) == ManifestRecord(2, "p2", 2)  # it has taken effect
    direct.close()
    cut_postgres.put_if_absent(table, ManifestRecord(2, "p2", 2))  # and asking again says so
    proxy.cuts = 1
    with pytest.raises(CommitUnknown):
        cut_postgres.put_if_present(table, ManifestRecord(2, "final", 2), replacing="p2")
    cut_postgres.put_if_present(table, ManifestRecord(2, "final", 2), replacing="p2")


def test_postgres_a_read_is_repeated_on_a_new_connection(
    cut_postgres: PostgresManifestStore, proxy: CuttingProxy, table: str
) -> None:
    cut_postgres.put_if_absent(table, ONE)
    proxy.cuts = 1
    assert cut_postgres.get_latest(table) == ONE
    assert proxy.cut == 1


def test_postgres_a_connection_that_the_server_ended_is_replaced(postgres: str, table: str) -> None:
    store = PostgresManifestStore(f"{postgres}&application_name={table}")
    store.put_if_absent(table, ONE)
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{table}'"
    with psycopg.connect(postgres, autocommit=True) as other:
        assert other.execute(end).fetchall() == [(True,)]
        assert store.get(table, 1) == ONE
        assert other.execute(end).fetchall() == [(True,)]
        second = ManifestRecord(2, "p2", 2)
        with pytest.raises(CommitUnknown):
            store.put_if_absent(table, second)
        store.put_if_absent(table, second)
    assert store.get_latest(table) == second
    store.close()


def test_postgres_reading_makes_no_table(postgres: str, table: str) -> None:
    name = "t" + uuid.uuid4().hex
    store = PostgresManifestStore(postgres, table=name)
    assert store.get_latest(table) is None
    with psycopg.connect(postgres, autocommit=True) as other:
        query = "SELECT count(*) FROM pg_tables WHERE tablename = %s"
        assert other.execute(query, [name]).fetchone() == (0,)
        store.put_if_absent(table, ONE)
        assert other.execute(query, [name]).fetchone() == (1,)
    assert store.get_latest(table) == ONE
    store.close()


def test_postgres_claims_are_durable_even_if_the_server_would_not_wait(postgres: str, table: str) -> None:
    store = PostgresManifestStore(f"{postgres}&options=-c%20synchronous_commit%3Doff")
    store.put_if_absent(table, ONE)
    assert store._connection is not None
    assert store._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    store.close()


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_postgres_what_was_rolled_back_is_tried_again(
    state: str, postgres: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresManifestStore(postgres, runtime=Runtime.seeded(1))
    store.put_if_absent(table, ONE)
    assert store._connection is not None
    failures = [errors.lookup(state)("simulated"), errors.lookup(state)("simulated")]
    execute = store._connection.execute

    def fail_first(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return execute(*arguments)

    monkeypatch.setattr(store._connection, "execute", fail_first)
    store.put_if_absent(table, ManifestRecord(2, "p2", 2))
    assert not failures
    failures += [errors.lookup(state)("simulated") for _ in range(100)]
    with pytest.raises(Unavailable):
        store.put_if_absent(table, ManifestRecord(3, "p3", 3))
    failures.clear()
    assert store.get(table, 3) is None
    store.close()


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("08006", CommitUnknown),
        ("40003", CommitUnknown),
        ("57P01", CommitUnknown),
        ("58030", CommitUnknown),
        ("XX000", CommitUnknown),
        ("53200", Unavailable),
        ("55P03", Unavailable),
        ("57014", Unavailable),
        ("25006", Unavailable),
        ("42501", PermissionDenied),
        ("28P01", PermissionDenied),
        ("42703", InvalidInput),
    ],
)
def test_postgres_the_state_says_what_a_failed_write_means(
    state: str, meaning: type[SeicheError], postgres: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresManifestStore(postgres)
    store.put_if_absent(table, ONE)
    assert store._connection is not None

    def fail(*_: Any) -> Any:
        raise errors.lookup(state)("simulated")

    with monkeypatch.context() as patch:
        patch.setattr(store._connection, "execute", fail)
        with pytest.raises(meaning) as raised:
            store.put_if_absent(table, ManifestRecord(2, "p2", 2))
    assert type(raised.value) is meaning
    store.close()


def test_postgres_without_a_server_nothing_was_decided(table: str) -> None:
    (port,) = servers.free_ports(1)
    store = PostgresManifestStore(f"postgresql://user:{SECRET}@127.0.0.1:{port}/db")
    asks: list[Callable[[], object]] = [lambda: store.get_latest(table), lambda: store.put_if_absent(table, ONE)]
    for ask in asks:
        with pytest.raises(Unavailable) as raised:
            ask()
        assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_postgres_a_bad_address_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidInput) as raised:
        PostgresManifestStore(f"postgresql://user:{SECRET}@host/db?nonsense=1")
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_sqlite_waits_for_others_and_then_says_that_nothing_happened(tmp_path: Path, table: str) -> None:
    store = SqliteManifestStore(tmp_path / "m.db", timeout=0.05)
    store.put_if_absent(table, ONE)
    with sqlite3.connect(tmp_path / "m.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable):
            store.put_if_absent(table, ManifestRecord(2, "p2", 2))
        assert store.get_latest(table) == ONE  # readers do not wait for writers
        other.execute("ROLLBACK")
    other.close()
    store.put_if_absent(table, ManifestRecord(2, "p2", 2))
    store.close()


def test_sqlite_commits_are_flushed(tmp_path: Path, table: str) -> None:
    store = SqliteManifestStore(tmp_path / "m.db")
    store.put_if_absent(table, ONE)
    assert store._connection is not None
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_sqlite_a_file_of_another_kind_is_left_alone(tmp_path: Path, table: str) -> None:
    (tmp_path / "m.db").write_bytes(b"something else" * 1000)
    with pytest.raises(Corrupt):
        SqliteManifestStore(tmp_path / "m.db").get_latest(table)
    assert (tmp_path / "m.db").read_bytes() == b"something else" * 1000


def test_sqlite_a_missing_directory_is_named(tmp_path: Path, table: str) -> None:
    with pytest.raises(PermissionDenied, match=r"nowhere/m\.db"):
        SqliteManifestStore(tmp_path / "nowhere" / "m.db").put_if_absent(table, ONE)


def test_sqlite_a_failed_flush_is_neither_yes_nor_no(
    tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteManifestStore(tmp_path / "m.db")
    store.put_if_absent(table, ONE)

    class Broken:
        def execute(self, *_: Any) -> Any:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(store, "_connected", Broken)
        with pytest.raises(CommitUnknown):
            store.put_if_absent(table, ManifestRecord(2, "p2", 2))
        with pytest.raises(Unavailable):
            store.get_latest(table)
    store.close()


@pytest.fixture
def cut_dynamodb(
    moto: servers.S3Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[DynamoDBManifestStore, CuttingProxy]]:
    dynamodb(moto, monkeypatch)
    parts = urlsplit(moto.endpoint)
    assert parts.hostname is not None
    assert parts.port is not None
    with cutting_proxy((parts.hostname, parts.port)) as proxy:
        endpoint, runtime = f"http://127.0.0.1:{proxy.port}", Runtime.seeded(1)
        store = DynamoDBManifestStore(DYNAMODB_TABLE, endpoint=endpoint, region=servers.REGION, runtime=runtime)
        yield store, proxy
        store.close()


def test_dynamodb_a_request_that_is_sent_twice_meets_its_own_record(
    cut_dynamodb: tuple[DynamoDBManifestStore, CuttingProxy], table: str
) -> None:
    """It is sent again when the answer is lost; the condition then fails because of ourselves."""
    store, proxy = cut_dynamodb
    assert store.get_latest(table) is None
    proxy.cuts = 1
    store.put_if_absent(table, ONE)
    assert proxy.cut == 1
    assert store.get_latest(table) == ONE


def test_dynamodb_lost_answers_are_neither_yes_nor_no(
    cut_dynamodb: tuple[DynamoDBManifestStore, CuttingProxy], table: str
) -> None:
    store, proxy = cut_dynamodb
    assert store.get_latest(table) is None
    proxy.cuts = 1000
    with pytest.raises(CommitUnknown):
        store.put_if_absent(table, ONE)
    with pytest.raises(Unavailable):
        store.get_latest(table)
    proxy.cuts = 0
    assert store.get_latest(table) == ONE
    store.put_if_absent(table, ONE)


def answering(code: str) -> Callable[[Any], AWSResponse]:
    """What answers a request in place of the server: an error with this code."""

    def answer(request: Any) -> AWSResponse:
        response = AWSResponse(request.url, 400, {}, None)
        response._content = json.dumps({"__type": f"com.amazonaws.dynamodb#{code}", "message": "no"}).encode()
        return response

    return answer


def not_reached(request: Any) -> AWSResponse:
    raise EndpointConnectionError(endpoint_url=request.url)


def instead(store: DynamoDBManifestStore, *answers: Callable[[Any], AWSResponse] | None) -> None:
    """What becomes of the next requests; `None` is sent as it is. The last one is for ever."""
    left = list(answers)

    def decide(request: Any, **_: Any) -> AWSResponse | None:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return None if answer is None else answer(request)

    store._connected().meta.events.register_first("before-send.dynamodb", decide)


@pytest.mark.parametrize(
    "later",
    [not_reached, answering("ThrottlingException"), answering("ExpiredTokenException")],
    ids=["nobody is reached", "too many requests", "credentials expire"],
)
def test_dynamodb_what_comes_after_a_lost_answer_says_nothing_about_it(
    cut_dynamodb: tuple[DynamoDBManifestStore, CuttingProxy], table: str, later: Callable[[Any], AWSResponse]
) -> None:
    """Taken for "nothing was written", the commit would be done again, and its rows be there twice."""
    store, proxy = cut_dynamodb
    assert store.get_latest(table) is None
    proxy.cuts = 1
    instead(store, None, later)
    with pytest.raises(CommitUnknown):
        store.put_if_absent(table, ONE)
    store.close()
    assert store.get_latest(table) == ONE


def test_dynamodb_a_name_that_may_be_taken_by_ourselves_is_not_free_and_not_lost(
    cut_dynamodb: tuple[DynamoDBManifestStore, CuttingProxy], table: str
) -> None:
    store, proxy = cut_dynamodb
    assert store.get_latest(table) is None
    proxy.cuts = 1
    instead(store, None, None, not_reached)  # lost; taken, by ourselves; and whose it is cannot be read
    with pytest.raises(CommitUnknown):
        store.put_if_absent(table, ONE)


def test_dynamodb_requests_that_were_too_many_are_sent_again(
    cut_dynamodb: tuple[DynamoDBManifestStore, CuttingProxy], table: str
) -> None:
    store, _ = cut_dynamodb
    busy = answering("ProvisionedThroughputExceededException")
    instead(store, busy, busy, None, busy, None)
    store.put_if_absent(table, ONE)
    assert store.get_latest(table) == ONE
    store.close()
    instead(store, busy)
    with pytest.raises(Unavailable):
        store.put_if_absent(table, ManifestRecord(2, "p2", 2))
    store.close()
    assert store.get(table, 2) is None


def test_dynamodb_without_a_server_nothing_was_decided(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    (port,) = servers.free_ports(1)
    store = DynamoDBManifestStore("nowhere", endpoint=f"http://127.0.0.1:{port}", region="us-east-1")
    with pytest.raises(Unavailable):
        store.put_if_absent(table, ONE)
    store.close()


def test_dynamodb_a_missing_table_is_named_and_not_made(
    moto: servers.S3Server, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    dynamodb(moto, monkeypatch)
    store = DynamoDBManifestStore("missing", endpoint=moto.endpoint, region=servers.REGION)
    for _ in range(2):
        with pytest.raises(InvalidInput, match="create_table"):
            store.put_if_absent(table, ONE)
    store.close()


def test_dynamodb_without_credentials_says_so(
    moto: servers.S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    store = open_manifest_store(f"dynamodb://t?endpoint={moto.endpoint}&region=us-east-1")
    with pytest.raises(PermissionDenied, match="credentials"):
        store.get_latest("x")
    store.close()
