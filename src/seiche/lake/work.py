"""What one transaction does to one table: its statements, one behind the other, and the single change they add up to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from pyroaring import BitMap

from seiche.errors import InvalidInput
from seiche.table.affected import AffectedRows, newly_deleted
from seiche.table.change import Change
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import (
    REWRITE_COLUMNS,
    REWRITE_ROWS,
    Append,
    Clone,
    DataReplacement,
    Delete,
    KeyExistenceFilter,
    Merge,
    Opaque,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
)

__all__ = ["Folded", "Work"]

# Operations that change what a reader finds in the table. All others change how it is kept, or what is said about it.
CONTENT = (Append, Delete, Overwrite, Merge, Project, Restore, Update, DataReplacement)


@dataclass(frozen=True, slots=True)
class Folded:
    """The statements as they will be committed: one change of content, if there was any, and what follows it.

    `exclusive` says that they hold only if nobody else changed the table's content meanwhile.
    """

    content: Operation | None
    affected_rows: AffectedRows | None
    followers: tuple[Operation, ...]
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """The statements of one transaction on one table so far.

    `base` is the table as the transaction found it, `running` as its own next statement sees it. All statements are
    applied as the one version after `base`, so that numbers given on the way are those that the commit will give, unless
    others commit first.
    """

    base: Manifest
    running: Manifest
    content: tuple[Change, ...] = ()
    followers: tuple[Operation, ...] = ()
    # The table after the last change of content, without what followed it.
    settled: Manifest | None = field(default=None, repr=False)

    def with_statement(self, change: Change, running: Manifest) -> "Work":
        """One statement more; `running` is the table after it."""
        operation = change.operation
        if isinstance(operation, Clone | Opaque):
            raise InvalidInput(f"{operation.name} cannot be part of a transaction", remedy="Run it by itself.")
        if not isinstance(operation, CONTENT):
            return replace(self, running=running, followers=(*self.followers, operation))
        if self.content and any(isinstance(one, Restore) for one in (operation, self.content[0].operation)):
            raise InvalidInput(
                "a Restore stands alone: the transaction has other changes of the same table",
                remedy="Restore the table in a transaction of its own.",
            )
        # Fragments that were compacted before this statement are part of what it changes: they cannot follow it.
        kept = tuple(one for one in self.followers if not isinstance(one, Rewrite | ReserveFragments))
        return replace(self, running=running, content=(*self.content, change), followers=kept, settled=running)

    def folded(self, deletions: DeletionFiles) -> Folded:
        """What to commit. Reads deletion vectors where rows of old fragments were removed by several statements."""
        if not self.content or self.settled is None:
            return Folded(None, None, self.followers)
        if len(self.content) == 1 and not self._compacted():
            only = self.content[0]
            return Folded(only.operation, only.affected_rows, self.followers)
        operations = [change.operation for change in self.content]
        if any(isinstance(one, Overwrite) for one in operations):
            return Folded(self._overwrite(operations), None, self.followers)
        difference = _Difference.between(self.base, self.settled)
        if any(isinstance(one, Merge | Project) for one in operations):
            return Folded(self._schema_change(operations), None, self.followers)
        rows = difference.affected_rows(deletions)
        if all(isinstance(one, Append) for one in operations):
            return Folded(Append(difference.added), None, self.followers)
        if all(isinstance(one, Delete) for one in operations):
            deleted = Delete(difference.updated, difference.removed, _any_of(operations))
            return Folded(deleted, rows, self.followers)
        update, exclusive = _update(difference, operations)
        return Folded(update, rows, self.followers, exclusive)

    def _compacted(self) -> bool:
        """Whether fragments were rewritten by a statement before the last change of content."""
        known = {fragment.id for fragment in self.base.fragments}
        rewritten = [one for one in self.content if isinstance(one.operation, Rewrite)]
        return bool(rewritten) and bool(known)

    def _overwrite(self, operations: Sequence[Operation]) -> Overwrite:
        last = [one for one in operations if isinstance(one, Overwrite)][-1]
        header = self._settled.header
        return replace(
            last,
            fragments=tuple(self._settled.fragments),
            schema=tuple(header.fields),
            schema_metadata=dict(header.schema_metadata),
        )

    def _schema_change(self, operations: Sequence[Operation]) -> Merge | Project:
        header = self._settled.header
        asserted = all(one.preserves_nullability for one in operations if isinstance(one, Merge | Project))
        if all(isinstance(one, Project) for one in operations):
            return Project(tuple(header.fields), asserted)
        return Merge(tuple(self._settled.fragments), tuple(header.fields), dict(header.schema_metadata), asserted)

    @property
    def _settled(self) -> Manifest:
        return self.running if self.settled is None else self.settled
