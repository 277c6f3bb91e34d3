"""Files that live as long as this process."""

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from typing import Any

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.store.local import LocalStore
from seiche.store.paths import as_uri_path, check, join, valid

__all__ = ["MemoryStore"]

_PREFIX = "seiche-memory-"
_LOCK = ".lock"
_RAM_DISK = "/dev/shm"  # noqa: S108 (names in it are made unguessable, exclusive and private)


class MemoryStore(LocalStore):
    """A store for tests and notebooks: everybody in this process who opens the same name sees the same files.

    It is a directory in a RAM disk where the system has one, not a dictionary, so that native readers and writers can
    use the files too (`native_uri`). It is gone when the process ends; what a killed process left is removed by the
    next one that opens a memory store. A forked child shares the stores that were opened before the fork.
    """

    def __init__(self, name: str, directory: str = "", *, runtime: Runtime = SYSTEM) -> None:
        if not valid(name) or "/" in name:
            raise InvalidInput(
                f"{name!r} cannot be the name of a memory store", remedy="Use memory://NAME, such as memory://test."
            )
        if directory:
            check(directory)
        self._name = join(name, directory)
        super().__init__(os.path.join(_home(), self._name), durability="os", runtime=runtime)

    def __reduce__(self) -> tuple[Any, ...]:
        return _here, (_home(), self._name, self._runtime)

    @property
    def uri(self) -> str:
        return "memory://" + as_uri_path(self._name)


def _here(home: str, name: str, runtime: Runtime) -> MemoryStore:
    """A store that was pickled, as long as it is in the process that it lives in, or in one that was forked from it."""
    if home not in _homes:
        raise InvalidInput(
            f"memory://{as_uri_path(name)} lives in the process that opened it, and is not here",
            remedy="Use a directory or object storage for what several processes share.",
        )
    top, _, directory = name.partition("/")
    return MemoryStore(top, directory, runtime=runtime)


_lock = threading.Lock()
_homes: list[str] = []


def _home() -> str:
    """The directory that holds the memory stores of this process; made at the first call."""
    with _lock:
        if not _homes:
            base = _RAM_DISK if os.access(_RAM_DISK, os.W_OK | os.X_OK) else tempfile.gettempdir()
            _remove_orphans(base)
            _homes.append(_make_home(base))
        return _homes[0]


def _make_home(base: str) -> str:
    """Make a directory and hold a lock beside it for as long as this process lives, whichever way it ends."""
    while True:
        home = os.path.join(base, f"{_PREFIX}{os.getpid()}-{SYSTEM.u64():016x}")
        fd = os.open(home + _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Another process may have taken the new lock file for an orphan's before it was locked.
        if _is_open_file(fd, home + _LOCK):
            os.mkdir(home, 0o700)
            atexit.register(_remove_home, home, os.getpid())
            return home
        os.close(fd)


def _is_open_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_home(home: str, owner: int) -> None:
    # A forked child inherits the exit handler, but not the right to remove what its parent still uses.
    if os.getpid() == owner:
        shutil.rmtree(home, ignore_errors=True)
        with suppress(OSError):
            os.unlink(home + _LOCK)


def _remove_orphans(base: str) -> None:
    """Remove the directories whose owner is dead: the operating system has released its lock."""
    for entry in os.listdir(base):
        if not (entry.startswith(_PREFIX) and entry.endswith(_LOCK)):
            continue
        path = os.path.join(base, entry)
        with suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.removesuffix(_LOCK), ignore_errors=True)
                os.unlink(path)
            finally:
                os.close(fd)
