"""What is loaded once, in the process that `tests.processes` are forked from. Modules are loaded, none is called."""

import gc
from importlib import import_module
from warnings import filterwarnings

# It warns whenever a process forks that has loaded it; what must not be shared are the threads of its first call.
filterwarnings("ignore", message="lance is not fork-safe")

for name in (
    "lance",
    "lance_namespace",
    "obstore.store",
    "pandas",
    "pytest",
    "seiche.lake.commit.committer",
    "seiche.lake.creating",
    "seiche.lake.engines.table_namespace",
    "seiche.lake.lake",
    "seiche.store.local",
    "seiche.store.object",
    "seiche.table.table",
    "seiche.testing",
):
    import_module(name)
gc.freeze()
