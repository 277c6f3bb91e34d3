"""Reading and writing whole files through descriptors."""

import errno
import os
from collections.abc import Sequence

from seiche.core.given import wrong
from seiche.store.base import Buffer, Data

__all__ = ["buffers", "copy_all", "fsync_directory", "joined", "length_of", "read_all", "write_all"]

_ONE_BUFFER = (bytes, bytearray, memoryview)
_BUFFERS = frozenset(_ONE_BUFFER)

# How many buffers one writev(2) takes (IOV_MAX of Linux and macOS).
_MOST_BUFFERS = 1024

# How much one copy_file_range(2) is asked for: a single call could otherwise not be interrupted for minutes.
_COPY_STEP = 256 * 1024 * 1024


def buffers(data: Data) -> Sequence[Buffer]:
    """The buffers of `data`, whichever form it came in; `InvalidInput` if it is something else."""
    if isinstance(data, _ONE_BUFFER):
        return (data,)
    given: object = data
    if type(given) in (list, tuple) and _BUFFERS.issuperset(map(type, data)):
        return data  # as in every commit, which cannot wait for each to be asked
    if isinstance(given, str) or not isinstance(given, Sequence) or any(isinstance(one, str | int) for one in given):
        raise wrong("the content of a file", data, "Give bytes, or a list of them; a text is made bytes by `encode()`.")
    return data


def length_of(data: Data) -> int:
    """How many bytes there are in `data`: a view of whole numbers is longer than it has elements."""
    given = buffers(data)
    if memoryview not in map(type, given):
        return sum(map(len, given))
    return sum(one.nbytes if isinstance(one, memoryview) else len(one) for one in given)


def joined(data: Data) -> bytes:
    """All bytes of `data` as one value that nobody can change afterwards."""
    if isinstance(data, bytes):
        return data
    return bytes(data) if isinstance(data, bytearray | memoryview) else b"".join(buffers(data))


def write_all(fd: int, data: Data) -> None:
    """Write every byte of `data`; raises `OSError` if that cannot be done.

    The operating system may take part of a write without an error, when the disk fills up or past 2 GiB: only the next
    attempt tells.
    """
    if isinstance(data, bytes):
        done = os.write(fd, data)
        if done == len(data):
            return
    else:
        data = buffers(data)
        size = length_of(data)
        done = os.writev(fd, data[:_MOST_BUFFERS]) if size else 0
        if done == size:
            return
    rest = _without([memoryview(buffer).cast("B") for buffer in buffers(data)], done)
    while rest:
        rest = _without(rest, os.writev(fd, rest[:_MOST_BUFFERS]))


def _without(rest: list[memoryview], done: int) -> list[memoryview]:
    """What is left of the buffers after their first `done` bytes; none of it empty."""
    whole = 0
    while whole < len(rest) and done >= len(rest[whole]):
        done -= len(rest[whole])
        whole += 1
    return [rest[whole][done:], *filter(len, rest[whole + 1 :])] if whole < len(rest) else []


def read_all(fd: int, start: int, length: int) -> bytes:
    """`length` bytes from `start`, fewer only if the file ends before."""
    first = os.pread(fd, length, start)
    if len(first) == length or not first:
        return first
    parts = [first]
    read = len(first)
    while read < length:
        part = os.pread(fd, length - read, start + read)
        if not part:
            break
        parts.append(part)
        read += len(part)
    return b"".join(parts)


def copy_all(target: int, source: int) -> None:
    """Append the whole of `source` to `target` without taking it through this process; shared blocks where possible.

    `OSError` if it ends before its length: part of a file is no copy of it.
    """
    offset, size = 0, os.fstat(source).st_size
    try:
        while offset < size:
            copied = os.copy_file_range(source, target, min(_COPY_STEP, size - offset), offset)
            if copied == 0:
                break
            offset += copied
    except (OSError, AttributeError):
        # Not between these file systems, or not on this platform. What is really wrong with the disk shows below.
        pass
    while offset < size:
        part = os.pread(source, min(1 << 20, size - offset), offset)
        if not part:
            raise OSError(errno.EIO, f"it ends after {offset:,} of {size:,} bytes")
        write_all(target, part)
        offset += len(part)


def fsync_directory(path: str) -> None:
    """Return when the names in the directory will survive a power failure, as far as the file system can say so."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        # Not a failure: it has no such request for directories, as with some folders that a virtual machine shares, and
        # keeps names in its own way. Nothing could ever be written there otherwise; databases take it so as well.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)
