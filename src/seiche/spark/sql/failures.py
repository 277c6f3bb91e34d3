"""What Spark finds wrong with a statement, as an error of ours: the input has to be corrected."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from seiche.errors import InvalidInput, SeicheError, Unavailable

__all__ = ["as_errors", "as_input_errors", "first_line", "last_cause"]

_PLACE = re.compile(r";? ?\(?line \d+,? pos \d+\)?")
# Codes that say in figures what the sentence says. The classes are those of SQL for what the writer has to mend:
# values that do not fit, and statements that make no sense.
_CODE = re.compile(r"\s*SQLSTATE: \w{5}\.?")
_MENDABLE = re.compile(r"\[[A-Z_.]+\].*SQLSTATE: (?:2[0-9]|42|0A)", re.DOTALL)
# Advice that would not help here: without ANSI rules nothing can be stored at all.
_LENIENT = re.compile(r' If necessary set "spark\.sql\.ansi\.enabled" to "false" to bypass this error[^.]*\.')
# A list of names, and those in it that only we know.
_NAMES = re.compile(r" Did you mean one of the following\? \[([^\]]*)\]\.?")
_OURS = re.compile(r"`_(?:rowaddr|seiche_[^`]*)`$")


# What Spark raises for a statement that cannot be right, or values that it cannot be right for.
_WRONG = (
    "AnalysisException",
    "ArithmeticException",
    "ArrayIndexOutOfBoundsException",
    "DateTimeException",
    "IllegalArgumentException",
    "NumberFormatException",
    "ParseException",
    "SparkRuntimeException",
)


@contextmanager
def as_input_errors(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Names that Spark cannot resolve, types that do not fit, and values that cannot be computed are `InvalidInput`.

    `names` are what the writer of the statement calls the tables that Spark was given under other names.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import errors

    wrong = tuple(getattr(errors, name) for name in _WRONG)
    try:
        yield
    except wrong as error:
        raise _input_error(first_line(error), names) from error
    except Py4JJavaError as error:
        # What pyspark has no class for comes as it is, wrapped in whatever it was thrown through.
        said = next((one for one in _causes(error) if _MENDABLE.match(one)), None)
        if said is None:
            raise
        raise _input_error(_said(said), names) from None


@contextmanager
def as_errors() -> Iterator[None]:
    """As `as_input_errors`; whatever else Spark says is a plain error, in a line, and `Unavailable` that it is gone."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with as_input_errors():
            yield
    except PySparkException as error:
        raise SeicheError(f"Spark: {first_line(error)}") from error
    except Py4JJavaError as error:
        raise SeicheError(f"Spark: {last_cause(error)}") from None
    except (Py4JError, ConnectionError) as error:
        raise Unavailable(
            f"Spark does not answer: {first_line(error)}",
            remedy="Its Java has ended, and with it what was not committed. Start again.",
        ) from error


def last_cause(error: BaseException) -> str:
    """What the error of Spark's says that led to all others."""
    if hasattr(error, "java_exception"):
        *_, last = _causes(error)
        return _said(last)
    inner = getattr(error, "cause", None)
    return first_line(error) if inner is None else last_cause(inner)


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without its plans, traces and codes."""
    return _said(str(error)) or type(error).__name__


def _said(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The place is one in what Spark was given, where names are other ones.
    if not lines:
        return ""
    return _NAMES.sub(_suggested, _LENIENT.sub("", _CODE.sub("", _PLACE.sub("", lines[0])))).rstrip("; ")


def _suggested(found: "re.Match[str]") -> str:
    names = [one for one in found[1].split(", ") if one and not _OURS.search(one)]
    return f" Did you mean one of the following? [{', '.join(names)}]." if names else ""


def _input_error(said: str, names: Mapping[str, str] | None) -> InvalidInput:
    if names:
        said = re.sub(r"`(\w+)`(?=\.`)", lambda found: f"`{names.get(found[1], found[1])}`", said)
    return InvalidInput(said, remedy="Nothing was done. Correct the statement.")


def _causes(error: Any) -> Iterator[str]:
    """What an error of Java says, and those that led to it."""
    cause = error.java_exception
    while cause is not None:
        yield str(cause.getMessage() or cause.toString())
        cause = cause.getCause()
