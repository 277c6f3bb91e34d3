"""What happened to one Lance table between two of its versions: operations, rows, files, columns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from seiche.core.counts import counted
from seiche.lake.objects.rows import TableRow
from seiche.lake.versions import LakeVersions
from seiche.store.base import Store
from seiche.table.build import empty
from seiche.table.format.deletions import rows_left
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field
from seiche.table.operations import Rewrite
from seiche.table.transaction import Transaction

__all__ = ["ColumnChange", "TableDiff", "TableOperation", "live_rows", "table_diff"]

Files: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class TableOperation:
    """One version of the table: what made it, and in which transaction of the table."""

    version: int
    operation: str
    transaction: str


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One column that is not what it was; nested ones by their path. `before` and `after` are types."""

    action: Literal["added", "dropped", "renamed", "changed"]
    column: str
    before: str = ""
    after: str = ""
    old_name: str = ""

    def __str__(self) -> str:
        named = f"{self.old_name} to {self.column}" if self.old_name else self.column
        types = " to ".join(filter(None, (self.before, self.after))) if self.before != self.after else self.after
        return f"{self.action} column {named} ({types})"


@dataclass(frozen=True, slots=True)
class TableDiff:
    """From version `before` of a table to version `after`; 0 stands for the time when there was no such table.

    `operations` are those that made the versions between the two, oldest first; if `after` is the earlier of both, they
    are the ones to be undone. Rows and files are counted as the two versions differ, whatever happened in between. A
    compaction in itself adds and removes no rows; where it mixed rows that were added with others that lost some, only
    the sum is known. An updated row is one removed and one added, unless its columns were replaced in place.
    """

    id: str
    table: str
    before: int
    after: int
    operations: tuple[TableOperation, ...]
    rows_before: int
    rows_after: int
    rows_added: int
    rows_removed: int
    files_added: tuple[str, ...]
    files_removed: tuple[str, ...]
    columns: tuple[ColumnChange, ...]

    def __str__(self) -> str:
        if not self.before or not self.after:
            return f"version {self.before or self.after}, {counted(self.rows_before or self.rows_after, 'row')}"
        parts = [f"version {self.before} to {self.after}"]
        if self.operations:
            parts.append(", ".join(_counted(one.operation for one in self.operations)))
        if self.rows_added or self.rows_removed:
            parts.append(f"rows +{self.rows_added} -{self.rows_removed} = {self.rows_after}")
        if self.files_added or self.files_removed:
            parts.append(f"files +{len(self.files_added)} -{len(self.files_removed)}")
        return "; ".join([*parts, *map(str, self.columns)])

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def table_diff(store: Store, name: str, before: TableRow | None, after: TableRow | None) -> TableDiff | None:
    """How the content of a table differs between two of its rows; `None` if it does not, or is not the lake's own.

    `store` is that of the lake. A row that is not there stands for a table without columns and rows.
    """
    newest = max((row for row in (before, after) if row is not None), key=lambda row: row.table_version, default=None)
    if newest is None or not newest.is_own("lance"):
        return None
    first, last = (0 if row is None else row.table_version for row in (before, after))
    if first == last:
        return None
    versions = LakeVersions(store, newest)
    old, new = (versions.read(version).manifest if version else empty() for version in (first, last))
    # Of a table that one side does not have, what made its versions need not be kept any more.
    between = range(min(first, last) + 1, max(first, last) + 1) if first and last else range(0)
    made = store.in_parallel(versions.transaction, between)
    added, removed = _rows(old, new, made)
    old_files, new_files = _files(old), _files(new)
    return TableDiff(
        id=newest.id,
        table=name,
        before=first,
        after=last,
        operations=tuple(
            TableOperation(version, one.operation.name, one.uuid) for version, one in zip(between, made, strict=True)
        ),
        rows_before=live_rows(old),
        rows_after=live_rows(new),
        rows_added=added,
        rows_removed=removed,
        files_added=tuple(sorted(new_files - old_files)),
        files_removed=tuple(sorted(old_files - new_files)),
        columns=tuple(_columns(old, new)),
    )


def live_rows(manifest: Manifest) -> int:
    """How many rows a version has that are not deleted."""
    return sum(map(rows_left, manifest.fragments))


def _rows(old: Manifest, new: Manifest, made: Iterable[Transaction]) -> tuple[int, int]:
    """Rows added and removed. Fragments that compactions made of each other are counted together: what is gone from one
    of them is in another, and only the difference was added or removed.
    """
    before = {one.id: one for one in old.fragments}
    after = {one.id: one for one in new.fragments}
    kin = _kin(made)
    balance: dict[int, int] = {}
    for fragment_id in before.keys() | after.keys():
        was, now = before.get(fragment_id), after.get(fragment_id)
        change = (rows_left(now) if now is not None else 0) - (rows_left(was) if was is not None else 0)
        family = kin.get(fragment_id, fragment_id)
        balance[family] = balance.get(family, 0) + change
    added = sum(change for change in balance.values() if change > 0)
    return added, added - sum(balance.values())


def _kin(made: Iterable[Transaction]) -> Mapping[int, int]:
    """For each fragment that a compaction read or wrote the number of its family, which is that of one member."""
    towards: dict[int, int] = {}
    for one in made:
        if not isinstance(one.operation, Rewrite):
            continue
        for group in one.operation.groups:
            heads = {_head(towards, fragment.id) for fragment in (*group.old_fragments, *group.new_fragments)}
            towards.update(dict.fromkeys(heads, min(heads, default=0)))
    return {member: _head(towards, member) for member in towards}


def _head(towards: dict[int, int], member: int) -> int:
    """The member that a family is called by. What it is found through leads straight to it from then on: a fragment may
    have come out of thousands of compactions.
    """
    way = []
    while (following := towards.get(member, member)) != member:
        way.append(member)
        member = following
    towards.update(dict.fromkeys(way, member))
    return member


def _files(manifest: Manifest) -> Files:
    """The data files of a version. Those in other places than the table's own are named with the place."""
    places = {base.id: base.path.rstrip("/") + "/" for base in manifest.header.base_paths}
    return frozenset(
        places.get(file.base_id, "") + file.path if file.HasField("base_id") else file.path
        for fragment in manifest.fragments
        for file in fragment.files
    )


def _columns(old: Manifest, new: Manifest) -> Iterator[ColumnChange]:
    """A column is the same one if it has the same field id and either its name or its type has stayed: ids may be given
    out anew when a table is overwritten.
    """
    before, after = _described(old.header.fields), _described(new.header.fields)
    same = {one for one in before.keys() & after.keys() if any(map(str.__eq__, before[one], after[one]))}
    for one in sorted(before.keys() | after.keys()):
        if one in same:
            (was, old_type), (name, new_type) = before[one], after[one]
            if was != name:
                yield ColumnChange("renamed", name, old_type, new_type, old_name=was)
            elif old_type != new_type:
                yield ColumnChange("changed", name, old_type, new_type)
            continue
        if one in before:
            yield ColumnChange("dropped", before[one][0], before=before[one][1])
        if one in after:
            yield ColumnChange("added", after[one][0], after=after[one][1])


def _described(fields: Iterable[Field]) -> dict[int, tuple[str, str]]:
    """The path and the type of each field by its id; parents come before what is inside them."""
    found: dict[int, tuple[str, str]] = {}
    for one in fields:
        outer = f"{found[one.parent_id][0]}." if one.parent_id in found else ""
        found[one.id] = outer + one.name, one.logical_type + ("" if one.nullable else " not null")
    return found


def _counted(operations: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    for one in operations:
        counts[one] = counts.get(one, 0) + 1
    return [name if count == 1 else f"{count} {name}" for name, count in counts.items()]
