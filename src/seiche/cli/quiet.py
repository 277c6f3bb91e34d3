"""Spark for commands: started without the lines that it and its Java print whatever happens."""

import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["quiet_start"]


@contextmanager
def quiet_start() -> Iterator[None]:
    """What is printed to stderr inside, and later by processes started inside, is shown only if this fails.

    After it Ctrl-C ends what is being waited for, and nothing is said of that either.
    """
    sys.stderr.flush()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    with tempfile.TemporaryFile() as said, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except Exception:  # whoever interrupts it knows why
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    _silence()
    _take_interrupts()


def _silence() -> None:
    """Errors of queries are raised, and said in one line; PySpark would print each with all its calls as well."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def _take_interrupts() -> None:
    """From now on Ctrl-C raises `KeyboardInterrupt`, and nothing is printed about it.

    A session of Spark has installed a handler of its own, which asks Java to stop the jobs. It does so over the very
    connection that is being waited for, and fails; and py4j logs that failure, with tracebacks, to the root logger.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())
