"""How a file appears under its name: whole, and for new names never in place of another.

Three ways to create, tried in this order and remembered (microseconds for 2 kB on ext4, measured on one quiet machine):

    a file without a name (O_TMPFILE), linked to its name      27   leaves nothing behind when the writer dies
    a temporary name, link(2), unlink                          43   where there is no O_TMPFILE
    a temporary name, renameat2(2) that refuses to replace     45   where there are no links either

Opening the final name with O_EXCL would be as quick as the first, but shows the file before its bytes.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput
from seiche.store.paths import TEMPORARY

__all__ = ["Fill", "Staging", "Undecided"]

Source = TypeVar("Source")

# Writes the content of a new file, made of what it is given, to the descriptor.
Fill: TypeAlias = Callable[[int, Source], None]

_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_ANONYMOUS_FLAGS = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
_NO_ANONYMOUS_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS})
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})

# After these answers to link(2) or rename(2) the name is certainly not ours. After any other (an I/O error, a time-out
# of a network mount) it may be.
_REFUSALS = _NO_LINKS | {
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EROFS,
}


class Undecided(Exception):
    """The operating system did not say whether the name was given to the file."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Staging:
    """Makes files appear under their names. All methods raise `OSError`; a missing directory is `FileNotFoundError`.

    `anonymous` and `links` say which of the ways may be tried; what the system lacks is found out.
    """

    def __init__(self, runtime: Runtime, *, anonymous: bool = True, links: bool = True) -> None:
        self._runtime = runtime
        self._anonymous = anonymous and hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")
        self._links = links

    def create(self, target: str, named: bool, fill: Fill[Source], source: Source, sync: bool) -> None:
        """Give `target` to a new file, or raise `FileExistsError`.

        With `named` it has a temporary name until then: a directory with a file in it is not removed.
        """
        if named or not (self._anonymous and self._create_anonymous(target, fill, source, sync)):
            self._create_named(target, fill, source, sync)

    def create_in_sight(self, target: str, _: bool, fill: Fill[Source], source: Source) -> None:
        """Give `target`, a name that nobody looks for yet, to a new file at once, and fill it then."""
        fd = os.open(target, _NEW_FLAGS, 0o666)
        try:
            try:
                fill(fd, source)
            finally:
                os.close(fd)  # where a network file system says that it has no room for what it took
        except BaseException:
            with suppress(OSError):
                os.unlink(target)
            raise

    def replace(self, target: str, _: bool, fill: Fill[Source], source: Source, sync: bool) -> None:
        """Give `target` to a new file, in place of what had the name before."""
        temporary = self._temporary(target, fill, source, sync)
        try:
            os.rename(temporary, target)
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise Undecided(error) from error
            raise
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def rename(self, source: str, target: str) -> None:
        """Give the file `source` the name `target`, or raise `FileExistsError`. It may keep its old name too."""
        if not self._links:
            _rename_without_replacing(source, target)
            return
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                _rename_without_replacing(source, target)
            elif error.errno not in _REFUSALS:
                raise Undecided(error) from error
            else:
                raise

    def _create_anonymous(self, target: str, fill: Fill[Source], source: Source, sync: bool) -> bool:
        """Create by linking a file that never had another name; False if it has to be done in another way."""
        try:
            fd = os.open(target[: target.rindex("/")] or "/", _ANONYMOUS_FLAGS, 0o666)
        except OSError as error:
            if error.errno in _NO_ANONYMOUS_FILES:
                self._anonymous = False
                return False
            if error.errno == errno.EPERM:
                return False  # also what ext4 says of a directory that is just being removed
            raise
        try:
            fill(fd, source)
            if sync:
                os.fsync(fd)
            return self._link_open_file(fd, target)
        finally:
            try:  # noqa: SIM105 - every commit comes by here twice, and the other way takes three more calls
                os.close(fd)
            except OSError:
                pass  # too late: the file has its name, and all its bytes

    def _link_open_file(self, fd: int, target: str) -> bool:
        """Give a file without a name its first one; False if that is refused, other than because it is taken."""
        try:
            # Naming a directory descriptor is what makes Python call linkat(2), which follows the link that stands in
            # /proc for the open file; link(2) would not. Linking the bare descriptor needs a privilege on older
            # kernels.
            os.link(f"/proc/self/fd/{fd}", target, src_dir_fd=fd, follow_symlinks=True)
            return True
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise Undecided(error) from error
            self._anonymous = error.errno not in _NO_LINKS
            return False

    def _create_named(self, target: str, fill: Fill[Source], source: Source, sync: bool) -> None:
        temporary = self._temporary(target, fill, source, sync)
        try:
            self.rename(temporary, target)
        except FileExistsError:
            # A network file system may have sent the request twice: then the first one was our own.
            if not _same_file(temporary, target):
                raise
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def _temporary(self, target: str, fill: Fill[Source], source: Source, sync: bool) -> str:
        """A new file with the content next to `target`, closed, so that a late error of the disk is known by now."""
        directory = os.path.dirname(target)
        while True:
            temporary = f"{directory}/{TEMPORARY}{self._runtime.u64():016x}"
            try:
                fd = os.open(temporary, _NEW_FLAGS, 0o666)
                break
            except FileExistsError:
                continue
        try:
            try:
                fill(fd, source)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary


def _rename_without_replacing(source: str, target: str) -> None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, no_replace = -100, 1
    if call is not None and call(here, os.fsencode(source), here, os.fsencode(target), no_replace) == 0:
        return
    code = errno.ENOSYS if call is None else ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        raise InvalidInput(
            f"{target}: the file system can neither link a file nor rename one without replacing another",
            remedy="Use a file system with hard links, or an object store.",
            path=target,
        )
    error = OSError(code, os.strerror(code), target)
    raise error if code in _REFUSALS else Undecided(error)


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
