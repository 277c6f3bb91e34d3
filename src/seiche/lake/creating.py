"""The beginning of a table in a lake."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seiche.core.runtime import Runtime
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.root import millis
from seiche.table.build import empty
from seiche.table.change import Change
from seiche.table.format.manifest import Manifest
from seiche.table.format.schema import metadata_from_arrow, writable_fields
from seiche.table.operations import Overwrite

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["creation", "location"]

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def location(name: Name, table_id: str) -> str:
    """Where a new table lives: readable, and never a place where a table has been before.

    The id makes it unique. The name is decoration: it does not change when the table is renamed.
    """
    words = [_UNSAFE.sub("_", part)[:40] for part in name]
    return f"tables/{'/'.join([*words[:-1], f'{words[-1]}-{table_id}'])}.lance"


def creation(
    name: Name,
    schema: "pa.Schema",
    runtime: Runtime,
    *,
    properties: Mapping[str, str],
    stable_row_ids: bool,
) -> tuple[TableRow, Manifest, Change]:
    """The row of a new table, what stands before its first version, and the change that makes that version."""
    table_id = str(runtime.uuid())
    row = TableRow(
        id=table_id,
        location=location(name, table_id),
        properties=dict(properties),
        created_at_millis=millis(runtime.clock.now()),
    )
    change = Change(Overwrite(schema=tuple(writable_fields(schema)), schema_metadata=metadata_from_arrow(schema)))
    return row, empty(stable_row_ids=stable_row_ids), change
