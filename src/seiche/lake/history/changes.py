"""What happened to the objects of a lake between two of its versions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from seiche.lake.care.given_up import GIVEN_UP
from seiche.lake.objects import rows
from seiche.lake.objects.keys import EXPORT, ID, NAMESPACE, RETENTION, STREAM, TABLE, TAG, name_of
from seiche.lake.objects.names import text
from seiche.lake.objects.rows import NamespaceRow, Row, TableRow, ViewRow
from seiche.lake.state import State
from seiche.lake.tree.difference import differing_keys

__all__ = ["Kind", "ObjectChange", "changes_between", "changes_made", "object_changes"]

Kind: TypeAlias = Literal["namespace", "table", "view", "tag", "export", "stream", "retention"]
Action: TypeAlias = Literal["added", "dropped", "renamed", "changed"]
Rows: TypeAlias = Mapping[bytes, bytes | None]

_KINDS: Final[Mapping[bytes, Kind]] = {
    NAMESPACE: "namespace",
    TABLE: "table",
    TAG: "tag",
    EXPORT: "export",
    STREAM: "stream",
    RETENTION: "retention",
}
_ORDER: Final = tuple(_KINDS.values())


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object that is not what it was. An object with an id is the same one under whatever name it stands.

    `name` is the one it has, or had if it was dropped; `old_name` the one before, if it was renamed. What else changed
    with a renamed object is seen by comparing `before` and `after`.
    """

    action: Action
    kind: Kind
    name: str
    old_name: str = ""
    before: Row | None = field(default=None, repr=False, compare=False)
    after: Row | None = field(default=None, repr=False, compare=False)
    old_key: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    @property
    def id(self) -> str:
        """The object's id, for life; empty for what is known by its name only, such as a tag."""
        row = self.after or self.before
        return row.id if isinstance(row, NamespaceRow | TableRow | ViewRow) else ""

    @property
    def properties(self) -> dict[str, tuple[str | None, str | None]]:
        """The properties that differ, each with what it was and what it is."""
        old: Mapping[str, str] = getattr(self.before, "properties", {})
        new: Mapping[str, str] = getattr(self.after, "properties", {})
        return {
            name: (old.get(name), new.get(name))
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        }

    def __str__(self) -> str:
        if self.old_name:
            return f"{self.action} {self.kind} {self.old_name} to {self.name}"
        if self.key == GIVEN_UP and self.action != "dropped":
            return "gave up old versions"
        return f"{self.action} {self.kind} {self.name}"

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        shown: dict[str, object] = {"action": self.action, "kind": self.kind, "name": self.name}
        if self.old_name:
            shown["old_name"] = self.old_name
        if self.properties:
            shown["properties"] = {name: list(values) for name, values in self.properties.items()}
        return shown


def changes_between(before: State, after: State) -> list[ObjectChange]:
    """Namespaces, tables and views that are not the same in two versions, by kind and name.

    Reads no more of the trees than where they differ.
    """
    # Namespaces, tables and views are one range of keys; what belongs to the lake as such stands behind it.
    keys = differing_keys(before.tree, after.tree, NAMESPACE, ID)
    return object_changes({key: before.get(key) for key in keys}, {key: after.get(key) for key in keys})


def object_changes(before: Rows, after: Rows) -> list[ObjectChange]:
    """The changes that lead from some rows to others, given for the same keys, by kind and name.

    Counters say that something happened, not what: an object that differs in nothing else has not changed.
    """
    old, new = dict(_objects(before)), dict(_objects(after))
    found = [_change(old.get(one), new.get(one)) for one in old.keys() | new.keys() if _differ(old, new, one)]
    return sorted(found, key=lambda change: (_ORDER.index(_table_like(change.kind)), change.name, change.action))


def changes_made(after: Rows) -> list[ObjectChange]:
    """The changes that led to some rows, where those before are not known any more.

    A rename cannot be told from a drop and a change then.
    """
    found = object_changes({}, after)
    gone = [ObjectChange("dropped", _KINDS[key[:4]], _name(key)) for key in _missing(after)]
    return gone + [replace(one, action="changed") if _is_old(one.after) else one for one in found]


def _missing(found: Rows) -> Iterator[bytes]:
    return (key for key, value in found.items() if value is None and key[:4] in _KINDS)


def _is_old(row: Row | None) -> bool:
    return isinstance(row, NamespaceRow | TableRow | ViewRow) and row.pointer_version > 1


def _objects(found: Rows) -> Iterator[tuple[str, tuple[bytes, Row]]]:
    """Each object by what makes it this one and no other: its id, or, if it has none, its key."""
    for key, value in found.items():
        if value is not None and key[:4] in _KINDS:
            row = rows.decode(value, Row)
            yield row.id if isinstance(row, NamespaceRow | TableRow | ViewRow) else key.decode(), (key, row)


def _differ(old: Mapping[str, tuple[bytes, Row]], new: Mapping[str, tuple[bytes, Row]], one: str) -> bool:
    if one not in old or one not in new:
        return True
    (old_key, before), (key, after) = old[one], new[one]
    return old_key != key or _without_counters(before) != _without_counters(after)


def _without_counters(row: Row) -> Row:
    if isinstance(row, TableRow):
        return replace(row, pointer_version=0, logical_version=0)
    return replace(row, pointer_version=0) if isinstance(row, NamespaceRow | ViewRow) else row


def _change(old: tuple[bytes, Row] | None, new: tuple[bytes, Row] | None) -> ObjectChange:
    old_key, before = old or (b"", None)
    key, after = new or (b"", None)
    row = after or before
    kind: Kind = "view" if isinstance(row, ViewRow) else _KINDS[(key or old_key)[:4]]
    renamed = bool(key and old_key and key != old_key)
    action: Action = "renamed" if renamed else "changed"
    if not key or not old_key:
        action = "added" if key else "dropped"
    return ObjectChange(
        action, kind, _name(key or old_key), _name(old_key) if renamed else "", before, after, old_key, key
    )


def _name(key: bytes) -> str:
    return text(name_of(key)) if key[:4] in (NAMESPACE, TABLE) else key[4:].decode()


def _table_like(kind: Kind) -> Kind:
    return "table" if kind == "view" else kind
