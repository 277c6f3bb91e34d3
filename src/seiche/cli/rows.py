"""Commands about the rows of a table: some of them shown, more of them added. Neither needs Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import seiche
from seiche.cli.arguments import MOST, AsOf, AtVersion, Delimiter, TableName, Uri, named, open_at
from seiche.cli.files import open_file
from seiche.cli.output import AsJson, print_json, print_line, print_table
from seiche.cli.progress import working
from seiche.cli.values import plain, rows_of, shown
from seiche.core.counts import counted
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.handles import TransactionTable

__all__ = ["append", "head"]


def head(
    uri: Uri,
    table: TableName,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, max=MOST, help="How many rows at most.")] = 10,
    columns: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="Only this column. Can be repeated.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Only rows that meet this condition, in SQL.")] = None,
    version: AtVersion = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Show some rows of a table. Spark is not started.

    ```sh
    seiche head lake shop.orders
    seiche head lake shop.orders -n 3 -c id --where 'total > 1' --version nightly --json
    ```
    """
    lake = open_at(uri, version, as_of)
    with lake.reading():
        found = _first(lake.transaction().table(named(table)), columns, where, limit)
    rows = rows_of(found)
    if as_json:
        print_json([{name: plain(value) for name, value in row.items()} for row in rows])
        return
    print_table(found.schema.names, [[shown(value) for value in row.values()] for row in rows], styles={"NULL": "dim"})
    print_line(counted(len(rows), "row"), style="dim")


def _first(table: TransactionTable, columns: list[str] | None, where: str | None, limit: int) -> pa.Table:
    """Rows of a Lance table are read no further than needed; PyIceberg reads whole files."""
    known = table.schema.names
    for name in columns or ():
        if columns is not None and columns.count(name) > 1:
            raise InvalidInput(f"column {name!r} is asked for twice", remedy="Name each column once.", column=name)
        if name not in known:
            remedy = f"It has {', '.join(known)}."
            raise InvalidInput(f"{table.name} has no column {name!r}", remedy=remedy, column=name)
    if table.format == "iceberg":
        return table.to_arrow(columns=columns, filter=where).slice(0, limit)
    import pyarrow as pa

    from seiche.table.data.scanning import batches, scanner

    names = columns or known
    what = "the condition"
    made = scanner(table._snapshot().rows, columns=names, where=where, what=what, limit=limit)
    fields = [table.schema.field(name) for name in names]
    return pa.Table.from_batches(batches(made, what=what), pa.schema(fields))


def append(
    uri: Uri,
    table: TableName,
    source: Annotated[Path, typer.Argument(help="A Parquet, Arrow, CSV or JSON file.", metavar="FILE")],
    delimiter: Delimiter = None,
    as_json: AsJson = False,
) -> None:
    """Add the rows of a file to a table, all of them or none. Columns go by name.

    What stands in a CSV or in JSON is read as what the table's column is: 007 stays 007 in a text.

    ```sh
    seiche append lake shop.orders more.csv
    seiche append lake shop.orders german.csv --delimiter ';'
    ```
    """
    lake = seiche.open(uri)
    with working("adding") as progress, lake.transaction() as tx:
        rows = open_file(source, tx.table(named(table)).schema, delimiter=delimiter)
        done = tx.append(named(table), rows.batches(progress))
    if as_json:
        print_json({"name": table, "rows": done.rows, "version": tx.version})
    else:
        print_line(f"{counted(done.rows, 'row')} came to {table}, in version {tx.version}.")
