"""Making the format name "seiche" known to Spark."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

# Spark logs a warning each time a name is registered that it knows.
_known: "WeakSet[SparkSession]" = WeakSet()


def register(session: "SparkSession") -> None:
    """After this, `spark.read.format("seiche")` and `df.write.format("seiche")` work in the session. Repeatable.

    Without it they work too: Spark finds the module `pyspark_seiche` by itself, if it is installed with the driver.
    """
    if session in _known:
        return
    from seiche.spark.source import SeicheSource

    _use_this_python(session)
    session.dataSource.register(SeicheSource)
    _known.add(session)


def _use_this_python(session: "SparkSession") -> None:
    """Where workers run on this machine, let them be this Python, unless somebody has said which.

    Spark would take whatever `python3` comes first on the path, and there it would not find Seiche.
    """
    from pyspark.errors import PySparkException

    if "PYSPARK_PYTHON" in os.environ:
        return
    # Through Spark Connect there is no context, and the workers are somewhere else.
    with suppress(AttributeError, PySparkException):
        context = session.sparkContext
        if (context.master or "").startswith("local") and not context.getConf().get("spark.pyspark.python"):
            context.pythonExec = sys.executable
