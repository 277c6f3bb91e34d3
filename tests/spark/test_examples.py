"""The examples that need Spark: a pipeline in Python, and the shop's pipeline on a cluster."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.quick import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


def test_a_pipeline_in_python(spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("examples.pipeline").main(spark, tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "published: version 1",
        "rejected: plausible: 3952.0",
        "[('Bregenz', 395.3), ('Konstanz', 394.9)]",
    ]


@pytest.mark.slow
def test_a_pipeline_on_a_cluster(java: None, one_spark: None) -> None:
    quick = ["--conf", "spark.sql.codegen.wholeStage=false"]
    command = [sys.executable, "-m", "examples.cluster.run", *quick]
    environment = os.environ | QUICK_JAVA
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Published as version 1" in done.stdout
    assert "shop.orders" in done.stdout
