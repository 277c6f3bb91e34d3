"""Merge by Spark: one join decides, for every row of both sides, which clause it is for; workers do the rest.

A plain upsert needs no join (`upserting`). The data is evaluated once, in the one job that also writes. A row that a
clause is for becomes an edit: it goes to the worker that has the row's fragment, or if it is new to one that gets all
rows with its key.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from seiche.errors import InvalidInput
from seiche.spark.casting import as_half, stored_as
from seiche.spark.dml.changing import (
    Expression,
    Ground,
    LanceGround,
    Outcome_co,
    Rows,
    Statement,
    as_column,
    empty,
    mentioned,
    shown_type,
    types_of,
)
from seiche.spark.dml.edits import ACTION, Action, value_of
from seiche.spark.dml.stars import and_more, may_mean_all, refuse_stars
from seiche.spark.dml.upserting import Unsuited, suits, upsert
from seiche.spark.explaining import explained
from seiche.spark.names import quoted, refuse_ours
from seiche.spark.scanning import GROUP
from seiche.spark.types import conform_shown
from seiche.spark.writing import frame_schema
from seiche.table.change import Change
from seiche.table.data.merge.check import check_any, check_order
from seiche.table.data.merge.clauses import Clause, Side
from seiche.table.data.merge.matching import key_values
from seiche.table.data.merge.source import check_key
from seiche.table.data.scanning import ADDRESS
from seiche.table.data.write import Limits
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["FrameMerging"]

# Whether a row of the data is there, which sides a pair of rows has, the task that it is for, and what the table's
# columns are called where they cannot be spoken of.
_HERE = "_seiche_here"
_SIDE = "_seiche_side"
_TASK = "_seiche_task"
_TARGET = "_seiche_target_"
# By the sides that clauses are about: the number of the one that holds, and the values that it gives.
_HOLDS = "_seiche_holds_"
_SET = "_seiche_set_"
_OURS = (ACTION, _HERE, _SIDE, _TASK, _TARGET, _HOLDS, _SET)
_SIDES: Final[tuple[Side, ...]] = ("matched", "not matched", "not matched by source")


class FrameMerging:
    """Prepares an Update that merges the rows of a data frame by key."""

    def __init__(
        self,
        frame: "DataFrame",
        on: Sequence[str],
        clauses: Sequence[Clause],
        limits: Limits,
        *,
        condition: Expression | None = None,
        parts: int | None = None,
    ) -> None:
        check_any(clauses)
        if not on and condition is None:
            raise InvalidInput("the merge has no key", remedy='Say on="id", for example, or give a condition.')
        self._frame = frame
        self._on = tuple(on)
        self._clauses = tuple(clauses)
        self._limits = limits
        self._condition = condition
        self._parts = parts

    def __call__(self, snapshot: Snapshot) -> Change | None:
        given = frame_schema(self._frame)
        self._check(snapshot.schema, given)
        if self._condition is None and suits(self._clauses, given.names, snapshot):
            try:
                return upsert(self._frame, self._on, snapshot, self._limits, self._parts)
            except Unsuited:
                pass  # what was written belongs to no version, and stays unknown
        return self._join(LanceGround(snapshot), given)

    def on(self, ground: Ground[Outcome_co]) -> Outcome_co:
        """Merge into a table of any format, by a join."""
        given = frame_schema(self._frame)
        self._check(ground.schema, given)
        return self._join(ground, given)

    def _join(self, ground: Ground[Outcome_co], given: "pa.Schema") -> Outcome_co:
        schema = ground.schema
        taken = {number: self._columns(clause, given, schema) for number, clause in enumerate(self._clauses)}
        needed = self._needed(schema.names)
        refuse_ours(needed, _OURS, "the table")
        refuse_ours(given.names, _OURS, "the data")
        # Keys that only Spark takes for equal would be merged, and the one be written over the other.
        rows = ground.rows(self._frame.sparkSession, needed, self._parts, exact=self._on)
        columns = sorted({name for names in taken.values() for name in names or ()})
        tasks, inserting = len(rows.tasks), self._inserting_tasks()
        with explained(lambda: self._said_of(schema)):
            self._refuse_stars(schema)
            given_types = self._given_types(taken, schema)
            edits = self._decided(rows, inserting, given_types, schema)
            chosen = edits.select(
                ADDRESS,
                fn.col(_TASK).alias(GROUP),
                fn.coalesce(*(fn.col(one) for one in edits.columns if one.startswith(_HOLDS))).alias(ACTION),
                *(_first(edits, name).alias(value_of(name)) for name in columns),
            ).where(fn.col(ACTION).isNotNull())
        placed = chosen.repartitionById(max(1, tasks + inserting), fn.col(GROUP)).sortWithinPartitions(
            ADDRESS, *(value_of(name) for name in self._on if name in columns and inserting)
        )
        actions = tuple(
            Action(taken[number], insert=clause.action == "insert") for number, clause in enumerate(self._clauses)
        )
        statement = Statement("merge", actions, self._on, tuple(sorted(self._assigned(taken))), self._limits)
        return ground.edit(statement, placed)

    def _check(self, schema: "pa.Schema", given: "pa.Schema") -> None:
        """`InvalidInput` for what cannot be right, before anything runs."""
        _check_key(given, schema, self._on)
        check_order(self._clauses)
        for clause in self._clauses:
            for name in clause.assignments or {}:
                if name not in schema.names:
                    raise InvalidInput(
                        f"the table has no column {name!r}, only {', '.join(map(quoted, schema.names))}",
                        remedy="Set whole columns by their names.",
                        column=name,
                    )
                if name in self._on and clause.action == "update":
                    raise InvalidInput(
                        f"'{clause}' sets {name!r}, which is part of the key",
                        remedy="Change keys with an update of its own: a merge could give two rows the same one.",
                        column=name,
                    )

    def _columns(self, clause: Clause, given: "pa.Schema", schema: "pa.Schema") -> tuple[str, ...] | None:
        """The columns that a clause gives values to; `None` if it deletes."""
        if clause.action == "delete":
            return None
        if clause.assignments is not None:
            return tuple(clause.assignments)
        # Refuses columns that the table does not have, and for an insert missing ones that must not be null.
        conform_shown(given, schema, whole_rows=clause.action == "insert")
        return tuple(given.names)

    def _assigned(self, taken: Mapping[int, tuple[str, ...] | None]) -> set[str]:
        """The columns that an update may have changed: never the key, by which the rows were found."""
        return {
            name
            for number, clause in enumerate(self._clauses)
            if clause.action == "update"
            for name in taken[number] or ()
        } - set(self._on)

    def _needed(self, names: Sequence[str]) -> list[str]:
        """The columns of the table that the join and the clauses look at."""
        said: list[Expression] = [] if self._condition is None else [self._condition]
        for clause in self._clauses:
            if clause.side != "not matched":
                said += [*(clause.assignments or {}).values(), *([clause.condition] if clause.condition else [])]
        wanted = {*self._on, *mentioned(said, names)}
        return [name for name in names if name in wanted]

    def _decided(
        self, rows: Rows, inserting: int, given: "Sequence[Mapping[str, DataType]]", schema: "pa.Schema"
    ) -> "DataFrame":
        """Both sides, joined, with the clause that each pair of rows is for and the values that it gives.

        Each clause sees only what it is about, and is worked out of no other rows, for which it may be an error.
        """
        joined, names = self._joined(rows, schema), rows.frame.columns
        there, here = fn.col(f"target.{ADDRESS}").isNotNull(), fn.col(f"source.{_HERE}").isNotNull()
        side = fn.when(there & here, _SIDES[0]).when(here, _SIDES[1]).otherwise(_SIDES[2])
        frame = joined.withColumns({_SIDE: side, _TASK: self._task(len(rows.tasks), inserting)})
        frame = self._worked_out(frame, _SIDES[0], given, schema)
        made = frame.columns[len(joined.columns) :]
        hidden = (fn.col(f"target.{quoted(name)}").alias(f"{_TARGET}{name}") for name in names)
        frame = frame.select("source.*", *hidden, *map(quoted, made)).alias("source")
        frame = self._worked_out(frame, _SIDES[1], given, schema)
        made = frame.columns[len(joined.columns) :]
        shown = (fn.col(quoted(f"{_TARGET}{name}")).alias(name) for name in names)
        frame = frame.select(*shown, *map(quoted, made)).alias("target")
        return self._worked_out(frame, _SIDES[2], given, schema)

    def _worked_out(
        self, frame: "DataFrame", side: Side, given: "Sequence[Mapping[str, DataType]]", schema: "pa.Schema"
    ) -> "DataFrame":
        """The frame with what the clauses about one or both sides say of its rows."""
        numbers = [number for number, clause in enumerate(self._clauses) if clause.side == side]
        if not numbers:
            return frame
        which = f"{_HOLDS}{_SIDES.index(side)}"
        frame = frame.withColumn(which, self._which(numbers))
        names = dict.fromkeys(name for number in numbers for name in given[number])
        values = {
            f"{_SET}{_SIDES.index(side)}_{name}": self._value(name, which, numbers, given, schema) for name in names
        }
        return frame.withColumns(values) if values else frame

    def _joined(self, rows: Rows, schema: "pa.Schema") -> "DataFrame":
        """Both sides, each as `target` or `source`."""
        target = rows.frame.alias("target")
        source = self._data(schema).withColumn(_HERE, fn.lit(True)).alias("source")
        conditions = [fn.col(f"target.{quoted(name)}") == fn.col(f"source.{quoted(name)}") for name in self._on]
        if self._condition is not None:
            conditions.append(as_column(self._condition))
        condition = conditions[0]
        for one in conditions[1:]:
            condition &= one
        sides = {clause.side for clause in self._clauses}
        how = {
            (False, False): "inner",
            (True, False): "right_outer",
            (False, True): "left_outer",
            (True, True): "full_outer",
        }["not matched" in sides, "not matched by source" in sides]
        # Never through the driver, which Spark would choose for data that it takes for small.
        return target.hint("merge").join(source, condition, how)

    def _data(self, schema: "pa.Schema") -> "DataFrame":
        """The data, with the keys that the table would hold: one that is rounded there would never be found again."""
        import pyarrow as pa

        given = {field.name: field.dataType for field in self._frame.schema}
        halves = [name for name in self._on if pa.types.is_float16(schema.field(name).type)]
        made = {name: as_half(fn.col(quoted(name)), given[name]) for name in halves}
        return self._frame.withColumns(made) if made else self._frame

    def _said_of(self, schema: "pa.Schema") -> None:
        """Everything that is said, over the columns of both sides alone."""
        sides = self._sides(schema)
        if self._condition is not None:
            sides["matched"].where(as_column(self._condition))
        for clause in self._clauses:
            if clause.condition is not None:
                sides[clause.side].where(as_column(clause.condition))
            sides[clause.side].select(*map(as_column, (clause.assignments or {}).values()))

    def _refuse_stars(self, schema: "pa.Schema") -> None:
        said: list[tuple[Side, list[Expression]]] = [("matched", [] if self._condition is None else [self._condition])]
        for clause in self._clauses:
            condition = [] if clause.condition is None else [clause.condition]
            said.append((clause.side, [*(clause.assignments or {}).values(), *condition]))
        if any(may_mean_all(str(one)) for _, some in said for one in some):
            sides, more = self._sides(schema), self._sides(schema, and_more)
            for side, some in said:
                refuse_stars(sides[side], more[side], some)

    def _sides(
        self, schema: "pa.Schema", made: "Callable[[DataFrame], DataFrame]" = lambda rows: rows
    ) -> "dict[str, DataFrame]":
        """The columns that each kind of clause can speak of, of what is made of either side."""
        target, source = made(empty(self._frame.sparkSession, schema)), made(self._frame)
        target, source = target.alias("target"), source.alias("source")
        return {"matched": target.crossJoin(source), "not matched": source, "not matched by source": target}

    def _which(self, numbers: Sequence[int]) -> "Column":
        """Of these clauses, the number of the first that is for a row; null if none is."""
        found: Column | None = None
        for number in numbers:
            clause = self._clauses[number]
            holds = fn.col(_SIDE) == clause.side
            if clause.condition is not None:
                holds &= as_column(clause.condition)
            found = fn.when(holds, number) if found is None else found.when(holds, number)
        assert found is not None  # noqa: S101 - there is at least one clause
        return found.cast("int")

    def _value(
        self,
        name: str,
        which: str,
        numbers: Sequence[int],
        given: "Sequence[Mapping[str, DataType]]",
        schema: "pa.Schema",
    ) -> "Column":
        """The value that a column gets, whichever of these clauses gives it."""
        kind = shown_type(schema, name)
        found: Column | None = None
        for number in numbers:
            if name not in given[number]:
                continue
            said = self._clauses[number].assignments
            value = fn.col(f"source.{quoted(name)}") if said is None else as_column(said[name])
            value = stored_as(value, given[number][name], kind, name, self._frame.sparkSession)
            is_it = fn.col(which) == number
            found = fn.when(is_it, value) if found is None else found.when(is_it, value)
        assert found is not None  # noqa: S101 - some clause gives it a value
        return found

    def _given_types(
        self, taken: Mapping[int, tuple[str, ...] | None], schema: "pa.Schema"
    ) -> "list[dict[str, DataType]]":
        """By clause the columns that it gives values to, with the types that the values have."""
        of_frame = {field.name: field.dataType for field in self._frame.schema}
        sides = self._sides(schema)
        found = []
        for number, clause in enumerate(self._clauses):
            said = clause.assignments
            if said is None:
                found.append({name: of_frame[name] for name in taken[number] or ()})
            else:
                types = types_of(sides[clause.side], map(as_column, said.values()))
                found.append(dict(zip(said, types, strict=True)))
        return found

    def _task(self, tasks: int, inserting: int) -> "Column":
        """The task that an edit is for: that of the fragment, or for a new row one behind those, by its key."""
        group = fn.col(f"target.{GROUP}")
        if not inserting:
            return group
        by = fn.hash(*(fn.col(f"source.{quoted(name)}") for name in self._on)) if self._on else fn.spark_partition_id()
        return fn.coalesce(group, fn.pmod(by, fn.lit(inserting)).cast("int") + fn.lit(tasks))

    def _inserting_tasks(self) -> int:
        inserts = any(clause.action == "insert" for clause in self._clauses)
        return max(1, self._parts or 4) if inserts else 0


def _first(edits: "DataFrame", name: str) -> "Column":
    """The value of a column from the clauses about whichever sides: all others have null there."""
    made = (f"{_SET}{number}_{name}" for number in range(len(_SIDES)))
    return fn.coalesce(*(fn.col(quoted(one)) for one in made if one in edits.columns))


def _check_key(given: "pa.Schema", table: "pa.Schema", on: Sequence[str]) -> None:
    check_key(given, table, on)
    for column in _empty(table, on):
        key_values(column, "key")


def _empty(table: "pa.Schema", on: Sequence[str]) -> "Iterator[pa.Array]":
    import pyarrow as pa

    return (pa.array([], table.field(name).type) for name in on)
