"""How a failure leaves the command: the exit code, and one line that says what was wrong and what to do."""

import errno
import re
from enum import IntEnum
from typing import Final

import typer

from seiche.core.wording import reworded
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    ConflictError,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)

__all__ = [
    "UNPRINTABLE",
    "ExitCode",
    "describe",
    "describe_interrupt",
    "describe_panic",
    "describe_unprinted",
    "describe_usage",
    "exit_code",
    "in_commands",
    "interrupt_of",
    "is_panic",
]

# What the operating system says of an output that takes no more. A closed pipe is none: whoever reads has seen enough.
UNPRINTABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


class ExitCode(IntEnum):
    """What a script can tell apart."""

    DONE = 0
    FAILED = 1
    MISTAKE = 2
    CONFLICT = 3
    UNKNOWN = 4
    UNAVAILABLE = 5
    INTERRUPTED = 130


# An error has the code of its nearest class in this table.
_CODES: dict[type, ExitCode] = {
    SeicheError: ExitCode.FAILED,
    InvalidInput: ExitCode.MISTAKE,
    NotFound: ExitCode.MISTAKE,
    AlreadyExists: ExitCode.MISTAKE,
    PermissionDenied: ExitCode.MISTAKE,
    ConflictError: ExitCode.CONFLICT,
    CommitUnknown: ExitCode.UNKNOWN,
    Unavailable: ExitCode.UNAVAILABLE,
}

# How remedies say it to programs, and what to type instead.
_COMMANDS: Final = {
    "create_namespace": "'seiche create-namespace'",
    "fsck(repair=True)": "'seiche fsck --repair'",
    "tx.id": "the id of a transaction",
    "lake.adopt(table)": "'seiche table adopt'",
    "lake.exports()": "'seiche exports'",
    "lake.log()": "'seiche log'",
    "lake.namespaces()": "'seiche ls'",
    "lake.rollback(to, tables=)": "'seiche rollback --table'",
    "lake.trash()": "'seiche trash'",
    "lake.tables()": "'seiche ls'",
    "lake.tags()": "'seiche tags'",
    "lake.unexport": "'seiche unexport'",
    "lake.unexport(name)": "'seiche unexport'",
    "lake.untag": "'seiche untag'",
    "versions()": "'seiche table history'",
    "as_of=": "--as-of",
    "tables=": "--table",
    "version=": "--version",
}
_WORDS: Final = (
    (re.compile(r"`lake\.diff\((\w+), (\w+)\)`"), r"'seiche diff URI \1 \2'"),
    (re.compile(r"`lake\.status\('([\w-]+)'\)`"), r"'seiche status URI \1'"),
    (re.compile(r"; `lake\.settle` makes the answer final"), ""),
    (re.compile(r"; `Table\.create` makes a new table"), ""),
    (re.compile(r"`seiche\.create\(\.\.\.\)`, or `seiche init`"), "'seiche init'"),
    (re.compile(r"`seiche ([\w -]+)`"), r"'seiche \1'"),
    (re.compile(r"Give a timedelta, a number of seconds, or a text such as"), "Write it as"),
    (re.compile(r'format="lance" or "iceberg"'), "--format lance or iceberg"),
    (re.compile(r'mode="(\w+)"'), r"--mode \1"),
)


def exit_code(error: SeicheError) -> ExitCode:
    """The code with which the command ends on this error."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def describe(error: SeicheError) -> str:
    """One line: the error's kind, what was wrong, and what to do, in words of the command line."""
    return _line(error.kind, error.message, in_commands(error.remedy))


def in_commands(remedy: str) -> str:
    """What to do, in words of the command line."""
    return reworded(remedy, _COMMANDS, _WORDS)


def describe_usage(mistake: typer.TyperException, command: str) -> str:
    """One line about a command line that cannot be understood. `command` is what it names, if the mistake does not."""
    context = getattr(mistake, "ctx", None)
    command = context.command_path if context else command
    return _line("usage", mistake.format_message(), f"See '{command} --help'.")


def describe_unprinted(error: OSError) -> str:
    """One line about an answer that could not be given."""
    message = f"the output could not be written: {error.strerror}"
    return _line("output", message, "Whatever the command does has been done; look before doing it again.")


def interrupt_of(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C that it is, or came of: what is waited for can fail once more on its way out.

    Not a commit whose outcome is open: whoever interrupted it must hear that it may have happened.
    """
    while not isinstance(error, KeyboardInterrupt):
        before = error.__cause__ or error.__context__
        if before is None or isinstance(error, CommitUnknown):
            return None
        error = before
    return error


def describe_interrupt(interrupt: KeyboardInterrupt) -> str:
    """One line about a commit that Ctrl-C came into, which may have happened; empty if there was none."""
    notes = " ".join(getattr(interrupt, "__notes__", ()))
    return _line(CommitUnknown.kind, "interrupted", in_commands(notes)) if notes else ""


def is_panic(error: BaseException) -> bool:
    """Whether native code gave up. It has no type that could be named, and is no `Exception`."""
    return type(error).__name__ == "PanicException"


def describe_panic(error: BaseException) -> str:
    """One line about native code that gave up."""
    remedy = "Look at what is there before doing it again; 'seiche fsck --deep' finds files that are damaged."
    return _line("error", f"native code panicked: {error}", remedy)


def _line(kind: str, message: str, remedy: str) -> str:
    told = [text.strip().rstrip(".") for text in (message, remedy) if text.strip()]
    sentences = [text if text.endswith("?") else f"{text}." for text in told]
    # Names given by a user may hold line breaks and escape sequences: they must not reach the terminal as such.
    shown = (character if character.isprintable() else " " for character in " ".join(sentences))
    return f"seiche: {kind}: " + " ".join("".join(shown).split())
