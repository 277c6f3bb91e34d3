"""What to do, in words of SQL: whoever writes statements is not told to call Python."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from seiche.core.wording import reworded
from seiche.errors import SeicheError

__all__ = ["in_statements", "in_words_of_sql"]

# How remedies say it to programs, and what to write instead; what has no statement is a command.
_STATEMENTS: Final = {
    "alter_columns": "ALTER TABLE ... ALTER COLUMN",
    "create_namespace": "CREATE NAMESPACE",
    "fsck(repair=True)": "CALL seiche.fsck(repair => true)",
    "lake.exports()": "`seiche exports`",
    "lake.log()": "SHOW VERSIONS",
    "lake.namespaces()": "SHOW NAMESPACES",
    "lake.tables()": "SHOW TABLES IN namespace",
    "lake.tags()": "SHOW TAGS",
    "lake.transaction()": "BEGIN",
    "lake.unexport": "`seiche unexport`",
    "lake.unexport(name)": "`seiche unexport`",
    "lake.untag": "CALL seiche.untag",
    "name=": "a name",
    "overwrite": "INSERT OVERWRITE",
    "replace=True": "replace => true",
    "tables=": "tables => array('shop.orders')",
    "version=": "VERSION AS OF",
}
_WORDS: Final = (
    (re.compile(r"; lake\.run\(fn\) does so for you"), ""),
    (re.compile(r"`lake\.diff\((\w+), (\w+)\)`"), r"`seiche diff LAKE \1 \2`"),
    (re.compile(r"`compact\((\w+)=(\d+)_(\d+)\)`"), r"\1 => \2\3"),
    (re.compile(r"Give a timedelta, a number of seconds, or a text such as"), "Write it as"),
)


def in_statements(remedy: str) -> str:
    """What to do, in words of SQL."""
    return reworded(remedy, _STATEMENTS, _WORDS)


@contextmanager
def in_words_of_sql() -> Iterator[None]:
    """Around a statement: what its error tells to do is said in words of SQL."""
    try:
        yield
    except SeicheError as error:
        error.remedy = in_statements(error.remedy)
        raise
