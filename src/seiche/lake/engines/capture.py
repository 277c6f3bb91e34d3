"""From a version that pylance built inside a transaction to a statement of that transaction."""

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import Message

from seiche.errors import InvalidInput
from seiche.lake.commit.work import Work
from seiche.lake.engines.native_manifest import (
    NativeManifest,
    check_bases,
    check_no_cleanup,
    check_same,
    completed,
    first_that_holds,
    new_files,
    readings,
    with_spent,
)
from seiche.lake.engines.staged_table import StagedTable
from seiche.table.affected import AffectedRows, all_newly_deleted
from seiche.table.bases import deletion_files
from seiche.table.change import Change
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.format.row_ids import RowVersions
from seiche.table.format.transaction_pb2 import Transaction as TransactionMessage
from seiche.table.operations import Append, Delete, Operation, Overwrite, ReserveFragments, Rewrite, Update
from seiche.table.transaction import Transaction

__all__ = ["capture"]


def capture(table: StagedTable, native: NativeManifest) -> None:
    """Make what pylance did the next statement of the transaction; if it is refused, the transaction is as before.

    pylance has built the version itself. The transaction builds its own from the same operation, because it has to do
    so again when others commit first; both must have come to the same.
    """
    work, before = table.work, table.edit
    numbers = _Numbers(work)
    operation = completed(numbers.settled(native.message), native.manifest)
    operation = with_spent(operation, work.running, native.manifest, table.store, table.runtime)
    _check_possible(operation, table.name)
    check_no_cleanup(work.running, native.manifest)
    check_bases(work.running, native.manifest, table.transaction.state)

    def check(meant: Operation) -> None:
        table.apply(_change(meant, table, work))
        try:
            made, found = (numbers.settled_manifest(one) for one in (table.work.running, native.manifest))
            check_same(made, found, table.store, table.runtime)
        except BaseException:
            table.put_back(before)
            raise

    first_that_holds(readings(operation, work.running), check)
    table.note_files(new_files(work.running, native.manifest, table.store))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Puts the numbers that stand for a transaction's own versions in pylance's view back to the ones that count."""

    work: Work

    def settled(self, message: TransactionMessage) -> Operation:
        """The operation, as if it had been made from the transaction's base."""
        made = TransactionMessage()
        made.CopyFrom(message)
        for part in _parts(made):
            if isinstance(part, DataFragment):
                self._settle_rows(part)
            else:
                self._settle_index(part)
        return Transaction.from_proto(made).operation

    def settled_manifest(self, manifest: Manifest) -> Manifest:
        """A version, as if it had been made from the transaction's base."""
        fragments = manifest.fragments
        if manifest.has_stable_row_ids:
            fragments = Fragments(self._settle_rows(_copy(one)) for one in fragments)
        indices = [self._settle_index(_copy_index(one)) for one in manifest.indices]
        return Manifest(manifest.copy_header(), fragments, indices)

    def _settle_rows(self, fragment: DataFragment) -> DataFragment:
        base = self.work.base.version
        for name in ("inline_created", "inline_last_updated"):
            encoded = getattr(fragment, name)
            if encoded:
                runs = RowVersions.decode(encoded, rows=fragment.physical_rows).runs
                settled = [(min(number, base + 1), rows) for number, rows in runs]
                setattr(fragment, name, RowVersions(settled).encode())
        return fragment

    def _settle_index(self, index: IndexMetadata) -> IndexMetadata:
        # The version whose places of rows the index knows: a number too high, and later moves of them would be missed.
        index.dataset_version = min(index.dataset_version, max(1, self.work.base.version))
        return index


def _parts(message: Message) -> Iterator[DataFragment | IndexMetadata]:
    """All fragments and index entries in a message, at any depth."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in value if field.is_repeated else [value]:
            if isinstance(part, DataFragment | IndexMetadata):
                yield part
            else:
                yield from _parts(part)


def _check_possible(operation: Operation, table: str) -> None:
    if isinstance(operation, ReserveFragments | Rewrite):
        raise InvalidInput(
            f"{table}: pylance compacts with two commits, which cannot be done inside a transaction",
            remedy="Use `tx.table(name).compact()` or `reorder()`.",
            table=table,
        )


def _change(operation: Operation, table: StagedTable, work: Work) -> Change:
    if isinstance(operation, Append | Overwrite):
        return Change(operation, rows=sum(one.physical_rows for one in operation.fragments))
    if isinstance(operation, Delete | Update):
        rows = _affected(operation, table, work)
        return Change(operation, rows, rows=sum(map(len, rows.values())))
    return Change(operation)


def _affected(operation: Delete | Update, table: StagedTable, work: Work) -> AffectedRows:
    """The rows that are taken out of their places: pylance does not say, so the deletion vectors are compared."""
    known = [(work.running.fragments.get(after.id), after) for after in operation.updated_fragments]
    changed = [(before, after) for before, after in known if before is not None]
    return all_newly_deleted(changed, deletion_files(work.running, table.store, table.runtime))


def _copy(fragment: DataFragment) -> DataFragment:
    made = DataFragment()
    made.CopyFrom(fragment)
    return made


def _copy_index(index: IndexMetadata) -> IndexMetadata:
    made = IndexMetadata()
    made.CopyFrom(index)
    return made
