"""Whether clients that are believed about their files have written them into the very lake that is served.

They may not have: the lake was copied and the server started on the copy, or a client was given the address of one. Ids
and names are the same there, so what they commit would be applied, and leave tables whose files are missing. One file
of each table tells it; all of them are looked at only for clients that do not say that they have seen to them.
"""

from collections.abc import Iterator, Sequence

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.lake.care.saved_work import manifest_lists
from seiche.lake.lake import Lake
from seiche.lake.objects import rows
from seiche.lake.objects.rows import TableRow
from seiche.lake.saved_pb2 import SavedEdit, SavedTransaction
from seiche.service.changes import Wanted
from seiche.service.refusals import refused
from seiche.service.targets import find
from seiche.store.base import Store
from seiche.store.paths import join, valid
from seiche.table.brought import added, changed, files_of, index_files, indices
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Operation
from seiche.table.transaction import Transaction

__all__ = ["check_written_here"]


def check_written_here(lake: Lake, base: int, wanted: Sequence[Wanted], work: bytes) -> bool:
    """Refuse a transaction whose files are not in this lake; `base` is the version that it began from.

    Returns whether any is: one without files says nothing about where its client writes. Behind the fence of a clean-up
    they may be gone: the commit finds that out, and says so.
    """
    brought = _of_work(work, lake.store) if work else _of_wanted(wanted, lake)
    paths = [path for path in brought if valid(path)]
    missing = [path for path in paths if not lake.store.exists(path)]
    if missing and lake.states.latest().root.min_base <= base:
        raise refused(
            f"{missing[0]} is not in {lake.uri}, the lake of the server: it was written elsewhere",
            "files.elsewhere",
            "Nothing was committed. Connect again; if this client finds the lake under another address than the"
            " server does, give that as `uri=`, and not the address of a copy.",
        )
    return bool(paths) and not missing


def _of_wanted(wanted: Sequence[Wanted], lake: Lake) -> Iterator[str]:
    for one in wanted:
        found = find(lake.states.known, one.table)
        if found is not None and one.operation is not None and found.row.is_own("lance"):
            for path in _brought(one.operation.transaction.operation):
                yield join(found.row.location, path)


def _of_work(work: bytes, store: Store) -> Iterator[str]:
    try:
        for edit in SavedTransaction.FromString(work).edits:
            yield from _of_edit(edit, store)
    except (Corrupt, DecodeError, ValueError, LookupError, TypeError):
        return  # what cannot be read is refused by whoever reads it


def _of_edit(edit: SavedEdit, store: Store) -> Iterator[str]:
    row = rows.decode(edit.row, TableRow)
    if row.type != "managed":
        return
    # Later statements may be about what the first has made, which gets other names when it is committed.
    for statement in edit.statements[:1]:
        for path in _brought(Transaction.decode(statement.transaction).operation):
            yield join(row.location, path)
    for step in edit.iceberg[:1]:
        from seiche.lake.iceberg.places import path_of  # needs PyIceberg

        inside = [path_of(store, address) for address in manifest_lists(step.updates)]
        yield from [path for path in inside if path is not None]


def _brought(operation: Operation) -> list[str]:
    """Files of the first fragment, or of the first index, that an operation brings."""
    for fragment in added(operation)[:1]:
        return list(files_of(DataFragment(files=fragment.files[-1:]), DataFragment()))
    for fragment in changed(operation)[:1]:
        # One of them is new: columns are added behind all others, and rows are taken away by a file of their own.
        newest = DataFragment(id=fragment.id, files=fragment.files[-1:])
        if fragment.HasField("deletion_file"):
            newest.deletion_file.CopyFrom(fragment.deletion_file)
        return list(files_of(newest, DataFragment()))
    for index in indices(operation)[:1]:
        return [] if index.HasField("base_id") else list(index_files(index))[:1]
    return []
