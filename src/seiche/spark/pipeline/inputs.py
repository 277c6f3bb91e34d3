"""Whether what a pipeline reads is there: looked up before Spark starts, and before anything is made."""

from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

import seiche
from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.lake.objects.names import check_name, parts
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.plan import Plan
from seiche.spark.pipeline.sources import path_of
from seiche.spark.sql.relations import view

if TYPE_CHECKING:
    from seiche import Lake

__all__ = ["check_inputs", "check_tag", "there"]


def there(uri: str) -> "Lake | None":
    """The lake at `uri`; `None` if there is none yet."""
    try:
        return seiche.open(uri)
    except NotFound:
        return None


def check_inputs(planned: Plan, lake: "Lake | None") -> None:
    """Raise `NotFound` for files on this machine and tables of the lake that are read and not there.

    A lake that is yet to be made (`None`) has no tables. Raises `InvalidInput` for a view, which no step reads, for a
    table whose changes are not known, and for one that is there in another format than its step says.
    """
    _check_files(planned.definition)
    for name, who in sorted(planned.tables_needed.items()):
        if lake is None or not _has(lake, name, who):
            where = f"in {lake.uri}" if lake is not None else f"since there is no lake at {planned.definition.lake}"
            raise NotFound(
                f"{who}: there is no table {name} {where}, and no step makes it",
                remedy="Create it, add a step for it, or correct the name.",
                table=name,
            )
    _check_sources(planned, lake)
    if lake is not None:
        _check_formats(planned, lake)


def check_tag(lake: "Lake | None", tag: str) -> None:
    """Raise if what a check rejects cannot be kept under this tag: known before the work, not when it is rejected."""
    if "." in tag:
        raise InvalidInput(f"{tag!r} cannot be a tag for what was rejected", remedy="Use a word without dots.")
    check_name(tag, what="tag")
    if lake is not None and tag in lake.tags():
        raise AlreadyExists(
            f"there is a tag {tag!r} already", remedy="Choose another name; `lake.untag` takes names away.", tag=tag
        )


def _check_sources(planned: Plan, lake: "Lake | None") -> None:
    """Tables that a step makes: as a source each is read as the run found it, so it must be there before."""
    for source in planned.definition.sources:
        if not source.table or source.table in planned.tables_needed:
            continue
        who = f"{source.place}: source {source.name}"
        if lake is None or not _has(lake, source.table, who):
            raise NotFound(
                f"{who}: there is no table {source.table} yet, and a source gives what there was before the run",
                remedy="Name the table itself in the query: that reads what the step makes.",
                table=source.table,
            )


def _check_formats(planned: Plan, lake: "Lake") -> None:
    for step in planned.steps:
        known = _has(lake, step.table, f"{step.place}: step {step.table}")
        if known and step.format == "iceberg" and lake.table(step.table).row.format == "lance":
            raise InvalidInput(
                f"{step.place}: {step.table} is there in the format lance, and the step says iceberg",
                remedy="Leave out `format`, or drop the table first.",
            )
    for source in planned.definition.sources:
        if source.new and source.table and lake.table(source.table).row.format != "lance":
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


def _has(lake: "Lake", table: str, who: str) -> bool:
    tx = lake.transaction()
    if view(tx, parts(table)) is not None:
        raise InvalidInput(
            f"{who}: {table} is a view, and a pipeline reads and makes tables",
            remedy="Name the tables that it looks at.",
        )
    try:
        tx.table(table)
    except NotFound:
        return False
    return True
