"""The command that shows what will hurt."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import Uri
from seiche.cli.output import AsJson, print_json, print_line, print_table
from seiche.core.counts import counted

if TYPE_CHECKING:
    from seiche.lake.care.health import Health

__all__ = ["health"]


def health(
    uri: Uri,
    quick: Annotated[bool, typer.Option("--quick", help="Do not look for files that nothing needs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what will hurt before it does, and the command that helps.

    ```sh
    seiche health lake
    seiche health lake --quick --json
    ```
    """
    lake = seiche.open(uri)
    found = lake.health(orphans=not quick)
    if as_json:
        print_json(found.as_dict())
    else:
        _show_health(found, lambda command: command.replace(shlex.quote(lake.uri), shlex.quote(uri)))


def _show_health(found: Health, as_typed: Callable[[str], str]) -> None:
    """Print it for people. `as_typed` gives a command the name of the lake that the user typed."""
    orphans = "not looked for"
    if found.orphans is not None:
        orphans = f"{counted(found.orphans, 'file')}, {counted(found.orphan_bytes or 0, 'byte')}"
    figures = [
        ("versions", f"{found.versions} kept, {found.expired} expired"),
        ("root's write buffer", f"{found.buffer:.0%} full"),
        ("leases, saved transactions", f"{found.leases}, {found.saved}"),
        ("trash", f"{counted(found.trash, 'file')}, {counted(found.trash_bytes, 'byte')}"),
        ("needed by nothing", orphans),
    ]
    print_table((f"lake at version {found.version}", ""), figures)
    if found.tables:
        print_line()
        _show_lance(found)
    if found.iceberg:
        print_line()
        _show_iceberg(found)
    print_line()
    for one in found.advice:
        print_line(f"{one.about}: {one.finding}. Try: {as_typed(one.command)}", style="yellow")
    if not found.advice:
        print_line("Nothing needs to be done.", style="green")


def _show_lance(found: Health) -> None:
    columns = ("table", "version", "fragments", "small", "rows", "deleted", "manifest bytes", "not indexed")
    rows = [
        (
            one.table,
            one.version,
            one.fragments,
            one.small_fragments,
            one.rows,
            one.deleted,
            one.manifest_bytes,
            one.unindexed if one.indices else "-",
        )
        for one in found.tables
    ]
    print_table(columns, rows)


def _show_iceberg(found: Health) -> None:
    columns = ("Iceberg table", "version", "snapshots", "manifests", "files", "small", "deletions", "metadata bytes")
    rows = [
        (
            one.table,
            one.version,
            one.snapshots,
            one.manifests,
            one.files,
            one.small_files,
            one.delete_files,
            one.metadata_bytes,
        )
        for one in found.iceberg
    ]
    print_table(columns, rows)
