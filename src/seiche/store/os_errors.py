"""What a failure of the operating system means to the caller of a store."""

import errno
import os

from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)

__all__ = ["lost", "no_file", "taken", "translate", "unreadable"]

_CHECK_ACCESS = "Check the owner, the mode and the mount of the directory."
_FREE_SPACE = "Nothing was written. Free space or raise the limit, then try again."
_NO_DIRECTORY = "Choose a name that is not a directory."
_SIMPLER = "Choose a shorter, simpler name."

_MEANINGS: dict[int | None, tuple[type[SeicheError], str]] = {
    errno.ENOENT: (NotFound, ""),
    errno.EISDIR: (InvalidInput, _NO_DIRECTORY),
    errno.ENOTDIR: (InvalidInput, "A part of the path is a file: choose a name whose parents are directories."),
    errno.ENAMETOOLONG: (InvalidInput, _SIMPLER),
    errno.EILSEQ: (InvalidInput, _SIMPLER),
    errno.ELOOP: (InvalidInput, _SIMPLER),
    errno.EACCES: (PermissionDenied, _CHECK_ACCESS),
    errno.EPERM: (PermissionDenied, _CHECK_ACCESS),
    errno.EROFS: (PermissionDenied, _CHECK_ACCESS),
    errno.ENOSPC: (Unavailable, _FREE_SPACE),
    errno.EDQUOT: (Unavailable, _FREE_SPACE),
    errno.EFBIG: (Unavailable, _FREE_SPACE),
}


def translate(error: OSError, path: str, *, took_effect: bool = False) -> SeicheError:
    """The error of our own tree that says what to do about `error`, which was met at `path`.

    `took_effect` says that the file may already be visible: then nothing may be concluded but "unknown".
    """
    reason = error.strerror or str(error)
    if took_effect:
        return CommitUnknown(
            f"{path}: the file may have been written, and may not survive a power failure: {reason}",
            path=path,
            errno=error.errno,
        )
    meaning, remedy = _MEANINGS.get(error.errno, (Unavailable, ""))
    return meaning(f"{path}: {reason}{_folder(error)}", remedy=remedy, path=path, errno=error.errno)


def unreadable(error: OSError, path: str) -> SeicheError:
    """What a failed read means: where a file stands in the way, the file below it does not exist."""
    if error.errno == errno.ENOTDIR:
        return NotFound(f"{path}: no such file", path=path)
    if error.errno == errno.EISDIR:
        return no_file(path)
    return translate(error, path)


def no_file(path: str) -> NotFound:
    """What it means that something else than a file has the name."""
    return NotFound(f"{path}: is a directory or a device, not a file", path=path)


def taken(target: str, path: str) -> SeicheError:
    """What it means that the name was there already; `target` is the whole path."""
    if os.path.isdir(target):
        return InvalidInput(f"{path}: is a directory", remedy=_NO_DIRECTORY, path=path)
    return AlreadyExists(f"{path}: exists already", path=path)


def lost(error: OSError, path: str) -> Corrupt:
    """What a failed flush means: the system has given up the bytes, and nobody has them any more."""
    return Corrupt(
        f"{path}: the disk did not take what was written: {error.strerror or error}",
        remedy="Nothing that needs the file was committed. See to the disk, and do it again: that writes a new file.",
        path=path,
        errno=error.errno,
        reason="lost",
    )


def _folder(error: OSError) -> str:
    """Where it happened: `path` is known to us, the folder to the user, or the file that stands where one must be."""
    name: object = error.filename
    if not isinstance(name, str) or not os.path.isabs(name):
        return ""
    itself = os.path.isdir(name) or (error.errno == errno.ENOTDIR and os.path.isfile(name))
    return f": {name if itself else os.path.dirname(name)}"
