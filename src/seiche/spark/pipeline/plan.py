"""In which order the steps of a pipeline run, and what each of them reads: found from the SQL, before Spark starts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from seiche.errors import InvalidInput
from seiche.spark.pipeline.definition import Definition, Place, Step
from seiche.spark.pipeline.frames import parsed
from seiche.spark.pipeline.rules import check_rules

__all__ = ["Plan", "plan", "tables_read"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps to run, in order; those of one stage do not need each other."""

    definition: Definition
    stages: tuple[tuple[Step, ...], ...]
    # For each step and check, by table or name: what its query reads.
    reads: Mapping[str, frozenset[str]]

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for stage in self.stages for step in stage)

    @property
    def tables_needed(self) -> Mapping[str, str]:
        """Tables that no step makes and that must therefore be in the lake, and who needs them first, for messages."""
        made = {step.table for step in self.definition.steps}
        asked = [(f"{one.place}: source {one.name}", {one.table}) for one in self.definition.sources]
        asked += [(f"{one.place}: step {one.table}", set(self.reads[one.table])) for one in self.definition.steps]
        asked += [
            (f"{one.place}: check {one.name!r}", set(self.reads[f"check {one.name}"])) for one in self.definition.checks
        ]
        return {name: who for who, names in reversed(asked) for name in names if "." in name and name not in made}


def plan(definition: Definition, select: Sequence[str] = ()) -> Plan:
    """Check everything that can be checked without Spark, and put the steps in order.

    `select` names the steps to run, by table; `name+` takes those that depend on it too, `+name` those it depends on.
    """
    check_rules(definition)
    reads = {step.table: _reads_of(step, definition) for step in definition.steps}
    graph = {step.table: (reads[step.table] - {step.table}) & reads.keys() for step in definition.steps}
    order = _ordered(graph, definition)
    for check in definition.checks:
        named = tables_read(check.sql, check.place, what=f"check {check.name!r}")
        reads[f"check {check.name}"] = _known(named, definition, check.place)
    wanted = _selected(select, graph) if select else set(graph)
    _check_shared(definition, reads, wanted)
    by_table = {step.table: step for step in definition.steps}
    stages = tuple(tuple(by_table[name] for name in stage if name in wanted) for stage in order)
    return Plan(definition, tuple(stage for stage in stages if stage), reads)


def tables_read(sql: str, place: Place, *, what: str) -> frozenset[str]:
    """The names of everything that a query reads, as it writes them; names of its own (CTEs) are not among them."""
    return frozenset(".".join(table.name) for table in parsed(sql, place, what).tables)


def _reads_of(step: Step, definition: Definition) -> frozenset[str]:
    found = frozenset(step.reads) if step.make else tables_read(step.sql, step.place, what=f"the query of {step.table}")
    return _known(found, definition, step.place)


def _known(names: frozenset[str], definition: Definition, place: Place) -> frozenset[str]:
    """These names; `InvalidInput` if a short one among them is no source."""
    sources = {source.name for source in definition.sources}
    for name in sorted(names):
        if "." not in name and name not in sources:
            known = ", ".join(sorted(sources)) or "none"
            raise InvalidInput(
                f"{place}: {name!r} is not a source of this pipeline (there are: {known})",
                remedy="Sources have one word, tables of the lake are written namespace.table.",
                source=name,
            )
    return names


def _ordered(graph: Mapping[str, Iterable[str]], definition: Definition) -> list[list[str]]:
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        names = error.args[1]
        place = next(step.place for step in definition.steps if step.table == names[0])
        raise InvalidInput(
            f"{place}: steps wait for each other: {' <- '.join(names)}",
            remedy="One of them must read something else.",
        ) from error
    written = [step.table for step in definition.steps]
    stages = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=written.index)
        stages.append(ready)
        sorter.done(*ready)
    return stages


def _selected(select: Sequence[str], graph: Mapping[str, Iterable[str]]) -> set[str]:
    below = {name: {other for other in graph if name in graph[other]} for name in graph}
    found: set[str] = set()
    for said in select:
        name = said.strip("+")
        if name not in graph:
            raise InvalidInput(f"--select {said}: there is no step {name}", remedy=f"There are: {', '.join(graph)}.")
        found.add(name)
        if said.endswith("+"):
            found |= _reach(name, below)
        if said.startswith("+"):
            found |= _reach(name, graph)
    return found


def _check_shared(definition: Definition, reads: Mapping[str, frozenset[str]], wanted: set[str]) -> None:
    """What is new in a source is new once, to all steps that read it: one that is left out would never see it."""
    for source in definition.sources:
        readers = [step.table for step in definition.steps if source.new and source.name in reads[step.table]]
        left = [table for table in readers if table not in wanted]
        if left and len(left) < len(readers):
            taken = next(table for table in readers if table in wanted)
            raise InvalidInput(
                f"--select: {left[0]} is left out and reads what is new in {source.name}, as {taken} does: it would"
                " never see what this run reads",
                remedy=f"Select {left[0]} too, or neither.",
                source=source.name,
            )


def _reach(name: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(edges[waiting.pop()]) - found
        found |= new
        waiting.extend(new)
    return found
