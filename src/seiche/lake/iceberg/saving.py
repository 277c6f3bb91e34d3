"""Handing what a transaction did to an Iceberg table to another process."""

import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pyiceberg.table.update import TableRequirement, TableUpdate

from seiche.lake.commit.edits import TableEdit
from seiche.lake.iceberg.edit import IcebergEdit
from seiche.lake.iceberg.registering import moved_in, read_at
from seiche.lake.iceberg.statements import repeat
from seiche.lake.iceberg.work import IcebergWork, Step
from seiche.lake.saved_pb2 import SavedEdit

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["restore", "save"]

_REQUIREMENTS: TypeAdapter[Any] = TypeAdapter(tuple[TableRequirement, ...])
_UPDATES: TypeAdapter[Any] = TypeAdapter(tuple[TableUpdate, ...])


def save(edit: TableEdit, saved: SavedEdit) -> None:
    """Add the steps to what is saved of the edit."""
    work = edit.iceberg if isinstance(edit, IcebergEdit) else None
    if work is None:
        return
    saved.iceberg_origin = work.origin
    for step in work.steps:
        saved.iceberg.add(requirements=_text(step.requirements), updates=_text(step.updates), exclusive=step.exclusive)


def restore(transaction: "Transaction", edit: TableEdit, saved: SavedEdit) -> None:
    """Do again what was saved. Nothing is written: the files are there."""
    steps = [
        Step(_REQUIREMENTS.validate_json(one.requirements), _UPDATES.validate_json(one.updates), one.exclusive)
        for one in saved.iceberg
    ]
    if saved.iceberg_origin:
        moved = moved_in(read_at(saved.iceberg_origin, transaction.state), edit.row.location, transaction.state)
        edit = IcebergEdit.of(edit, IcebergWork(None, moved, origin=saved.iceberg_origin))
    repeat(transaction, edit, steps)


def _text(models: tuple[Any, ...]) -> str:
    return json.dumps([json.loads(one.model_dump_json()) for one in models])
