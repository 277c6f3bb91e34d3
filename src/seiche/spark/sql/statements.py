"""Statements, as values: what the grammar makes of a text, and what the session executes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seiche.lake.objects.names import Name
from seiche.lake.tree.transactions import Isolation
from seiche.spark.sql.queries import Expression, Query

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "AddColumns",
    "AlterColumn",
    "AlterNamespace",
    "AlterTable",
    "Alteration",
    "Begin",
    "Call",
    "Commit",
    "CreateNamespace",
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "DropColumns",
    "DropNamespace",
    "DropTable",
    "DropView",
    "Insert",
    "Merge",
    "MergeAction",
    "MergeClause",
    "MergeSide",
    "Optimize",
    "RenameColumn",
    "RenameTo",
    "Rollback",
    "Select",
    "SetProperties",
    "Show",
    "Statement",
    "Update",
    "Use",
    "Vacuum",
]

Assignments: TypeAlias = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """Any statement."""


@dataclass(frozen=True, slots=True)
class Begin(Statement):
    """BEGIN"""

    isolation: Isolation = "snapshot"


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """COMMIT"""


@dataclass(frozen=True, slots=True)
class Rollback(Statement):
    """ROLLBACK"""


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """A query."""

    query: Query


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO, or OVERWRITE. Columns are by position unless `by_name`; those not named get nulls."""

    table: Name
    query: Query
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE"""

    table: Name
    alias: str | None
    assignments: Assignments
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM, and TRUNCATE TABLE."""

    table: Name
    alias: str | None = None
    where: Expression | None = None


MergeSide: TypeAlias = Literal["matched", "not matched", "not matched by source"]
MergeAction: TypeAlias = Literal["update", "delete", "insert"]


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One WHEN ... THEN. No assignments mean all columns: UPDATE SET * and INSERT *."""

    side: MergeSide
    action: MergeAction
    condition: Expression | None = None
    assignments: Assignments | None = None


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    """MERGE INTO. The source is a query, if only one for all of a table."""

    table: Name
    alias: str | None
    source: Query
    source_alias: str
    on: Expression
    clauses: tuple[MergeClause, ...]
    # The table that is the source, if it is one and has no other name.
    source_table: Name | None = None


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE TABLE: with columns, as another table, or as a query's result."""

    name: Name
    columns: "tuple[pa.Field, ...] | None" = None
    like: Name | None = None
    query: Query | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    format: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    """DROP TABLE"""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE VIEW; also ALTER VIEW ... AS, which needs one to be there."""

    name: Name
    query: Query
    columns: tuple[str, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False
    must_exist: bool = False
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropView(Statement):
    """DROP VIEW"""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddColumns:
    """ADD COLUMNS: null in all rows that are there."""

    columns: "tuple[pa.Field, ...]"


@dataclass(frozen=True, slots=True)
class DropColumns:
    """DROP COLUMNS"""

    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN"""

    column: str
    to: str


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """ALTER COLUMN: another type, or with or without nulls."""

    column: str
    type: "pa.DataType | None" = None
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class RenameTo:
    """RENAME TO"""

    to: Name


@dataclass(frozen=True, slots=True)
class SetProperties:
    """SET and UNSET TBLPROPERTIES; `None` removes one."""

    properties: dict[str, str | None]


Alteration: TypeAlias = AddColumns | DropColumns | RenameColumn | AlterColumn | RenameTo | SetProperties


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """ALTER TABLE"""

    name: Name
    change: Alteration


@dataclass(frozen=True, slots=True)
class CreateNamespace(Statement):
    """CREATE NAMESPACE, SCHEMA or DATABASE."""

    name: Name
    if_not_exists: bool = False
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropNamespace(Statement):
    """DROP NAMESPACE, SCHEMA or DATABASE; with `cascade` everything in it goes too."""

    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterNamespace(Statement):
    """ALTER NAMESPACE ... SET or UNSET PROPERTIES."""

    name: Name
    properties: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """USE: where names of one part are looked for."""

    name: Name


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW"""

    what: Literal["namespaces", "tables", "views", "columns", "properties", "create", "tags", "versions"]
    name: Name = ()
    like: str | None = None


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE"""

    what: Literal["table", "namespace", "history", "query"]
    name: Name = ()
    extended: bool = False
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class Optimize(Statement):
    """OPTIMIZE: compact a table."""

    name: Name


@dataclass(frozen=True, slots=True)
class Vacuum(Statement):
    """VACUUM: clear away files that no kept version of the lake needs."""

    name: Name = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Call(Statement):
    """CALL seiche.procedure(...)"""

    procedure: str
    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
