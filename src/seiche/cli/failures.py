"""How a failure leaves the command: the exit code, and one line that says what was wrong and what to do."""

from enum import IntEnum

import typer

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

__all__ = ["ExitCode", "describe", "describe_usage", "exit_code"]


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


def exit_code(error: SeicheError) -> ExitCode:
    """The code with which the command ends on this error."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def describe(error: SeicheError) -> str:
    """One line: the error's kind, what was wrong, and what to do."""
    return _line(error.kind, error.message, error.remedy)


def describe_usage(mistake: typer.TyperException) -> str:
    """One line about a command line that cannot be understood."""
    context = getattr(mistake, "ctx", None)
    command = context.command_path if context else "seiche"
    return _line("usage", mistake.format_message(), f"See '{command} --help'.")


def _line(kind: str, message: str, remedy: str) -> str:
    told = [text.strip().rstrip(".") for text in (message, remedy) if text.strip()]
    sentences = [text if text.endswith("?") else f"{text}." for text in told]
    # Names given by a user may hold line breaks and escape sequences: they must not reach the terminal as such.
    shown = (character if character.isprintable() else " " for character in " ".join(sentences))
    return f"seiche: {kind}: " + " ".join("".join(shown).split())
