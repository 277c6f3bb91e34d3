"""What is in a directory of this machine, as a store shows it."""

import errno
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from seiche.store.base import ObjectInfo
from seiche.store.os_errors import translate
from seiche.store.paths import TEMPORARY, join, valid

__all__ = ["described", "files", "folders", "leftovers", "names"]

# What most file systems keep in their uppermost directory for themselves, and let nobody but root look into. A lake may
# live at the top of a volume of its own, and without this no clean-up could ever look at all of it.
_OF_THE_VOLUME = "lost+found"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Some file systems keep times that no calendar has, and a file with one must not stop every listing. There is room for
# reckoning with these on either side.
_EARLIEST, _LATEST = ((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) for year in (1000, 9000))


def files(base: str, prefix: str, after: str, *, recursive: bool) -> Iterator[ObjectInfo]:
    """The files below the directory `prefix` of `base`, as `Store.list` promises them; `after` is a name in it.

    Symbolic links to directories are not followed.
    """
    pending = [prefix]
    while pending:
        prefix = pending.pop()
        names, directories = _scan(base, prefix)
        for name in names:
            if name > after:
                info = _listed(base, join(prefix, name))
                if info is not None:
                    yield info
        after = ""
        if recursive:
            pending.extend(join(prefix, name) for name in reversed(directories))


def names(base: str, prefix: str) -> list[str]:
    """The names of the files directly in `prefix`, in order, without those that no verb takes."""
    try:
        with os.scandir(base + prefix) as entries:
            return sorted(one.name for one in entries if _is_file(one) and valid(one.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise translate(error, prefix) from error


def folders(base: str, prefix: str) -> list[str]:
    """The directories directly in `prefix`, in order, without those that no verb takes."""
    try:
        with os.scandir(base + prefix) as entries:
            names = [one.name for one in entries if valid(one.name) and one.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise translate(error, prefix) from error
    return sorted(join(prefix, name) for name in names)


def leftovers(root: str) -> Iterator[str]:
    """The full paths of all temporary files: those of writers at work, and of those that died."""
    for directory, _, names in os.walk(root):
        for name in names:
            if name.startswith(TEMPORARY):
                yield f"{directory}/{name}"


def described(path: str, status: os.stat_result) -> ObjectInfo:
    """What the operating system says about the file at `path`."""
    micros = min(max(status.st_mtime_ns // 1000, _EARLIEST), _LATEST)
    modified = _EPOCH + timedelta(microseconds=micros)  # exact, which floats are not
    return ObjectInfo(path, status.st_size, modified, f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")


def _scan(base: str, prefix: str) -> tuple[list[str], list[str]]:
    """The names in a directory of files and of directories, in order, without those that no verb takes."""
    names: list[str] = []
    directories: list[str] = []
    try:
        with os.scandir(base + prefix) as entries:
            for entry in entries:
                if valid(entry.name):
                    (directories if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        if prefix == _OF_THE_VOLUME and error.errno == errno.EACCES:
            return [], []
        raise translate(error, prefix or base) from error
    names.sort()
    directories.sort()
    return names, directories


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or a link to one. The directory tells of all but links: nothing is asked of the files."""
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _listed(base: str, path: str) -> ObjectInfo | None:
    try:
        status = os.stat(base + path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # deleted since the directory was read, or the directory replaced by a file
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None  # links that lead to each other: there is no file
        raise translate(error, path) from error
    return described(path, status) if stat.S_ISREG(status.st_mode) else None
