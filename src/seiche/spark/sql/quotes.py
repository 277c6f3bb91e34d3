"""Double quotes: those of texts, unless Spark was told that they are those of names."""

from typing import TYPE_CHECKING

from seiche.spark.casting import is_strict
from seiche.spark.sql.queries import Query
from seiche.spark.sql.refusals import refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_quotes"]

_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"


def check_quotes(query: Query, session: "SparkSession") -> None:
    """`InvalidInput` for what stands in double quotes if Spark takes it for a name: here it was read as a text, and
    rows would be left out by it before Spark sees them.
    """
    double = next((word for word in query.words if word.sort == "string" and word.text.endswith('"')), None)
    if double is None or not is_strict(session) or str(session.conf.get(_NAMES)).lower() != "true":
        return
    what = f"{double.text} is a name to Spark while {_NAMES} is on, and a text here"
    raise refusal(query.text, double.start, what, "Write names in backquotes, and texts in single quotes.")
