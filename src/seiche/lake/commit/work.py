"""What one transaction does to one table: its statements, and the single change of content that they add up to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from pyroaring import BitMap

from seiche.core.values import replaced
from seiche.errors import InvalidInput
from seiche.lake.commit.followers import left_after
from seiche.lake.commit.made import Progress
from seiche.table.affected import AffectedRows, all_newly_deleted
from seiche.table.change import Change
from seiche.table.format import roaring
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.operations import (
    REWRITE_COLUMNS,
    REWRITE_ROWS,
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    Delete,
    KeyExistenceFilter,
    Merge,
    MergedGeneration,
    Opaque,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
)
from seiche.table.operations.coverage import is_system
from seiche.table.operations.files import TOMBSTONE

__all__ = ["CONTENT", "Folded", "Work"]

# Operations that change what a reader finds in the table. The others change how it is kept, or what is said about it.
CONTENT = (Append, Delete, Overwrite, Merge, Project, Restore, Update, DataReplacement)


@dataclass(frozen=True, slots=True)
class Folded:
    """What is committed: one change of content, if there is any, and operations that follow it as further versions.

    `added` are the transaction's own fragments as it numbered them. In an operation that was folded from several, they
    stand `bare`: without their deletions and row ids, which depend on the final numbers. `exclusive` says that the
    change holds only if nobody else changed the table's content meanwhile.
    """

    content: Operation | None
    affected_rows: AffectedRows | None
    followers: tuple[Operation, ...]
    added: tuple[DataFragment, ...] = ()
    bare: bool = False
    exclusive: bool = False


@dataclass(frozen=True)
class Work:
    """The statements of one transaction on one table so far.

    `base` is the table as the transaction found it, `running` as the transaction's next statement sees it, and
    `settled` as it is after the last change of content. Every change of content is applied as the one version after
    `base`, so the numbers given on the way are the final ones unless others commit first.
    """

    base: Manifest
    running: Manifest
    settled: Manifest
    content: tuple[Change, ...] = ()
    followers: tuple[Operation, ...] = ()
    # All of them in their order, for whoever has to repeat them.
    statements: tuple[Change, ...] = ()
    # Whether a change of content came after a compaction, whose new fragments it may have changed.
    compacted: bool = field(default=False, kw_only=True)
    # How many of the followers came before the last change of content.
    early: int = field(default=0, kw_only=True)
    progress: Progress = field(default_factory=Progress, init=False, repr=False, compare=False)

    @classmethod
    def begin(cls, base: Manifest) -> "Work":
        """No statement yet."""
        return cls(base, base, base)

    def with_statement(self, change: Change, running: Manifest) -> "Work":
        """One statement more; `running` is the table after it."""
        operation = change.operation
        if isinstance(operation, Clone | Opaque):
            raise InvalidInput(f"{operation.name} cannot be part of a transaction", remedy="Run it by itself.")
        if not isinstance(operation, CONTENT):
            return replaced(
                self,
                running=running,
                followers=(*self.followers, operation),
                statements=(*self.statements, change),
                progress=Progress(),
            )
        if self.content and (isinstance(operation, Restore) or isinstance(self.content[0].operation, Restore)):
            raise InvalidInput(
                "a Restore must be the only change of a table in its transaction",
                remedy="Restore the table in a transaction of its own.",
            )
        kept = tuple(left_after(self.followers, operation, running)) if self.followers else ()
        compacted = self.compacted or any(isinstance(one, Rewrite | ReserveFragments) for one in self.followers)
        return replaced(
            self,
            running=running,
            settled=running,
            content=(*self.content, change),
            followers=kept,
            statements=(*self.statements, change),
            compacted=compacted,
            early=len(kept),
            progress=Progress(),
        )

    def folded(self, deletions: Callable[[], DeletionFiles]) -> Folded:
        """The statements as one change. Reads deletion vectors if several statements removed rows."""
        operations = [change.operation for change in self.content]
        followers = tuple(self._followers()) if self.followers or self.compacted else ()
        if not operations:
            return Folded(None, None, followers)
        # Whose numbers may change matters to what follows; looking for them means looking at every fragment.
        added = self._added() if followers else ()
        if len(operations) == 1 and not self.compacted:
            return Folded(operations[0], self.content[0].affected_rows, followers, added)
        if all(isinstance(one, Append) for one in operations) and not self.compacted:
            appended = tuple(
                _bare(fragment) for one in operations if isinstance(one, Append) for fragment in one.fragments
            )
            return Folded(Append(appended), None, followers, added)
        added = self._added()
        content, rows, exclusive = self._one_change(operations, tuple(map(_bare, added)), deletions)
        return Folded(content, rows, followers, added, bare=True, exclusive=exclusive or self.compacted)

    def _followers(self) -> Iterator[Operation]:
        """What follows the change of content, as it stands after it.

        An index that was built before values changed covers less than it did when it was built, or is gone; and a
        compaction that is part of the change of content has put others in the place of those that it moved rows of.
        """
        early = self.followers[: self.early]
        yield from filter(None, map(_without_indices, early))
        if self.compacted or any(isinstance(one, CreateIndex) for one in early):
            built, gone = _not_in(self.settled, self.base), _not_in(self.base, self.settled)
            if built or gone:
                yield CreateIndex(built, gone)
        yield from self.followers[self.early :]

    def _one_change(
        self, operations: Sequence[Operation], bare: tuple[DataFragment, ...], deletions: Callable[[], DeletionFiles]
    ) -> tuple[Operation, AffectedRows | None, bool]:
        """The operation that does what all of them did, the rows that it removes, and whether it is exclusive."""
        if any(isinstance(one, Overwrite) for one in operations):
            return self._overwrite(operations, bare), None, False
        if any(isinstance(one, Merge | Project) for one in operations):
            return self._schema_change(operations, bare), None, False
        updated, removed = self._changed()
        vectors = deletions() if updated else None
        rows = {} if vectors is None else all_newly_deleted(updated, vectors)
        kept = tuple(new for _, new in updated)
        if all(isinstance(one, Delete) for one in operations) and not self.compacted:
            return Delete(kept, removed, _any_of(operations)), rows, False
        keys, exclusive = _inserted_keys(operations)
        update = Update(
            removed,
            kept,
            bare,
            fields_modified=tuple(sorted(_fields_modified(operations, self.settled))),
            merged_generations=_generations(operations),
            update_mode=REWRITE_COLUMNS if any(old.files != new.files for old, new in updated) else REWRITE_ROWS,
            inserted_rows=keys,
            updated_offsets=_updated_offsets(operations, kept),
        )
        return update, rows, exclusive

    def _overwrite(self, operations: Sequence[Operation], bare: tuple[DataFragment, ...]) -> Overwrite:
        *_, last = (one for one in operations if isinstance(one, Overwrite))
        header = self.settled.header
        known = {one.id for one in header.fields}
        return replace(
            last,
            fragments=tuple(_fitting(one, known) for one in bare),
            schema=tuple(header.fields),
            schema_metadata=dict(header.schema_metadata),
        )

    def _schema_change(self, operations: Sequence[Operation], bare: tuple[DataFragment, ...]) -> Merge | Project:
        header = self.settled.header
        asserted = all(one.preserves_nullability for one in operations if isinstance(one, Merge | Project))
        if all(isinstance(one, Project) for one in operations) and not self.compacted:
            return Project(tuple(header.fields), asserted)
        existing = [one for one in self.settled.fragments if self.base.fragments.get(one.id) is not None]
        fragments, metadata = (*existing, *bare), dict(header.schema_metadata)
        return Merge(fragments, tuple(header.fields), metadata, asserted, added=len(bare))

    def _added(self) -> tuple[DataFragment, ...]:
        return tuple(one for one in self.settled.fragments if self.base.fragments.get(one.id) is None)

    def _changed(self) -> tuple[list[tuple[DataFragment, DataFragment]], tuple[int, ...]]:
        """Fragments of the base that are different now, as they were and as they are, and the ids of those gone."""
        updated, removed = [], []
        for old in self.base.fragments:
            new = self.settled.fragments.get(old.id)
            if new is None:
                removed.append(old.id)
            elif new != old:
                updated.append((old, new))
        return updated, tuple(removed)


def _without_indices(operation: Operation) -> Operation | None:
    """The operation without its ordinary indices, but with those that hold state of the table; `None` if empty."""
    if not isinstance(operation, CreateIndex):
        return operation
    new = tuple(filter(is_system, operation.new_indices))
    removed = tuple(filter(is_system, operation.removed_indices))
    return replace(operation, new_indices=new, removed_indices=removed) if new or removed else None


def _not_in(one: Manifest, other: Manifest) -> tuple[IndexMetadata, ...]:
    """The indices of one version that another one does not have, those aside that hold state of the table."""
    known = {index.uuid.uuid for index in other.indices}
    return tuple(index for index in one.indices if index.uuid.uuid not in known and not is_system(index))


def _bare(fragment: DataFragment) -> DataFragment:
    """A fragment as an operation brings it: data files and nothing that depends on its number."""
    return DataFragment(files=fragment.files, physical_rows=fragment.physical_rows)


def _fitting(fragment: DataFragment, known: AbstractSet[int]) -> DataFragment:
    """The fragment without columns that a later statement dropped: an overwrite brings what its own schema has."""
    made = DataFragment(physical_rows=fragment.physical_rows)
    for file in fragment.files:
        if not known.isdisjoint(file.fields):
            kept = made.files.add()
            kept.CopyFrom(file)
            kept.fields[:] = [one if one in known else TOMBSTONE for one in file.fields]
    return made


def _updates(operations: Iterable[Operation]) -> Iterable[Update]:
    return (one for one in operations if isinstance(one, Update))


def _any_of(operations: Iterable[Operation]) -> str:
    """A predicate that every row deleted by one of the operations fulfils; empty if that is not known."""
    predicates = [one.predicate for one in operations if isinstance(one, Delete)]
    return " OR ".join(f"({one})" for one in predicates) if all(predicates) else ""


def _fields_modified(operations: Iterable[Operation], settled: Manifest) -> set[int]:
    """The fields whose values changed in place."""
    modified: set[int] = set()
    for one in operations:
        if isinstance(one, Update):
            modified.update(one.fields_modified)
        elif isinstance(one, DataReplacement):
            modified.update(field_id for group in one.replacements for field_id in group.new_file.fields)
    return modified & {one.id for one in settled.header.fields}


def _updated_offsets(operations: Iterable[Operation], kept: Iterable[DataFragment]) -> dict[int, bytes]:
    """By fragment the rows whose columns were written anew, where every statement that did so says which rows."""
    known: dict[int, BitMap] = {}
    unknown: set[int] = set()
    for one in operations:
        if isinstance(one, DataReplacement):
            unknown.update(group.fragment_id for group in one.replacements)
        elif isinstance(one, Update):
            for number, offsets in one.updated_offsets.items():
                rows = roaring.decode(offsets, what=f"the updated rows of fragment {number}")
                known[number] = known.get(number, BitMap()) | rows
            if one.update_mode == REWRITE_COLUMNS:
                unknown.update(
                    fragment.id for fragment in one.updated_fragments if fragment.id not in one.updated_offsets
                )
    said = known.keys() - unknown
    return {one.id: roaring.encode(known[one.id]) for one in kept if one.id in said}


def _generations(operations: Iterable[Operation]) -> tuple[MergedGeneration, ...]:
    """The generations that the operations merged, of each shard the last: those before it are merged with it."""
    return tuple({one.shard.uuid: one for update in _updates(operations) for one in update.merged_generations}.values())


def _inserted_keys(operations: Iterable[Operation]) -> tuple[KeyExistenceFilter | None, bool]:
    """The keys that the operations inserted, as one filter, and whether that leaves some of them out.

    Filters can be joined if they are exact and about the same fields. Rows appended by the same transaction have no
    keys to compare: that is the case for every append.
    """
    filters = [one.inserted_rows for one in _updates(operations) if one.inserted_rows is not None]
    if len(filters) < 2:
        return (filters[0] if filters else None), False
    first = filters[0]
    if any(one.WhichOneof("data") != "exact" or one.field_ids != first.field_ids for one in filters):
        return first, True
    joined = KeyExistenceFilter(field_ids=first.field_ids)
    joined.exact.key_hashes.extend(sorted({key for one in filters for key in one.exact.key_hashes}))
    return joined, False
