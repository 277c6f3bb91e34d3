"""Making the format name "seiche" known to Spark."""

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

    session.dataSource.register(SeicheSource)
    _known.add(session)
