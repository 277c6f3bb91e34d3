"""What a transaction wants of one table, and what that means on top of a given version of the lake."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from seiche.core.runtime import Runtime
from seiche.core.values import replaced
from seiche.errors import RetryableConflict
from seiche.lake.care.restorable import check_restorable
from seiche.lake.commit.made import Made
from seiche.lake.commit.making import make_versions
from seiche.lake.commit.work import Folded, Work
from seiche.lake.objects import rows
from seiche.lake.objects.keys import id_key, name_of, trash_key
from seiche.lake.objects.names import text
from seiche.lake.objects.rows import ObjectNameRow, TableRow, TrashRow
from seiche.lake.state import State, as_relation
from seiche.lake.tree.root import millis
from seiche.store.prefix import below
from seiche.table.bases import deletion_files
from seiche.table.operations import Overwrite, Restore

__all__ = ["AGAIN", "Planned", "TableEdit", "is_used", "trashed"]

AGAIN = "Nothing was written. Run the transaction again on the latest version; lake.run(fn) does so for you."


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be written for one table: rows of the tree, files before the root, manifests to publish after it."""

    rows: Mapping[bytes, bytes | None]
    made: Made | None = None
    # Tables whose versions must be published before the root is put, although no table stands under those keys now.
    standing: tuple[TableRow, ...] = ()


@dataclass(frozen=True, slots=True)
class TableEdit:
    """Everything that one transaction does to one table, known by its id: names may change under it.

    `found` and `found_key` are the table's row and key at the version where the transaction began, `None` if the
    transaction made the table. `key` is where it shall stand, `None` if it is dropped. What the transaction did not set
    itself is taken from the newest row when the commit is planned: somebody else's rename survives.
    """

    row: TableRow
    key: bytes | None
    found: TableRow | None = None
    found_key: bytes | None = None
    properties: Mapping[str, str | None] = field(default_factory=dict)
    work: Work | None = None
    # Whether the transaction has read the table's content.
    read: bool = False

    @property
    def shared(self) -> dict[str, Any]:
        """What an edit of another kind takes over when it replaces this one: everything but the work."""
        names = ("row", "key", "found", "found_key", "properties", "read")
        return {name: getattr(self, name) for name in names}

    @property
    def renamed(self) -> bool:
        return self.key != self.found_key

    @property
    def worked(self) -> bool:
        """Whether there are new versions to make."""
        return self.work is not None and bool(self.work.content or self.work.followers)

    @property
    def is_planned_last(self) -> bool:
        """Whether planning it does something that cannot be undone: then everything else is to be sure before."""
        return False

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return self.renamed or self.worked or bool(self.properties)

    @property
    def name(self) -> str:
        """The table's name, for people."""
        key = self.key or self.found_key
        return f"a table that was made and dropped again ({self.row.id})" if key is None else text(name_of(key))

    @property
    def shown(self) -> TableRow:
        """The table's row as the transaction sees it, with the properties that it has set."""
        return self._with_properties(self.row)

    def plan(self, state: State, uuid: str, runtime: Runtime, freed: Mapping[bytes | None, str]) -> Planned:
        """The edit on top of `state`. Raises a conflict if what others did there leaves no room for it.

        `freed` are keys that the same transaction takes from tables, with the ids of those.
        """
        if self.found is None:
            return self._created(state, uuid, runtime, freed)
        now, standing = self.current(state, self.found)
        if self.key is None:
            return self._dropped(state, now, standing, runtime)
        target = self.key if self.renamed else standing
        changed = replaced(self._with_properties(now), pointer_version=now.pointer_version + 1)
        made = self._made(state, changed, uuid, runtime, durable=state.is_durable(standing))
        row = made.row
        written: dict[bytes, bytes | None] = {target: rows.encode_table(row)}
        if self.renamed:
            self._check_free(state, target, freed)
            written[standing] = None
            written[id_key(row.id)] = rows.encode(ObjectNameRow(key=target))
        return Planned(written, made)

    def _created(self, state: State, uuid: str, runtime: Runtime, freed: Mapping[bytes | None, str]) -> Planned:
        if self.key is None:
            return Planned({})
        self._check_free(state, self.key, freed)
        if is_used(state, self.row.id):
            raise self._conflict(state, "a table was made in its place meanwhile")
        made = self._made(state, self._with_properties(self.row), uuid, runtime, durable=True)
        written = {self.key: rows.encode(made.row), id_key(self.row.id): rows.encode(ObjectNameRow(key=self.key))}
        return Planned(written, made)

    def current(self, state: State, found: TableRow) -> tuple[TableRow, bytes]:
        """The table as it is in `state`: the same one, whatever it is called there. A conflict if it is gone."""
        key = state.key_of(found.id)
        value = None if key is None else state.get(key)
        if key is None or value is None:
            raise self._conflict(state, "it was dropped meanwhile")
        now = as_relation(value)
        if not isinstance(now, TableRow):
            raise self._conflict(state, "there is a view in its place now")
        if now.type != found.type:
            raise self._conflict(state, f"it has become a table of type {now.type} meanwhile")
        if self.renamed and key != self.found_key:
            raise self._conflict(state, f"it was renamed to {text(name_of(key))} meanwhile")
        return now, key

    def _dropped(self, state: State, now: TableRow, key: bytes, runtime: Runtime) -> Planned:
        if self.found is not None and now.logical_version != self.found.logical_version:
            raise self._conflict(state, "its content was changed meanwhile, and this transaction would drop it")
        return trashed(now, key, state, runtime)

    def _made(self, state: State, now: TableRow, uuid: str, runtime: Runtime, *, durable: bool) -> Made:
        if self.work is None or not self.worked:
            return Made(now)
        progress = self.work.progress
        if durable and progress.made is not None and progress.row == now:
            return progress.made
        base = self.work.base
        folded = self.work.folded(lambda: deletion_files(base, below(state.store, now.location), runtime))
        self._check_content(state, now, folded)
        if isinstance(folded.content, Restore):
            check_restorable(state, now, folded.content.version, table=self.name)
        made = make_versions(
            self.work, folded, now, state, uuid=uuid, runtime=runtime, table=self.name, durable=durable
        )
        if durable and not isinstance(folded.content, Restore):
            progress.row, progress.made = now, made
        return made

    def _with_properties(self, now: TableRow) -> TableRow:
        if not self.properties:
            return now
        merged = {**now.properties, **self.properties}
        return replace(now, properties={name: value for name, value in merged.items() if value is not None})

    def _check_content(self, state: State, now: TableRow, folded: Folded) -> None:
        """Some changes hold only if the content is what it was: an overwrite computed from what it overwrites, for
        one.
        """
        if self.found is None or now.logical_version == self.found.logical_version:
            return
        if folded.exclusive or (self.read and isinstance(folded.content, Overwrite)):
            raise self._conflict(state, "its content was changed meanwhile, and this transaction depends on it")

    def _check_free(self, state: State, key: bytes, freed: Mapping[bytes | None, str]) -> None:
        value = state.get(key)
        if value is not None and as_relation(value).id != freed.get(key):
            raise self._conflict(state, "the name was taken meanwhile")

    def _conflict(self, state: State, what: str) -> RetryableConflict:
        return RetryableConflict(
            f"{self.name}: {what} (the lake is at version {state.version}).",
            remedy=AGAIN,
            table=self.name,
            version=state.version,
        )


def is_used(state: State, table_id: str) -> bool:
    """Whether there is a table with this id, or was one whose files may still be needed: an id is given once.

    Whoever began with an earlier table looks for it by its id, and would go on with the later one.
    """
    return state.key_of(table_id) is not None or state.get(trash_key(table_id)) is not None


def trashed(row: TableRow, key: bytes, state: State, runtime: Runtime) -> Planned:
    """What it takes to drop a table: it is not there any more, but remembered as long as its files may be needed."""
    trash = TrashRow(
        location=row.location,
        dropped_in_version=state.version + 1,
        dropped_at_millis=millis(runtime.clock.now()),
        key=key,
        row=rows.encode(row),
    )
    return Planned({key: None, id_key(row.id): None, trash_key(row.id): rows.encode(trash)})
