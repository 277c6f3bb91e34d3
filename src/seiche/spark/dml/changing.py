"""Delete and update by Spark: a scan finds rows, Spark evaluates what is said of them, workers put it into place."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as fn

from seiche.errors import InvalidInput
from seiche.spark.casting import stored_as
from seiche.spark.dml.applying import edit_part
from seiche.spark.dml.edits import ACTION, Action, Edited, Editing, by_kind, unpacked, value_of
from seiche.spark.dml.stars import and_more, may_mean_all, refuse_stars
from seiche.spark.explaining import explained
from seiche.spark.given import check_expression, check_expressions
from seiche.spark.jobs import Readable, collected, frame_of
from seiche.spark.scanning import GROUP, scans, size_of
from seiche.spark.types import spark_schema
from seiche.spark.writing import target_of
from seiche.table.change import Change
from seiche.table.data.assign import check_columns
from seiche.table.data.merge.key_hashes import MOST_EXACT, key_filter
from seiche.table.data.portion import Portion
from seiche.table.data.removal import remove_all
from seiche.table.data.scanning import ADDRESS
from seiche.table.data.write import Limits, fields_of
from seiche.table.format.fields import column_ids
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import REWRITE_ROWS, Delete, KeyExistenceFilter, Update
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

__all__ = [
    "Deleting",
    "Expression",
    "Ground",
    "LanceGround",
    "Rows",
    "Statement",
    "Updating",
    "as_column",
    "empty",
    "mentioned",
    "shown_type",
    "types_of",
]

Outcome_co = TypeVar("Outcome_co", covariant=True)

# SQL of Spark, or a column of it.
Expression: TypeAlias = str | Column


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table with their addresses, as a frame, and the tasks that read them."""

    frame: "DataFrame"
    tasks: Sequence[Readable]


@dataclass(frozen=True, slots=True)
class Statement:
    """What is said of rows, for the workers: what an edit may be for, and what the rows were found by."""

    verb: Literal["delete", "update", "merge"]
    actions: tuple[Action, ...]
    # The columns by which rows were matched, and those that may have got other values.
    on: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits.of)


class Ground(Protocol, Generic[Outcome_co]):
    """A version of a table, of whichever format, whose rows Spark finds and workers edit."""

    @property
    def schema(self) -> "pa.Schema":
        """The columns of the table."""

    def rows(
        self, session: "SparkSession", columns: Sequence[str], parts: int | None, exact: Sequence[str] = ()
    ) -> Rows:
        """All rows with these columns, their addresses, and the number of the task that read them. A value of the
        columns `exact` that Spark cannot hold as it is fails.
        """

    def edit(self, statement: Statement, edits: "DataFrame") -> Outcome_co:
        """Let the workers apply edits of the rows that were asked for last. All of a task come to one of them, by
        ascending address.
        """


class LanceGround:
    """A version of a Lance table."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._portions: tuple[Portion, ...] = ()

    @property
    def schema(self) -> "pa.Schema":
        return self._snapshot.schema

    def rows(
        self, session: "SparkSession", columns: Sequence[str], parts: int | None, exact: Sequence[str] = ()
    ) -> Rows:
        tasks, schema = scans(self._snapshot, columns=columns, addresses=True, parts=parts, exact=exact)
        self._portions = tuple(task.portion for task in tasks)
        return Rows(frame_of(session, tasks, schema, size_of(self._snapshot, schema)), tasks)

    def edit(self, statement: Statement, edits: "DataFrame") -> Change | None:
        """One operation of what the workers report; `None` if nothing was changed."""
        ids = column_ids(self._snapshot.manifest.header.fields)
        key = tuple(sorted((ids[name], name) for name in statement.on))
        target = target_of(self._snapshot, statement.limits)
        editing = Editing(target, self._portions, statement.actions, key, merge=statement.verb == "merge")
        return changed(self._snapshot, editing, edits, assigned=statement.assigned, delete=statement.verb == "delete")


def mentioned(expressions: Iterable[Expression], names: Sequence[str]) -> list[str]:
    """Those columns that may be meant in the expressions: at least all that are."""
    text = "\n".join(one if isinstance(one, str) else str(one) for one in expressions)
    if may_mean_all(text):
        return list(names)
    # In SQL a backtick in a name stands twice.
    text = text.replace("``", "`")
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]


def as_column(expression: Expression) -> Column:
    """An expression of either form as a column."""
    return fn.expr(expression) if isinstance(expression, str) else expression


def empty(session: "SparkSession", schema: "pa.Schema") -> "DataFrame":
    """No rows, under the columns of a table."""
    return session.createDataFrame([], spark_schema(schema))


def _refuse_stars(session: "SparkSession", schema: "pa.Schema", said: Iterable[Expression]) -> None:
    rows = empty(session, schema)
    refuse_stars(rows, and_more(rows), said)


def shown_type(schema: "pa.Schema", name: str) -> "DataType":
    """The type of Spark under which a column of the table is shown."""
    import pyarrow as pa

    return spark_schema(pa.schema([schema.field(name)]))[0].dataType


def types_of(rows: "DataFrame", values: Iterable[Column]) -> "list[DataType]":
    """The types that expressions over these rows have."""
    return [field.dataType for field in rows.select(*(one.alias("value") for one in values)).schema]


class Deleting:
    """Prepares a Delete of the rows that meet a condition of Spark."""

    def __init__(self, session: "SparkSession", condition: Expression, parts: int | None = None) -> None:
        check_expression(condition, "the condition")
        if isinstance(condition, str) and not condition.strip():
            raise InvalidInput("a condition in SQL is needed", remedy="Say 'true' to delete all rows.")
        self._session = session
        self._condition = condition
        self._parts = parts

    def __call__(self, snapshot: Snapshot) -> Change | None:
        if isinstance(self._condition, str) and self._condition.strip().lower() == "true":
            everything = remove_all(snapshot)
            if everything is not None and not everything.rows:
                return None
            if everything is not None:
                operation = Delete(everything.updated, everything.removed, "true")
                return Change(operation, everything.rows, rows=everything.count)
        return self.on(LanceGround(snapshot))

    def on(self, ground: Ground[Outcome_co]) -> Outcome_co:
        """Find the rows, and have them taken out."""
        rows = ground.rows(self._session, mentioned([self._condition], ground.schema.names), self._parts)
        with explained(lambda: empty(self._session, ground.schema).where(as_column(self._condition))):
            found = rows.frame.where(as_column(self._condition)).select(ADDRESS, GROUP, fn.lit(0).alias(ACTION))
            _refuse_stars(self._session, ground.schema, [self._condition])
        return ground.edit(Statement("delete", (Action(None),)), _by_task(found, len(rows.tasks)))


class Updating:
    """Prepares an Update of the rows that meet a condition: changed rows are written anew."""

    def __init__(
        self,
        session: "SparkSession",
        assignments: Mapping[str, Expression],
        where: Expression | None,
        limits: Limits,
        parts: int | None = None,
    ) -> None:
        check_expressions(assignments, "what is set")
        if where is not None:
            check_expression(where, "the condition")
        self._session = session
        self._set = dict(assignments)
        self._where = where
        self._limits = limits
        self._parts = parts

    def __call__(self, snapshot: Snapshot) -> Change | None:
        return self.on(LanceGround(snapshot))

    def on(self, ground: Ground[Outcome_co]) -> Outcome_co:
        """Find the rows, and have them written anew."""
        schema = ground.schema
        check_columns({name: one if isinstance(one, str) else "column" for name, one in self._set.items()}, schema)
        values = list(map(as_column, self._set.values()))
        said = [*self._set.values(), *([] if self._where is None else [self._where])]
        rows = ground.rows(self._session, mentioned(said, schema.names), self._parts)
        with explained(lambda: types_of(self._chosen(empty(self._session, schema)), values)):
            chosen = self._chosen(rows.frame)
            stored = [
                stored_as(value, given, shown_type(schema, name), name, self._session).alias(value_of(name))
                for name, value, given in zip(self._set, values, types_of(chosen, values), strict=True)
            ]
            edits = chosen.select(ADDRESS, GROUP, fn.lit(0).alias(ACTION), *stored)
            _refuse_stars(self._session, schema, said)
        names = tuple(self._set)
        statement = Statement("update", (Action(names),), assigned=names, limits=self._limits)
        return ground.edit(statement, _by_task(edits, len(rows.tasks)))

    def _chosen(self, rows: "DataFrame") -> "DataFrame":
        return rows if self._where is None else rows.where(as_column(self._where))


def changed(
    snapshot: Snapshot,
    editing: Editing,
    edits: "DataFrame",
    *,
    assigned: Sequence[str] = (),
    delete: bool = False,
) -> Change | None:
    """Let the workers apply the edits, and make one operation of what they report; `None` if nothing was changed.

    `assigned` are the columns that may have got other values: indices on others go on covering the rows.
    """
    parts = collected(edits, partial(edit_part, editing))
    if not parts:
        return None
    updated = tuple(DataFragment.FromString(one) for part in parts for one in part.updated)
    removed = tuple(sorted(one for part in parts for one in part.removed))
    rows = unpacked(part.rows for part in parts)
    counts = [sum(numbers) for numbers in zip(*(part.counts for part in parts), strict=True)]
    total = sum(counts)
    files, size = sum(part.files for part in parts), sum(part.bytes for part in parts)
    busy = {"executors": len({part.executor for part in parts})}
    if delete:
        # Without the condition: it is Spark's SQL, and whoever compares conditions would read it as the engine's.
        return Change(Delete(updated, removed, ""), rows, rows=total, files=files, bytes=size, notes=busy)
    header = snapshot.manifest.header
    touched = {one.id for one in fields_of(header, [name for name in assigned if name in snapshot.schema.names])}
    operation = Update(
        removed,
        updated,
        # Fragments whose rows moved come first: the builder gives row ids to those that have none.
        _ordered(DataFragment.FromString(one) for part in parts for one in part.new),
        fields_for_preserving_frag_bitmap=tuple(one.id for one in header.fields if one.id not in touched),
        update_mode=REWRITE_ROWS,
        inserted_rows=_keys(editing, parts),
    )
    notes = _notes(editing, counts) | busy
    return Change(operation, rows, rows=total, files=files, bytes=size, notes=notes)


def _ordered(fragments: Iterable[DataFragment]) -> tuple[DataFragment, ...]:
    return tuple(sorted(fragments, key=lambda one: not one.inline_row_ids))


def _keys(editing: Editing, parts: Sequence[Edited]) -> KeyExistenceFilter | None:
    if not editing.key:
        return None
    ids = sorted(field_id for field_id, _ in editing.key)
    if any(part.keys is None for part in parts):
        return key_filter(ids, None)
    hashes = [one for part in parts for one in part.keys or ()]
    return key_filter(ids, hashes if len(hashes) <= MOST_EXACT else None)


def _notes(editing: Editing, counts: Sequence[int]) -> dict[str, object]:
    return dict(by_kind(editing.actions, counts)) if editing.merge else {"mode": "rows"}


def _by_task(edits: "DataFrame", tasks: int) -> "DataFrame":
    """Edits where the worker gets all of a fragment, in the order of its rows."""
    return edits.repartitionById(max(1, tasks), fn.col(GROUP)).sortWithinPartitions(ADDRESS)
