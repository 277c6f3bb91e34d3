"""Spark with Iceberg's own runtime, as it is, through the Iceberg REST catalog of a lake (`make interop-jvm`)."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import seiche
from seiche import Lake
from seiche.store import open_store
from tests.gateway_server import gateways
from tests.servers import S3Server

CLIENT = Path(__file__).with_name("spark_client.py")

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(600),
    pytest.mark.skipif("SEICHE_JVM_PYTHON" not in os.environ, reason="run by `make interop-jvm`"),
]


def life(lake: Lake) -> None:
    with gateways(lake) as servers:
        command = [os.environ["SEICHE_JVM_PYTHON"], str(CLIENT), servers.iceberg, os.environ["SEICHE_JVM_JARS"]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    saw: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert saw["merged"] == [[1, "a"], [2, "z"], [3, "b"], [4, "c"], [9, "n"]]
    assert saw["first"] == [[1, "a"], [2, "b"], [3, "b"]], "time travel"
    assert saw["replaced"] == [[2, "z", True], [9, "n", True]]
    assert saw["emptied"] == []
    assert saw["tagged"] == [[3]]
    assert saw["last"] == [[2, "z", None], [3, "u", None], [4, "c", None], [9, "n", None]]
    assert saw["view"] == [[2], [3]]
    assert saw["tables"] == ["news", "t"]
    assert saw["visible"] == [2, 2], "two tables by one commit"
    assert saw["refused"] == "org.apache.iceberg.exceptions.CommitFailedException"
    assert saw["after"] == [2, 3], "one was stale: neither has changed"
    found = lake.table("db.t").to_arrow().sort_by("id").to_pylist()
    assert [list(row.values()) for row in found] == saw["last"]
    changed = [{one.name for one in entry.objects} for entry in lake.log()]
    together = [names for names in changed if {"db.one", "db.two"} <= names]
    assert len(together) == 1, "one version of the lake for both tables"
    metadata = lake.table("db.t").metadata  # type: ignore[attr-defined]
    assert metadata.current_snapshot_id in {one.snapshot_id for one in metadata.partition_statistics}
    assert lake.fsck().problems == ()


def test_the_life_of_tables_in_spark(tmp_path: Path) -> None:
    life(seiche.create(open_store(str(tmp_path / "lake"), durability="os")))


def test_the_life_of_tables_in_spark_in_a_bucket_with_nothing_configured_at_the_client(seaweedfs: S3Server) -> None:
    life(seiche.create(seaweedfs.uri(), **seaweedfs.options))
