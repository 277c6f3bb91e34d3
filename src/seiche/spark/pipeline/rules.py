"""What must hold of a pipeline, whichever way it was written: names, conditions, and what goes with what."""

import inspect
from collections.abc import Callable
from typing import Final

from seiche.errors import InvalidInput
from seiche.lake.objects.names import check_name, parts
from seiche.spark.pipeline.definition import Check, Definition, Place, Source, Step
from seiche.spark.pipeline.records import NAMESPACE, OFFSETS, RUNS
from seiche.spark.sql.queries import parse_expression
from seiche.spark.sql.refusals import place as place_in
from seiche.table.data.index.build import SCALAR, VECTOR

__all__ = ["check_rules"]

# A condition is read as what is selected; of the same length as what a query begins with, so that places stay.
_LEAD: Final = "SELECT\n"


def check_rules(definition: Definition) -> None:
    """Raise `InvalidInput`, by place, for the first thing in a pipeline that cannot be meant."""
    for source in definition.sources:
        _check_source(source, definition.name)
    seen: dict[str, Place] = {}
    for step in definition.steps:
        if step.table in seen:
            raise InvalidInput(
                f"{step.place}: {step.table} is made by another step too ({seen[step.table]})",
                remedy="Let one step make it, with UNION ALL if need be.",
            )
        seen[step.table] = step.place
        _check_step(step)
    names = [check.name for check in definition.checks]
    for check in definition.checks:
        if names.count(check.name) > 1:
            raise InvalidInput(f"{check.place}: two checks are called {check.name!r}", remedy="Give one a `name`.")
        _check_bounds(check)


def _check_source(source: Source, pipeline: str) -> None:
    who = f"{source.place}: source {source.name}"
    if source.table:
        _check_table(source.table, who)
    if not source.new:
        return
    if not source.table and not source.path:
        raise InvalidInput(
            f"{who}: what is new in it is known of files under a `path` and of tables only",
            remedy="Leave out `new`, and choose what is new in the query.",
        )
    try:
        check_name(pipeline)
    except InvalidInput as error:
        said = f"{who}: how far it was read is kept under the name of the pipeline, and {error.message}"
        raise InvalidInput(said, remedy=f"Give the pipeline a `name`. {error.remedy}") from error


def _check_step(step: Step) -> None:
    _check_table(step.table, str(step.place))
    if (*step.table.split("."),) == RUNS or (*step.table.split("."),)[:2] == OFFSETS:
        raise InvalidInput(
            f"{step.place}: {step.table} is where runs are kept: no step makes it",
            remedy=f"Choose another name than {NAMESPACE}.runs and {NAMESPACE}.offsets.",
        )
    for column in step.key:
        if step.key.count(column) > 1:
            raise InvalidInput(f"{step.place}: {step.table}: `key` names {column} twice", remedy="Name it once.")
    if step.where:
        _check_condition(step)
    if step.make is not None:
        _check_function(step, step.make)
    _check_indices(step)


def _check_table(name: str, who: str) -> None:
    try:
        if len(parts(name, what="table")) > 1:
            return
        why = ""
    except InvalidInput as error:
        why = f": {error.message}"
    raise InvalidInput(f"{who}: {name!r} is not the name of a table{why}", remedy="Write namespace.table.")


def _check_condition(step: Step) -> None:
    who = f"{step.place}: `where` of {step.table}"
    text = _LEAD + step.where
    try:
        found = parse_expression(text, len(_LEAD), len(text))
    except InvalidInput as error:
        at = int(error.details.get("position", len(_LEAD))) - len(_LEAD)
        what = error.message.rpartition(", at line ")[0]
        raise InvalidInput(
            f"{who}: {what}, at {place_in(step.where, at)} of it",
            remedy="Write a condition over the columns of the table.",
        ) from error
    if found.tables:
        read = ", ".join(".".join(table.name) for table in found.tables)
        raise InvalidInput(
            f"{who} reads {read}", remedy="Write a condition over the columns of the table, without a query in it."
        )


def _check_function(step: Step, make: Callable[..., object]) -> None:
    """A function that takes something else than it is given would fail only when Spark runs."""
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # one that is not written in Python does not say
        return
    try:
        signature.bind(*step.reads)
    except TypeError as error:
        call = f"{getattr(make, '__name__', 'the function')}{signature}"
        raise InvalidInput(
            f"{step.place}: step {step.table}: {call} cannot be called with {len(step.reads)} frames: {error}",
            remedy="`reads` lists the sources and tables that the function gets, in this order.",
        ) from error


def _check_indices(step: Step) -> None:
    if step.format == "iceberg" and (step.index or step.vectors):
        raise InvalidInput(
            f"{step.place}: {step.table} is an Iceberg table, which has neither vectors nor indices",
            remedy="Leave out `vectors` and `index`, or keep the table in the format lance.",
        )
    for column, kind in step.index.items():
        if kind.upper() not in (*SCALAR, *VECTOR):
            raise InvalidInput(
                f"{step.place}: {step.table}: index: there is no kind {kind!r} (for {column})",
                remedy=f"There are: {', '.join((*SCALAR, *VECTOR))}.",
            )


def _check_bounds(check: Check) -> None:
    low, high = check.at_least, check.at_most
    if low is not None and high is not None and low > high:
        raise InvalidInput(
            f"{check.place}: check {check.name!r}: no value is at least {low:g} and at most {high:g}",
            remedy="Correct one of the two.",
        )
