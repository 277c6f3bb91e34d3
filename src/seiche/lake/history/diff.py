"""How two versions of a lake differ."""

from collections.abc import Iterable
from dataclasses import dataclass

from seiche.core.counts import counted
from seiche.lake.history.changes import ObjectChange, changes_between
from seiche.lake.history.table_diff import TableDiff, table_diff
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State

__all__ = ["Diff", "diff"]

_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Diff:
    """What leads from version `before` of the lake to version `after`, which may be the earlier one.

    `objects` are the namespaces, tables and views that differ; `tables` what that means for the content of Lance
    tables. False if nothing differs. What a lake remembers beside its objects, such as tags, is no part of it.
    """

    before: int
    after: int
    objects: tuple[ObjectChange, ...] = ()
    tables: tuple[TableDiff, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.objects)

    def content(self, change: ObjectChange) -> TableDiff | None:
        """What happened to the content of an object; `None` if nothing did, or it is no Lance table of the lake."""
        return next((one for one in self.tables if one.id == change.id), None)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "objects": [one.as_dict() for one in self.objects],
            "tables": [one.as_dict() for one in self.tables],
        }

    def __repr__(self) -> str:
        lines = [f"<from version {self.before} to {self.after}: {_count(self.objects)}>"]
        for one in self.objects[:_MOST_SHOWN]:
            content = self.content(one)
            lines.append(f"  {one}" + (f": {content}" if content is not None else ""))
        if len(self.objects) > _MOST_SHOWN:
            lines.append(f"  and {len(self.objects) - _MOST_SHOWN} more")
        return "\n".join(lines)


def diff(before: State, after: State, objects: Iterable[ObjectChange] | None = None) -> Diff:
    """The difference of two versions, or, of all that differs, only what concerns the given `objects`."""
    found = tuple(changes_between(before, after) if objects is None else objects)
    tables = [one for one in found if one.kind == "table"]
    content = before.store.in_parallel(lambda one: _content(before, one), tables)
    return Diff(before.version, after.version, found, tuple(one for one in content if one is not None))


def _content(state: State, change: ObjectChange) -> TableDiff | None:
    old, new = change.before, change.after
    if any(isinstance(row, TableRow) and row.format == "iceberg" for row in (old, new)):
        from seiche.lake.iceberg.diffing import iceberg_diff

        return iceberg_diff(state, change)
    return table_diff(
        state.store,
        change.name,
        old if isinstance(old, TableRow) else None,
        new if isinstance(new, TableRow) else None,
    )


def _count(objects: tuple[ObjectChange, ...]) -> str:
    return "nothing differs" if not objects else counted(len(objects), "object")
