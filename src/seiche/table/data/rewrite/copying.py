"""Rows that are read to be written again as they are."""

from collections.abc import Iterator

import pyarrow as pa

from seiche.table.data.moving import stored_form
from seiche.table.data.scanning import batches, quoted, rows_that_fit, scanner
from seiche.table.snapshot import Snapshot

__all__ = ["has_dictionaries", "stored_batch", "stored_rows"]


def stored_rows(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """All rows in their order, in the form in which they are written."""
    scan = scanner(
        snapshot.dataset,
        columns={name: quoted(name) for name in snapshot.schema.names},
        what="the copy",
        batch_size=rows_that_fit(snapshot.manifest.fragments),
        blob_handling="all_binary",
    )
    return (stored_batch(batch, snapshot.schema) for batch in batches(scan, what="the copy"))


def stored_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as they were read, in the form in which they are written."""
    return pa.RecordBatch.from_arrays([stored_form(batch.column(one.name), one) for one in schema], schema=schema)


def has_dictionaries(schema: pa.Schema) -> bool:
    """Whether a column, or something inside of one, is encoded with a dictionary."""
    return any(_has_dictionary(kind) for kind in schema.types)


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    inside = (kind.field(number).type for number in range(kind.num_fields))
    return bool(pa.types.is_dictionary(kind)) or any(map(_has_dictionary, inside))
