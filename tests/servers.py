"""Real storage servers for tests: started on free ports when first needed, shared by all workers, stopped at the end.

A server runs under a keeper process (this module as a script), which waits for a file lock that every test process
holds in shared mode. The kernel releases those locks however a test process ends, so no server is ever left behind.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key"
REGION = "us-east-1"
BUCKET = "seiche-test"


@dataclass(frozen=True)
class S3Server:
    """An S3 server that answers at `endpoint` and has a bucket for all."""

    name: str
    endpoint: str
    bucket: str

    @property
    def options(self) -> dict[str, Any]:
        """What `open_store`, and pylance as `storage_options`, need to reach it."""
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_endpoint": self.endpoint,
            "aws_region": REGION,
            "allow_http": "true",
        }

    def uri(self) -> str:
        """An address that nobody else uses. (Below one bucket: on SeaweedFS each costs several volumes.)"""
        return f"s3://{self.bucket}/{uuid.uuid4().hex[:16]}"

    def client(self) -> Any:
        """A boto3 client: somebody else's opinion about what is stored."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=10),
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
        )


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def seaweedfs_command(directory: Path) -> tuple[list[str], str]:
    """The command that starts SeaweedFS with its data in `directory`, and the address of its S3 server."""
    ports = free_ports(8)
    config = directory / "s3.json"
    identity = {
        "name": "test",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    flags = {
        "dir": directory,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "s3": "true",
        "s3.config": config,
        "s3.port": ports[0],
        "s3.port.grpc": ports[1],
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.autoCreateBucket": "false",
        "s3.localSocket": "s3.sock",
        "master.port": ports[2],
        "master.port.grpc": ports[3],
        "master.electionTimeout": "1s",
        "master.heartbeatInterval": "100ms",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64,
        "volume.port": ports[4],
        "volume.port.grpc": ports[5],
        "volume.max": 0,
        "filer.port": ports[6],
        "filer.port.grpc": ports[7],
        "filer.localSocket": "filer.sock",
    }
    # The wheel puts the program beside the interpreter.
    program = Path(sys.executable).parent / "weed"
    return [
        str(program),
        "server",
        *(f"-{name}={value}" for name, value in flags.items()),
    ], f"http://127.0.0.1:{ports[0]}"


def moto_command(directory: Path) -> tuple[list[str], str]:
    """The command that starts moto's server, and its address."""
    (port,) = free_ports(1)
    program = Path(__file__).with_name("moto_server.py")
    command = [sys.executable, str(program), "-H", "127.0.0.1", "-p", str(port)]
    return command, f"http://127.0.0.1:{port}"


@contextmanager
def running(name: str, shared: Path, command: Callable[[Path], tuple[list[str], str]]) -> Iterator[S3Server]:
    """An S3 server that lives at least as long as the block, shared with all who give the same `shared` folder."""
    shared.mkdir(parents=True, exist_ok=True)
    address = shared / f"{name}.json"
    with (shared / f"{name}.users").open("a") as users, (shared / f"{name}.start").open("a") as start:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(start, fcntl.LOCK_EX)
        if not address.exists():
            address.write_text(json.dumps({"endpoint": _start(name, shared, command)}))
        fcntl.flock(start, fcntl.LOCK_UN)
        yield S3Server(name, json.loads(address.read_text())["endpoint"], BUCKET)


def _start(name: str, shared: Path, command: Callable[[Path], tuple[list[str], str]]) -> str:
    for attempt in range(3):
        directory = shared / f"{name}-{attempt}-{os.getpid()}"
        directory.mkdir()
        line, endpoint = command(directory)
        with (shared / f"{name}.log").open("ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, __file__, str(shared / name), str(directory), *line],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if _answers(endpoint, keeper):
            keeper.returncode = 0  # it outlives this process, and Python warns of a child that nobody waited for
            return endpoint
        keeper.terminate()
        keeper.wait()
    raise RuntimeError(f"{name} does not start:\n" + (shared / f"{name}.log").read_text(errors="replace")[-5000:])


def _answers(endpoint: str, keeper: "subprocess.Popen[bytes]", seconds: float = 60) -> bool:
    """Whether the server at `endpoint` takes a file within the time, as long as its keeper lives."""
    deadline = time.monotonic() + seconds
    client = S3Server("", endpoint, BUCKET).client()
    while time.monotonic() < deadline and keeper.poll() is None:
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
        except urllib.error.HTTPError:
            pass
        except OSError:
            time.sleep(0.05)
            continue
        try:
            with suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"yes")
            return True
        except Exception:  # it is not ready yet, whatever it says
            time.sleep(0.05)
    return False


def keep(name: str, directory: str, command: list[str]) -> None:
    """Run the server until the last test process is gone, then remove every trace of it."""
    server = subprocess.Popen(command, cwd=directory)

    def end(*_: object) -> None:
        server.kill()
        server.wait()
        shutil.rmtree(directory, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    with Path(f"{name}.users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        Path(f"{name}.json").unlink(missing_ok=True)
        end()


if __name__ == "__main__":
    keep(sys.argv[1], sys.argv[2], sys.argv[3:])
