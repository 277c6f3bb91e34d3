"""Rolling a lake back, by rolling it forward: a new version that has the objects of an earlier one.

What is remembered beside the objects stays as it is: tags, exports, retention, epochs of streams, decided transactions.
No counter goes back either. A table whose content differs gets a further version that restores the earlier one, so its
history goes on, and a slow writer that began before finds a Restore in its way instead of a table that looks as if
nothing had happened.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from seiche.core.given import a_flag
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, IncompatibleConflict, InvalidInput, NotFound
from seiche.lake.commit.edits import Planned, trashed
from seiche.lake.commit.intent import Intent
from seiche.lake.commit.making import Made, make_versions
from seiche.lake.commit.work import Folded, Work
from seiche.lake.history.changes import ObjectChange, changes_between
from seiche.lake.history.diff import Diff, diff
from seiche.lake.history.tags import Point, version_of
from seiche.lake.objects import rows
from seiche.lake.objects.keys import id_key, name_of, namespace_key, trash_key
from seiche.lake.objects.names import Name, tables_named, text
from seiche.lake.objects.rows import NamespaceRow, ObjectNameRow, Row, TableRow, TrashRow, ViewRow
from seiche.lake.pins import check_kept
from seiche.lake.state import State, as_relation
from seiche.lake.versions import LakeVersions
from seiche.table.operations import Restore

if TYPE_CHECKING:
    from seiche.lake.history.verbs import HistoryVerbs

__all__ = ["Rollback", "reverse_changes", "roll_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(Intent):
    """Makes the objects of a lake, or only some tables, what they were in `target`.

    Planned on whatever version is the newest: it undoes everything since `target`, also what others commit until it is
    decided, unless it expects a version.
    """

    target: State
    tables: tuple[Name, ...] | None = None
    expected_version: int | None = None

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        if self.expected_version not in (None, state.version):
            raise IncompatibleConflict(
                f"the lake is at version {state.version}, not at {self.expected_version} as was expected.",
                remedy=f"Nothing was written. Look at `lake.diff({self.expected_version}, {state.version})`: that would"
                " be undone too.",
                read_version=self.expected_version,
                version=state.version,
            )
        check_kept(state, self.target.version)
        changes = reverse_changes(state, self.target, self.tables)
        yield from state.store.in_parallel(lambda one: self._undone(one, state, runtime), changes)

    def _undone(self, change: ObjectChange, state: State, runtime: Runtime) -> Planned:
        now, then = change.before, change.after
        if isinstance(then, TableRow):
            return self._table(change, then, state, runtime)
        if isinstance(now, TableRow):
            return trashed(now, change.old_key, state, runtime)
        written: dict[bytes, bytes | None] = {change.old_key: None} if change.old_key else {}
        if isinstance(then, NamespaceRow | ViewRow):
            counter = _next_pointer(now, then, state.version + 1)
            written[change.key] = rows.encode(replace(then, pointer_version=counter))
        return Planned(written)

    def _table(self, change: ObjectChange, then: TableRow, state: State, runtime: Runtime) -> Planned:
        """A table as it was, under the name that it had, with its own history going on."""
        written: dict[bytes, bytes | None] = {}
        if isinstance(change.before, TableRow):
            last, source = change.before, change.old_key
        else:
            last, source = _last_row(then, state), trash_key(then.id)
        written[source] = None
        uuid = str(runtime.derived_uuid(UUID(self.id), then.id))
        durable = state.is_durable(source)
        made = _restored(then, last, state, uuid=uuid, runtime=runtime, table=change.name, durable=durable)
        written[change.key] = rows.encode(made.row)
        written[id_key(then.id)] = rows.encode(ObjectNameRow(key=change.key))
        return Planned(written, made, standing=(last,))


def roll_back(
    lake: "HistoryVerbs",
    to: Point,
    *,
    expected_version: int | None = None,
    dry_run: bool = False,
    tables: Sequence[str | Sequence[str]] | None = None,
) -> int | Diff:
    """Commit a rollback and return the version that it made; the newest one if there is nothing to undo."""
    a_flag(dry_run, "dry_run")
    states = lake.states
    names = None if tables is None else tables_named(tables)
    target = states.at(version_of(states, to))
    state = states.latest()
    intent = Rollback(
        str(states.runtime.uuid()),
        state.version,
        properties=_noted(target.version, names),
        rollback_to=target.version if names is None else None,
        target=target,
        tables=names,
        expected_version=expected_version,
    )
    if dry_run:
        # Planning writes nothing, and finds out whatever would stand in the way.
        list(intent.plan(state, states.runtime))
        return diff(state, target, reverse_changes(state, target, names))
    if expected_version in (None, state.version) and not reverse_changes(state, target, names):
        return state.version
    return lake.decide(intent)


def reverse_changes(state: State, target: State, tables: Sequence[Name] | None = None) -> list[ObjectChange]:
    """What leads from `state` back to `target`: all of it, or what concerns some tables and views.

    A name means both the table that had it then and the one that has it now. Namespaces that a table needs and that are
    gone come back with it.
    """
    changes = changes_between(state, target)
    if tables is None:
        return changes
    wanted = {one for name in tables for one in _of_name(name, state, target)}
    chosen = [one for one in changes if one.kind in ("table", "view") and one.id in wanted]
    for one in chosen:
        _check_free(one, wanted, state)
        _check_place(one, wanted, state)
    needed = {key for one in chosen if one.key for key in _namespaces(one.key) if state.get(key) is None}
    return [one for one in changes if one.kind == "namespace" and one.key in needed] + chosen


def _restored(
    then: TableRow, last: TableRow, state: State, *, uuid: str, runtime: Runtime, table: str, durable: bool
) -> Made:
    """The row of a table that goes back to `then` after `last`, and the version that this takes, if it takes one."""
    if then.type != last.type:
        raise _cannot_go_back(table, f"was a table of type {then.type} and is of type {last.type} now")
    pointer_version = last.pointer_version + 1
    if then.type != "managed":
        # What is in it is not the lake's to change; only what the lake says about it goes back.
        return Made(replace(then, pointer_version=pointer_version, logical_version=last.logical_version + 1))
    row = replace(
        then,
        pointer_version=pointer_version,
        logical_version=last.logical_version,
        table_version=last.table_version,
        manifest=last.manifest,
        earlier=last.earlier,
    )
    if (then.table_version, then.iceberg) == (last.table_version, last.iceberg):
        return Made(row)
    if then.format == "iceberg":
        from seiche.lake.iceberg.restoring import restored

        return restored(then, last, row, state, runtime=runtime)
    if then.format != "lance":
        raise _cannot_go_back(table, f"is an {then.format} table, and its content cannot be rolled back yet")
    base = LakeVersions(state.store, last).read(last.table_version).manifest
    restore = Folded(Restore(then.table_version), None, ())
    return make_versions(
        Work.begin(base), restore, row, state, uuid=uuid, runtime=runtime, table=table, durable=durable
    )


def _cannot_go_back(table: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{table} {why}",
        remedy="Nothing was written. Roll back chosen tables only, with `tables=`, and leave this one out.",
        table=table,
    )


def _last_row(then: TableRow, state: State) -> TableRow:
    """A dropped table as it was when it was dropped: its versions go on from there."""
    value = state.get(trash_key(then.id))
    if value is None:
        raise NotFound(
            f"table {then.id} was dropped, and the lake no longer remembers its last version",
            remedy="Nothing was written. Roll back chosen tables only, with `tables=`, and leave this one out.",
            table=then.id,
        )
    return rows.decode(rows.decode(value, TrashRow).row, TableRow)


def _next_pointer(now: Row | None, then: NamespaceRow | ViewRow, version: int) -> int:
    """A counter that this object has never had: whoever compares it must see that something happened."""
    if isinstance(now, NamespaceRow | ViewRow):
        return now.pointer_version + 1
    # It was dropped, with a counter that nobody remembers. No version of the lake raises one by more than 1, so none
    # of its counters was as great as the number of this version.
    return max(then.pointer_version + 1, version)


def _noted(version: int, names: Sequence[Name] | None) -> dict[str, str]:
    """What a rollback leaves in the properties of its transaction, for the log."""
    noted = {"rollback_to": str(version)}
    return noted if names is None else {**noted, "rollback_tables": ", ".join(map(text, names))}


def _of_name(name: Name, *states: State) -> Iterator[str]:
    found = [row for row in (state.relation(name) for state in states) if row is not None]
    if not found:
        versions = " or ".join(str(state.version) for state in states)
        raise NotFound(
            f"there is no table or view {text(name)} in version {versions}",
            remedy="Names are `namespace.table`, as it is called now or was called then.",
            table=text(name),
        )
    yield from (row.id for row in found)


def _check_free(change: ObjectChange, wanted: set[str], state: State) -> None:
    value = state.get(change.key) if change.key else None
    if value is not None and as_relation(value).id not in wanted:
        raise AlreadyExists(
            f"{change.old_name or change.name} would become {change.name} again, but another table has that name now",
            remedy=f"Nothing was written. Rename or drop that one first, or name {change.name} in `tables=` too.",
            table=change.name,
        )


def _check_place(change: ObjectChange, wanted: set[str], state: State) -> None:
    """A dropped Iceberg table may have left its place to another, which was registered from its metadata."""
    then = change.after
    if not isinstance(then, TableRow) or not then.is_own("iceberg") or isinstance(change.before, TableRow):
        return
    from seiche.lake.iceberg.claims import others_at

    for other, name in others_at(state, then).items():
        if other not in wanted:
            raise AlreadyExists(
                f"{change.name} cannot come back: {text(name)} was made of its metadata, and has its place now",
                remedy=f"Nothing was written. Drop {text(name)} first, or name it in `tables=` too.",
                table=change.name,
            )


def _namespaces(key: bytes) -> Iterator[bytes]:
    """The keys of the namespaces around a table, outermost first."""
    around = name_of(key)[:-1]
    return (namespace_key(around[:depth]) for depth in range(1, len(around) + 1))
