"""A server in a process of its own, as a user starts it: to be killed, and started again on the same port."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAIN = "import sys; from seiche.cli import main; sys.exit(main())"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class ServerProcess:
    """`seiche serve` on one lake."""

    def __init__(self, lake: str, state: str, *options: str, port: int = 0) -> None:
        self._command = [sys.executable, "-c", MAIN, "serve", lake, "--state", state, *options]
        self.port = port or free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*self._command, "--port", str(self.port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert re.search(r"grpc://[\d.]+:\d+", line), self._errors()

    def kill(self) -> None:
        """With -9, whatever it is doing."""
        self.end(signal.SIGKILL)

    def pause(self) -> None:
        """Stop it where it is; its connections stay."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def end(self, number: int = signal.SIGTERM) -> int:
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(process.pid, number)
        code = process.wait(30)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        self._process = None
        return code

    def _errors(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        self._process.kill()
        return self._process.stderr.read()


@contextmanager
def serving(folder: Path, *options: str, state: str = "", port: int = 0) -> Iterator[ServerProcess]:
    """A running server for the lake in `folder`."""
    server = ServerProcess(
        str(folder / "lake"), state or f"sqlite://{folder}/state.db", "--no-auth", *options, port=port
    )
    server.start()
    try:
        yield server
    finally:
        server.kill()
