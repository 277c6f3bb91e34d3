"""What Spark looks for by itself: a module called `pyspark_*` with a `DefaultSource` makes its format name known."""

from seiche.spark.source import SeicheSource as DefaultSource

__all__ = ["DefaultSource"]
