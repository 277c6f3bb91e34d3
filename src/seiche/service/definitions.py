"""Definitions of tables that come over the wire: renames, properties, and tables that are to be made."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from seiche.errors import InvalidInput
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.work import Work
from seiche.lake.creating import creation, location
from seiche.lake.handles import TransactionTable
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import Name, parts
from seiche.lake.transaction import Transaction
from seiche.service.changes import TableDefinition
from seiche.service.common_pb2 import Table
from seiche.service.refusals import refused
from seiche.service.targets import Found

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DESCRIPTION", "apply", "name_in", "read"]

# Where the description of a table stands among its properties.
DESCRIPTION = "description"


def read(data: bytes) -> TableDefinition:
    """The definition in the bytes of a `Table` message."""
    try:
        message = Table.FromString(data)
    except DecodeError as error:
        raise refused(f"the definition cannot be read: {error}", "TABLE_INTENT_INVALID_PAYLOAD") from error
    return TableDefinition(
        id=message.resource_id.id,
        account=message.resource_id.account_id,
        name=message.display_name,
        namespace=message.namespace_id.id,
        description=message.description,
        schema_json=message.schema_json,
        properties=dict(message.properties),
        encoded=data,
    )


def name_in(definition: TableDefinition, found: Found) -> Name:
    """The name that the definition gives to the table."""
    return _name(definition, found.name)


def apply(definition: TableDefinition, transaction: Transaction, found: Found | None) -> None:
    """Make the table what the definition says, as part of the transaction: its place and its properties.

    If it is there already it has the name of the definition by now (`name_in`).
    """
    properties = dict(definition.properties)
    if definition.description:
        properties[DESCRIPTION] = definition.description
    if found is None:
        _create(definition, transaction, properties)
        return
    name = name_in(definition, found)
    if definition.schema_json:
        _check_columns(definition, transaction.table(name).schema)
    before = _properties(transaction, name, found)
    changed: dict[str, str | None] = {key: value for key, value in properties.items() if before.get(key) != value}
    changed |= dict.fromkeys(before.keys() - properties.keys())
    if changed:
        transaction.set_properties(name, changed)


def _properties(transaction: Transaction, name: Name, found: Found) -> Mapping[str, str]:
    """Those that the table has. Those of an Iceberg table stand in its metadata."""
    if found.row.format != "iceberg":
        return found.row.properties
    properties: Mapping[str, str] = transaction.iceberg(name).metadata.properties
    return properties


def _name(definition: TableDefinition, before: Name) -> Name:
    namespace = parts(definition.namespace, what="namespace") if definition.namespace else before[:-1]
    return parts((*namespace, definition.name or before[-1]), what="table")


def _create(definition: TableDefinition, transaction: Transaction, properties: dict[str, str]) -> None:
    if not definition.name or not definition.namespace:
        raise refused("a new table needs a name and a namespace", "TABLE_INTENT_INVALID_PAYLOAD")
    full = _name(definition, ())
    transaction.check_free(full)
    row, base, change = creation(
        full, _schema(definition), transaction.runtime, properties=properties, stable_row_ids=False
    )
    # Under the id that was reserved, so that whoever asked for it finds the table by it.
    row = replace(row, id=definition.id, location=location(full, definition.id))
    transaction.edits[row.id] = TableEdit(row=row, key=table_key(full), work=Work.begin(base))
    transaction.names[table_key(full)] = row.id
    TransactionTable(transaction, row.id).apply(change)


def _check_columns(definition: TableDefinition, there: "pa.Schema") -> None:
    """Refuse other columns than the table has: they would not be changed, and said to be."""
    given = _schema(definition)
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import assign_fresh_schema_ids

    try:
        wanted, has = (Catalog._convert_schema_if_needed(one) for one in (given, there))
        same = assign_fresh_schema_ids(wanted).as_struct() == assign_fresh_schema_ids(has).as_struct()
    except Exception:  # noqa: BLE001 - the table has a type that Iceberg has not, of which PyIceberg says so in many ways
        same = False
    if not same:
        raise refused(
            f"{definition.name}: schema_json has other columns than the table, and a definition does not change them",
            "TABLE_INTENT_INVALID_PAYLOAD",
            "Leave schema_json out. Columns are changed by an operation, or by metadata of Iceberg, as payload.",
        )


def _schema(definition: TableDefinition) -> "pa.Schema":
    try:
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyiceberg.schema import Schema
    except ImportError as error:
        raise InvalidInput(
            "tables are made from Iceberg schemas, which needs the package pyiceberg",
            remedy='Install it with pip install "seiche[iceberg]".',
        ) from error
    try:
        return schema_to_pyarrow(Schema.model_validate_json(definition.schema_json), include_field_ids=False)
    except Exception as error:
        # PyIceberg has errors of its own, and stumbles over what is none of its types.
        raise refused(
            f"{'.'.join(filter(None, (definition.namespace, definition.name)))}: schema_json is not an Iceberg schema",
            "TABLE_INTENT_INVALID_PAYLOAD",
        ) from error
