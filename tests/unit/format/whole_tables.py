"""Checks every file of a table: it decodes, nothing in it is unknown to us, and it encodes to an equal message."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import Message

from seiche.store.local import LocalStore
from seiche.table.format import deletions, file, index_details, refs, roaring, transactions
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.index_details_pb2 import FragmentReuseIndexDetails, MemWalIndexDetails
from seiche.table.format.manifest import Manifest
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.format.rowids_pb2 import RowDatasetVersionSequence, RowIdSequence
from seiche.table.format.transaction_pb2 import Transaction
from seiche.table.format.unknown import unknown_fields

KNOWN_DETAILS: dict[str, type[Message]] = {
    index_details.FRAGMENT_REUSE_URL: FragmentReuseIndexDetails,
    index_details.MEM_WAL_URL: MemWalIndexDetails,
}


def check_table(folder: Path) -> Counter[str]:
    """Check all files below `folder`; returns what was seen, so that a test can tell that it was there."""
    seen: Counter[str] = Counter()
    for found in sorted(folder.rglob("*")):
        if found.suffix == ".manifest":
            _check_manifest_file(found, seen)
        elif found.suffix == ".txn":
            transaction = transactions.decode(found.read_bytes(), path=found.name)
            _check_transaction(transaction, found.read_bytes(), seen)
        elif found.parent.name == "_deletions":
            kind = pb.DeletionFile.BITMAP if found.suffix == ".bin" else pb.DeletionFile.ARROW
            offsets = deletions.decode(found.read_bytes(), kind, what=found.name)
            assert deletions.decode(deletions.encode_arrow(offsets), pb.DeletionFile.ARROW) == offsets
            assert deletions.encode_bitmap(offsets) == found.read_bytes() or kind == pb.DeletionFile.ARROW
            seen[f"deletions {found.suffix}"] += 1
        elif found.parent.name == "tags":
            tag = refs.Tag.decode(found.read_bytes(), path=found.name)
            assert not tag.extra
            assert refs.Tag.decode(tag.encode(), path="") == tag
            seen["tag"] += 1
        elif found.parent.name == "branches":
            branch = refs.Branch.decode(found.read_bytes(), path=found.name)
            assert branch.encode() == found.read_bytes()
            seen["branch"] += 1
    return seen


def _check_manifest_file(found: Path, seen: Counter[str]) -> None:
    data = found.read_bytes()
    read = file.decode(data, path=found.name)
    seen["manifest"] += 1
    _check_message(read.manifest.header)
    for fragment in read.manifest.fragments:
        _check_fragment(fragment, seen)
    _check_indices(read.manifest, LocalStore(str(found.parent.parent)), seen)
    assert read.transaction is not None
    _check_transaction(read.transaction, None, seen)

    again = file.decode(b"".join(file.encode(read.manifest, read.transaction.SerializeToString())), path=found.name)
    expected, got = read.manifest.copy_header(), again.manifest.copy_header()
    for header in (expected, got):
        header.ClearField("transaction_section")
    assert got == expected
    assert again.manifest.fragments.decoded() == read.manifest.fragments.decoded()
    assert again.manifest.indices == read.manifest.indices
    assert again.transaction == read.transaction

    store = LocalStore(str(found.parent))
    assert file.read_transaction(store, found.name) == read.transaction
    beside = found.parent.parent / "_transactions" / read.manifest.header.transaction_file
    if beside.is_file():
        assert transactions.decode(beside.read_bytes(), path=beside.name) == read.transaction
        seen["transaction file equals inline"] += 1


def _check_indices(manifest: Manifest, table: LocalStore, seen: Counter[str]) -> None:
    for index in manifest.indices:
        _check_index(index, seen)
        if index.name == index_details.FRAGMENT_REUSE:
            content = index_details.ReuseIndexFiles(table).read(index)
            assert list(_unknown(content)) == []
            new = {new.id for version in content.versions for group in version.groups for new in group.new_fragments}
            assert set(roaring.decode(index.fragment_bitmap)) == new
            for version in content.versions:
                for group in version.groups:
                    left = sum(old.physical_rows - old.num_deleted_rows for old in group.old_fragments)
                    assert len(roaring.decode64(group.changed_row_addrs)) == left
        elif index.fragment_bitmap:
            assert roaring.encode(roaring.decode(index.fragment_bitmap))


def _check_index(index: pb.IndexMetadata, seen: Counter[str]) -> None:
    url = index.index_details.type_url
    seen[url] += 1
    if url in KNOWN_DETAILS:
        details = KNOWN_DETAILS[url].FromString(index.index_details.value)
        _check_message(details)


def _check_transaction(transaction: Transaction, stored: bytes | None, seen: Counter[str]) -> None:
    _check_message(transaction)
    if stored is not None:
        assert Transaction.FromString(stored) == transaction
    name = transaction.WhichOneof("operation")
    assert name is not None
    seen[name] += 1
    operation = getattr(transaction, name)
    for fragment in _fragments_in(operation):
        _check_fragment(fragment, seen, whole=False)
    if name == "create_index":
        for index in (*operation.new_indices, *operation.removed_indices):
            _check_index(index, seen)
    if name == "update":
        seen[f"update mode {operation.update_mode}"] += 1
        for offsets in operation.updated_offsets.values():
            assert roaring.decode(offsets)
            seen["updated offsets"] += 1
        if operation.HasField("inserted_rows"):
            seen["inserted rows"] += 1


def _fragments_in(message: Message) -> Iterator[pb.DataFragment]:
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for child in [value] if isinstance(value, Message) else value:
            if isinstance(child, pb.DataFragment):
                yield child
            else:
                yield from _fragments_in(child)


def _check_fragment(fragment: pb.DataFragment, seen: Counter[str], *, whole: bool = True) -> None:
    _check_message(fragment)
    rows = fragment.physical_rows or None
    if fragment.HasField("inline_row_ids"):
        # In the transaction of a merge only the rows that were there before have their ids.
        ids = RowIds.decode(fragment.inline_row_ids, rows=rows if whole else None)
        assert list(_unknown(RowIdSequence.FromString(fragment.inline_row_ids))) == []
        assert RowIds(ids.to_array()) == ids
        seen["row ids"] += 1
    for stored in (fragment.inline_created, fragment.inline_last_updated):
        if stored:
            versions = RowVersions.decode(stored, rows=rows)
            assert list(_unknown(RowDatasetVersionSequence.FromString(stored))) == []
            assert RowVersions.decode(versions.encode(), rows=rows) == versions
            seen["row versions"] += 1


def _check_message(message: Message) -> None:
    assert list(_unknown(message)) == []
    assert type(message).FromString(message.SerializeToString()) == message


def _unknown(message: Message) -> Iterator[object]:
    return iter(unknown_fields(message))
