"""The columns and properties of a table as a version of the lake has them, to be compared with another version's."""

from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import newest_manifest

__all__ = ["columns_of", "properties_of"]


def columns_of(table: TableRow, state: State) -> object:
    """A value that is equal for two versions exactly if the table has the same columns and metadata of columns in both.

    `None` for a table that is not the lake's own: which columns it has is no part of a version of the lake.
    """
    if table.is_own("lance"):
        header = newest_manifest(state.store, table, state.manifests).header
        fields = tuple(one.SerializeToString(deterministic=True) for one in header.fields)
        return fields, dict(header.schema_metadata)
    if table.is_own("iceberg"):
        from seiche.lake.iceberg.metadata import load

        return load(state, table).schema().model_dump_json()
    return None


def properties_of(table: TableRow, state: State) -> object:
    """Equal for two versions exactly if the properties of the table are the same; Iceberg's stand in its metadata."""
    if table.is_own("iceberg"):
        from seiche.lake.iceberg.metadata import load

        return dict(table.properties), dict(load(state, table).properties)
    return dict(table.properties)
