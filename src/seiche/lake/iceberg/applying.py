"""Updates of Iceberg metadata, each looked at by its guard before PyIceberg applies it.

A guard is named after what the update is about. It returns the update as it is, another in its place, or `None` if
there is nothing to do; and raises `ValueError` where PyIceberg would let something through that breaks the table.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    UpgradeFormatVersionUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)

from seiche.lake.iceberg.metadata import Metadata, last_number

__all__ = ["NO_ID", "Applying", "check_paths"]

# Of a partition spec, of a field of one, or of a sort order, that is sent without an id.
NO_ID: Final = -1

# Where an engine would put files if a table said so. Those of a table of the lake lie in its own place, where the
# lake's clean-up, export and checks find them.
_PATHS: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)

# Properties that name code by which engines choose where files go: whoever writes to the table would run it.
_CODE: Final = ("write.location-provider.impl", "write.py-location-provider.impl")

# Properties that are read as numbers at commits, by engines or here, which trip over anything else.
_NUMBERS: Final = (
    "history.expire.max-ref-age-ms",
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
    "write.metadata.previous-versions-max",
)

# What columns are called in files that do not know their ids; whoever reads a table begins with it.
_MAPPING: Final = "schema.name-mapping.default"

# What a default of a column is here.
_VALUES: Final[dict[type[Any], type[Any]]] = {
    BooleanType: bool,
    DoubleType: float,
    FloatType: float,
    StringType: str,
    UUIDType: UUID,
}

# Of numbers in metadata, and of ids of columns and the like: Java reads no greater ones. Some ids below that are those
# of columns that every table has.
_GREATEST: Final = (1 << 63) - 1
_GREATEST_ID: Final = (1 << 31) - 201
_MOST_DIGITS: Final = 38

# How far a sequence number may be from the last one: it is the next, and the greatest would leave none for others.
_MOST_NUMBERS: Final = 1 << 32
# The end of the calendar in milliseconds. No later time could be told, and Java adds nothing that is older than the
# last snapshot.
_LAST_TIME: Final = 253_402_300_799_999


@dataclass(slots=True)
class Applying:
    """Metadata while updates are applied to it one by one. An id of -1 means the last that was added, and one that was
    given to a schema or sort order with the updates means that, whatever id it has got.
    """

    metadata: Metadata
    created: bool
    context: _TableMetadataUpdateContext = field(default_factory=_TableMetadataUpdateContext)
    added: list[int] = field(default_factory=list)
    schema_id: int | None = None
    spec_id: int | None = None
    # The ids of schemas that were added, by those that they were sent with.
    schema_ids: dict[int | None, int] = field(default_factory=dict)
    # Likewise of sort orders, the last of which is that of -1.
    order_ids: dict[int, int] = field(default_factory=dict)
    # The partition specs that were added.
    specs: list[Any] = field(default_factory=list)

    def apply(self, update: Any) -> None:
        """Apply an update, or what its guard makes of it; `ValueError` if it would break the table."""
        guard = _GUARDS.get(type(update))
        checked = update if guard is None else guard(self, update)
        if checked is not None:
            self.metadata = _apply_table_update(checked, self.metadata, self.context)

    def schema(self, update: Any) -> Any:
        same = [one for one in self.metadata.schemas if one == update.schema_ and _ids(one) == _ids(update.schema_)]
        schema = update.schema_
        if same:
            self.schema_id = self.schema_ids[schema.schema_id] = same[0].schema_id
            return None
        (number, times), *_ = Counter(_numbers(schema.as_struct().model_dump())).most_common(1) or [(0, 0)]
        if times > 1:
            raise ValueError(f"the id {number} stands for {times} columns")
        _check_ids("schema", schema.schema_id, *_numbers(schema.as_struct().model_dump()))
        for column in schema._lazy_id_to_field.values():
            _check_column(column)
        taken = {one.schema_id for one in self.metadata.schemas}
        if schema.schema_id in taken:
            schema = schema.model_copy(update={"schema_id": max(taken) + 1})
        self.schema_id = self.schema_ids[update.schema_.schema_id] = schema.schema_id
        return AddSchemaUpdate(schema=schema)

    def current_schema(self, update: Any) -> Any:
        number = self.schema_ids.get(update.schema_id, update.schema_id)
        return SetCurrentSchemaUpdate.model_validate({"schema-id": _last(number, self.schema_id, "schema")})

    def spec(self, update: Any) -> Any:
        spec = self._numbered(update.spec)
        self.spec_id = spec.spec_id
        _check_ids("partition spec", spec.spec_id, *(one.field_id for one in spec.fields))
        for own in ([one.name or None for one in spec.fields], [one.field_id for one in spec.fields]):
            if None in own or len({*own}) < len(own):
                raise ValueError("each field of a partition spec needs a name and an id of its own")
        for one in spec.fields:
            _check_transform(one)
        self.specs.append(spec)
        return None if spec in self.metadata.partition_specs else AddPartitionSpecUpdate(spec=spec)

    def _numbered(self, spec: Any) -> Any:
        """The spec with ids in the place of `NO_ID`: those of the same spec or field before, or new ones."""
        specs = self.metadata.partition_specs
        known = {(one.source_id, str(one.transform)): one.field_id for each in specs for one in each.fields}
        last = max([999, self.metadata.last_partition_id or 0, *(one.field_id for one in spec.fields)])
        fields = []
        for place, one in enumerate(spec.fields):
            number = one.field_id
            if number == NO_ID and self.metadata.format_version == 1:  # where they are counted by place
                number = 1000 + place
            elif number == NO_ID:
                number = known.get((one.source_id, str(one.transform)), last + 1)
            last = max(last, number)
            fields.append(one.model_copy(update={"field_id": number}))
        same = [each.spec_id for each in specs if each.fields == tuple(fields)]
        fresh = max((each.spec_id for each in specs), default=-1) + 1
        own = spec.spec_id if spec.spec_id != NO_ID else [*same, fresh][0]
        return spec.model_copy(update={"spec_id": own, "fields": tuple(fields)})

    def default_spec(self, update: Any) -> Any:
        return SetDefaultSpecUpdate.model_validate({"spec-id": _last(update.spec_id, self.spec_id, "partition spec")})

    def order(self, update: Any) -> Any:
        given, orders = update.sort_order, self.metadata.sort_orders
        if given.order_id != NO_ID and bool(given.order_id) != bool(given.fields):
            raise ValueError("0 is the id of the sort order without fields, and of no other")
        _check_ids("sort order", given.order_id)
        for one in given.fields:
            _check_transform(one)
        # Some clients give the same id to every order that they add.
        if given.order_id == NO_ID or any(one.order_id == given.order_id and one != given for one in orders):
            same = [one.order_id for one in orders if one.fields == given.fields]
            fresh = max((one.order_id for one in orders), default=0) + 1 if given.fields else 0
            given = given.model_copy(update={"order_id": [*same, fresh][0]})
        self.order_ids |= {update.sort_order.order_id: given.order_id, NO_ID: given.order_id}
        return None if given in orders else AddSortOrderUpdate.model_validate({"sort-order": given})

    def default_order(self, update: Any) -> Any:
        number = self.order_ids.get(update.sort_order_id, update.sort_order_id)
        return SetDefaultSortOrderUpdate.model_validate({"sort-order-id": _last(number, None, "sort order")})

    def snapshot(self, update: Any) -> Any:
        snapshot, metadata = update.snapshot, self.metadata
        number, last = snapshot.sequence_number or 0, last_number(metadata)
        if metadata.format_version >= 2 and number <= last:
            raise ValueError(
                f"snapshot {snapshot.snapshot_id} has sequence number {number}, and the table has had {last}"
            )
        if max(number, snapshot.timestamp_ms) > _GREATEST:
            raise ValueError(f"snapshot {snapshot.snapshot_id} has a sequence number or a time beyond 64 bits")
        if number - last > _MOST_NUMBERS:
            raise ValueError(
                f"snapshot {snapshot.snapshot_id} has sequence number {number}, far beyond {last}, the table's last one"
            )
        if snapshot.timestamp_ms > _LAST_TIME:
            raise ValueError(
                f"snapshot {snapshot.snapshot_id} has the time {snapshot.timestamp_ms}, which is not in milliseconds"
            )
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        for name in (name for name, value in summary.items() if not isinstance(value, str)):
            raise ValueError(f"summary of snapshot {snapshot.snapshot_id}: {name!r} is {summary[name]!r}, and no text")
        if metadata.format_version >= 3 and snapshot.added_rows is None:
            # PyIceberg would forget how many rows there were, and begin to count anew.
            raise ValueError(f"snapshot {snapshot.snapshot_id} does not say how many added-rows it has")
        if metadata.format_version >= 3:
            self._check_rows(snapshot)
        schema_id = self.schema_ids.get(snapshot.schema_id, snapshot.schema_id)
        if schema_id is not None and metadata.schema_by_id(schema_id) is None:
            raise ValueError(f"snapshot {snapshot.snapshot_id} was written with schema {schema_id}, not there")
        self.added.append(snapshot.snapshot_id)
        if schema_id == snapshot.schema_id:
            return update
        return AddSnapshotUpdate(snapshot=snapshot.model_copy(update={"schema_id": schema_id}))

    def _check_rows(self, snapshot: Any) -> None:
        """Refuse rows that would be numbered as others are, or cannot be; who leaves numbers out does not bring them
        into use again: PyIceberg only counts the rows.
        """
        first, added = snapshot.first_row_id or 0, snapshot.added_rows
        if first < 0 or added < 0 or first + added > _GREATEST:
            raise ValueError(f"snapshot {snapshot.snapshot_id} has {added} added-rows from {first} on, in 64 bits")
        if first > (getattr(self.metadata, "next_row_id", None) or 0):
            self.metadata = self.metadata.model_copy(update={"next_row_id": first})

    def reference(self, update: Any) -> Any:
        if update.ref_name == MAIN_BRANCH and update.type != SnapshotRefType.BRANCH:
            raise ValueError(f"{MAIN_BRANCH} is a branch and cannot become a tag")
        if not update.ref_name:
            raise ValueError("a branch or tag needs a name")
        _check_ids("reference", update.min_snapshots_to_keep or 0)
        if max(update.max_ref_age_ms or 0, update.max_snapshot_age_ms or 0) > _GREATEST:
            raise ValueError(f"{update.ref_name} has an age beyond 64 bits")
        there = self.metadata.refs.get(update.ref_name)
        if there is None or update.snapshot_id not in self.added or there.snapshot_id == update.snapshot_id:
            return update
        # New rows say nothing of how long a branch is wanted, nor how much of it: PyIceberg and DuckDB leave that out.
        ages = ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms")
        said = any(getattr(update, name) is not None for name in ages)
        return update if said else update.model_copy(update={name: getattr(there, name) for name in ages})

    def removed_snapshots(self, update: Any) -> Any:
        for name, ref in self.metadata.refs.items():
            if ref.snapshot_id in update.snapshot_ids:
                raise ValueError(f"snapshot {ref.snapshot_id} is what {name} stands for, and cannot be removed")
        there = {one.snapshot_id for one in self.metadata.snapshots}
        for number in (one for one in update.snapshot_ids if one not in there):  # PyIceberg would tell of all that are
            raise ValueError(f"there is no snapshot {number}, or not any more")
        return update if update.snapshot_ids else None  # PyIceberg also asks for it when nothing is to expire

    def removed_schemas(self, update: Any) -> Any:
        for snapshot in self.metadata.snapshots:
            if snapshot.schema_id in update.schema_ids:
                raise ValueError(f"schema {snapshot.schema_id} is that of snapshot {snapshot.snapshot_id}")
        return update

    def statistics(self, update: Any) -> Any:
        found = update.statistics if isinstance(update, SetStatisticsUpdate) else update.partition_statistics
        numbers = [found.snapshot_id, found.file_size_in_bytes, getattr(found, "file_footer_size_in_bytes", 0)]
        for one in getattr(found, "blob_metadata", ()):
            _check_ids("blob", *one.fields)
            numbers += [one.snapshot_id, one.sequence_number]
        if max(map(abs, numbers)) > _GREATEST:
            raise ValueError(f"the statistics of snapshot {found.snapshot_id} have a number beyond 64 bits")
        return update

    def properties(self, update: Any) -> Any:
        if not self.created:
            check_paths(update.updates, self.metadata.location)
        for name in _NUMBERS:
            if not _is_number(update.updates.get(name, "0")):
                raise ValueError(f"{name} has to be a whole number, not {update.updates[name]!r}")
        if not _is_mapping(update.updates.get(_MAPPING, "[]")):
            raise ValueError(f"{_MAPPING} is no mapping of names to columns, without which nobody could read the table")
        there = self.metadata.properties
        return update if any(there.get(name) != value for name, value in update.updates.items()) else None

    def removed_properties(self, update: Any) -> Any:
        left = [name for name in update.removals if name in self.metadata.properties]
        return RemovePropertiesUpdate(removals=left) if left else None

    def location(self, update: Any) -> Any:
        where = update.location.rstrip("/")
        if self.created:
            return SetLocationUpdate(location=where)
        if where != self.metadata.location.rstrip("/"):
            raise ValueError(f"the table stays at {self.metadata.location}: its place is the lake's to choose")
        return None

    def uuid(self, update: Any) -> Any:
        if not self.created and update.uuid != self.metadata.table_uuid:
            raise ValueError("a table keeps its uuid for life")
        return update

    def upgrade(self, update: Any) -> Any:
        if update.format_version != 3 or self.metadata.format_version >= 3:
            return update
        raised = self.metadata.model_copy(update={"format_version": 3, "next_row_id": 0})
        self.metadata = TableMetadataUtil._construct_without_validation(raised)
        self.context.add_update(update)
        return None


_GUARDS: Final[dict[type[Any], Callable[[Applying, Any], Any]]] = {
    AddSchemaUpdate: Applying.schema,
    SetCurrentSchemaUpdate: Applying.current_schema,
    AddPartitionSpecUpdate: Applying.spec,
    SetDefaultSpecUpdate: Applying.default_spec,
    AddSortOrderUpdate: Applying.order,
    SetDefaultSortOrderUpdate: Applying.default_order,
    AddSnapshotUpdate: Applying.snapshot,
    SetSnapshotRefUpdate: Applying.reference,
    RemoveSnapshotsUpdate: Applying.removed_snapshots,
    RemoveSchemasUpdate: Applying.removed_schemas,
    SetPartitionStatisticsUpdate: Applying.statistics,
    SetStatisticsUpdate: Applying.statistics,
    SetPropertiesUpdate: Applying.properties,
    RemovePropertiesUpdate: Applying.removed_properties,
    SetLocationUpdate: Applying.location,
    AssignUUIDUpdate: Applying.uuid,
    UpgradeFormatVersionUpdate: Applying.upgrade,
}


def check_paths(properties: Mapping[str, str], location: str) -> None:
    """Refuse properties that would have engines put files of the table anywhere but at its `location`.

    Of a new table when all is known about it: updates may come in any order.
    """
    for name in _PATHS:
        where = properties.get(name)
        inside = where is None or (f"{where}/".startswith(f"{location.rstrip('/')}/") and ".." not in where.split("/"))
        if not inside:
            raise ValueError(f"{name} would put files of the table outside of its place {location}")
    for name in _CODE:
        if name in properties:
            raise ValueError(f"{name} names code to choose where files go: those of the table stay at {location}")


def _check_ids(what: str, *numbers: int) -> None:
    for number in numbers:
        if abs(number) > _GREATEST_ID:
            raise ValueError(f"the {what} has the number {number}, beyond {_GREATEST_ID}")


def _check_column(column: NestedField) -> None:
    """Refuse a column to which no rows could ever be written."""
    kind = column.field_type
    if not column.name:
        raise ValueError(f"the column with the id {column.field_id} has no name")
    if isinstance(kind, FixedType) and len(kind) < 1:
        raise ValueError(f"column {column.name!r} has the type {kind}: values have one byte at least")
    if isinstance(kind, DecimalType) and not (0 <= kind.scale <= kind.precision <= _MOST_DIGITS and kind.precision):
        raise ValueError(f"column {column.name!r} has the type {kind}, and there are up to {_MOST_DIGITS} digits")
    for value in (column.initial_default, column.write_default):
        if value is not None and not _is_of(kind, value):
            raise ValueError(f"column {column.name!r} has a default of {value!r}, which is no {kind}")


def _is_of(kind: Any, value: Any) -> bool:
    """Whether the default of a column is a value of its type, as far as PyIceberg does not see to that."""
    if isinstance(kind, DecimalType):
        digits = value.as_tuple() if isinstance(value, Decimal) else None
        return digits is not None and digits.exponent == -kind.scale and len(digits.digits) <= kind.precision
    if isinstance(kind, IntegerType | LongType):
        return type(value) is int and kind.min <= value <= kind.max
    wanted = _VALUES.get(type(kind))
    return wanted is None or isinstance(value, wanted)


def _check_transform(one: Any) -> None:
    """Refuse buckets and widths that there are not."""
    made = one.transform
    number = made.num_buckets if isinstance(made, BucketTransform) else getattr(made, "width", 1)
    if not 0 < number <= _GREATEST_ID:
        raise ValueError(f"{made} has a number that is not between 1 and {_GREATEST_ID}")


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _is_mapping(text: str) -> bool:
    try:
        parse_mapping_from_json(text)
    except ValueError:
        return False
    return True


def _last(given: int, added: int | None, what: str) -> int:
    if given != -1:
        return given
    if added is None:
        raise ValueError(f"the last added {what} is to be used, and none was added")
    return added


def _numbers(kind: Any) -> Iterator[int]:
    """The ids of all fields in a type, as JSON has it."""
    if isinstance(kind, dict):
        for name in ("id", "element-id", "key-id", "value-id"):
            if name in kind:
                yield kind[name]
        for part in (*kind.get("fields", ()), *(kind.get(name) for name in ("type", "element", "key", "value"))):
            yield from _numbers(part)


def _ids(schema: Any) -> tuple[list[int], list[int]]:
    return sorted(schema.field_ids), sorted(schema.identifier_field_ids)
