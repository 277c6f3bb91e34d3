"""Commands about a lake's past: look at it, name it, go back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import MOST, Called, Uri, named
from seiche.cli.failures import ExitCode
from seiche.cli.output import TIME, AsJson, print_json, print_line, print_table
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.lake.history.diff import Diff

__all__ = ["diff", "log", "rollback", "tag", "tags", "untag"]

_STYLES = {"added": "green", "dropped": "red", "renamed": "cyan", "changed": "yellow"}


def log(
    uri: Uri,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, max=MOST, help="How many versions at most.")] = 20,
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
        print_line("No version was asked for." if since is None else f"No version was made after {since}.")
        return
    print_table(
        ("version", "time (UTC)", "tags", "what"),
        [(one.version, f"{one.time:{TIME}}", ", ".join(one.tags), one.summary) for one in entries],
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


def untag(uri: Uri, name: Called, as_json: AsJson = False) -> None:
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
            ("tag", "version", "made (UTC)"), [(one.name, one.version, f"{one.created_at:{TIME}}") for one in found]
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
    only = None if tables is None else [named(one) for one in tables]
    if dry_run or not yes:
        would = lake.rollback(to, expected_version=expected_version, dry_run=True, tables=only)
        if dry_run:
            _print(would, as_json)
            return
        _ask(would, as_json)
        expected_version = would.before
    version = lake.rollback(to, expected_version=expected_version, tables=only)
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
