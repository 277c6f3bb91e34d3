"""Handing a running transaction to another process."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from seiche.core.insisting import insist
from seiche.errors import Corrupt, InvalidInput, NotFound, RetryableConflict
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.intent import Intent, RowEdit
from seiche.lake.commit.reads import Aspect, ReadSet
from seiche.lake.commit.work import Work
from seiche.lake.handles import TransactionTable
from seiche.lake.objects import brought, rows
from seiche.lake.objects.keys import KeyRange
from seiche.lake.objects.rows import TableRow
from seiche.lake.saved_pb2 import SavedEdit, SavedRange, SavedRead, SavedStatement, SavedTransaction
from seiche.lake.state import State
from seiche.lake.streams import StreamClaim
from seiche.lake.tree.root import millis
from seiche.store.base import Store
from seiche.table import affected
from seiche.table.build import empty
from seiche.table.change import Change
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations import Rewrite
from seiche.table.transaction import Transaction as TableTransaction

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["FOLDER", "decode", "encode", "fill", "read", "saved_path", "write"]

FOLDER = "_saved"

# The digest, as a field of the message that comes before all others: so long is it with its tag and length.
_DIGEST_TAG = b"\x6a\x20"
_DIGEST_END = len(_DIGEST_TAG) + hashlib.sha256().digest_size


def saved_path(transaction_id: str) -> str:
    """Where a saved transaction waits to be continued."""
    return f"{FOLDER}/{transaction_id}.binpb"


def write(transaction: "Transaction", store: Store) -> None:
    """Put the transaction as it is now into storage; saving again replaces what was saved before."""
    message = encode(transaction, transaction.expires_at_millis)
    for key, table_id in transaction.names.items():
        message.names.add(key=key, id=table_id)
    body = message.SerializeToString()
    digest = SavedTransaction(digest=hashlib.sha256(body).digest())
    data = digest.SerializeToString() + body
    insist(lambda: store.put(saved_path(transaction.id), data), transaction.runtime)


def encode(transaction: "Transaction | Intent", expires_at_millis: int) -> SavedTransaction:
    """All that is needed to do it again elsewhere, on the same base; names aside, which only further statements need.

    A rollback, a fence and a version that an engine has built cannot be said in this way.
    """
    if isinstance(transaction, Intent):
        seen, oldest = transaction.base if transaction.seen is None else transaction.seen, transaction.base
    else:
        seen, oldest = transaction.base, transaction.oldest
    message = SavedTransaction(
        id=transaction.id,
        base_version=seen,
        oldest_version=oldest if oldest < seen else None,
        isolation=transaction.isolation.upper(),
        expires_at_millis=expires_at_millis,
        properties=transaction.properties,
        edits=[_saved_edit(edit) for edit in transaction.edits.values()],
        reads=list(_saved_reads(transaction.reads)),
        ranges=list(_saved_ranges(transaction.reads)),
    )
    if transaction.stream is not None:
        claim = transaction.stream
        message.stream.stream, message.stream.epoch, message.stream.owner = claim.stream, claim.epoch, claim.owner
    for key, row in transaction.rows.items():
        message.rows.add(key=key, wanted=row.wanted)
    return message


def read(store: Store, transaction_id: str) -> SavedTransaction:
    """What was saved under this id."""
    path = saved_path(transaction_id)
    try:
        data = store.get(path)
    except NotFound as error:
        raise NotFound(
            f"no transaction {transaction_id} was saved here",
            remedy="`tx.save()` saves one; `lake.status(id)` tells what became of it.",
            transaction_id=transaction_id,
        ) from error
    return decode(data, path)


def decode(data: bytes, path: str) -> SavedTransaction:
    """The saved transaction in a file, all of it; `Corrupt` if anything is missing or changed.

    Cut between two fields a message is a message, too: of a transaction over two tables, one would be committed. Files
    of older writers have no digest; of those an empty one is known by the id.
    """
    why = "its digest does not fit"
    if not data.startswith(_DIGEST_TAG) or (
        data[len(_DIGEST_TAG) : _DIGEST_END] == hashlib.sha256(data[_DIGEST_END:]).digest()
    ):
        try:
            message = SavedTransaction.FromString(data)
        except DecodeError as error:
            why = str(error)
        else:
            if saved_path(message.id) == path:
                return message
            why = f"it is that of {message.id!r}"
    raise Corrupt(
        f"{path} is not a saved transaction: {why}",
        remedy="Put it back from a copy, or remove it and begin the transaction anew.",
        path=path,
    )


def fill(transaction: "Transaction", saved: SavedTransaction, state: State) -> None:
    """Do again what the saved transaction did. Nothing is written: its files are there."""
    if saved.expires_at_millis < millis(transaction.runtime.clock.now()):
        raise RetryableConflict(
            f"transaction {saved.id} was saved, but it is older than transactions may become.",
            remedy="Begin it anew.",
            transaction_id=saved.id,
        )
    if saved.HasField("oldest_version"):
        # Its files are as old as they were: a clean-up since then may have taken them for garbage.
        transaction.oldest = min(transaction.oldest, saved.oldest_version)
    for one in saved.reads:
        transaction.reads.key(state, one.key, Aspect(one.aspect), structural=one.structural)
    for span in saved.ranges:
        transaction.reads.range(state, KeyRange(span.start, span.stop), structural=span.structural)
    for row in saved.rows:
        wanted = row.wanted if row.HasField("wanted") else None
        brought.check_key(row.key)
        found = state.get(row.key)
        brought.check_row(row.key, found, wanted)
        transaction.rows[row.key] = RowEdit(found, wanted)
    for name in saved.names:
        transaction.names[name.key] = name.id if name.HasField("id") else None
    for edit in saved.edits:
        _repeat(transaction, edit, state)


def _repeat(transaction: "Transaction", saved: SavedEdit, state: State) -> None:
    row = rows.decode(saved.row, TableRow)
    found = None
    if saved.HasField("found_key"):
        value = state.get(saved.found_key)
        if value is None:
            raise InvalidInput(f"the saved transaction changes table {row.id}, which its base version does not have")
        found = row = rows.decode(value, TableRow)
    else:
        brought.check_made(row)
    if saved.HasField("key"):
        brought.check_table_key(saved.key)
    changed: dict[str, str | None] = {**saved.properties, **dict.fromkeys(saved.removed_properties)}
    edit = TableEdit(
        row=row,
        key=saved.key if saved.HasField("key") else None,
        found=found,
        found_key=saved.found_key if saved.HasField("found_key") else None,
        properties=changed,
        work=Work.begin(empty(stable_row_ids=saved.stable_row_ids)) if found is None and row.is_own("lance") else None,
        read=saved.read,
    )
    if row.format == "iceberg":
        from seiche.lake.iceberg.saving import restore

        restore(transaction, edit, saved)
        return
    transaction.edits[row.id] = edit
    table = TransactionTable(transaction, row.id)
    for statement in saved.statements:
        table.apply(_change(statement))


def _saved_edit(edit: TableEdit) -> SavedEdit:
    removed = [name for name, value in edit.properties.items() if value is None]
    saved = SavedEdit(
        row=rows.encode(edit.row),
        key=edit.key,
        found_key=edit.found_key,
        properties={name: value for name, value in edit.properties.items() if value is not None},
        removed_properties=removed,
        read=edit.read,
    )
    if edit.work is not None:
        saved.stable_row_ids = edit.work.base.has_stable_row_ids
        saved.statements.extend(_saved_statement(edit.work, change) for change in edit.work.statements)
    if edit.row.format == "iceberg":
        from seiche.lake.iceberg.saving import save

        save(edit, saved)
    return saved


def _saved_statement(work: Work, change: Change) -> SavedStatement:
    operation = change.operation
    reuse = operation.frag_reuse_index if isinstance(operation, Rewrite) else None
    return SavedStatement(
        transaction=TableTransaction(work.base.version, "", operation).encode(),
        affected_rows=None if change.affected_rows is None else affected.encode(change.affected_rows),
        rows=change.rows,
        files=change.files,
        bytes=change.bytes,
        frag_reuse_index=b"" if reuse is None else reuse.SerializeToString(),
    )


def _change(saved: SavedStatement) -> Change:
    operation = TableTransaction.decode(saved.transaction, path="a saved statement").operation
    if isinstance(operation, Rewrite) and saved.frag_reuse_index:
        operation = replace(operation, frag_reuse_index=IndexMetadata.FromString(saved.frag_reuse_index))
    touched = affected.decode(saved.affected_rows) if saved.HasField("affected_rows") else None
    return Change(operation, touched, saved.rows, saved.files, saved.bytes)


def _saved_reads(reads: ReadSet) -> Iterator[SavedRead]:
    for structural, keys in ((False, reads.keys), (True, reads.structural_keys)):
        for key, aspect in keys:
            yield SavedRead(key=key, aspect=aspect.value, structural=structural)


def _saved_ranges(reads: ReadSet) -> Iterator[SavedRange]:
    for structural, ranges in ((False, reads.ranges), (True, reads.structural_ranges)):
        for span in ranges:
            yield SavedRange(start=span.start, stop=span.stop, structural=structural)


def claim(saved: SavedTransaction) -> StreamClaim | None:
    """The stream that the saved transaction is an epoch of."""
    if not saved.HasField("stream"):
        return None
    return StreamClaim(saved.stream.stream, saved.stream.epoch, saved.stream.owner)
