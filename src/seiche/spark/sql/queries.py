"""Queries and expressions: which tables they speak of, and the same text with other names for them.

sqlglot finds the tables; what it makes of the text is otherwise not used. Spark gets what the user wrote, with the
names of tables replaced in place. So a difference between the two parsers cannot change what a query means: at worst a
name is not replaced, and Spark does not know it.
"""

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from seiche.lake.objects.names import Name
from seiche.spark.names import quoted
from seiche.spark.sql.allowed import check_nodes
from seiche.spark.sql.refusals import refusal
from seiche.spark.sql.travel import Travel, travels
from seiche.spark.sql.words import Word, dialect, words

__all__ = ["Expression", "Query", "TableReference", "conjuncts", "dotted", "parse_expression", "parse_query"]

# How sqlglot shows a word in its errors.
_TOKEN = re.compile(r"<Token token_type: [^,]+, text: (.*?), line: [^>]*>")


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table in a query, by the name that is written there, from `start` up to but not with `end`."""

    name: tuple[str, ...]
    start: int
    end: int
    # What the rest of the query calls it.
    alias: str
    # Where the alias must be written, if it has none in the text.
    alias_at: int | None
    travel: Travel | None
    node: Any

    def __hash__(self) -> int:
        return hash((self.name, self.start))


@dataclass(frozen=True, slots=True)
class Query:
    """A part of a statement that Spark will execute: `text[start:end]`, and the tables in it."""

    text: str
    start: int
    end: int
    tree: Any
    words: tuple[Word, ...]
    tables: tuple[TableReference, ...]

    @property
    def identifiers(self) -> frozenset[str]:
        """Every word that could be a column, in lower case."""
        return frozenset(word.value.lower() for word in self.words if word.sort in {"word", "quoted"})

    def rewritten(self, name_for: Callable[[TableReference], str], *, braces: bool = False, around: Name = ()) -> str:
        """The text, with these names for the tables and without time travel; `braces` doubles those that are there.
        `around` is the table that the statement changes, if it has no alias: its columns can be spoken of, too.
        """
        edits: list[tuple[int, int, str]] = []
        for table in self.tables:
            alias = "" if table.alias_at is None else f" AS {quoted(table.alias)}"
            if table.alias_at == table.end:
                edits.append((table.start, table.end, name_for(table) + alias))
            else:
                edits.append((table.start, table.end, name_for(table)))
                if table.alias_at is not None:
                    edits.append((table.alias_at, table.alias_at, alias))
            if table.travel is not None:
                edits.append((table.travel.start, table.travel.end, ""))
        edits += self._short_columns(around)
        return _spliced(self.text, self.start, self.end, edits, braces=braces)

    def _short_columns(self, around: Name) -> Iterator[tuple[int, int, str]]:
        """`shop.orders.id` becomes `orders.id`: there is no namespace where Spark looks for the table.

        Refused where something else is called `orders` as well, here or further in: it could become that one's column.
        """
        bare = [table.name for table in self.tables if table.alias_at is not None and len(table.name) > 1]
        aliases = [one.name.lower() for one in self.tree.find_all(exp.TableAlias) if one.name]
        # What functions such as `orders -> orders.id` call their own comes before tables.
        aliases += [one.name.lower() for function in self.tree.find_all(exp.Lambda) for one in function.expressions]
        if len(around) > 1 and around not in bare:
            bare.append(around)
            aliases.append(around[-1].lower())
        aliases += [table.alias.lower() for table in self.tables if table.alias_at is not None]
        taken = set(aliases)
        for column in self.tree.find_all(exp.Column):
            parts = dotted(column)
            names = tuple(part.name for part in parts)
            for table in bare:
                size = len(table)
                if len(names) > size and names[:size] == table and names[0].lower() not in taken:
                    if aliases.count(table[-1].lower()) > 1:
                        shown = ".".join(names)
                        what = f"{shown} is not clear: several tables of the query are called {table[-1]}"
                        raise refusal(self.text, parts[0].meta["start"], what, "Give each another name with AS.")
                    yield parts[0].meta["start"], parts[size - 1].meta["start"], ""
                    break


@dataclass(frozen=True, slots=True)
class Expression(Query):
    """A condition or a value in a statement that changes a table; it may have queries inside."""


def parse_query(text: str, start: int, end: int) -> Query:
    """The query at this place of a statement; refused if there is anything in it that is not understood."""
    return Query(text, start, end, *_parsed(text, start, end, masked(text, start, end), expression=False))


def parse_expression(text: str, start: int, end: int) -> Expression:
    """The condition or value at this place of a statement."""
    lead = "SELECT "
    source = lead + masked(text, start, end)[len(lead) :]
    return Expression(text, start, end, *_parsed(text, start, end, source, expression=True))


def masked(text: str, start: int, end: int) -> str:
    """The text up to `end` with blanks for everything before `start`: places stay as they are."""
    return _blank(text[:start]) + text[start:end]


def _parsed(
    text: str, start: int, end: int, source: str, *, expression: bool
) -> tuple[Any, tuple[Word, ...], tuple[TableReference, ...]]:
    everything = words(text)
    first, behind = (bisect_left(everything, place, key=_start_of) for place in (start, end))
    within = everything[first:behind]
    clauses = travels(text, within)
    for clause in clauses:
        source = source[: clause.start] + _blank(source[clause.start : clause.end]) + source[clause.end :]
    tree = _tree(text, start, source)
    check_nodes(tree, text, start, within, expression=expression)
    tables = tuple(_tables(tree, within, clauses))
    known = {table.travel for table in tables}
    for clause in clauses:
        if clause not in known:
            what = f"{text[clause.start : clause.end]} does not follow the name of a table"
            raise refusal(text, clause.start, what, "Time travel is said of each table.")
    return tree, within, tables


def _start_of(word: Word) -> int:
    return word.start


def _tree(text: str, start: int, source: str) -> Any:
    try:
        with _without_warnings():
            trees = dialect().parse(source)
    except SqlglotError as error:
        details = (getattr(error, "errors", None) or [{}])[0]
        what = f"the query is not understood: {_said(error, details)}"
        raise refusal(text, _start(text, start, details), what) from error
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1:
        raise refusal(text, start, "one query was expected")
    return found[0]


@contextmanager
def _without_warnings() -> Iterator[None]:
    """What the parser warns of, a statement that it does not know, is refused here, and said in one line."""
    logger = logging.getLogger("sqlglot")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def _said(error: SqlglotError, details: Mapping[str, Any]) -> str:
    """What the parser says, in words: of the text that it met, not of its own classes."""
    what, met = str(details.get("description") or error).rstrip("."), details.get("highlight", "")
    if what.startswith("Invalid expression"):
        return f"{met} was not expected"
    if what.startswith("Required keyword"):
        return f"something is missing at {met}"
    return _TOKEN.sub(lambda token: "the end" if token[1] == "SENTINEL" else token[1], what)


def _start(text: str, start: int, details: Mapping[str, Any]) -> int:
    """Where the word begins that the parser stopped at; it tells where that ends."""
    if details.get("line") is None:
        return start
    end = _offset(text, int(details["line"]), int(details.get("col") or 1))
    return max(start, end - max(len(details.get("highlight") or ""), 1) + 1)


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return min(len(text), sum(len(one) + 1 for one in lines[: line - 1]) + max(column - 1, 0))


def _tables(tree: Any, within: Sequence[Word], clauses: Sequence[Travel]) -> Iterator[TableReference]:
    for node in tree.find_all(exp.Table):
        parts = node.parts
        if not all(isinstance(part, exp.Identifier) for part in parts):
            continue  # a function that makes a table
        if node.find_ancestor(exp.Hint) is not None:
            continue  # by the name that the rest of the query has for it, which stays
        name = tuple(part.name for part in parts)
        if len(name) == 1 and _is_common(node, name[0]):
            continue
        start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        travel = next((clause for clause in clauses if clause.after == end), None)
        behind = end if travel is None else travel.end
        alias_at = None if node.alias else _after_sample(within, behind)
        # An alias goes where the name is, unless there is something between that Spark wants before an alias.
        alias_at = end if alias_at == behind else alias_at
        yield TableReference(name, start, end, node.alias or name[-1], alias_at, travel, node)


def _after_sample(within: Sequence[Word], end: int) -> int:
    """Where a table's alias goes: behind its TABLESAMPLE (...), if it has one."""
    after = [word for word in within if word.start >= end]
    if not after or after[0].key != "TABLESAMPLE":
        return end
    at, depth = 1, 0
    while at < len(after):
        depth += (after[at].key == "(") - (after[at].key == ")")
        at += 1
        closed = depth == 0 and after[at - 1].key == ")"
        if closed and (at == len(after) or after[at].key != "REPEATABLE"):
            break
    return after[at - 1].end


def _is_common(node: Any, name: str) -> bool:
    """Whether a table is one that a WITH around it defines."""
    child, parent = node, node.parent
    wanted = name.lower()
    while parent is not None:
        if isinstance(parent, exp.With):
            # Seen from inside one of the definitions: those before it, and itself if it is recursive.
            before = parent.expressions[: parent.expressions.index(child) + (1 if parent.recursive else 0)]
            if any(one.alias.lower() == wanted for one in before):
                return True
        else:
            common = parent.args.get("with_")
            if (
                common is not None
                and common is not child
                and any(one.alias.lower() == wanted for one in common.expressions)
            ):
                return True
        child, parent = parent, parent.parent
    return False


def dotted(node: Any) -> list[Any]:
    """The words of a column with dots between them, whichever of them it is that is given; none of anything else.

    The parser takes three words before a column for those of a table; what follows the fourth, it takes for a field of
    a struct. So the columns of a table that lies deep are fields to it.
    """
    while isinstance(node, exp.Dot):
        node = node.this
    if not isinstance(node, exp.Column):
        return []
    parts = list(node.parts)
    while isinstance(node.parent, exp.Dot) and node.parent.this is node:
        node = node.parent
        parts.append(node.expression)
    return parts


def conjuncts(node: Any) -> Iterator[Any]:
    """The conditions that must all be true for this one to be."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def _blank(text: str) -> str:
    return "".join(character if character == "\n" else " " for character in text)


def _spliced(text: str, start: int, end: int, edits: Sequence[tuple[int, int, str]], *, braces: bool) -> str:
    pieces, at = [], start
    for first, last, new in sorted(edits, key=lambda edit: (edit[0], edit[1])):
        kept = text[at:first]
        pieces += [kept.replace("{", "{{").replace("}", "}}") if braces else kept, new]
        at = last
    kept = text[at:end]
    pieces.append(kept.replace("{", "{{").replace("}", "}}") if braces else kept)
    return "".join(pieces)
