"""A transaction that is handed in again, told from another one that has its id."""

from collections.abc import Hashable

from seiche.errors import InvalidInput
from seiche.table import footprint
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import CreateIndex, Delete, Opaque, Operation, Project, Rewrite, Update
from seiche.table.transaction import Transaction

__all__ = ["check_same"]


def check_same(given: Transaction, committed: Transaction, version: int) -> None:
    """`InvalidInput` if `version` was made by something else than was given now under the same id.

    Ids are whatever their writers choose. Taken for an earlier attempt of it, the second of two transactions with one
    id would be told that it is committed, and its rows would be nowhere.
    """
    ours, theirs = given.operation, committed.operation
    if type(ours) is type(theirs) and _lasting(ours) == _lasting(theirs):
        return
    raise InvalidInput(
        f"version {version} was made by another transaction with the id {given.uuid!r}: its {theirs.name} is not this"
        f" {ours.name}",
        remedy="Give each transaction an id of its own, or none: then it gets one.",
        transaction_id=given.uuid,
        version=version,
    )


def _lasting(operation: Operation) -> Hashable:
    """What no rebase changes of an operation."""
    fragments = footprint.fragments(operation)
    match operation:
        case Delete():
            return fragments, operation.predicate
        case Update():
            new = tuple(map(_files, operation.new_fragments))
            return fragments, new, operation.fields_modified, operation.update_mode
        case Rewrite():
            return fragments, tuple(_files(one) for group in operation.groups for one in group.new_fragments)
        case CreateIndex():
            new_ids = tuple(one.uuid.uuid for one in footprint.ordinary(operation.new_indices))
            return tuple(one.name for one in operation.new_indices), new_ids
        case Project():
            return tuple((one.id, one.name, one.logical_type, one.nullable) for one in operation.schema)
        case Opaque():
            return operation
    return operation.to_proto().SerializeToString(deterministic=True)


def _files(fragment: DataFragment) -> tuple[str, ...]:
    return tuple(one.path for one in fragment.files)
