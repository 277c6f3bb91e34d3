"""A statement as a row of words, each with its place, and a cursor that goes through them.

The lexer is sqlglot's. Nothing is lost on the way: whoever reads a statement by words has seen all of it, or refuses
the word that it does not know.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NoReturn, TypeAlias

from seiche.errors import InvalidInput
from seiche.spark.sql.refusals import refusal

__all__ = ["Cursor", "Word", "dialect", "words"]

Sort: TypeAlias = Literal["word", "quoted", "string", "number", "symbol", "end"]

_PLAIN = re.compile(r"\w+", re.ASCII)
_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
# What is closed, and the signs that open what is not.
_CLOSED = re.compile(
    r"""/\*.*?\*/|--[^\n]*|[xX]'[^']*'|[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|/\*|['"`]""",
    re.DOTALL,
)
_OPENING = frozenset({"/*", "'", '"', "`"})
_STRINGS = frozenset({"STRING", "RAW_STRING"})
# A prefix that keeps the lexer from taking SHOW and its like, with all that follows, for one opaque command.
_PREFIX = "("


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a statement: `text` as written, `value` without quotes, from `start` up to but not with `end`."""

    sort: Sort
    text: str
    value: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """What it is compared by: a keyword in capitals; a quoted name or a string is never a keyword."""
        return self.text.upper() if self.sort in {"word", "symbol"} else ""


@lru_cache(maxsize=8)
def words(text: str) -> tuple[Word, ...]:
    """The words of a statement, without comments. Kept for the next one who asks: each expression in it does."""
    spark = dialect()
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("the statement is not valid Unicode", remedy="Write it in UTF-8.", statement=text) from error
    try:
        tokens = spark.tokenize(_PREFIX + text)
    except _token_error() as error:
        at = _unclosed(text)
        what = (
            "X'...' is not made of hexadecimal digits"
            if text[at : at + 1] in "xX"
            else "what opens here is never closed"
        )
        raise refusal(text, at, f"the statement cannot be read: {what}") from error
    found: list[Word] = []
    for token in tokens[1:]:
        start, end = token.start - len(_PREFIX), token.end + 1 - len(_PREFIX)
        if found and start < found[-1].end:
            continue  # the rest of a number such as 10L, which the lexer has made three of
        _check_comments(text, found[-1].end if found else 0, start)
        found += _split(text, token.token_type.name, token.text, start, end)
    return tuple(found)


def _unclosed(text: str) -> int:
    """Where a quote or a comment opens that is closed nowhere; or else the last number in quotes."""
    last = 0
    for piece in _CLOSED.finditer(text):
        if piece[0] in _OPENING:
            return piece.start()
        if piece[0][0] in "xX":
            last = piece.start()
    return last


def _check_comments(text: str, start: int, end: int) -> None:
    """Refuse a comment that goes on in the next line, to Spark: what is read as a condition here is none there."""
    for comment in _COMMENTS.finditer(text, start, end):
        if comment[0].startswith("--") and comment[0].endswith("\\") and comment.end() < end:
            what = "the comment ends in a backslash, by which Spark takes the next line for a part of it"
            raise refusal(text, comment.start(), what, "Put a blank behind it.")


def _split(text: str, kind: str, value: str, start: int, end: int) -> list[Word]:
    """A word of the lexer, as words of ours: it makes one of ORDER BY, and of the >> that closes two brackets."""
    raw = text[start:end]
    if kind in _STRINGS:
        return [Word("string", raw, value, start, end)]
    if kind == "IDENTIFIER":
        return [Word("quoted", raw, value, start, end)]
    if kind == "NUMBER":
        return [Word("number", raw, raw, start, end)]
    parts = re.finditer(r">|[^\s>]+", raw) if set(raw) == {">"} else re.finditer(r"\S+", raw)
    made = []
    for part in parts:
        sort: Sort = "word" if _PLAIN.match(part[0]) else "symbol"
        made.append(Word(sort, part[0], part[0], start + part.start(), start + part.end()))
    return made


@lru_cache(maxsize=1)
def dialect() -> Any:
    """Spark's dialect in sqlglot."""
    try:
        from sqlglot.dialects.spark import Spark
    except ImportError as error:
        raise InvalidInput("SQL needs sqlglot", remedy='Install it with pip install "seiche[spark]".') from error
    return Spark()


def _token_error() -> type[Exception]:
    from sqlglot.errors import TokenError

    return TokenError


class Cursor:
    """Goes through the words of a statement. What it is not told to expect, it refuses by name and place."""

    def __init__(self, text: str, found: Sequence[Word]) -> None:
        self.text = text
        self._words = found
        self._at = 0

    @property
    def here(self) -> Word:
        """The next word; one of sort `end` behind the last."""
        return self.ahead(0)

    def ahead(self, steps: int) -> Word:
        """The word so many steps further on."""
        at = self._at + steps
        if at < len(self._words):
            return self._words[at]
        return Word("end", "", "", len(self.text), len(self.text))

    @property
    def behind(self) -> int:
        """Where the last word that was taken ends."""
        return self._words[self._at - 1].end if self._at else 0

    @property
    def done(self) -> bool:
        return self.here.sort == "end"

    def next(self) -> Word:
        """Take the next word, whatever it is."""
        word = self.here
        self._at += 1
        return word

    def sees(self, *keys: str) -> bool:
        """Whether these words come next."""
        return all(self.ahead(step).key == key for step, key in enumerate(keys))

    def take(self, *keys: str) -> bool:
        """Take these words if they come next."""
        if not self.sees(*keys):
            return False
        self._at += len(keys)
        return True

    def expect(self, *keys: str) -> None:
        """Take these words, or refuse."""
        for key in keys:
            if not self.take(key):
                self.refuse(f"{key} was expected")

    def one_of(self, *keys: str) -> str | None:
        """Take the next word if it is one of these, and say which."""
        found = self.here.key
        if found and found in keys:
            self._at += 1
            return found
        return None

    def part(self, what: str = "a name") -> str:
        """One part of a name, in backquotes or not."""
        if self.here.sort not in {"word", "quoted"}:
            self.refuse(f"{what} was expected")
        return self.next().value

    def name(self, what: str = "a name") -> tuple[str, ...]:
        """A name: parts with dots between."""
        parts = [self.part(what)]
        while self.take("."):
            parts.append(self.part(what))
        return tuple(parts)

    def string(self) -> str:
        if self.here.sort != "string":
            self.refuse("a text in quotes was expected")
        return self.next().value

    def integer(self, what: str = "a whole number") -> int:
        if self.here.sort != "number" or not self.here.value.isdecimal():
            self.refuse(f"{what} was expected")
        return int(self.next().value)

    def end(self) -> None:
        """Refuse whatever is left."""
        if not self.done:
            self.refuse("the statement should end here")

    def refuse(self, what: str, remedy: str = "") -> NoReturn:
        """Refuse the next word."""
        shown = f"{self.here.text} is not understood" if not self.done else "the statement ends too early"
        raise refusal(self.text, self.here.start, f"{shown}: {what}", remedy)

    def span(self, *stops: str) -> tuple[int, int]:
        """Take everything up to one of these words outside of brackets and CASE, or the end; returns its place."""
        start, depth = self.here.start, 0
        while not self.done and not (depth == 0 and self.here.key in stops):
            after_dot = self._at > 0 and self._words[self._at - 1].key == "."
            key = "" if after_dot else self.here.key
            self._at += 1
            depth += (key in {"(", "[", "CASE"}) - (key in {")", "]", "END"})
            if depth < 0:
                self._at -= 1
                self.refuse("its opening bracket is missing")
        if self.behind <= start:
            self.refuse("something was expected before it")
        return start, self.behind
