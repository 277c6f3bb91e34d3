"""What a pipeline is: sources, steps that each make one table, and checks of what would be published."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "Check",
    "Definition",
    "Doubles",
    "Expected",
    "Meaning",
    "Mode",
    "Orphans",
    "Place",
    "Source",
    "Step",
    "TableFormat",
]

Mode: TypeAlias = Literal["append", "overwrite", "merge", "replace_where"]
TableFormat: TypeAlias = Literal["lance", "iceberg"]
Expected: TypeAlias = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written down, for messages."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "the pipeline"


@dataclass(frozen=True, slots=True)
class Source:
    """Rows from outside of the pipeline, known to the steps by `name`.

    Either files or anything else that a Spark reader reads (`format`, `path`, `options`, `schema`), or a table of the
    lake (`table`). With `new`, only what was not there in the last run that was published: new files under `path`, or
    rows that were added to or changed in `table`.
    """

    name: str
    format: str = "parquet"
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    table: str = ""
    new: bool = False
    make: "Callable[[Any], DataFrame] | None" = None
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Step:
    """Makes one table: from a query, or from a Python function that gets what it reads as DataFrames."""

    table: str
    mode: Mode = "overwrite"
    sql: str = ""
    key: tuple[str, ...] = ()
    where: str = ""
    format: TableFormat = "lance"
    index: Mapping[str, str] = field(default_factory=dict)
    # Columns that are vectors, with their size.
    vectors: Mapping[str, int] = field(default_factory=dict)
    make: "Callable[..., DataFrame] | None" = None
    reads: tuple[str, ...] = ()
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Doubles:
    """How many values of the columns stand in more than one row of the table."""

    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Orphans:
    """How many rows of the table have values in the columns that the other table has not."""

    table: str
    columns: tuple[str, ...]
    references: str
    to: tuple[str, ...]


Meaning: TypeAlias = Doubles | Orphans


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold of what would be published: a query with one value, and the value it must have.

    `rows` is a query for the rows that are to blame, shown when the check fails. `drift` compares with the value that
    the same query has on the version that the run began from: the largest share by which it may differ. `meaning` says
    what the query counts, where that may be found without the query.
    """

    name: str
    sql: str
    expect: Expected = 0
    at_least: float | None = None
    at_most: float | None = None
    drift: float | None = None
    rows: str = ""
    meaning: Meaning | None = None
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Definition:
    """A whole pipeline. Its name is what its runs and its offsets are kept under."""

    name: str
    lake: str
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    checks: tuple[Check, ...] = ()
    # Relative paths of sources are relative to this folder.
    folder: str = ""
