"""New metadata of Iceberg tables that comes over the wire: as a whole, or as requirements and updates."""

import json
from typing import TYPE_CHECKING, Any

from seiche.errors import Corrupt, InvalidInput
from seiche.lake.transaction import Transaction
from seiche.service.refusals import refused
from seiche.service.targets import Found

if TYPE_CHECKING:
    from seiche.lake.iceberg.metadata import Metadata

__all__ = ["apply"]


def apply(data: bytes, transaction: Transaction, found: Found) -> None:
    """Make the metadata in `data` that of the table, as part of the transaction, which is then as old as the oldest
    file that it brings; all of these are there.

    The caller sees to it that the table is the one that it was made from: metadata as a whole cannot be rebased.
    """
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise refused("the payload for an Iceberg table is not JSON", "payload.invalid") from error
    if not isinstance(given, dict):
        raise refused("the payload for an Iceberg table is not an object", "payload.invalid")
    if "updates" in given:
        _commit(given, transaction, found)
    else:
        _replace(data, transaction, found)


def _commit(given: dict[str, Any], transaction: Transaction, found: Found) -> None:
    from pydantic import ValidationError
    from pyiceberg.table import CommitTableRequest

    *namespace, name = found.name
    try:
        request = CommitTableRequest.model_validate(
            {
                "identifier": {"namespace": namespace, "name": name},
                "requirements": given.get("requirements", []),
                "updates": given["updates"],
            }
        )
    except ValidationError as error:
        raise refused(f"the payload cannot be read: {error.error_count()} mistakes", "payload.invalid") from error
    except Exception as error:
        # PyIceberg looks into what it is given before it is known to be what it takes it for.
        raise refused(f"the payload cannot be read: {type(error).__name__}", "payload.invalid") from error
    transaction.commit_iceberg(found.name, request.requirements, request.updates)


def _replace(data: bytes, transaction: Transaction, found: Found) -> None:
    from seiche.lake.iceberg.edit import IcebergEdit
    from seiche.lake.iceberg.metadata import decode
    from seiche.lake.iceberg.work import IcebergWork, Step

    before = transaction.iceberg(found.name).metadata
    try:
        after = decode(data, "the payload")
    except (Corrupt, InvalidInput) as error:
        raise refused(error.message, "payload.invalid") from error
    _check_follows(before, after)
    _take_files(before, after, transaction)
    edit = transaction.edit(found.row.id)
    work = IcebergWork(before, after, steps=(Step((), (), exclusive=True),))
    transaction.put_edit(IcebergEdit.of(edit, work))


def _take_files(before: "Metadata", after: "Metadata", transaction: Transaction) -> None:
    """The transaction is as old as the oldest file in the lake that the metadata names and the one before it does not,
    and flushes them; refused if one is not there.
    """
    from seiche.lake.iceberg.new_files import age_of, brought_by
    from seiche.lake.iceberg.places import path_of
    from seiche.lake.iceberg.reach import named_beside

    state, runtime = transaction.state, transaction.runtime
    known = {(one.snapshot_id, one.manifest_list) for one in before.snapshots}
    # Statistics, and metadata that it says it came from.
    beside = (path_of(state.store, one) for one in {*named_beside(after)}.difference(named_beside(before)))
    brought: list[tuple[object, list[str]]] = [
        (one, brought_by(one, state, after.specs()))
        for one in after.snapshots
        if (one.snapshot_id, one.manifest_list) not in known
    ]
    brought.append((after, [path for path in beside if path is not None and state.store.exists(path)]))
    for what, files in brought:
        begun = min(transaction.base, transaction.oldest)
        transaction.oldest = age_of(files, what, begun, state, runtime)
        transaction.unflushed += [path for path in files if path not in transaction.unflushed]


def _check_follows(before: "Metadata", after: "Metadata") -> None:
    """Metadata of another table, or of an earlier time, must not become that of this one."""
    from seiche.lake.iceberg.metadata import last_number

    problems = {
        "it is that of another table": after.table_uuid != before.table_uuid,
        "the table's place has changed": after.location.rstrip("/") != before.location.rstrip("/"),
        "its sequence number goes back": last_number(after) < last_number(before),
        "ids of columns would be given twice": after.last_column_id < before.last_column_id,
    }
    broken = [what for what, is_so in problems.items() if is_so]
    if broken:
        raise refused(f"the metadata does not follow the table's: {', '.join(broken)}", "TABLE_INTENT_INVALID_PAYLOAD")
