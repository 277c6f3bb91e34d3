"""The command `seiche`: a thin face of the library. Each command is a function that can be called as such.

What the exit code says, for scripts (`seiche.cli.failures` is the one place that decides it):

    0    done
    1    an error that is none of those below, such as corrupt data or a store that must not be trusted
    2    a mistake to correct: wrong usage, invalid input, not found, already exists, permission denied
    3    a conflict: somebody else committed first, nothing was written
    4    unknown: it may or may not have happened; ask before doing it again
    5    unavailable: no answer, nothing was decided; try later
    130  interrupted

Every failure that is not a bug is one line on stderr. A traceback is a bug in Seiche.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["main"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (by default that of this process) and return its exit code; never raises for a user's mistake."""
    # What commands are made of takes a fifth of a second to load. It is loaded here, and not when this module is, so
    # that whoever presses Ctrl-C meanwhile sees no traceback.
    with _interrupted_quietly():
        _open_streams()
        from seiche.cli.commands import run_command
    return run_command(arguments)


def _open_streams() -> None:
    """Open what this process was started without (`2>&-`), to nowhere.

    Otherwise the next file that is opened, of a table perhaps, has the number of stderr, and whatever native code says
    goes there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # each gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as long as the process


@contextmanager
def _interrupted_quietly() -> Iterator[None]:
    """An interrupt inside ends the process at once: nothing was begun, and nothing is to be cleared away.

    Not by an exception: those that come up while modules are loaded are printed in places that nobody can catch. Where
    interrupts are ignored or somebody else's, they stay so.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler and "seiche.cli.commands" not in sys.modules
    try:
        if ours:
            signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    except ValueError:  # only the main thread is interrupted
        ours = False
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
