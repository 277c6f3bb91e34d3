"""The process that Spark's Python workers are forked from, with everything loaded that a worker would load.

Spark starts it if the setting `spark.python.daemon.module` names this module, as `seiche.spark.session` does. A worker
then is ready in a tenth of the time, and shares the memory of what was loaded. Nothing here uses native threads that a
forked process would miss: modules are loaded, none is called.
"""

import gc
import os
import socket
import sys
from importlib import import_module
from warnings import filterwarnings

from pyspark import daemon

__all__ = ["hush", "serve"]

_LOADED = (
    "pandas",
    "pyspark.worker",
    "seiche.spark.dml.applying",
    "seiche.spark.packing",
    "seiche.spark.scanning",
    "seiche.spark.source",
    "seiche.spark.table_writer",
)
_serve = daemon.worker


def serve(sock: socket.socket, authenticated: bool) -> int:
    """Do one task, as Spark's own worker does; and end without a word if Spark has hung up.

    It does so with workers that were idle for a minute. Over a Unix socket they notice, and would say so on the screen.
    """
    try:
        return _serve(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


def hush() -> None:
    """In a worker of Spark's own daemon, which is what plans for data sources: from now on it says nothing either when
    Spark hangs up.
    """
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", "") == daemon.__name__:
        vars(main)["worker"] = serve


if __name__ == "__main__":
    # It warns whenever a process forks that has loaded it; what must not be shared are the threads of its first call.
    filterwarnings("ignore", message="lance is not fork-safe")
    for name in _LOADED:
        import_module(name)
    # A worker looks for garbage after every task. What was loaded here is none; to look through it takes 50 ms.
    gc.freeze()
    daemon.worker = serve
    daemon.manager()
