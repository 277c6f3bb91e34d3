"""Commands that make a lake, and look at what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import AsOf, AtVersion, TableName, Uri, named, open_at
from seiche.cli.failures import ExitCode
from seiche.cli.output import AsJson, print_json, print_line, print_table

if TYPE_CHECKING:
    from seiche.lake.objects.names import Name
    from seiche.lake.state import State
    from seiche.lake.summary import TableSummary

__all__ = ["init", "ls", "show", "status"]

_OUTCOMES = {"committed": ExitCode.DONE, "aborted": ExitCode.CONFLICT, "undecided": ExitCode.UNKNOWN}
# Of what is in a lake, the columns of a listing.
_LISTED = ("kind", "name", "format", "version")
_STYLES = {"committed": "green", "aborted": "red", "undecided": "yellow"}


def init(uri: Uri, as_json: AsJson = False) -> None:
    """Make a new, empty lake.

    On a remote store it is first made sure that of two writers only one can win there.

    ```sh
    seiche init new-lake
    ```
    """
    lake = seiche.create(uri)
    if as_json:
        print_json({"uri": lake.uri, "version": lake.version})
    else:
        print_line(f"{lake.uri} is a lake now, at version {lake.version}.")


def ls(
    uri: Uri,
    namespace: Annotated[
        str | None, typer.Argument(help="What is in this namespace; everything if not given.", metavar="NAMESPACE")
    ] = None,
    version: AtVersion = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """List namespaces, tables and views.

    ```sh
    seiche ls lake
    seiche ls lake shop --version nightly
    ```
    """
    from seiche.lake.objects.names import parts

    state = open_at(uri, version, as_of).state()
    inside = parts(named(namespace), what="namespace") if namespace else ()
    found = list(_inside(state, inside))
    if inside and not found and state.namespace(inside) is None:
        raise seiche.NotFound(f"there is no namespace {namespace}", remedy=f"'seiche ls {uri}' lists all.")
    if as_json:
        print_json(found)
    elif not found:
        print_line("Nothing is there yet; 'seiche create-namespace' and 'seiche create-table' make something.")
    else:
        print_table(_LISTED, ([one.get(key, "") for key in _LISTED] for one in found))


def _inside(state: State, namespace: Name) -> Iterator[dict[str, object]]:
    """What there is in a namespace and in those inside of it, at one version of the lake."""
    from seiche.lake.objects.keys import children_of, name_of, tables_of
    from seiche.lake.objects.names import text
    from seiche.lake.objects.rows import TableRow
    from seiche.lake.state import as_relation

    for key, value in state.scan(tables_of(namespace)) if namespace else ():
        row, name = as_relation(value), text(name_of(key))
        if isinstance(row, TableRow):
            yield {"kind": "table", "name": name, "format": row.format, "version": row.table_version}
        else:
            yield {"kind": "view", "name": name}
    for key, _ in state.scan(children_of(namespace)):
        inner = name_of(key)
        yield {"kind": "namespace", "name": text(inner)}
        yield from _inside(state, inner)


def show(uri: Uri, table: TableName, version: AtVersion = None, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """Show a table: where it is, how large, and its columns.

    ```sh
    seiche show lake shop.orders
    seiche show lake shop.orders --version 3 --json
    ```
    """
    from seiche.lake.objects.names import parts
    from seiche.lake.summary import summary

    found = summary(open_at(uri, version, as_of).state(), parts(named(table), what="table"))
    if as_json:
        print_json(found.as_dict())
    else:
        _show(found)


def _show(found: TableSummary) -> None:
    facts: list[tuple[str, object]] = [
        ("table", found.name),
        ("id", found.id),
        ("kept as", f"{found.type} {found.format} table, version {found.version}"),
        ("location", found.location),
        ("rows", found.rows),
        ("bytes in data files", found.bytes),
        ("deleted rows", found.deleted_rows),
        ("fragments", found.fragments),
        ("indices", ", ".join(found.indices)),
        *((f"property {name}", value) for name, value in sorted(found.properties.items())),
        *((f"setting {name}", value) for name, value in sorted(found.config.items())),
    ]
    print_table(
        ("fact", f"in version {found.lake_version} of the lake"), [one for one in facts if one[1] not in ("", None)]
    )
    print_line()
    print_table(
        ("column", "type", "nulls"), [(one.name, one.type, "yes" if one.nullable else "no") for one in found.columns]
    )


def status(
    uri: Uri,
    transaction: Annotated[
        str, typer.Argument(help="The id of a transaction, as an error or the log gives it.", metavar="TRANSACTION")
    ],
    as_json: AsJson = False,
) -> None:
    """Tell what became of a transaction.

    The exit code is 0 if it was committed, 3 if it was aborted, 4 if it is not decided: then it may still commit.

    ```sh
    seiche status lake 00000000-0000-4000-8000-000000000000
    ```
    """
    found = seiche.open(uri).status(transaction)
    if as_json:
        print_json({"transaction": found.transaction, "outcome": found.outcome, "version": found.version})
    else:
        where = "" if found.version is None else f" in version {found.version}"
        print_line(f"{found.outcome}{where}", style=_STYLES[found.outcome])
    raise typer.Exit(_OUTCOMES[found.outcome])
