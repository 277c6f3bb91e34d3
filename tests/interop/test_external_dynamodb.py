"""One table, its versions decided in DynamoDB, written by pylance and by us in turn, at once, and over crashes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments

from seiche.store import open_store
from seiche.table.data.fragments import fragment_from_lance
from seiche.table.operations import Append
from seiche.table.table import Table
from seiche.table.versions.external import ExternalVersions, external_versions
from seiche.table.versions.naming import Naming
from tests import servers
from tests.cutting_proxy import CuttingProxy, cutting_proxy
from tests.external_history import begin, history
from tests.manifest_stores import DYNAMODB_TABLE, dynamodb
from tests.processes import CONTEXT

SCHEMA = pa.schema([("row", pa.int64())])


@dataclass(frozen=True)
class Shared:
    """A table that both sides can reach, at the same servers."""

    server: servers.S3Server
    key: str
    records: str

    @property
    def native_uri(self) -> str:
        """The address that pylance takes."""
        return f"s3+ddb://{self.server.bucket}/{self.key}?ddbTableName={DYNAMODB_TABLE}"

    @property
    def native_options(self) -> dict[str, str]:
        return self.server.options | {"dynamodb_endpoint": self.server.endpoint}

    @property
    def external(self) -> ExternalVersions:
        store = open_store(f"s3://{self.server.bucket}/{self.key}", **self.server.options)
        return external_versions(store, self.records, Naming.V2)

    def native(self) -> Any:
        return lance.dataset(self.native_uri, storage_options=self.native_options)

    def native_append(self, *rows: int, mode: str = "append") -> Any:
        data = pa.table({"row": rows}, schema=SCHEMA)
        return lance.write_dataset(data, self.native_uri, mode=mode, storage_options=self.native_options)

    def table(self) -> Table:
        external = self.external
        return Table(external, external.read(external.newest()).manifest)

    def append(self, table: Table, *rows: int) -> None:
        plain: Any = write_fragments
        fragments = plain(
            pa.table({"row": rows}, schema=SCHEMA),
            table.store.native_uri(),
            mode="append",
            storage_options=dict(table.store.native_options),
        )
        table.commit(Append(tuple(fragment_from_lance(one) for one in fragments)))

    def rows(self) -> list[int]:
        """What we read, which must be what pylance reads, with and without DynamoDB."""
        table = self.table()
        rows = sorted(table.to_arrow()["row"].to_pylist())
        for uri, options in ((self.native_uri, self.native_options), (table.store.native_uri(), self.server.options)):
            opened: Any = lance.dataset(uri, storage_options=options)
            assert opened.version == table.version
            assert sorted(opened.to_table()["row"].to_pylist()) == rows
            opened.validate()
        assert [one.version for one in table.versions()] == list(range(1, table.version + 1))
        return rows

    def items(self) -> list[dict[str, Any]]:
        """The records as DynamoDB has them, by version."""
        client = boto3.client(
            "dynamodb",
            endpoint_url=self.server.endpoint,
            region_name=servers.REGION,
            aws_access_key_id=servers.ACCESS_KEY,
            aws_secret_access_key=servers.SECRET_KEY,
        )
        answer = client.query(
            TableName=DYNAMODB_TABLE,
            KeyConditionExpression="base_uri = :uri",
            ExpressionAttributeValues={":uri": {"S": self.key}},
        )
        client.close()
        items: list[dict[str, Any]] = answer["Items"]
        return items

    def staged(self) -> list[str]:
        return [info.path for info in self.external.store.list("_versions") if not info.path.endswith(".manifest")]


@pytest.fixture
def shared(moto: servers.S3Server, monkeypatch: pytest.MonkeyPatch) -> Shared:
    return Shared(moto, f"some dir/{uuid4()}.lance", dynamodb(moto, monkeypatch))


def test_both_write_the_same_items(shared: Shared) -> None:
    shared.native_append(1, mode="create")
    shared.append(shared.table(), 2)
    theirs, ours = shared.items()
    assert ours.keys() == theirs.keys() == {"base_uri", "version", "path", "size", "committer"}
    for name in ours:
        assert ours[name].keys() == theirs[name].keys()
    assert ours["base_uri"] == theirs["base_uri"] == {"S": shared.key}
    assert theirs["path"] == {"S": f"{shared.key}/{Naming.V2.path(1)}"}
    assert ours["path"] == {"S": f"{shared.key}/{Naming.V2.path(2)}"}
    store = shared.external.store
    assert [int(one["size"]["N"]) for one in (theirs, ours)] == [store.head(Naming.V2.path(one)).size for one in (1, 2)]


def test_the_address_and_the_options_are_those_that_pylance_takes(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    options: dict[str, Any] = {**shared.native_options}
    table = Table.create(shared.native_uri, SCHEMA, **options)
    table.append([{"row": 1}, {"row": 2}])
    shared.native_append(*range(3, 100_000))
    table.delete("row > 3 AND row < 100000")
    table.branch("trial").append([{"row": 7}])
    Table.open(shared.native_uri, **options).compact()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.SECRET_KEY)
    assert shared.rows() == [1, 2, 3]


def test_both_write_in_turn(shared: Shared) -> None:
    shared.native_append(1, mode="create")
    table, opened_before = shared.table(), shared.native()
    shared.append(table, 2)
    assert shared.rows() == [1, 2]
    opened_before.insert(pa.table({"row": [3]}))  # by a handle that has not seen our commit
    assert shared.rows() == [1, 2, 3]
    shared.append(table, 4)  # likewise ours
    shared.native().delete("row = 1")
    shared.append(table, 5)
    assert shared.rows() == [2, 3, 4, 5]
    assert not shared.staged()


def test_pylance_continues_a_table_that_we_made(shared: Shared) -> None:
    external = shared.external
    begin(external.store, external.manifest_store, 2)
    shared.native_append(3)
    shared.append(shared.table(), 4)
    assert shared.rows() == [1, 2, 3, 4]
    assert [one["committer"]["S"] for one in shared.items()] == ["seiche", "seiche", "lancedb", "seiche"]


@pytest.mark.parametrize("fresh", [True, False], ids=["opens", "holds"])
def test_pylance_finishes_what_we_left(shared: Shared, fresh: bool) -> None:
    """Our writer died after its claim. pylance must not pass over it, whether it opens the table or commits to it."""
    external = shared.external
    begin(external.store, external.manifest_store, 2)
    held = shared.native()
    staged = f"{Naming.V2.path(3)}-{uuid4()}"
    external.store.put(staged, history().manifests[3])
    record = {"path": {"S": f"{shared.key}/{staged}"}, "size": {"N": str(len(history().manifests[3]))}}
    put_item(shared, {"base_uri": {"S": shared.key}, "version": {"N": "3"}, "committer": {"S": "seiche"}} | record)
    if fresh:
        assert shared.native().version == 3
    else:
        held.insert(pa.table({"row": [4]}))
        assert held.version == 4
    assert not shared.staged()
    assert shared.rows() == ([1, 2, 3] if fresh else [1, 2, 3, 4])


def put_item(shared: Shared, item: dict[str, Any]) -> None:
    client = boto3.client("dynamodb", endpoint_url=shared.server.endpoint, region_name=servers.REGION)
    client.put_item(TableName=DYNAMODB_TABLE, Item=item)
    client.close()


@pytest.fixture
def proxy(moto: servers.S3Server) -> Iterator[CuttingProxy]:
    parts = urlsplit(moto.endpoint)
    assert parts.hostname is not None
    assert parts.port is not None
    with cutting_proxy((parts.hostname, parts.port)) as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("before", "hold", "claimed"),
    [
        ("claim", b'"attribute_not_exists', False),
        ("copy", b"x-amz-copy-source", True),
        ("flip", b'"attribute_exists', True),
        ("deletion", b"?delete", True),
    ],
)
def test_we_finish_what_pylance_left(
    before: str, hold: bytes, claimed: bool, shared: Shared, proxy: CuttingProxy, tmp_path: Path
) -> None:
    """A process of pylance is killed in the middle of a commit, right before one of its requests arrives."""
    shared.native_append(1, mode="create")
    proxy.hold = hold
    through = servers.S3Server("proxy", f"http://127.0.0.1:{proxy.port}", shared.server.bucket)
    doomed = Shared(through, shared.key, shared.records)
    writer = CONTEXT.Process(target=doomed.native_append, args=(2,))
    writer.start()
    assert proxy.held.wait(60)
    writer.kill()
    writer.join()
    assert len(shared.staged()) == 1
    # Whoever knows nothing of DynamoDB is at most one version behind.
    plain: Any = lance.dataset(shared.external.store.native_uri(), storage_options=shared.server.options)
    assert plain.version == (2 if before in ("flip", "deletion") else 1)
    table = shared.table()
    assert table.version == (2 if claimed else 1)
    assert shared.rows() == ([1, 2] if claimed else [1])
    shared.append(table, 3)
    assert shared.rows() == ([1, 2, 3] if claimed else [1, 3])
    shared.native_append(4)
    assert shared.rows()[-1] == 4


def test_both_write_at_once(shared: Shared) -> None:
    shared.native_append(0, mode="create")
    each = 5

    def theirs(first: int) -> None:
        for row in range(first, first + each):
            shared.native_append(row)

    def ours(first: int) -> None:
        table = shared.table()
        for row in range(first, first + each):
            shared.append(table, row)

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(act, first) for act, first in ((ours, 100), (theirs, 200), (ours, 300), (theirs, 400))]
        for one in done:
            one.result()
    assert shared.rows() == sorted([0, *(first + row for first in (100, 200, 300, 400) for row in range(each))])
    assert shared.table().version == 1 + 4 * each
    assert not shared.staged()
