"""The beginning of an Iceberg table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssignUUIDUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    UpgradeFormatVersionUpdate,
)

from seiche.core.given import an_address, wrong
from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput
from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.iceberg.places import address, new_location, table_id_in
from seiche.lake.iceberg.work import Step
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.root import millis
from seiche.store.base import Store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["creation_step", "new_metadata", "new_row"]


def new_metadata(
    name: Name,
    schema: "Schema | pa.Schema",
    store: Store,
    runtime: Runtime,
    *,
    partition_spec: Any = None,
    sort_order: Any = None,
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> Metadata:
    """The metadata of a table that does not exist yet, in a place that is found for it; nothing is written.

    `InvalidInput` if schema, partitions or order do not go together, or `location` is none that the lake gave out.
    """
    if partition_spec is not None and not isinstance(partition_spec, PartitionSpec):
        raise wrong("partition_spec", partition_spec, "Give a `PartitionSpec` of PyIceberg.")
    if sort_order is not None and not isinstance(sort_order, SortOrder):
        raise wrong("sort_order", sort_order, "Give a `SortOrder` of PyIceberg.")
    if location is not None:
        location = an_address(location, "Leave the location out: the lake chooses one.")
    else:
        location = address(store, new_location(name, str(runtime.uuid())))
    _, table_id = table_id_in(store, location)
    given = {str(key): str(value) for key, value in (properties or {}).items()}
    try:
        version = int(given.get(TableProperties.FORMAT_VERSION, TableProperties.DEFAULT_FORMAT_VERSION))
        wanted = Catalog._convert_schema_if_needed(schema, cast(Any, version))
        if wanted is not schema:  # columns of Arrow have no ids; partitions and orders speak of those they will have
            wanted = assign_fresh_schema_ids(wanted)
        made: Metadata = new_table_metadata(
            schema=wanted,
            partition_spec=partition_spec or UNPARTITIONED_PARTITION_SPEC,
            sort_order=sort_order or UNSORTED_SORT_ORDER,
            location=location.rstrip("/"),
            properties=dict(given),
            table_uuid=UUID(table_id),
        )
        return _with_defaults(made, wanted)
    except (TypeError, ValueError, NotImplementedError, ValidationError, UnsupportedPyArrowTypeException) as error:
        raise InvalidInput(
            f"no Iceberg table can be made so: {error}",
            remedy="Give an Arrow or an Iceberg schema, of types that Iceberg has.",
        ) from error


def _with_defaults(made: Metadata, wanted: Schema) -> Metadata:
    """The metadata with the defaults of columns, which PyIceberg drops when it gives out ids."""
    given, schema = wanted.model_dump(), made.schema().model_dump()
    if not _keep_defaults(given, schema, made.format_version):
        return made
    return made.model_copy(update={"schemas": [Schema.model_validate(schema)]})


def _keep_defaults(given: Any, made: Any, version: int) -> bool:
    found = False
    if not isinstance(given, dict):
        return found
    for old, new in zip(given.get("fields", ()), made.get("fields", ()), strict=True):
        defaults = {name: old[name] for name in ("initial-default", "write-default") if old.get(name) is not None}
        if "initial-default" in defaults and version < 3:
            raise ValueError(f"column {old['name']!r} has an initial default, which there is from format version 3 on")
        new.update(defaults)
        found = _keep_defaults(old["type"], new["type"], version) or bool(defaults) or found
    for part in ("element", "key", "value"):
        found = (part in given and _keep_defaults(given[part], made[part], version)) or found
    return found


def creation_step(metadata: Metadata) -> Step:
    """The commit that makes a table of this metadata, as an engine would send it."""
    updates = (
        AssignUUIDUpdate(uuid=metadata.table_uuid),
        UpgradeFormatVersionUpdate.model_validate({"format-version": metadata.format_version}),
        AddSchemaUpdate(schema=metadata.schema()),
        SetCurrentSchemaUpdate(),
        AddPartitionSpecUpdate(spec=metadata.spec()),
        SetDefaultSpecUpdate(),
        AddSortOrderUpdate.model_validate({"sort-order": metadata.sort_order()}),
        SetDefaultSortOrderUpdate(),
        SetLocationUpdate(location=metadata.location),
        SetPropertiesUpdate(updates=dict(metadata.properties)),
    )
    return Step((AssertCreate(),), updates)


def new_row(metadata: Metadata, store: Store, runtime: Runtime) -> TableRow:
    """The row of a table that is about to be made; its place and id are in the metadata's location."""
    place, table_id = table_id_in(store, metadata.location)
    return TableRow(id=table_id, format="iceberg", location=place, created_at_millis=millis(runtime.clock.now()))
