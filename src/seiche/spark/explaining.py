"""What Spark says of a name that it does not know, in terms of the table: not of what a statement happens to read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException

__all__ = ["explained"]


@contextmanager
def explained(again: Callable[[], object]) -> Iterator[None]:
    """If what is said cannot be understood, `again` says it over all columns of the table and nothing else.

    A statement reads the columns that it speaks of, each row with its address. Of a name that is not among these Spark
    would say that perhaps one of them was meant: those which the user did not write, and has never heard of.
    """
    try:
        yield
    except AnalysisException as error:
        raise (_error(again) or error) from None


def _error(again: Callable[[], object]) -> AnalysisException | None:
    try:
        again()
    except AnalysisException as error:
        return error
    return None
