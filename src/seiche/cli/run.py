"""`seiche run`: a pipeline, as it runs and what comes out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from seiche.cli.arguments import properties_of
from seiche.cli.failures import ExitCode
from seiche.cli.output import AsJson, print_json, print_line, print_table
from seiche.cli.quiet import quiet_start
from seiche.cli.runs import show_checks, show_steps
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.spark.pipeline.plan import Plan
    from seiche.spark.pipeline.progress import Progress
    from seiche.spark.pipeline.run import Run

__all__ = ["run"]

_File = Annotated[Path | None, typer.Argument(help="The pipeline.", metavar="PIPELINE.yaml")]


def run(
    pipeline: _File = None,
    run_id: Annotated[
        str | None, typer.Option(help="A name for this run: published once, however often it is run.")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(help="Only this step; name+ with those after it, +name with those before. Can be repeated."),
    ] = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Read all sources from the beginning, and replace.")
    ] = False,
    keep: Annotated[str, typer.Option(help="A tag under which to keep what a check rejected.", metavar="TAG")] = "",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the plan, if what it reads is there. Nothing is made, and Spark is not started."
        ),
    ] = False,
    master: Annotated[str | None, typer.Option(help="Where Spark runs, as in spark://host:7077.")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark, as in spark.task.cpus=2. Can be repeated.")
    ] = None,
    lake: Annotated[str | None, typer.Option(help="Another lake than the one that the pipeline names.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of pipelines and exit.")] = False,
    json: AsJson = False,
) -> int:
    """Build the tables of a pipeline, check them together, and publish them at once or not at all.

    Exits with 1 if a check failed; nothing is published then, nor if a step fails.

    ```sh
    seiche run orders.yaml --dry-run
    seiche run orders.yaml --run-id 2030-01-31
    ```
    """
    from seiche.spark.settings import require_pyspark

    require_pyspark()
    from seiche.spark.pipeline.inputs import check_inputs, there
    from seiche.spark.pipeline.plan import plan
    from seiche.spark.pipeline.run import run as run_pipeline
    from seiche.spark.pipeline.yaml_file import load
    from seiche.spark.pipeline.yaml_file import schema as pipeline_schema

    if schema:
        print_json(pipeline_schema())
        return ExitCode.DONE
    if pipeline is None:
        raise InvalidInput("no pipeline is named", remedy="Write seiche run PIPELINE.yaml.")
    settings = properties_of(conf, "setting")
    definition = load(pipeline)
    if lake is not None:
        definition = replace(definition, lake=lake)
    if dry_run:
        planned = plan(definition, select or ())
        found = there(definition.lake)
        check_inputs(planned, found)
        _show_plan(planned, new=found is None, json=json)
        return ExitCode.DONE
    with _shown(quiet=json) as progress:
        done = run_pipeline(
            definition,
            lambda: _session(definition.name, master, settings, progress),
            run_id=run_id,
            select=select or (),
            full_refresh=full_refresh,
            keep=keep,
            progress=progress,
        )
    _show_run(done, definition.lake, json=json)
    return ExitCode.DONE if done.published else ExitCode.FAILED


def _session(name: str, master: str | None, settings: dict[str, str], progress: "Progress") -> Any:
    from seiche.spark.settings import session

    progress("Spark", "starting")
    with quiet_start():
        made = session(f"seiche {name}", master=master, settings=settings)
    made.sparkContext.setLogLevel("ERROR")
    progress("Spark", "started")
    return made


@contextmanager
def _shown(*, quiet: bool) -> "Iterator[Progress]":
    """What happens to each step and check, as a table that grows on a terminal, or as lines elsewhere."""
    if quiet:
        yield lambda _what, _state: None
        return
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        yield lambda what, state: console.print(f"{what}: {state}", soft_wrap=True)
        return
    states: dict[str, str] = {}

    def table() -> Table:
        shown = Table.grid(padding=(0, 2))
        for what, state in states.items():
            shown.add_row(Text(what), Text(state, style=_style(state)))
        return shown

    # A way to the terminal of its own: while Spark starts, stderr leads elsewhere.
    with os.fdopen(os.dup(2), "w") as console.file, Live(console=console, transient=True, refresh_per_second=8) as live:

        def note(what: str, state: str) -> None:
            states[what] = state
            live.update(table())

        yield note


def _style(state: str) -> str:
    if state in ("starting", "running", "checking"):
        return "yellow"
    return "red" if state.startswith("failed") else "green"


def _show_plan(planned: "Plan", *, new: bool, json: bool) -> None:
    definition = planned.definition
    steps = [(stage, step) for stage, several in enumerate(planned.stages, 1) for step in several]
    reads = {step.table: sorted(planned.reads[step.table]) for _, step in steps}
    checks = [check.name for check in definition.checks]
    if json:
        shown = [
            {
                "stage": stage,
                "table": step.table,
                "mode": step.mode,
                "reads": reads[step.table],
                "format": step.format,
            }
            for stage, step in steps
        ]
        print_json({"pipeline": definition.name, "lake": definition.lake, "steps": shown, "checks": checks})
        return
    made = ", which would be made" if new else ""
    print_line(f"{definition.name} on {definition.lake}{made}", style="bold")
    rows = [(stage, step.table, step.mode, ", ".join(reads[step.table])) for stage, step in steps]
    print_table(("stage", "table", "mode", "reads"), rows)
    print_line("checks: " + (", ".join(checks) or "none"))


def _show_run(done: "Run", lake: str, *, json: bool) -> None:
    if json:
        print_json(asdict(done))
        return
    if done.record is not None:
        show_steps(done.record)
        show_checks(done.record.checks)
    if done.outcome == "published before":
        version = "in a version that has expired" if done.version is None else f"as version {done.version}"
        print_line(f"Run {done.run_id} was published before, {version}. Nothing was done.")
    elif done.published:
        again = f", at attempt {done.attempts}" if done.attempts > 1 else ""
        print_line(f"Published as version {done.version} of {lake}{again}.", style="green")
    else:
        kept = f" What was rejected is kept under the tag {done.kept}." if done.kept else ""
        print_line(f"Nothing was published.{kept}", style="red")
