"""Commands about a lake's past: look at it, name it, go back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

import seiche
from seiche.cli.arguments import AsOf, Uri
from seiche.cli.failures import ExitCode
from seiche.cli.output import AsJson, print_json, print_line, print_table
from seiche.cli.progress import working
from seiche.core.durations import moment
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.lake.diff import Diff
    from seiche.lake.export.records import Mode

__all__ = ["diff", "export", "exports", "log", "rollback", "tag", "tags", "unexport", "untag"]

_STYLES = {"added": "green", "dropped": "red", "renamed": "cyan", "changed": "yellow"}
_Called: TypeAlias = Annotated[str, typer.Argument(help="The name.", metavar="NAME")]
_TIME = "%Y-%m-%d %H:%M:%S"


def log(
    uri: Uri,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many versions at most.")] = 20,
    since: Annotated[
        str | None, typer.Option(help="Only versions made after this one, given by its number or a tag.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened: versions, newest first, and what each changed.

    ```sh
    seiche log lake
    seiche log lake -n 3 --since nightly --json
    ```
    """
    entries = list(seiche.open(uri).log(limit, since=since))
    if as_json:
        print_json([one.as_dict() for one in entries])
        return
    if not entries:
        print_line("There is no such version.")
        return
    print_table(
        ("version", "time (UTC)", "tags", "what"),
        [(one.version, f"{one.time:{_TIME}}", ", ".join(one.tags), one.summary) for one in entries],
    )


def diff(
    uri: Uri,
    before: Annotated[str, typer.Argument(help="A version: its number or a tag.", metavar="FROM")],
    after: Annotated[str | None, typer.Argument(help="Another; the newest if not given.", metavar="TO")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how two versions differ: objects, and in tables operations, rows, files and columns.

    ```sh
    seiche diff lake 3 4
    seiche diff lake nightly
    ```
    """
    _print(seiche.open(uri).diff(before, after), as_json)


def _print(found: Diff, as_json: bool) -> None:
    if as_json:
        print_json(found.as_dict())
    else:
        _show(found)


def _show(found: Diff) -> None:
    if not found:
        print_line(f"Versions {found.before} and {found.after} hold the same.")
        return
    rows = []
    for one in found.objects:
        content = found.content(one)
        name = f"{one.old_name} to {one.name}" if one.old_name else one.name
        said = "" if content is None else str(content)
        said = said or ", ".join(f"{key}: {old} to {new}" for key, (old, new) in one.properties.items())
        rows.append((one.action, one.kind, name, said))
    print_table(("what", "kind", "name", f"from version {found.before} to {found.after}"), rows, styles=_STYLES)


def tag(
    uri: Uri,
    name: Annotated[str, typer.Argument(help="The new name.", metavar="NAME")],
    version: Annotated[
        str | None,
        typer.Argument(help="The version: its number or a tag; the newest if not given.", metavar="VERSION"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a version a name. It does not expire as long as it has one.

    ```sh
    seiche tag lake before-the-move
    seiche tag lake first 1
    ```
    """
    number = seiche.open(uri).tag(name, version)
    if as_json:
        print_json({"name": name, "version": number})
    else:
        print_line(f"Version {number} is called {name}.")


def untag(uri: Uri, name: _Called, as_json: AsJson = False) -> None:
    """Take a name away from a version, which can expire then.

    ```sh
    seiche untag lake nightly
    ```
    """
    seiche.open(uri).untag(name)
    if as_json:
        print_json({"name": name, "version": None})
    else:
        print_line(f"No version is called {name} any more.")


def tags(uri: Uri, as_json: AsJson = False) -> None:
    """List the names that versions have.

    ```sh
    seiche tags lake
    ```
    """
    found = seiche.open(uri).tags().values()
    if as_json:
        print_json([{"name": one.name, "version": one.version, "created_at": one.created_at} for one in found])
    elif not found:
        print_line("No version has a name; 'seiche tag' gives one.")
    else:
        print_table(
            ("tag", "version", "made (UTC)"), [(one.name, one.version, f"{one.created_at:{_TIME}}") for one in found]
        )


def rollback(
    uri: Uri,
    to: Annotated[str, typer.Argument(help="The version to go back to: its number or a tag.", metavar="TO")],
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="Only this table, by its name now or then. Can be repeated.")
    ] = None,
    expected_version: Annotated[
        int | None, typer.Option(help="Do it only if the lake is still at this version.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the lake, or some tables, what it was at a version.

    That is a new version: nothing is lost, and it can be undone in the same way. Tags, exports and retention stay as
    they are. Shows what would happen and asks first; what was shown is what is done, or nothing.

    ```sh
    seiche rollback lake nightly --dry-run
    seiche rollback lake 3 --table shop.orders --yes
    seiche rollback lake nightly --yes --json
    ```
    """
    lake = seiche.open(uri)
    if dry_run or not yes:
        would = lake.rollback(to, expected_version=expected_version, dry_run=True, tables=tables)
        if dry_run:
            _print(would, as_json)
            return
        _ask(would, as_json)
        expected_version = would.before
    version = lake.rollback(to, expected_version=expected_version, tables=tables)
    if as_json:
        print_json({"version": version})
    else:
        print_line(f"Done: the lake is at version {version}.", style="green")


def _ask(would: Diff, as_json: bool) -> None:
    """Return if the user agrees."""
    if as_json or not sys.stdin.isatty():
        raise InvalidInput(
            "nobody is there to ask", remedy="Give --yes to do it, or --dry-run to see what would happen."
        )
    _show(would)
    if not typer.confirm("Do this?", err=True):
        print_line("Nothing was changed.")
        raise typer.Exit(ExitCode.FAILED)


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
    with working("exporting") as progress:
        done = seiche.open(uri).export(name, target, point, kind, tables, address=address, progress=progress)
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
            (one.name, one.version, one.mode, "yes" if one.done else "no", f"{one.created_at:{_TIME}}", one.location)
            for one in found
        ],
    )


def unexport(uri: Uri, name: _Called, as_json: AsJson = False) -> None:
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
