"""The process that Spark's Python workers are forked from, with everything loaded that a worker would load.

Spark starts it if the setting `spark.python.daemon.module` names this module, as `seiche.spark.session` does. A worker
then is ready in a tenth of the time, and shares the memory of what was loaded. Nothing here uses native threads that a
forked process would miss: modules are loaded, none is called.
"""

from importlib import import_module
from warnings import filterwarnings

from pyspark.daemon import manager

if __name__ == "__main__":
    # It warns whenever a process forks that has loaded it; what must not be shared are the threads of its first call.
    filterwarnings("ignore", message="lance is not fork-safe")
    for name in ("pandas", "pyspark.worker", "seiche.spark.applying", "seiche.spark.source"):
        import_module(name)
    manager()
