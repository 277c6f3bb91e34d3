"""Spark on a lake: reading, writing, changing rows, following changes and care, executed by Spark's workers.

Everything ends in one commit of the lake, made by the driver. Workers write data files that nobody sees and report what
they wrote; rows never come to the driver. Needs `pip install "seiche[spark]"`.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from seiche.spark.lake import SparkLake
    from seiche.spark.registration import register
    from seiche.spark.settings import session
    from seiche.spark.transaction import SparkTransaction

__all__ = ["SparkLake", "SparkTransaction", "register", "session"]

# pyspark takes a second to load: what needs it is imported when it is first used.
_LAZY = {
    "SparkLake": "seiche.spark.lake",
    "SparkTransaction": "seiche.spark.transaction",
    "register": "seiche.spark.registration",
    "session": "seiche.spark.settings",
}

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module 'seiche.spark' has no attribute {name!r}")
        return getattr(_importlib.import_module(_LAZY[name]), name)
