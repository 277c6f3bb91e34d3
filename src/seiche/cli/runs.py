"""`seiche runs`: what became of pipelines."""

from __future__ import annotations

from dataclasses import asdict
from itertools import starmap
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.output import AsJson, print_json, print_line, print_table, row_text
from seiche.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from seiche.spark.pipeline.lineage import Made
    from seiche.spark.pipeline.records import CheckRecord, RunRecord

__all__ = ["runs", "show_checks", "show_steps"]

_STYLES = {"published": "green", "rejected": "red", "passed": "green", "failed": "red"}


def runs(
    uri: Annotated[
        str | None,
        typer.Argument(
            help="The lake: a folder, or file://, s3://, gs://, az://, hdfs://; if not given, SEICHE_LAKE or lake.",
            metavar="URI",
        ),
    ] = None,
    run_id: Annotated[str | None, typer.Argument(help="Explain this run.", metavar="ID")] = None,
    pipeline: Annotated[str | None, typer.Option(help="Only those of this pipeline.")] = None,
    lake: Annotated[
        str | None, typer.Option("--lake", help="The lake, as it was given before.", envvar="SEICHE_LAKE", hidden=True)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runs of pipelines, the newest first: what they published, or why they did not.

    With the id of one it says what that run read, made and found: which version of which table made which.

    ```sh
    seiche runs lake
    seiche runs lake 2030-01-31
    ```
    """
    uri, run_id = _meant(uri, run_id, lake)
    opened = seiche.open(uri)
    if run_id is not None:
        _show_one(opened, run_id, as_json=as_json)
    else:
        _list(opened, pipeline, as_json=as_json)


def _meant(uri: str | None, run_id: str | None, lake: str | None) -> tuple[str, str | None]:
    """The lake and the run, also in an older form: `runs --lake URI` and `runs show ID --lake URI`."""
    if uri == "show":
        if run_id is None:
            raise InvalidInput("no run is named", remedy="Write seiche runs URI ID; a lake called show is ./show.")
        return lake or "lake", run_id
    return lake or "lake" if uri is None else uri, run_id


def _list(lake: seiche.Lake, pipeline: str | None, *, as_json: bool) -> None:
    from seiche.spark.pipeline.records import runs as kept

    found = kept(lake, pipeline)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        print_line("No run is kept here.")
        return
    columns = ("run", "pipeline", "status", "started", "seconds", "tables", "rows")
    print_table(columns, [_line(one) for one in found], styles=_STYLES)
    for one in found:
        if one.message:
            print_line(f"  {one.run_id}: {one.message}", style="red")


def _show_one(lake: seiche.Lake, run_id: str, *, as_json: bool) -> None:
    from seiche.spark.pipeline.lineage import lineage
    from seiche.spark.pipeline.records import runs as kept

    found = next((one for one in kept(lake) if one.run_id == run_id), None)
    if found is None:
        remedy = f"'seiche runs {lake.uri}' shows those that are kept."
        raise NotFound(f"there is no run {run_id} in {lake.uri}", remedy=remedy)
    version = lake.status(found.transaction_id).version if found.status == "published" else None
    made = lineage(lake, found)
    if as_json:
        print_json({**asdict(found), "version": version, "lineage": [asdict(one) for one in made]})
    else:
        _explain(found, version, made)


def show_steps(record: RunRecord) -> None:
    rows = [(one.table, one.mode, ", ".join(one.reads), one.rows, one.files, one.seconds) for one in record.steps]
    print_table(("table", "mode", "from", "rows", "files", "seconds"), rows)


def show_checks(checks: tuple[CheckRecord, ...]) -> None:
    rows = [(one.name, "passed" if one.passed else "failed", one.found, one.expected) for one in checks]
    if rows:
        print_line()
        print_table(("check", "result", "found", "expected"), rows, styles=_STYLES)
    for check in checks:
        for row in () if check.passed else check.rows:
            print_line(f"  {check.name}: {row_text(row)}", style="red")


def _line(one: RunRecord) -> tuple[object, ...]:
    started = one.started_at.isoformat(sep=" ", timespec="seconds")
    return one.run_id, one.pipeline, one.status, started, one.seconds, len(one.steps), sum(s.rows for s in one.steps)


def _explain(one: RunRecord, version: int | None, lineage: list[Made]) -> None:
    made = "" if version is None else f" as version {version} of the lake"
    print_line(f"{one.pipeline}, run {one.run_id}: {one.status}{made}, from version {one.read_version}", style="bold")
    if one.status == "failed":
        print_line(one.message, style="red")
        return
    show_steps(one)
    show_checks(one.checks)
    if not lineage:
        print_line("Nothing was published." if one.status == "rejected" else "That version is not kept any more.")
        return
    print_line()
    print_table(
        ("made", "from"),
        [(_at(made.table, made.version), ", ".join(starmap(_at, made.inputs.items()))) for made in lineage],
    )


def _at(name: str, version: int | None) -> str:
    return name if version is None else f"{name}@{version}"
