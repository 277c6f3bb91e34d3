"""What Spark finds wrong with a statement, as an error of ours: the input has to be corrected."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from seiche.errors import InvalidInput, SeicheError

__all__ = ["as_errors", "as_input_errors", "first_line"]

_PLACE = re.compile(r";? line \d+,? pos \d+")


@contextmanager
def as_input_errors() -> Iterator[None]:
    """Names that Spark cannot resolve, types that do not fit, and values that cannot be computed are `InvalidInput`."""
    from pyspark.errors import (
        AnalysisException,
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        IllegalArgumentException,
        NumberFormatException,
        ParseException,
        SparkRuntimeException,
    )

    wrong = (
        AnalysisException,
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        IllegalArgumentException,
        NumberFormatException,
        ParseException,
        SparkRuntimeException,
    )
    try:
        yield
    except wrong as error:
        raise InvalidInput(first_line(error), remedy="Nothing was done. Correct the statement.") from error


@contextmanager
def as_errors() -> Iterator[None]:
    """As `as_input_errors`; whatever else Spark says is a plain error, in a line."""
    from pyspark.errors import PySparkException

    try:
        with as_input_errors():
            yield
    except PySparkException as error:
        raise SeicheError(f"Spark: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without its plans and traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The place is one in what Spark was given, where names are other ones.
    return _PLACE.sub("", lines[0]).rstrip("; ") if lines else type(error).__name__
