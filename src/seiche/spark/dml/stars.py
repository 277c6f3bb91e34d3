"""A `*` in what is said of rows: it would stand for what Seiche knows of a row as well, and that would be stored."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["and_more", "may_mean_all", "refuse_stars"]

# All columns are meant by a star that nothing is multiplied by.
_STAR = re.compile(r"(^|[(,.])\s*\*")
# Where they stand, a star may have nothing but them before it.
_COMMENT = re.compile(r"/\*|--")
# How Spark says that it left out a part of an expression when it wrote it down.
_LEFT_OUT = re.compile(r"\.\.\. \d+ more fields|\.\.\.$")


def may_mean_all(text: str) -> bool:
    """Whether an expression, as it is written, may have a star for all columns in it."""
    return bool(_STAR.search(text) or _LEFT_OUT.search(text) or _COMMENT.search(text))


def and_more(rows: "DataFrame") -> "DataFrame":
    """The rows with one column more than anybody knows of."""
    return rows.withColumn("_seiche_more", fn.lit(None))


def refuse_stars(rows: "DataFrame", more: "DataFrame", said: "Iterable[str | Column]") -> None:
    """`InvalidInput` if one of the expressions, all of which can be said of `rows`, is another where there are `more`
    columns.
    """
    doubtful = [fn.expr(one) if isinstance(one, str) else one for one in said if may_mean_all(str(one))]
    if not doubtful:
        return
    # Spark calls an expression by what it is made of; one that has a name of its own, too, inside of an array.
    asked = [fn.array(one) for one in doubtful]
    if rows.select(*asked).columns != more.select(*asked).columns:
        raise InvalidInput(
            "a * in a condition or a value of a change stands for no columns",
            remedy="Name the columns, as in struct(id, total).",
        )
