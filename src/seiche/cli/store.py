"""`seiche store`: look at a storage before trusting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.failures import ExitCode
from seiche.cli.output import AsJson, print_json, print_line, print_table

if TYPE_CHECKING:
    from seiche.store import ProbeReport

__all__ = ["app", "probe", "show_report"]

app = typer.Typer(help="Look at a storage before trusting it.", rich_markup_mode="markdown")

_STYLES = {
    "ok": "green",
    "wrong": "bold red",
    "failed": "red",
    "unanswered": "yellow",
    "denied": "yellow",
    "info": "dim",
}


@app.callback()
def _group() -> None:
    """Look at a storage before trusting it."""  # a callback makes typer keep the group while it has only one command


@app.command()
def probe(
    uri: Annotated[
        str, typer.Argument(help="A folder, or file://, s3://, gs://, az://, hdfs://, memory://.", metavar="URI")
    ],
    as_json: AsJson = False,
) -> None:
    """Find out what a store really does, by racing writers in it.

    Writes a few small files below the address and removes them again. The exit code is 1 if the store must not be
    trusted: a lake there could lose commits.

    ```sh
    seiche store probe lake
    seiche store probe s3://bucket/lake --json
    ```
    """
    report = seiche.store.probe(seiche.store.open_store(uri))
    if as_json:
        print_json(report.as_dict())
    else:
        show_report(report)
    if not report.trusted:
        raise typer.Exit(ExitCode.FAILED)


def show_report(report: ProbeReport) -> None:
    """Print what a probe found, as a table and a verdict."""
    rows = [(row.check, row.result, row.detail) for row in report.rows]
    print_table(("tried", "result", "seen"), rows, styles=_STYLES)
    if report.trusted:
        print_line(f"\n{report.uri} can be trusted.", style="green")
    elif any(row.result in ("wrong", "failed") for row in report.rows):
        print_line(f"\n{report.uri} must not be trusted: a lake there could lose commits.", style="bold red")
    elif any(row.result == "denied" for row in report.rows):
        told = "did not let everything be tried, and cannot be trusted yet: a lake reads, writes, lists and deletes."
        print_line(f"\n{report.uri} {told}", style="yellow")
    else:
        print_line(f"\n{report.uri} did not answer everything, and cannot be trusted yet: try again.", style="yellow")
