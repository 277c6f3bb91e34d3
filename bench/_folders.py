"""Where benchmarks work: folders that do not slow each other down.

When ext4 looks for room for a new file, it steps over each that was removed in the same part of the disk within the
last minutes. Whoever removes many, as a writer does that replaces its hint at each commit, so slows down those who come
after it, up to ten times. A folder that is marked as the top of unrelated trees has its folders spread over the disk:
each writer then pays for its own habits only.
"""

import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["folder", "quick_folder"]

# How many parts of the disk are tried, and with how many files.
_PARTS, _TRIED = 12, 32

_GET_FLAGS, _SET_FLAGS, _TOP = 0x80086601, 0x40086602, 0x00020000


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for the length of the block. Whatever is to be compared belongs into folders of its own inside.

    What others have written and removed so far is on the disk before: sixteen writers were three times slower where a
    part before them had left manifests of 16 MB to be written.
    """
    os.sync()
    path = Path(tempfile.mkdtemp(prefix="seiche-bench-"))
    with suppress(OSError, ImportError):  # another system, or another file system
        _mark_as_top(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder for the length of the block, in a part of the disk where nobody has removed much of late.

    For comparisons of programs that run one after the other: which part of the disk each gets is chance, and what
    others have left there makes a new file take from 20 to 400 microseconds.
    """
    with folder() as path:
        # Names that were used before lead to the same parts as before.
        found = [path / f"{path.name}-{number}" for number in range(_PARTS)]
        yield min(found, key=_time_to_create)


def _time_to_create(path: Path) -> float:
    path.mkdir()
    began = time.perf_counter()
    for number in range(_TRIED):
        (path / f"{number}.tried").touch()  # and left there: removing them would be what is to be avoided
    return time.perf_counter() - began


def _mark_as_top(path: Path) -> None:
    import fcntl

    fd = os.open(path, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(fd, _GET_FLAGS, struct.pack("l", 0)))
        fcntl.ioctl(fd, _SET_FLAGS, struct.pack("l", flags | _TOP))
    finally:
        os.close(fd)
