"""Updates of Iceberg metadata, each looked at by its guard before PyIceberg applies it.

A guard is named after what the update is about. It returns the update as it is, another in its place, or `None` if
there is nothing to do; and raises `ValueError` where PyIceberg would let something through that breaks the table.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.table.metadata import TableMetadataUtil
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

from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.iceberg.soundness import (
    GREATEST,
    check_column,
    check_ids,
    check_paths,
    check_properties,
    check_snapshot,
    check_statistics,
    check_transform,
)

__all__ = ["NO_ID", "Applying"]

# Of a partition spec, of a field of one, or of a sort order, that is sent without an id.
NO_ID: Final = -1


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
        check_ids("schema", schema.schema_id, *_numbers(schema.as_struct().model_dump()))
        for column in schema._lazy_id_to_field.values():
            check_column(column)
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
        check_ids("partition spec", spec.spec_id, *(one.field_id for one in spec.fields))
        for own in ([one.name or None for one in spec.fields], [one.field_id for one in spec.fields]):
            if None in own or len({*own}) < len(own):
                raise ValueError("each field of a partition spec needs a name and an id of its own")
        for one in spec.fields:
            check_transform(one)
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
        check_ids("sort order", given.order_id)
        for one in given.fields:
            check_transform(one)
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
        check_snapshot(snapshot, metadata)
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
        if first < 0 or added < 0 or first + added > GREATEST:
            raise ValueError(f"snapshot {snapshot.snapshot_id} has {added} added-rows from {first} on, in 64 bits")
        if first > (getattr(self.metadata, "next_row_id", None) or 0):
            self.metadata = self.metadata.model_copy(update={"next_row_id": first})

    def reference(self, update: Any) -> Any:
        if update.ref_name == MAIN_BRANCH and update.type != SnapshotRefType.BRANCH:
            raise ValueError(f"{MAIN_BRANCH} is a branch and cannot become a tag")
        if not update.ref_name:
            raise ValueError("a branch or tag needs a name")
        check_ids("reference", update.min_snapshots_to_keep or 0)
        if max(update.max_ref_age_ms or 0, update.max_snapshot_age_ms or 0) > GREATEST:
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
        check_statistics(update.statistics if isinstance(update, SetStatisticsUpdate) else update.partition_statistics)
        return update

    def properties(self, update: Any) -> Any:
        if not self.created:
            check_paths(update.updates, self.metadata.location)
        check_properties(update.updates)
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
