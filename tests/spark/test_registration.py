"""Sessions that somebody else has made."""

import sys

import pytest
from pyspark.sql import SparkSession

from seiche.spark import registration


def test_workers_on_this_machine_are_this_python(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark alone takes the first `python3` on the path, which may never have heard of Seiche."""
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "python3")
    monkeypatch.setattr(registration, "_known", set())
    monkeypatch.setenv("PYSPARK_PYTHON", "/somewhere/python")
    registration.register(spark)
    assert context.pythonExec == "python3", "somebody has said which"
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(registration, "_known", set())
    registration.register(spark)
    assert context.pythonExec == sys.executable
