"""What a process does once that serves others and nothing else."""

import gc
import sys
from contextlib import suppress

__all__ = ["settle_server"]

# How long a thread may go on while another waits for its turn, in seconds.
_TURN = 0.0005

# How many files and connections a server may have open, if the system allows it.
_FILES = 65_536


def _may_open_many() -> None:
    try:
        import resource
    except ImportError:  # not a system that counts them
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems name a limit that they do not grant: then it is as it was.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def settle_server() -> None:
    """For a server that has loaded what it needs, and is about to take requests: none of them waits for long.

    Commits wait for the disk and calls for the network, so whoever is ready must not wait for the other's turn to end.
    And what is there by now stays for good: it is never looked through for garbage again. Otherwise a request has to
    wait now and then until half a million objects of libraries were, which takes 0.1 seconds and more.

    Each connection takes one of the files that the process may have open, and so does every file of a lake: as many as
    the system lets it have, since by default a thousand idle clients would keep all others from committing.
    """
    _may_open_many()
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()
