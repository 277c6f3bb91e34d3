"""`seiche table`: one table, of a lake or a plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

import seiche
from seiche.cli.arguments import MOST, Run, TableName, Uri, named
from seiche.cli.output import TIME, AsJson, print_json, print_line, print_table
from seiche.cli.progress import working
from seiche.cli.values import plain, rows_of, shown
from seiche.core.counts import counted
from seiche.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from seiche.lake.handles import LakeTable
    from seiche.table.cleanup_plan import Cleanup

__all__ = ["adopt", "app", "changes", "cleanup", "compact", "history"]

app = typer.Typer(help="Look after one table, of a lake or a plain one.", rich_markup_mode="markdown")

_SHOWN = 100
_STYLES = {"insert": "green", "update": "yellow", "delete": "red"}

Where: TypeAlias = Annotated[str, typer.Argument(help="The lake, or a plain Lance table.", metavar="URI")]
MaybeTable: TypeAlias = Annotated[
    str | None,
    typer.Argument(help="The table of the lake, as in shop.orders; left out if URI is one.", metavar="TABLE"),
]


@app.command()
def history(
    uri: Where,
    table: MaybeTable = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, max=MOST, help="How many versions at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the versions of a table that are kept, newest first: when each was made, and by which operation.

    These are the table's own versions. `seiche log` shows those of the lake.

    ```sh
    seiche table history lake shop.orders
    seiche table history plain.lance -n 3 --json
    ```
    """
    found = list(reversed(_opened(uri, table).versions()))[:limit]
    if as_json:
        print_json(
            [{"version": one.version, "time": one.timestamp.isoformat(), "operation": one.operation} for one in found]
        )
    else:
        rows = [(one.version, f"{one.timestamp:{TIME}}", one.operation) for one in found]
        print_table(("version", "time (UTC)", "operation"), rows)


@app.command()
def adopt(uri: Uri, table: TableName, as_json: AsJson = False) -> None:
    """Bring in what somebody committed to a table's directory past the lake.

    Each foreign commit becomes a transaction of the lake, once, however often this is run.

    ```sh
    seiche table adopt lake shop.orders
    ```
    """
    found = seiche.open(uri).adopt(named(table))
    if as_json:
        print_json(
            [
                {
                    "transaction": one.transaction,
                    "operation": one.operation,
                    "foreign_version": one.foreign_version,
                    "lake_version": one.lake_version,
                }
                for one in found
            ]
        )
    elif found:
        rows = [(one.operation, one.foreign_version, one.lake_version, one.transaction) for one in found]
        print_table(("operation", "foreign version", "lake version", "transaction"), rows)
    else:
        print_line(f"Nobody has committed to {table} past the lake.")


@app.command()
def compact(
    uri: Where,
    table: MaybeTable = None,
    rows: Annotated[int, typer.Option(min=1, help="How many rows a fragment should have.")] = 1 << 20,
    as_json: AsJson = False,
) -> None:
    """Put small fragments together, and write those anew of which much is deleted.

    Readers and appends go on meanwhile. The old files stay until `seiche gc`, or of a plain table `seiche table
    cleanup`, takes them.

    ```sh
    seiche table compact lake shop.orders
    seiche table compact plain.lance --rows 1000000 --json
    ```
    """
    chosen = _opened(uri, table)
    with working("compacting") as progress:
        done = chosen.compact(
            target_rows_per_fragment=rows, progress=lambda done, all_: progress(f"of {counted(all_, 'task')}", done)
        )
    if as_json:
        print_json(
            {
                "changed": done.changed,
                "version": done.version,
                "rows": done.rows,
                "files": done.files,
                "bytes": done.bytes,
                **done.notes,
            }
        )
    elif done.changed:
        written = f"{counted(done.files, 'file')} with {counted(done.bytes, 'byte')}"
        print_line(f"Done: the table is at version {done.version}. Written: {written}.")
    elif done.attempts > 1:
        print_line(f"There is nothing left to do: others came first, and the table is at version {done.version}.")
    else:
        print_line(f"There is nothing to do: the table stays at version {done.version}.")


@app.command()
def cleanup(
    uri: Where,
    table: MaybeTable = None,
    older_than: Annotated[
        str | None, typer.Option(help="How long ago a version must have ceased to be the latest, as in 7d.")
    ] = None,
    retain: Annotated[int | None, typer.Option(min=1, help="How many of the newest versions stay in any case.")] = None,
    grace: Annotated[
        str, typer.Option(help="How old a file must be that no version needs. 0s: nobody else is at work.")
    ] = "7d",
    run: Run = False,
    as_json: AsJson = False,
) -> None:
    """Remove old versions of a plain table, and files that none needs. There is no way back.

    A table of a lake is cleaned up with its lake: by `seiche expire` and `seiche gc`.

    ```sh
    seiche table cleanup plain.lance
    seiche table cleanup plain.lance --older-than 30d --retain 3 --run --json
    ```
    """
    if table is not None:
        seiche.open(uri).table(named(table))
        raise InvalidInput(
            f"{table} belongs to a lake, whose versions need its files",
            remedy=f"'seiche expire {uri}' gives up old versions, 'seiche gc {uri} --run' takes what none needs.",
            table=table,
        )
    with working("cleaning up"):
        done = _plain(uri).cleanup(older_than, retain, dry_run=not run, grace=grace)
    if as_json:
        print_json(_as_dict(done))
    else:
        _show_cleanup(done)


def _as_dict(done: Cleanup) -> dict[str, object]:
    return {
        "done": done.done,
        "dropped": list(done.dropped),
        "kept": list(done.kept),
        "held": {str(version): why for version, why in done.held.items()},
        "files": [{"path": one.path, "bytes": one.size} for one in done.removals],
        "bytes": done.bytes,
        "young": done.young,
    }


def _show_cleanup(done: Cleanup) -> None:
    if done.removals:
        print_table(("bytes", "path"), [(one.size, one.path) for one in done.removals[:_SHOWN]])
    if len(done.removals) > _SHOWN:
        print_line(f"... and {len(done.removals) - _SHOWN} more (--json shows all)")
    for version, why in done.held.items():
        print_line(f"Version {version} stays: {why}", style="dim")
    if done.young:
        print_line(f"{counted(done.young, 'file')} too young to tell.", style="dim")
    verb = "were" if done.done else "would be"
    what = (
        f"{counted(len(done.dropped), 'version')} and {counted(done.files, 'file')} with {counted(done.bytes, 'byte')}"
    )
    print_line(f"{what} {verb} removed.")


@app.command()
def changes(
    uri: Where,
    table: MaybeTable = None,
    since: Annotated[int, typer.Option("--from", min=0, help="After this version of the table; 0 is before all.")] = 0,
    to: Annotated[int | None, typer.Option(min=1, help="Up to this version; the newest if not given.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="Only this column. Can be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, max=MOST, help="How many rows at most.")] = _SHOWN,
    as_json: AsJson = False,
) -> None:
    """Show the rows that were inserted, updated and deleted, version by version of the table.

    ```sh
    seiche table changes lake shop.orders --from 1
    seiche table changes plain.lance --from 1 --to 2 -c id --json
    ```
    """
    found = _opened(uri, table).changes(since, to, columns=columns)
    counts = found.counts
    rows: list[dict[str, object]] = []
    for batch in found:
        rows += rows_of(batch.slice(0, limit - len(rows)))
        if len(rows) >= limit:
            break
    if as_json:
        said = {str(version): kinds for version, kinds in counts.items()}
        told = [{name: plain(value) for name, value in row.items()} for row in rows]
        print_json({"from": found.from_version, "to": found.to_version, "counts": said, "rows": told})
        return
    names = found.schema.names
    order = [names[-1], names[-2], *names[:-2]]
    cells = [[shown(row[name]) for name in order] for row in rows]
    print_table([one.lstrip("_") for one in order], cells, styles=_STYLES | {"NULL": "dim"})
    total = sum(sum(kinds.values()) for kinds in counts.values())
    more = f", of which {len(rows)} are shown" if len(rows) < total else ""
    print_line(f"{counted(total, 'change')} from version {found.from_version} to {found.to_version}{more}.")


def _opened(uri: str, table: str | None) -> LakeTable | seiche.Table:
    return _plain(uri) if table is None else seiche.open(uri).table(named(table))


def _plain(uri: str) -> seiche.Table:
    try:
        return seiche.Table.open(uri)
    except NotFound as error:
        try:
            seiche.open(uri)
        except NotFound:
            raise error from None
        raise InvalidInput(
            f"{uri} is a lake", remedy="Name one of its tables too, as in shop.orders.", uri=uri
        ) from None
