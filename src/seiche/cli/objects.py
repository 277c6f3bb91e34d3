"""Commands that make, rename and drop what a lake holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import Delimiter, Properties, TableName, Uri, named, properties_of
from seiche.cli.files import open_file
from seiche.cli.output import AsJson, print_json, print_line
from seiche.cli.progress import working
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["create_namespace", "create_table", "drop_namespace", "drop_table", "rename_table"]


def create_namespace(
    uri: Uri,
    name: Annotated[
        str,
        typer.Argument(help="The namespace, as in shop or shop.eu. The one around it must exist.", metavar="NAMESPACE"),
    ],
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Make a namespace.

    ```sh
    seiche create-namespace lake sales
    seiche create-namespace lake sales.eu -p owner=me
    ```
    """
    lake = seiche.open(uri)
    lake.create_namespace(named(name), properties_of(properties))
    _done(lake, name, "is there", as_json)


def create_table(
    uri: Uri,
    table: TableName,
    schema: Annotated[
        str | None,
        typer.Option(help="Columns as name:type with commas between; types are Arrow's; ! means without nulls."),
    ] = None,
    like: Annotated[str | None, typer.Option(help="Another table of the lake, to have the same columns.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="A Parquet, Arrow, CSV or JSON file: its columns and its rows.")
    ] = None,
    delimiter: Delimiter = None,
    format: Annotated[str, typer.Option(help="lance or iceberg.")] = "lance",
    stable_row_ids: Annotated[
        bool, typer.Option("--stable-row-ids", help="Rows keep their ids when they move (Lance).")
    ] = False,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Make a table: empty, with the columns that are named or those of another table, or filled from a file.

    The first rows of a CSV tell its types. Where those are not the right ones, make the table with --schema, and then
    use `seiche append`.

    ```sh
    seiche create-table lake shop.customers --schema 'id:int64!,name:string,seen:timestamp[us]'
    seiche create-table lake shop.archive --like shop.orders
    seiche create-table lake shop.prices --from prices.csv
    seiche create-table lake shop.events --schema 'id:int64,at:timestamp[us]' --format iceberg
    ```
    """
    if stable_row_ids and format != "lance":
        raise InvalidInput(f"a table of format {format} has no stable row ids", remedy="Leave --stable-row-ids out.")
    if sum(given is not None for given in (schema, like, source)) != 1:
        raise InvalidInput("say which columns the table has", remedy="Give one of --schema, --like and --from.")
    if delimiter is not None and source is None:
        raise InvalidInput("--delimiter is about a file", remedy="Name the file by --from, or leave --delimiter out.")
    lake = seiche.open(uri)
    rows = None if source is None else open_file(source, delimiter=delimiter)
    columns = _columns(lake, schema, like) if rows is None else rows.schema
    if rows is not None:
        _require_distinct(rows.path, columns.names)
    with working("adding") as progress, lake.transaction() as tx:
        given = properties_of(properties)
        made = tx.create_table(named(table), columns, format=format, properties=given, stable_row_ids=stable_row_ids)
        if rows is not None:
            made.append(rows.batches(progress))
    _done(lake, table, "is there", as_json)


def _require_distinct(path: Path, columns: list[str]) -> None:
    """Capitals do not count in SQL: neither of two such columns could be named there any more."""
    first: dict[str, str] = {}
    for name in columns:
        if (other := first.setdefault(name.lower(), name)) != name:
            raise InvalidInput(
                f"the columns {other!r} and {name!r} of {path} differ only in capitals, which do not count in SQL",
                remedy="Rename one of them; or, if they shall be so, say them with --schema and then use"
                " 'seiche append'.",
                column=name,
            )


def _columns(lake: seiche.Lake, schema: str | None, like: str | None) -> pa.Schema:
    from seiche.cli.columns import parse_columns

    return lake.table(named(like)).schema if like is not None else parse_columns(schema or "")


def rename_table(
    uri: Uri,
    table: TableName,
    to: Annotated[str, typer.Argument(help="Its new name, in the same namespace or another.", metavar="TO")],
    as_json: AsJson = False,
) -> None:
    """Give a table another name. Nothing is copied, and its versions stay.

    ```sh
    seiche rename-table lake shop.orders shop.sales
    ```
    """
    lake = seiche.open(uri)
    lake.rename_table(named(table), named(to))
    _done(lake, to, "is there", as_json)


def drop_table(uri: Uri, table: TableName, as_json: AsJson = False) -> None:
    """Drop a table. Earlier versions of the lake still have it, and `seiche rollback` brings it back from them.

    ```sh
    seiche drop-table lake shop.orders
    ```
    """
    lake = seiche.open(uri)
    lake.drop_table(named(table))
    _done(lake, table, "is gone", as_json)


def drop_namespace(
    uri: Uri,
    name: Annotated[str, typer.Argument(help="The namespace. Nothing may be in it.", metavar="NAMESPACE")],
    as_json: AsJson = False,
) -> None:
    """Drop an empty namespace.

    ```sh
    seiche drop-namespace lake spare
    ```
    """
    lake = seiche.open(uri)
    lake.drop_namespace(named(name))
    _done(lake, name, "is gone", as_json)


def _done(lake: seiche.Lake, name: str, what: str, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "version": lake.version})
    else:
        print_line(f"{name} {what}, in version {lake.version}.")
