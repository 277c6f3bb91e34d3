"""Partitions of columns that a table has no more.

Files keep the partitions that they were written into. PyIceberg looks for the type of such a partition among the
columns that the table has now; whatever would have named the file anew, to delete or change rows of it or of others,
failed. Older schemas have the column.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.types import NestedField

__all__ = ["know_past_columns"]


def know_past_columns() -> None:
    """From now on snapshots know the types of all partitions of their table, in this process."""
    found = _SnapshotProducer.schema
    if not hasattr(found, "__wrapped__"):
        _SnapshotProducer.schema = _with_sources(found)  # type: ignore[method-assign, assignment]


def _with_sources(look: Callable[[Any], Schema]) -> Callable[[Any], Schema]:
    @wraps(look)
    def looked(producer: Any) -> Schema:
        schema, metadata = look(producer), producer._transaction.table_metadata
        sources = {field.source_id for spec in metadata.partition_specs for field in spec.fields}
        gone = sources - schema._lazy_id_to_field.keys()
        if not gone:
            return schema
        past = {number: one for each in metadata.schemas for number, one in each._lazy_id_to_field.items()}
        # Nobody asks for them by name, and another column may have theirs by now.
        fields = (NestedField(one, f"dropped-{one}", past[one].field_type) for one in sorted(gone & past.keys()))
        return Schema(*schema.fields, *fields, schema_id=schema.schema_id)

    return looked
