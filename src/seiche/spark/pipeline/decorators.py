"""Pipelines in Python: the same as in YAML, with functions as steps."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from seiche.errors import InvalidInput
from seiche.spark.pipeline.definition import Check, Definition, Expected, Mode, Place, Source, Step, TableFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seiche.spark.pipeline.run import Run

__all__ = ["Pipeline"]

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """Sources, steps and checks, put together by decorators; `run()` publishes all tables at once or nothing.

        pipeline = Pipeline("shop", lake="lake")

        @pipeline.source()
        def raw(spark):
            return spark.read.csv("orders.csv", header=True)

        @pipeline.step("shop.orders", mode="merge", key="id")
        def orders(raw):
            return raw.dropDuplicates(["id"])

        pipeline.check("positive", "SELECT count(*) FROM shop.orders WHERE amount <= 0", expect=0)
        pipeline.run()

    A step gets what it reads as DataFrames: the sources that its parameters are named after, or what `reads` lists.
    """

    def __init__(self, name: str, lake: str) -> None:
        self.name = name
        self.lake = lake
        self._sources: dict[str, Source] = {}
        self._steps: list[Step] = []
        self._checks: list[Check] = []

    @property
    def definition(self) -> Definition:
        """What was put together so far."""
        return Definition(self.name, self.lake, tuple(self._sources.values()), tuple(self._steps), tuple(self._checks))

    def source(
        self,
        name: str = "",
        *,
        format: str = "",
        path: str = "",
        options: Mapping[str, str] | None = None,
        schema: str = "",
        table: str = "",
        new: bool = False,
    ) -> Callable[[F], F]:
        """Rows from outside: what a Spark reader reads, a table of the lake, or what the decorated function returns."""
        if path or table or format:
            if not name:
                raise InvalidInput("a source needs a name", remedy='Write pipeline.source("raw", path=...).')
            self._add(Source(name, format or "parquet", path, dict(options or {}), schema, table, new))
            return lambda function: function

        def decorate(function: F) -> F:
            self._add(Source(name or function.__name__, make=function, place=_place(function)))
            return function

        return decorate

    def step(
        self,
        table: str,
        *,
        mode: Mode = "overwrite",
        sql: str = "",
        key: str | Sequence[str] = (),
        where: str = "",
        format: TableFormat = "lance",
        index: Mapping[str, str] | None = None,
        vectors: Mapping[str, int] | None = None,
        reads: Sequence[str] = (),
    ) -> Callable[[F], F]:
        """A table, made by a query (`sql`) or by the decorated function."""
        columns = (key,) if isinstance(key, str) else tuple(key)
        if mode not in ("append", "overwrite", "merge", "replace_where"):
            raise InvalidInput(
                f"{table}: mode {mode!r} is unknown", remedy="Use append, overwrite, merge, replace_where."
            )
        if (mode == "merge") != bool(columns) or (mode == "replace_where") != bool(where):
            raise InvalidInput(
                f"{table}: mode {mode} does not go with key={key!r} and where={where!r}",
                remedy="merge needs `key`, replace_where needs `where`, the others neither.",
            )
        settled = Step(table, mode, sql, columns, where, format, dict(index or {}), dict(vectors or {}))
        if sql:
            self._steps.append(settled)
            return lambda function: function

        def decorate(function: F) -> F:
            names = tuple(reads) or tuple(inspect.signature(function).parameters)
            self._steps.append(replace(settled, make=function, reads=names, place=_place(function)))
            return function

        return decorate

    def check(
        self,
        check: str | Check,
        sql: str = "",
        expect: Expected = 0,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Something that must hold: a query with one value, or one of the shorthands (`unique(...)`, ...)."""
        if isinstance(check, Check):
            self._checks.append(check)
            return
        bounded = at_least is not None or at_most is not None
        self._checks.append(Check(check, sql, None if bounded else expect, at_least=at_least, at_most=at_most))

    def run(self, spark: "SparkSession | None" = None, **options: Any) -> "Run":
        """Build, check and publish; see `seiche.spark.pipeline.run.run`."""
        from seiche.spark.pipeline.run import run

        return run(self.definition, spark, **options)

    def _add(self, source: Source) -> None:
        if source.name in self._sources:
            raise InvalidInput(f"there are two sources {source.name!r}", remedy="Give one of them another name.")
        self._sources[source.name] = source


def _place(function: Callable[..., "DataFrame"]) -> Place:
    code = getattr(function, "__code__", None)
    return Place(code.co_filename, code.co_firstlineno) if code else Place()
