"""A real file system whose power fails when a test says so: what it had not written by then is gone."""

import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["FailingDisk", "failing_disk"]

_MEGABYTES = 512
# ext4 stops at once: nothing more is written, not even its journal. What the tests of file systems use.
_SHUTDOWN = 0x8004587D
_WITHOUT_THE_JOURNAL = struct.pack("I", 2)


class FailingDisk:
    """ext4 in a file, mounted at `path`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mounted"
        self._image = folder / "disk.img"

    def format(self) -> None:
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(_MEGABYTES << 20)
        _run("mkfs.ext4", "-q", "-F", str(self._image))

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        for _ in range(100):
            if subprocess.run(["umount", str(self.path)], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.05)  # somebody still holds a file of it
        _run("umount", "--lazy", str(self.path))

    def cut_power(self) -> None:
        """From now on everything fails; what was not written is not there after `mount`."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, _WITHOUT_THE_JOURNAL)
        finally:
            os.close(folder)


@contextmanager
def failing_disk(folder: Path) -> Iterator[FailingDisk]:
    """One that is mounted; the test is skipped where this user may not do that."""
    disk = FailingDisk(folder)
    try:
        disk.format()
        disk.mount()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs mkfs.ext4 and the right to mount a file: {error}")
    try:
        yield disk
    finally:
        disk.unmount()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
