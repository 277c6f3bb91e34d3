"""Whether what a pipeline reads is there: looked up before Spark starts, and before anything is made."""

from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

import seiche
from seiche.errors import InvalidInput, NotFound
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.plan import Plan
from seiche.spark.pipeline.sources import path_of

if TYPE_CHECKING:
    from seiche import Lake

__all__ = ["check_inputs", "there"]


def there(uri: str) -> "Lake | None":
    """The lake at `uri`; `None` if there is none yet."""
    try:
        return seiche.open(uri)
    except NotFound:
        return None


def check_inputs(planned: Plan, lake: "Lake | None") -> None:
    """Raise `NotFound` for files on this machine and tables of the lake that are read and not there.

    A lake that is yet to be made (`None`) has no tables. Raises `InvalidInput` for a table whose changes are not known.
    """
    _check_files(planned.definition)
    for name, who in sorted(planned.tables_needed.items()):
        if lake is None or not _has(lake, name):
            where = f"in {lake.uri}" if lake is not None else f"since there is no lake at {planned.definition.lake}"
            raise NotFound(
                f"{who}: there is no table {name} {where}, and no step makes it",
                remedy="Create it, add a step for it, or correct the name.",
                table=name,
            )
    for source in planned.definition.sources:
        if not source.new or lake is None or source.table not in planned.tables_needed:
            continue
        if lake.table(source.table).row.format != "lance":
            raise InvalidInput(
                f"{source.place}: source {source.name}: what is new in {source.table}, an Iceberg table, is not known",
                remedy="Leave out `new`, or keep the table in the format lance.",
            )


def _check_files(definition: Definition) -> None:
    for source in definition.sources:
        path = path_of(source, definition.folder)
        if not path or "://" in path:
            continue
        where = Path(path)
        found = any(where.parent.glob(where.name)) if has_magic(where.name) else where.exists()
        if not has_magic(str(where.parent)) and not found:
            raise NotFound(f"{source.place}: source {source.name}: there is no {path}", remedy="Correct its `path`.")


def _has(lake: "Lake", table: str) -> bool:
    try:
        lake.table(table)
    except NotFound:
        return False
    return True
