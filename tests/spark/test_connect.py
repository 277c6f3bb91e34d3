"""The same through Spark Connect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_statements_and_the_data_source_work_through_a_connection(connect: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.connect_job", connect, f"file://{tmp_path}/lake"]
    # What belongs to the classic session of this process is none of the client's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
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
        "sink": "Spark Connect does not say which query a batch is of",
    }
