"""The columns of a table as a version of the lake has them, to be compared with those of another version."""

from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import newest_manifest

__all__ = ["columns_of"]


def columns_of(table: TableRow, state: State) -> object:
    """Equal for two versions exactly if what the lake says about the table's columns is the same, with their metadata.

    What a table that is not the lake's own has for columns, the lake does not say.
    """
    if table.is_own("lance"):
        header = newest_manifest(state.store, table, state.manifests).header
        fields = tuple(one.SerializeToString(deterministic=True) for one in header.fields)
        return fields, dict(header.schema_metadata)
    if table.is_own("iceberg"):
        from seiche.lake.iceberg.metadata import load

        return load(state, table).schema().model_dump_json()
    return None
