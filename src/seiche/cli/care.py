"""Commands that keep a lake in order: give up versions, clear away files, look for damage."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import Run, Uri
from seiche.cli.failures import ExitCode, in_commands
from seiche.cli.output import TIME, AsJson, print_json, print_line, print_table
from seiche.cli.progress import working
from seiche.core.counts import counted
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.lake.care.fsck import Soundness
    from seiche.lake.care.gc import CleanUp

__all__ = ["expire", "fsck", "gc", "trash"]

_STYLES = {"error": "bold red", "note": "dim", "repaired": "green", "moved": "yellow", "waits": "dim"}
_SHOWN = 100


def expire(
    uri: Uri,
    older_than: Annotated[
        str | None, typer.Option(help="How long ago a version must have ceased to be the newest, as in 7d or 36h.")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="How many of the newest versions stay in any case.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up old versions. What a tag, an export, a saved transaction or a reader needs stays.

    What is not given is as the lake's definition says: 7 days and 3 versions, unless it was made otherwise. Files stay
    until `seiche gc` takes them. Interrupted, it can be run again.

    ```sh
    seiche expire lake --dry-run
    seiche expire lake --older-than 0s --keep 2
    ```
    """
    done = seiche.open(uri).expire(older_than=older_than, keep=keep, dry_run=dry_run)
    if as_json:
        print_json(done.as_dict())
        return
    print_table(("versions", "kept because"), [(str(one.versions), one.reason) for one in done.kept])
    count = len(done.versions)
    what = counted(count, "version") + (f" ({done.versions})" if count else "")
    done_ = "has been" if count == 1 else "have been"
    print_line(f"\n{what} {done_ if done.done else 'would be'} given up.", style="" if done.versions else "dim")
    if done.late:
        print_line(f"Readers still hold {done.late}: a later expiry finishes these.", style="yellow")


def gc(
    uri: Uri,
    run: Run = False,
    grace: Annotated[
        str, typer.Option(help="How long a file must have been known to be unneeded; longer than transactions live.")
    ] = "1d",
    window: Annotated[str, typer.Option(help="How long files stay in the trash. With 0s there is no way back.")] = "7d",
    as_json: AsJson = False,
) -> None:
    """Clear away files that no kept version needs.

    One run notes them, one that comes a day later moves them to the trash, one that comes a week later still removes
    them from there: run it daily. Files that the lake does not know are reported and left alone.

    ```sh
    seiche gc lake
    seiche gc lake --run
    seiche gc lake --run --grace 0s --json
    ```
    """
    with working("clearing away") as progress:
        done = seiche.open(uri).gc(dry_run=not run, grace=grace, window=window, progress=progress)
    if as_json:
        print_json(done.as_dict())
    else:
        _show_clean_up(done)
    if done.restored:
        raise typer.Exit(ExitCode.FAILED)


def _show_clean_up(done: CleanUp) -> None:
    rows = [(one.fate, one.size, one.sort, one.reason, one.path) for one in done.unneeded[:_SHOWN]]
    if rows:
        print_table(("fate", "bytes", "sort", "why", "path"), rows, styles=_STYLES)
    if len(done.unneeded) > _SHOWN:
        print_line(f"... and {len(done.unneeded) - _SHOWN} more (--json shows all)")
    moved = done.moved
    size = sum(one.size for one in moved)
    where = f"the trash as {done.run}" if done.run else "the trash"
    unneeded = len(done.unneeded)
    print_line(
        f"{counted(done.files, 'file')}, {counted(done.versions, 'version')}:"
        f" {counted(unneeded, 'file')} {'is' if unneeded == 1 else 'are'} needed by nothing;"
        f" {len(moved)} with {counted(size, 'byte')} {'went' if done.done else 'would go'} to {where}."
    )
    if done.removed:
        gone = f"{counted(done.removed, 'file')} with {counted(done.removed_bytes, 'byte')}"
        print_line(f"{gone} {'was' if done.removed == 1 else 'were'} removed from the trash for good.")
    if done.waiting_for:
        print_line(f"The others wait for {done.waiting_for}.", style="dim")
    for what, paths in (("foreign", done.foreign), ("unknown", done.unknown)):
        if paths:
            some = ", ".join(paths[:5]) + (" ..." if len(paths) > 5 else "")
            verb = "was" if len(paths) == 1 else "were"
            print_line(f"{counted(len(paths), f'{what} file')} {verb} left alone: {some}", style="yellow")
    for location, why in done.closed.items():
        print_line(f"Nothing of {location} was touched: {why}", style="yellow")
    for path in done.restored:
        print_line(f"{path} had been taken although it is needed, and was put back. Please report this.", style="red")


def trash(
    uri: Uri,
    restore: Annotated[
        str | None, typer.Option(help="Put back what this clean-up took, by the name that the list shows.")
    ] = None,
    paths: Annotated[
        list[str] | None, typer.Option("--path", help="Only this file, by the path that it had. Can be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what clean-ups took and can still be brought back, or bring it back.

    ```sh
    seiche trash lake
    ```
    """
    found = seiche.open(uri).trash()
    if paths and restore is None:
        raise InvalidInput("files are brought back from one clean-up", remedy="Say which, with --restore.")
    if restore is not None:
        back = found.restore(restore, paths)
        if as_json:
            print_json({"run": restore, "restored": back})
        else:
            print_line(f"{counted(len(back), 'file')} {'is' if len(back) == 1 else 'are'} back.", style="green")
        return
    runs = list(found)
    if as_json:
        print_json([one.as_dict() for one in runs])
    elif runs:
        rows = [(one.id, f"{one.at:{TIME}}", len(one.files), one.bytes) for one in runs]
        print_table(("clean-up", "taken (UTC)", "files", "bytes"), rows)
    else:
        print_line("The trash is empty.")


def fsck(
    uri: Uri,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended without a doubt.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read all data files too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prove that a lake is sound: versions, trees, rows, tables, and every file that they need.

    The exit code is 1 if there is an error left. Notes are no errors: something is unfinished, or only costs time.

    ```sh
    seiche fsck lake
    seiche fsck lake --repair --deep --json
    ```
    """
    from seiche.core.runtime import SYSTEM
    from seiche.lake.care.fsck import check_lake

    # Not by opening the lake: it must also work on one that cannot be opened.
    store = seiche.store.open_store(uri)
    if next(iter(store.list()), None) is None:
        raise seiche.NotFound(f"{store.uri} holds no lake, and nothing else", remedy="Check the address.")
    with working("checking") as progress:
        found = check_lake(store, SYSTEM, repair=repair, deep=deep, progress=progress)
    if as_json:
        print_json(found.as_dict())
    else:
        _show_soundness(found)
    if not found.ok:
        raise typer.Exit(ExitCode.FAILED)


def _show_soundness(found: Soundness) -> None:
    if found.problems:
        rows = [
            ("repaired" if one.repaired else one.severity, one.kind, one.path, one.message, in_commands(one.remedy))
            for one in found.problems
        ]
        print_table(("", "kind", "path", "what", "remedy"), rows, styles=_STYLES)
    counts = Counter("repaired" if one.repaired else one.severity for one in found.problems)
    looked_at = ((found.versions, "version"), (found.nodes, "node"), (found.tables, "table"), (found.files, "file"))
    seen = ", ".join(counted(count, what) for count, what in looked_at)
    said = ", ".join(
        f"{count} repaired" if what == "repaired" else counted(count, what) for what, count in counts.items()
    )
    print_line(f"{seen}: {said or 'all sound'}.", style="green" if found.ok else "bold red")
