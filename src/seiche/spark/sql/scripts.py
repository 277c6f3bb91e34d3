"""Several statements in one text."""

from seiche.errors import InvalidInput
from seiche.spark.sql.words import words

__all__ = ["is_whole", "split"]


def split(text: str) -> list[str]:
    """The statements of a text, which have `;` between; those in quotes and comments are none."""
    found, start = [], 0
    ends = [(word.start, word.end) for word in words(text) if word.key == ";"]
    for end, after in [*ends, (len(text), len(text))]:
        statement = text[start:end].strip()
        if statement and words(statement):
            found.append(statement)
        start = after
    return found


def is_whole(text: str) -> bool:
    """Whether what was typed so far ends with a `;`, outside of quotes and comments."""
    try:
        found = words(text)
    except InvalidInput:
        return False
    return not found or found[-1].key == ";"
