"""Statistics of an Iceberg table by partition: counted from its manifests, in the file that the specification lays
down, so that engines plan with them.

Statistics that need every row to be read (distinct values) are for engines to make.
"""

import io
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import Table
from pyiceberg.table.inspect import InspectTable

from seiche.lake.iceberg.metadata import Metadata

__all__ = ["PROPERTY", "asks_for_statistics", "is_out_of_date", "statistics_file"]

# Set to `true`, a table has statistics made by the server after each change.
PROPERTY: Final = "seiche.partition-statistics"

# The columns after the partition and its spec: what PyIceberg calls them, the specification, its id and type.
_COUNTS: Final = (
    ("record_count", "data_record_count", 3, pa.int64()),
    ("file_count", "data_file_count", 4, pa.int32()),
    ("total_data_file_size_in_bytes", "total_data_file_size_in_bytes", 5, pa.int64()),
    ("position_delete_record_count", "position_delete_record_count", 6, pa.int64()),
    ("position_delete_file_count", "position_delete_file_count", 7, pa.int32()),
    ("equality_delete_record_count", "equality_delete_record_count", 8, pa.int64()),
    ("equality_delete_file_count", "equality_delete_file_count", 9, pa.int32()),
)
_OPTIONAL: Final = (
    ("total_record_count", 10, pa.int64()),
    ("last_updated_at", 11, pa.int64()),
    ("last_updated_snapshot_id", 12, pa.int64()),
)


def asks_for_statistics(metadata: Metadata) -> bool:
    """Whether the table wants them: by its property, or because somebody has made some for an earlier snapshot."""
    return bool(metadata.partition_statistics) or metadata.properties.get(PROPERTY, "").lower() == "true"


def is_out_of_date(metadata: Metadata) -> bool:
    """Whether the table wants statistics and has none for its current snapshot. Without partitions there are none."""
    current = metadata.current_snapshot_id
    if current is None or metadata.spec().is_unpartitioned() or not asks_for_statistics(metadata):
        return False
    return all(one.snapshot_id != current for one in metadata.partition_statistics)


def statistics_file(table: Table) -> bytes:
    """The file for the current snapshot of a table."""
    found = InspectTable(table).partitions()
    partition = found.schema.field("partition")
    columns = [found["partition"], found["spec_id"]]
    fields = [_field("partition", 1, partition.type), _field("spec_id", 2, pa.int32())]
    for theirs, name, number, kind in _COUNTS:
        columns.append(found[theirs].cast(kind))
        fields.append(_field(name, number, kind))
    times = found["last_updated_at"].cast(pa.int64())
    optional = [pa.nulls(found.num_rows, pa.int64()), times, found["last_updated_snapshot_id"]]
    for (name, number, kind), column in zip(_OPTIONAL, optional, strict=True):
        columns.append(column)
        fields.append(_field(name, number, kind, nullable=True))
    made = pa.Table.from_arrays([_plain(column) for column in columns], schema=pa.schema(fields))
    made = made.take(_order(_plain(found["partition"])))
    written = io.BytesIO()
    pq.write_table(made, written)
    return written.getvalue()


def _order(partitions: pa.StructArray) -> pa.Array:
    """The places of partitions in the order that the specification lays down: ascending, nulls first."""
    by: dict[str, pa.Array] = {}
    for number, part in enumerate(partitions.flatten()):
        by |= {f"{number} is there": part.is_valid(), f"{number}": part}
    return pc.sort_indices(pa.table(by), [(name, "ascending") for name in by])


def _field(name: str, number: int, kind: Any, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"PARQUET:field_id": str(number)})


def _plain(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
