"""Errors of ours that come out of Spark, which tells of them in a text of its own, as what they are.

A frame is read by workers, whoever runs it. What they raise there reaches the driver as a `PythonException`, with their
traceback in it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from seiche import errors
from seiche.errors import SeicheError

__all__ = ["as_raised"]

# How Python writes down an error: its name and what it says, behind the places that it came through.
_SAID = re.compile(r"seiche\.errors\.(\w+): (.*)")
_PLACE, _REMEDY = "  File ", "  "


@contextmanager
def as_raised() -> Iterator[None]:
    """What a worker raised while Spark did this, if it is an error of ours, is raised here."""
    from pyspark.errors import PythonException

    try:
        yield
    except PythonException as error:
        found = _told(str(error))
        if found is None:
            raise
        raise found from error


def _told(text: str) -> SeicheError | None:
    """The error that a traceback ends with, if it is ours. What it is about beside its sentences is not in the text."""
    lines = text.splitlines()
    last = max((number for number, line in enumerate(lines) if line.startswith(_PLACE)), default=-1)
    behind = iter(lines[last + 1 :])
    said = _SAID.match(next((line for line in behind if line[:1].strip()), ""))
    kind = said and getattr(errors, said[1], None)
    if said is None or not (isinstance(kind, type) and issubclass(kind, SeicheError)):
        return None
    message, remedy = [said[2]], ""
    for line in behind:
        if line.startswith(_REMEDY):
            remedy = line.strip()
            break
        if not line or line[0].isspace():
            break
        message.append(line)
    return kind("\n".join(message), remedy=remedy)
