"""What a failure of the operating system means to the caller of a store."""

import errno
import os

from seiche.errors import CommitUnknown, InvalidInput, NotFound, PermissionDenied, SeicheError, Unavailable

__all__ = ["translate"]

_CHECK_ACCESS = "Check the owner, the mode and the mount of the directory."
_FREE_SPACE = "Nothing was written. Free space or raise the limit, then try again."
_SIMPLER = "Choose a shorter, simpler name."

_MEANINGS: dict[int | None, tuple[type[SeicheError], str]] = {
    errno.ENOENT: (NotFound, ""),
    errno.EISDIR: (InvalidInput, "Choose a name that is not a directory."),
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


def _folder(error: OSError) -> str:
    """Where it happened: `path` is known to us, the folder to the user."""
    name: object = error.filename
    return f": {os.path.dirname(name)}" if isinstance(name, str) and os.path.isabs(name) else ""
