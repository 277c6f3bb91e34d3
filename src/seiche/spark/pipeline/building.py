"""Building the tables of a run inside its transaction."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from traceback import extract_tb
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as fn

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound, SeicheError
from seiche.spark.names import quoted, said_twice
from seiche.spark.pipeline.definition import Step
from seiche.spark.pipeline.frames import Frames, short
from seiche.spark.pipeline.plan import Plan
from seiche.spark.pipeline.progress import Progress
from seiche.spark.pipeline.records import StepRecord
from seiche.spark.types import check_iceberg, columns_for, conform_shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seiche.spark.transaction import SparkTransaction
    from seiche.table.change import Result

__all__ = ["Builder"]


@dataclass(frozen=True, slots=True)
class Builder:
    """Runs steps in a transaction. `anew` replaces tables that are otherwise added to."""

    tx: "SparkTransaction"
    frames: Frames
    plan: Plan
    runtime: Runtime
    progress: Progress
    anew: bool = False
    # Definitions of tables are made one after the other; the work of Spark is not.
    _defining: Lock = field(default_factory=Lock)

    def step(self, step: Step) -> StepRecord:
        """Run one step, whose inputs are there. An error is the step's, by place and name."""
        self.progress(step.table, "running")
        began = self.runtime.clock.monotonic()
        try:
            result = self._apply(step, self._frame(step))
        except SeicheError as error:
            self.progress(step.table, "failed")
            if error.message.startswith(str(step.place)):
                raise
            said = f"{step.place}: step {step.table}: {error.message}"
            raise type(error)(said, remedy=error.remedy, **error.details) from error
        except (Exception, SystemExit) as error:
            self.progress(step.table, "failed")
            what = short(error) if step.make is None else _told(error, step)
            raise InvalidInput(f"{step.place}: step {step.table}: {what}", remedy="Nothing was published.") from error
        rows = result.rows or 0
        self.progress(step.table, f"{rows:,} row{'' if rows == 1 else 's'}")
        seconds = round(self.runtime.clock.monotonic() - began, 3)
        reads = tuple(sorted(self.plan.reads[step.table]))
        return StepRecord(step.table, step.mode, reads, rows, result.files or 0, seconds)

    def _frame(self, step: Step) -> "DataFrame":
        if step.make is None:
            return self.frames.query(step.sql, step.place, f"step {step.table}")
        made = step.make(*(self.frames.frame(name) for name in step.reads))
        if not hasattr(made, "mapInArrow"):
            raise InvalidInput(
                f"{step.place}: step {step.table} gave {type(made).__name__}, not a DataFrame",
                remedy="Return a DataFrame of Spark.",
            )
        frame: DataFrame = made
        return frame

    def _apply(self, step: Step, frame: "DataFrame") -> "Result":
        tx = self.tx
        self._ensure(step, frame)
        if step.mode == "overwrite" or (self.anew and step.mode != "replace_where"):
            result = self._overwrite(step, frame)
        elif step.mode == "merge":
            merge = tx.merge(step.table, frame, on=list(step.key))
            result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        elif step.mode == "replace_where":
            result = self._replace(step, frame)
        else:
            result = tx.append(step.table, frame)
        if result.changed:
            self._index(step)
        return result

    def _overwrite(self, step: Step, frame: "DataFrame") -> "Result":
        self._check_key(step, frame)
        if not self.tx.is_iceberg(self.tx.table(step.table)):
            return self.tx.overwrite(step.table, frame, schema=self._kept_types(step, frame))
        self._take_columns(step, frame)
        return self.tx.overwrite(step.table, frame)

    def _check_key(self, step: Step, frame: "DataFrame") -> None:
        if not step.key:
            return
        names = list(map(quoted, step.key))
        known = frame.where(" AND ".join(f"{name} IS NOT NULL" for name in names))
        times = known.groupBy(*names).agg(fn.count(fn.lit(1)).alias("_seiche_times"))
        if times.filter("_seiche_times > 1").limit(1).count():
            raise InvalidInput(
                f"{step.place}: step {step.table}: two rows have the same {', '.join(step.key)}",
                remedy="A merge takes each key once: choose one of the rows in the query.",
            )

    def _kept_types(self, step: Step, frame: "DataFrame") -> "pa.Schema":
        """The columns that the table shall have: those of the query, as the table has them if it does, and if such
        values fit there.
        """
        old = self.tx.table(step.table).schema
        names = set(old.names)
        return pa.schema(
            [
                old.field(one.name) if one.name in names and _takes(old.field(one.name), one, step) else one
                for one in columns_of(step, frame)
            ]
        )

    def _take_columns(self, step: Step, frame: "DataFrame") -> None:
        """Give an Iceberg table the columns of the query; those that it has, and that take such values, stay as they
        are.
        """
        from seiche.spark.sql.iceberg_columns import IcebergColumns

        table, columns = self.tx.table(step.table), columns_of(step, frame)
        old = table.schema
        there = old.names
        check_iceberg(columns)
        if other := [one for one in columns if one.name in there and not _takes(old.field(one.name), one, step)]:
            IcebergColumns(table).replace_columns(pa.schema(other))
        if new := [one for one in columns if one.name not in there]:
            IcebergColumns(table).add_columns(pa.schema(new))
        if gone := [name for name in there if name not in columns.names]:
            IcebergColumns(table).drop_columns(gone)

    def _replace(self, step: Step, frame: "DataFrame") -> "Result":
        where = f"({step.where}\n)"  # it may end in a comment
        kind = frame.selectExpr(f"{where} AS condition").schema["condition"].dataType.simpleString()
        if kind != "boolean":
            raise InvalidInput(
                f"{step.place}: `where` of {step.table} is {kind}, not a condition",
                remedy="Compare something, as in day = DATE'2030-01-31'.",
            )
        outside = frame.filter(f"NOT coalesce({where}, false)").limit(1).collect()
        if outside:
            raise InvalidInput(
                f"{step.place}: step {step.table}: a row is not among those that are replaced: {outside[0].asDict()}",
                remedy=f"The query must give rows with {step.where} only.",
            )
        self.tx.delete(step.table, step.where)
        return self.tx.append(step.table, frame)

    def _ensure(self, step: Step, frame: "DataFrame") -> None:
        """Create the table of a step, and the namespaces around it, if they are missing."""
        with self._defining:
            try:
                self.tx.table(step.table)
            except NotFound:
                parts = step.table.split(".")
                for depth in range(1, len(parts)):
                    with suppress(AlreadyExists):
                        self.tx.create_namespace(parts[:depth])
                columns = columns_of(step, frame)
                if step.format == "iceberg":
                    check_iceberg(columns)
                self.tx.create_table(step.table, columns, format=step.format)

    def _index(self, step: Step) -> None:
        """Build the indices that the step wants and the table has not; let the others know the new rows."""
        table = self.tx.table(step.table)
        for column, kind in step.index.items():
            try:
                table.create_index(column, kind)
            except AlreadyExists:
                table.optimize_indices(f"{column}_idx")


def _takes(column: pa.Field, given: pa.Field, step: Step) -> bool:
    """Whether values of another type can go into a column as it is. A vector has as many numbers as the step says."""
    if given.name in step.vectors and column.type != given.type:
        return False
    try:
        conform_shown(pa.schema([given]), pa.schema([column]))
    except InvalidInput:
        return False
    return True


def _told(error: BaseException, step: Step) -> str:
    """What went wrong in a function of the user's: which error, and in which line of the file."""
    file = getattr(getattr(step.make, "__code__", None), "co_filename", "")
    lines = [one.lineno for one in extract_tb(error.__traceback__) if one.filename == file]
    where = f" ({Path(file).name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {short(error)}{where}"


def columns_of(step: Step, frame: "DataFrame") -> pa.Schema:
    """The columns of a frame as they are stored. Spark has no type for vectors, so the step says which lists are."""
    schema = columns_for(frame.schema)
    if (twice := said_twice(schema.names)) is not None:
        raise InvalidInput(
            f"{step.place}: step {step.table}: two columns are called {twice!r}",
            remedy="Give each a name of its own, with AS.",
            column=twice,
        )
    for name in schema.names:
        if pa.types.is_null(schema.field(name).type):
            raise InvalidInput(
                f"{step.place}: step {step.table}: column {name!r} has no type",
                remedy="Say which with CAST(NULL AS ...).",
                column=name,
            )
    for name, size in step.vectors.items():
        at = schema.get_field_index(name)
        kind = schema.field(at).type if at >= 0 else None
        if kind is None or not pa.types.is_list(kind) or not pa.types.is_floating(kind.value_type):
            raise InvalidInput(
                f"{step.place}: step {step.table}: {name} is not a list of numbers",
                remedy="`vectors` names columns of type ARRAY<FLOAT>.",
            )
        schema = schema.set(at, pa.field(name, pa.list_(kind.value_type, size)))
    return schema
