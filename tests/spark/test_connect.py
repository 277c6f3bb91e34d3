"""The same through Spark Connect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_statements_and_the_data_source_work_through_a_connection(java: None, one_spark: None, tmp_path: Path) -> None:
    pytest.importorskip("grpc_status", reason="Spark Connect needs grpcio-status")
    command = [sys.executable, "-m", "tests.spark.connect_job", f"file://{tmp_path}/lake"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=270, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "append": 100,
        "delete": 10,
        "update": 9,
        "upsert": {"inserted": 5, "updated": 5, "deleted": 0, "executors": 1},
        "join": 4,
        "read": 191,
        "source": 50,
        "rows": 191,
    }
