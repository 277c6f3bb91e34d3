"""What a file of a lake is, by its path alone.

Only files of which this says what they are can ever be taken for garbage. Everything else was put there by somebody
else, or by a later release: it is reported and left alone.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from seiche.lake.adopt import KEPT as FOREIGN_FOLDER
from seiche.lake.care.leases import FOLDER as LEASES
from seiche.lake.saved import FOLDER as SAVED
from seiche.lake.tree.names import HINT, HINT_FALLBACK, OLDEST, root_version
from seiche.table.reachable import SHADOWS
from seiche.table.versions.naming import Naming, parse

__all__ = ["DESKS", "EXPORTED", "NOTED", "TRASH", "Place", "Sort", "place"]

TRASH: Final = "_trash"
# What clean-ups have found, for the next one.
NOTED: Final = "_noted"
# What clients of a server have handed in for transactions that may not be decided yet.
PAYLOADS: Final = "_payloads"
# What the lake began with, if it began as an export.
EXPORTED: Final = "_export"
# Where clients of a gateway work on tables. The gateway clears it; nothing in it is part of the lake.
DESKS: Final = "_desks"

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TREE = re.compile(
    rf"[01]{{4}}/[01]{{4}}/[01]{{4}}/[01]{{8}}-(?:(node)|(txn)|[a-z]+(?:-[\w~]+)*)-{_UUID}\.(?:ipc|binpb)"
)
_DEFINITION = re.compile(rf"_lakehouse_def_{_UUID}\.binpb")
_TABLE = re.compile(rf"(tables/(?:[^/]+/)*?[^/]+-{_UUID}\.(?:lance|iceberg))/(.+)")
_INSIDE = (
    (re.compile(r"data/.+"), "DATA"),
    (re.compile(r"_staged/[^/]+"), "STAGED"),
    (re.compile(r"_versions/[^/]+\.manifest-[^/]+"), "STAGED"),
    (re.compile(r"_deletions/[^/]+\.(?:arrow|bin)"), "DELETIONS"),
    (re.compile(rf"_indices/{_UUID}/.+"), "INDEX"),
    (re.compile(r"_transactions/[^/]+\.txn"), "TRANSACTION"),
    (re.compile(rf"{SHADOWS}/{_UUID}/.+"), "SHADOW"),
    (re.compile(r"_versions/latest_version_hint\.json"), "TABLE_HINT"),
    (re.compile(rf"(?:{FOREIGN_FOLDER}|_damaged|_refs|tree)/.+"), "FOREIGN"),
    # Of other naming than the lake's, or detached.
    (re.compile(r"_versions/d?\d+\.manifest"), "FOREIGN"),
)
_INSIDE_ICEBERG = (
    (re.compile(r"data/.+"), "DATA"),
    (re.compile(r"metadata/[^/]+\.metadata\.json(?:\.gz)?"), "ICEBERG_METADATA"),
    (re.compile(r"metadata/[^/]+\.avro"), "ICEBERG_MANIFEST"),
    (re.compile(r"metadata/[^/]+\.(?:stats|puffin|parquet)"), "ICEBERG_STATISTICS"),
)


class Sort(Enum):
    """What a file is to the lake. The value says it to people."""

    ROOT = "root"
    HINT = "hint"
    LEASE = "lease"
    NOTE = "note of a clean-up"
    TRASH = "trash"
    EXPORT = "list of an export"
    DESK = "work of a gateway's client"
    NODE = "node of the tree"
    CHANGES = "change sets of a root"
    ROW = "row of the tree"
    DEFINITION = "lakehouse definition"
    SAVED = "saved transaction"
    PAYLOAD = "payload of a transaction"
    DATA = "data file"
    STAGED = "staged manifest"
    MANIFEST = "manifest"
    DELETIONS = "deletion file"
    INDEX = "index file"
    TRANSACTION = "transaction file"
    SHADOW = "work on indices"
    TABLE_HINT = "hint of a table"
    ICEBERG_METADATA = "Iceberg metadata file"
    ICEBERG_MANIFEST = "Iceberg manifest"
    ICEBERG_STATISTICS = "Iceberg statistics"
    FOREIGN = "foreign file"
    UNKNOWN = "unknown file"


# Never garbage: roots become tombstones, hints are replaced, the others are seen to by whoever knows them.
_STAYING: Final = frozenset({Sort.ROOT, Sort.HINT, Sort.LEASE, Sort.NOTE, Sort.TRASH, Sort.EXPORT, Sort.DESK})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file stands: its sort, the table it belongs to by its location, its path in there, and its version.

    `location` is empty for files of the lake itself, `version` is that of a table's published manifest.
    """

    path: str
    sort: Sort
    location: str = ""
    inside: str = ""
    version: int = 0

    @property
    def stays(self) -> bool:
        """Whether the file is none that can become garbage."""
        return self.sort in _STAYING

    @property
    def foreign(self) -> bool:
        """Whether the lake did not put it there, as far as it knows."""
        return self.sort in (Sort.FOREIGN, Sort.UNKNOWN)


def place(path: str, locations: Collection[str] = ()) -> Place:
    """What the file at `path` is; `locations` are those of tables that are known to be there."""
    top, slash, _ = path.partition("/")
    if not slash:
        return Place(path, _at_the_top(path))
    if top in _FOLDERS:
        return Place(path, _FOLDERS[top])
    in_table = _TABLE.fullmatch(path)
    if in_table is not None:
        return _in_table(path, in_table[1], in_table[2])
    in_tree = _TREE.fullmatch(path)
    if in_tree is not None:
        return Place(path, Sort.NODE if in_tree[1] else Sort.CHANGES if in_tree[2] else Sort.ROW)
    at = path.find("/")
    while at >= 0:
        if path[:at] in locations:
            return _in_table(path, path[:at], path[at + 1 :])
        at = path.find("/", at + 1)
    return Place(path, Sort.UNKNOWN)


_FOLDERS: Final = {
    SAVED: Sort.SAVED,
    PAYLOADS: Sort.PAYLOAD,
    LEASES: Sort.LEASE,
    NOTED: Sort.NOTE,
    TRASH: Sort.TRASH,
    EXPORTED: Sort.EXPORT,
    DESKS: Sort.DESK,
}


def _at_the_top(path: str) -> Sort:
    if root_version(path) is not None:
        return Sort.ROOT
    if path in (HINT, HINT_FALLBACK, OLDEST):
        return Sort.HINT
    return Sort.DEFINITION if _DEFINITION.fullmatch(path) else Sort.UNKNOWN


def _in_table(path: str, location: str, inside: str) -> Place:
    iceberg = location.endswith(".iceberg")
    if inside.startswith("_versions/") and not iceberg:
        found = parse(inside.removeprefix("_versions/"))
        if found is not None and found[0] is Naming.V2:
            return Place(path, Sort.MANIFEST, location, inside, found[1])
    for pattern, sort in _INSIDE_ICEBERG if iceberg else _INSIDE:
        if pattern.fullmatch(inside):
            return Place(path, Sort[sort], location, inside)
    return Place(path, Sort.UNKNOWN, location, inside)
