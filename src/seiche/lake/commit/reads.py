"""What a transaction has looked at, and whether that is still so in a newer version of the lake."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from seiche.lake.columns import columns_of, properties_of
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import NAMESPACE, TABLE, KeyRange, name_of
from seiche.lake.objects.names import text
from seiche.lake.objects.rows import NamespaceRow, TableRow, ViewRow
from seiche.lake.state import State
from seiche.lake.tree.search import Item

__all__ = ["Aspect", "Changed", "ReadSet", "what_it_is"]

Get = Callable[[bytes], bytes | None]


class Aspect(Enum):
    """How much of a row was looked at. Less is better: a commit that changed only the rest does not matter."""

    # Whether the object exists, and that it is the same one.
    IDENTITY = "identity"
    # The rows of a table: its id and its logical version, which compaction and index builds do not change.
    CONTENT = "content"
    # The columns of a table: appending to it does not change them.
    COLUMNS = "columns"
    # The properties of a table, which change without its rows.
    PROPERTIES = "properties"
    # Everything in the row.
    WHOLE = "whole"

    def of(self, value: bytes | None, state: State) -> object:
        """The part of a row that is compared. What is not in the row itself is looked up in `state`."""
        if value is None or self is Aspect.WHOLE:
            return value
        kind = rows.kind_of(value)
        if kind not in (TableRow, ViewRow, NamespaceRow):
            return value
        if kind is TableRow:
            return self._of_table(rows.decode(value, TableRow), state)
        other = rows.decode(value, ViewRow) if kind is ViewRow else rows.decode(value, NamespaceRow)
        return other.id if self is Aspect.IDENTITY else value

    def _of_table(self, table: TableRow, state: State) -> object:
        if self is Aspect.CONTENT:
            return table.id, table.logical_version
        if self is Aspect.COLUMNS:
            return table.id, columns_of(table, state)
        return (table.id, properties_of(table, state)) if self is Aspect.PROPERTIES else table.id


@dataclass(frozen=True, slots=True)
class Changed:
    """Something that was read and is different now: a row, or which rows there are in a range."""

    key: bytes
    what: str


@dataclass(frozen=True, slots=True)
class Members:
    """What there is in a range, as the tree of a version has it.

    Which objects they are is asked only about those whose values differ: large rows are in files of their own, and to
    list a thousand of them would be to read a thousand files.
    """

    state: State
    items: tuple[Item, ...]

    @classmethod
    def of(cls, state: State, span: KeyRange) -> Self:
        return cls(state, tuple(state.tree.scan(span.start, span.stop)))

    def are(self, others: Self) -> bool:
        """Whether they are the same objects, under the same names."""
        return len(self.items) == len(others.items) and all(
            mine == theirs or (mine[0] == theirs[0] and self._identity(mine) == others._identity(theirs))
            for mine, theirs in zip(self.items, others.items, strict=True)
        )

    def _identity(self, item: Item) -> object:
        return Aspect.IDENTITY.of(definitions.resolve(self.state.store, item[1]), self.state)


@dataclass(slots=True)
class ReadSet:
    """Keys, also of things that were not there, and ranges; each with what was found.

    `structural` reads keep the lake sound and are checked at every isolation level: that a table's namespace exists,
    that a dropped namespace is empty. The others are checked for serializable transactions.
    """

    keys: dict[tuple[bytes, Aspect], object] = field(default_factory=dict)
    ranges: dict[KeyRange, Members] = field(default_factory=dict)
    structural_keys: dict[tuple[bytes, Aspect], object] = field(default_factory=dict)
    structural_ranges: dict[KeyRange, Members] = field(default_factory=dict)

    def key(self, state: State, key: bytes, aspect: Aspect, *, structural: bool = False) -> None:
        """Note that a row was looked at. The first look counts: a transaction sees one version to its end."""
        noted = self.structural_keys if structural else self.keys
        if (key, aspect) not in noted:
            noted[key, aspect] = aspect.of(state.get(key), state)

    def found(self, key: bytes, aspect: Aspect, seen: object) -> None:
        """`key` for a row that was looked up already; `seen` is the part of it that is compared, or `None` for none."""
        self.keys.setdefault((key, aspect), seen)

    def range(self, state: State, keys: KeyRange, *, structural: bool = False) -> None:
        """Note that it was looked at which objects there are in a range."""
        noted = self.structural_ranges if structural else self.ranges
        if keys not in noted:
            noted[keys] = Members.of(state, keys)

    def changed_in(self, state: State, *, serializable: bool) -> Iterator[Changed]:
        """What is different in `state` from what was read."""
        yield from _changed(self.structural_keys, self.structural_ranges, state)
        if serializable:
            yield from _changed(self.keys, self.ranges, state)

    @property
    def empty(self) -> bool:
        return not (self.keys or self.ranges or self.structural_keys or self.structural_ranges)


def _changed(
    keys: dict[tuple[bytes, Aspect], object], ranges: dict[KeyRange, Members], state: State
) -> Iterator[Changed]:
    for (key, aspect), seen in keys.items():
        if aspect.of(state.get(key), state) != seen:
            yield Changed(key, what_it_is(key))
    for span, members in ranges.items():
        if not members.are(Members.of(state, span)):
            yield Changed(span.start, f"what there is in {what_it_is(span.start)}")


def what_it_is(key: bytes) -> str:
    """A key of the tree, or the beginning of one, in words."""
    if key == TABLE:
        return "the lake"
    if key[:4] not in (NAMESPACE, TABLE):
        return key.decode(errors="replace")
    if key.endswith(b" "):
        parent = key[4:-1].decode().replace("\x1f", ".")
        return f"namespace {parent}" if parent else "the lake"
    return text(name_of(key))
