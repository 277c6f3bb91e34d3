"""What a process does once that serves others and nothing else."""

import gc
import sys

__all__ = ["settle_server"]

# How long a thread may go on while another waits for its turn, in seconds.
_TURN = 0.0005


def settle_server() -> None:
    """For a server that has loaded what it needs, and is about to take requests: none of them waits for long.

    Commits wait for the disk and calls for the network, so whoever is ready must not wait for the other's turn to end.
    And what is there by now stays for good: it is never looked through for garbage again. Otherwise a request has to
    wait now and then until half a million objects of libraries were, which takes 0.1 seconds and more.
    """
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()
