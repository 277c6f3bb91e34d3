"""What a server writes about itself: one JSON object in each line, requests by their ids, and no secrets."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from seiche.service import transactions_pb2 as pb
from seiche.service.wire.statuses import error_of
from tests.service_lake import make_lake
from tests.service_process import ServerProcess

CONFIG = """
[[tokens]]
token = "the-real-secret"
account = "default"
permissions = ["table.read"]
"""


def test_the_log(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    (tmp_path / "config.toml").write_text(CONFIG)
    server = ServerProcess(lake.uri, f"sqlite://{tmp_path}/state.db", "--config", str(tmp_path / "config.toml"))
    server.start()
    process = server._process
    assert process is not None
    assert process.stderr is not None
    ids = []
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        begin = channel.unary_unary(
            "/seiche.transaction.v1.Transactions/BeginTransaction",
            request_serializer=pb.BeginTransactionRequest.SerializeToString,
        )
        for token, given in (("a-guessed-secret", "mine-1"), ("the-real-secret", "mine-2"), ("the-real-secret", "")):
            metadata = [("authorization", f"Bearer {token}"), *([("x-request-id", given)] if given else [])]
            with pytest.raises(grpc.RpcError) as caught:
                begin(pb.BeginTransactionRequest(), metadata=metadata, timeout=30)
            found = error_of(caught.value.trailing_metadata())
            assert found is not None
            ids.append(found.correlation_id)
    os.kill(process.pid, signal.SIGTERM)
    written = process.stderr.read()
    assert server.end() == 0
    lines = [json.loads(line) for line in written.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    assert [line["message"] for line in (lines[0], lines[-1])] == ["listening", "stopped"]
    # Whatever the zone of the server is.
    assert datetime.now(UTC) - datetime.fromisoformat(lines[0]["time"]) < timedelta(minutes=10)
    refused = [line for line in lines if line["message"].startswith("refused")]
    assert ids[:2] == ["mine-1", "mine-2"]
    assert [(one["request_id"], one["status"], one["method"], one["level"]) for one in refused] == [
        (ids[0], "UNAUTHENTICATED", "begin", "info"),
        (ids[1], "PERMISSION_DENIED", "begin", "info"),
        (ids[2], "PERMISSION_DENIED", "begin", "info"),
    ]
    assert len(ids[2]) == 36, "who gives none gets one"
    assert "secret" not in written
