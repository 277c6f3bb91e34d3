"""Lists of files in a file: one line for each, packed."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from seiche.errors import Corrupt
from seiche.lake.tree.root import micros

__all__ = ["Listed", "pack", "unpack"]

_TITLE = "seiche files 1"


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as it was when it was looked at. Another one under the same name has another time."""

    path: str
    size: int
    modified: datetime

    @property
    def identity(self) -> str:
        """What tells it from every other file, in one line. No path has a tabulator in it."""
        return f"{self.path}\t{self.size}\t{micros(self.modified)}"


def pack(what: str, lines: Iterable[Sequence[str]]) -> bytes:
    """The bytes of a list that says `what` it is; cells must not have tabulators or line ends in them."""
    body = ["\t".join(cells) for cells in lines]
    return zlib.compress("\n".join([f"{_TITLE}\t{what}\t{len(body)}", *body]).encode())


def unpack(data: bytes, path: str) -> tuple[str, list[list[str]]]:
    """What it is, and its lines; `Corrupt` if the file is damaged or none of ours."""
    try:
        first, *body = zlib.decompress(data).decode().split("\n")
        title, what, count = first.split("\t")
        if title != _TITLE or int(count) != len(body):
            raise ValueError(f"it begins with {first!r} and has {len(body)} lines")
    except (zlib.error, ValueError) as error:
        raise Corrupt(
            f"{path} is not a list of files: {error}", remedy="It can be removed: it is written anew.", path=path
        ) from error
    return what, [line.split("\t") for line in body]
