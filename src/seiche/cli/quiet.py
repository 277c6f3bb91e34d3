"""Spark for commands: started without the lines that it and its Java print whatever happens."""

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["quiet_start"]


@contextmanager
def quiet_start() -> Iterator[None]:
    """What is printed to stderr inside, and later by processes started inside, is shown only if this fails."""
    sys.stderr.flush()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    with tempfile.TemporaryFile() as said, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    _silence()


def _silence() -> None:
    """Errors of queries are raised, and said in one line; PySpark would print each with all its calls as well."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
