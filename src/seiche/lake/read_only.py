"""Tables of others that can only be read here."""

from typing import NoReturn

from seiche.errors import InvalidInput
from seiche.lake.objects.rows import TableRow

__all__ = ["check_writable", "refuse_writing"]


def check_writable(row: TableRow, name: str) -> None:
    """`InvalidInput` if the table can only be read. Asked before the first file: nobody here could clear it away."""
    if row.type == "external":
        refuse_writing(name)


def refuse_writing(table: str) -> NoReturn:
    """Says that a table can only be read."""
    raise InvalidInput(
        f"{table} is an external table: it can only be read here",
        remedy='Write it where it is kept, or register it with type="federated".',
        table=table,
    )
