"""Commands that copy versions of a lake to other places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import AsOf, Called, Uri, named
from seiche.cli.output import TIME, AsJson, print_json, print_line, print_table
from seiche.cli.progress import working
from seiche.core.durations import moment
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.lake.export.records import Mode

__all__ = ["export", "exports", "unexport"]


def export(
    uri: Uri,
    name: Annotated[str, typer.Argument(help="What to call the export, in one namespace with tags.", metavar="NAME")],
    target: Annotated[
        str,
        typer.Argument(help="An empty place: a folder, or file://, s3://, gs://, az://, hdfs://.", metavar="TARGET"),
    ],
    version: Annotated[
        str | None, typer.Option(help="The version: its number or a tag; the newest if not given.")
    ] = None,
    as_of: AsOf = None,
    mode: Annotated[
        str, typer.Option(help="full: a copy of everything; minimal: of no table; partial: of the tables given.")
    ] = "full",
    tables: Annotated[list[str] | None, typer.Option("--table", help="Only this table. Can be repeated.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Where the copy will be moved to, for plain readers of its Iceberg tables.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a version to another place, where it is a lake of its own.

    All files are hashed and read back. A full export needs nothing of this lake any more, and can be moved. The tables
    that a minimal or partial one does not copy are read where they are; the version that they belong to does not expire
    until `seiche unexport`. Interrupted, the same command finishes it.

    ```sh
    seiche export lake copied copy
    seiche export lake before old-copy --version nightly --table shop.orders --json
    seiche export lake linked links --mode minimal
    ```
    """
    if version is not None and as_of is not None:
        raise InvalidInput("say either which version or what time", remedy="Give --version or --as-of, not both.")
    point = version if as_of is None else moment(as_of)
    kind: Mode = mode  # type: ignore[assignment]  # whatever else it is, is refused with a reason
    only = None if tables is None else [named(one) for one in tables]
    with working("exporting") as progress:
        done = seiche.open(uri).export(name, target, point, kind, only, address=address, progress=progress)
    if as_json:
        print_json(done.as_dict())
    else:
        print_line(
            f"Version {done.version} is in {done.location}, as the {done.mode} export {done.name}.", style="green"
        )


def exports(uri: Uri, as_json: AsJson = False) -> None:
    """List the exports of a lake. One that is not finished can be: by the command that began it.

    ```sh
    seiche exports lake
    ```
    """
    found = seiche.open(uri).exports().values()
    if as_json:
        print_json([one.as_dict() for one in found])
        return
    if not found:
        print_line("Nothing was exported; 'seiche export' does that.")
        return
    print_table(
        ("export", "version", "mode", "finished", "made (UTC)", "to"),
        [
            (one.name, one.version, one.mode, "yes" if one.done else "no", f"{one.created_at:{TIME}}", one.location)
            for one in found
        ],
    )


def unexport(uri: Uri, name: Called, as_json: AsJson = False) -> None:
    """Forget an export. What it shares with this lake can expire then; what it has copied stays where it is.

    ```sh
    seiche unexport lake linked
    ```
    """
    seiche.open(uri).unexport(name)
    if as_json:
        print_json({"name": name})
    else:
        print_line(f"The export {name} is forgotten.")
