"""Merging rows by key with Spark, said clause by clause."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from seiche.spark.given import check_expression, check_expressions
from seiche.table.change import Result
from seiche.table.data.merge.clauses import Clause
from seiche.table.data.write import Limits
from seiche.table.verbs.merge import MergeBuilder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["SparkMergeBuilder"]


class SparkMergeBuilder(MergeBuilder):
    """As the builder of every table, with what SQL has besides: inserts of chosen values, and only of chosen rows.

    All conditions and expressions are Spark's SQL. Clauses about the same rows are tried in order. Where only one side
    exists its columns may be written plainly or as `source.x` or `target.x`.
    """

    def __init__(
        self,
        run: Callable[..., Result],
        data: "DataFrame",
        on: str | Sequence[str],
        condition: "str | Column | None" = None,
        limits: tuple[int | None, int | None] = (None, None),
        parts: int | None = None,
    ) -> None:
        """Use `merge` of a transaction with Spark."""
        if condition is not None:
            check_expression(condition, "the condition of the merge")
        super().__init__(run, data, on, limits)
        self._condition = condition
        self._parts = parts

    def when_not_matched_insert_all(self, condition: str | None = None) -> Self:
        """Rows of the data whose key is not in the table are added, if the condition is true for them."""
        return self._with(Clause("not matched", "insert", None, condition))

    def when_not_matched_insert(self, values: Mapping[str, str], condition: str | None = None) -> Self:
        """For rows of the data whose key is not in the table, rows with these values are added; other columns are
        null.
        """
        check_expressions(values, "what is inserted")
        return self._with(Clause("not matched", "insert", dict(values), condition))

    def execute(self, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Do it. `notes` of the result say how many rows were inserted, updated and deleted.

        Two rows of the data that would change the same row, or insert the same key, are `InvalidInput`: which of them
        counts could not be said.
        """
        from seiche.spark.dml.merging import FrameMerging

        prepare = FrameMerging(
            self._data, self._on, self._clauses, Limits.of(*self._limits), condition=self._condition, parts=self._parts
        )
        return self._run("merge", prepare, attempts=attempts, timeout=timeout)
