"""Processes of their own for tests, forked from one that has loaded everything and done nothing.

Each is ready in milliseconds. One that begins with an empty interpreter loads libraries for a second, and eight of them
did nothing else for most of a test. Nothing is shared with the test process: no thread, store or connection.
"""

import os
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

__all__ = ["CONTEXT"]


class _Process(ForkServerProcess):
    """With the environment of whoever starts it, not the one that the first of them found."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._environment = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


class _Context(ForkServerContext):
    Process = _Process


CONTEXT = _Context()
CONTEXT.set_forkserver_preload(["tests.preloaded"])  # run from elsewhere it is not found, and then each loads its own
