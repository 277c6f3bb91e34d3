"""What commands about lakes are told in the same way."""

import re
from typing import Annotated, Final, TypeAlias

import typer

import seiche
from seiche.core.durations import moment
from seiche.errors import InvalidInput

__all__ = [
    "MOST",
    "AsOf",
    "AtVersion",
    "Called",
    "Delimiter",
    "Properties",
    "Run",
    "TableName",
    "Uri",
    "named",
    "open_at",
    "properties_of",
]

Uri: TypeAlias = Annotated[
    str, typer.Argument(help="The lake: a folder, or file://, s3://, gs://, az://, hdfs://.", metavar="URI")
]
TableName: TypeAlias = Annotated[str, typer.Argument(help="The table, as in shop.orders.", metavar="TABLE")]
AtVersion: TypeAlias = Annotated[
    str | None, typer.Option("--version", help="Look at this version (a number or a tag) instead of the newest.")
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option("--as-of", help="Look at the version that was the newest then; UTC if nothing else is said."),
]
Properties: TypeAlias = Annotated[
    list[str] | None, typer.Option("--property", "-p", help="A property, as in owner=me. Can be repeated.")
]
Called: TypeAlias = Annotated[str, typer.Argument(help="The name.", metavar="NAME")]
Delimiter: TypeAlias = Annotated[
    str | None, typer.Option(help="What stands between the values of a CSV if it is no comma, as in ';'.")
]
Run: TypeAlias = Annotated[
    bool, typer.Option("--run/--dry-run", help="Do it. Without --run it is only shown what would happen.")
]


# The largest number that Arrow counts to.
MOST: Final = (1 << 63) - 1

_PART = re.compile(r'"[^"]*\.[^"]*"|[^.]+')


def named(text: str) -> str | tuple[str, ...]:
    """A name as commands show it: a part that has a dot is in quotes there, and is taken so."""
    found = _PART.findall(text)
    quoted = any("." in one for one in found) and ".".join(found) == text
    return tuple(one[1:-1] if "." in one else one for one in found) if quoted else text


def open_at(uri: str, version: str | None, as_of: str | None) -> "seiche.Lake":
    """The lake, at a version or time if one was given."""
    return seiche.open(uri, version, as_of=None if as_of is None else moment(as_of))


def properties_of(given: list[str] | None, what: str = "property") -> dict[str, str]:
    """What options such as `--property` say."""
    found = {}
    for one in given or ():
        name, mark, value = one.partition("=")
        if not name or not mark:
            raise InvalidInput(f"{one!r} is not a {what}", remedy="Write it as name=value.")
        found[name] = value
    return found
