"""Adding columns: new files beside the old ones, and a schema that knows them."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from seiche.errors import InvalidInput
from seiche.table.change import Change, forget
from seiche.table.data.columns.new_files import NewFiles, Part, require_columns_apart
from seiche.table.data.columns.sources import ColumnSource
from seiche.table.data.conform import conform
from seiche.table.format.deletions import rows_left
from seiche.table.format.fields import max_field_id
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, Field
from seiche.table.format.schema import check_names, to_arrow, writable_fields
from seiche.table.operations import Merge
from seiche.table.preparing.schema import check_name
from seiche.table.snapshot import Snapshot

__all__ = ["AddingColumns", "AddingNulls", "merged", "new_fields"]


class AddingColumns:
    """Prepares new columns with values. Of fragments that nobody touched meanwhile, the files are written once."""

    def __init__(self, source: ColumnSource) -> None:
        self._source = source
        self._files = NewFiles()

    def forget(self) -> None:
        """Write the values anew, if they can be had again."""
        self._files = NewFiles()
        forget(self._source)

    def __call__(self, snapshot: Snapshot) -> Change | None:
        manifest = snapshot.manifest
        require_columns_apart(manifest.header)
        schema = self._source.schema(snapshot)
        check_new_columns(schema, snapshot.schema)
        if not schema.names:
            return None
        fields = new_fields(schema, manifest)
        if self._source.reads_columns:
            self._files.depend_on(manifest.header.fields)

        # As the table will have the columns: of a vector, for example, Lance does not know that no item may be null.
        made = conform(schema, to_arrow(fields))

        def values(fragment: DataFragment) -> Iterator[Part]:
            for offsets, columns in self._source.values(snapshot, fragment):
                yield offsets, made.batch(pa.RecordBatch.from_arrays(list(columns), schema=schema)).columns

        fragments = manifest.fragments.decoded()
        files = self._files.write(
            snapshot, fragments, fields, made.schema, values, self._source.key, parallel=self._source.parallel
        )
        operation = merged(manifest, files, [*manifest.header.fields, *fields], nullable=_all_nullable(schema))
        return _change(operation, manifest, files, schema.names)


class AddingNulls:
    """Prepares new columns that are null everywhere: nothing is written for them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, snapshot: Snapshot) -> Change | None:
        manifest = snapshot.manifest
        check_new_columns(self._schema, snapshot.schema)
        strict = next((one.name for one in self._schema if not one.nullable), None)
        if strict is not None and len(manifest.fragments):
            raise InvalidInput(
                f"column {strict!r} must not be null, and has no values for the rows that there are",
                remedy="Give values, or let it be null.",
                column=strict,
            )
        if not self._schema.names:
            return None
        if len(manifest.fragments):
            require_columns_apart(manifest.header)
        fields = [*manifest.header.fields, *new_fields(self._schema, manifest)]
        return _change(merged(manifest, {}, fields, nullable=strict is None), manifest, {}, self._schema.names)


def check_new_columns(schema: pa.Schema, table: pa.Schema) -> None:
    """`InvalidInput` if a name is given twice, taken, or none."""
    check_names(schema)
    seen = set(table.names)
    for name in schema.names:
        check_name(name)
        if name in seen:
            raise InvalidInput(
                f"there is a column {name!r} already" if name in table.names else f"column {name!r} is given twice",
                remedy="Choose another name, or drop or replace the column that is there.",
                column=name,
            )
        seen.add(name)


def new_fields(schema: pa.Schema, manifest: Manifest) -> list[Field]:
    """Fields for columns that come into a table, with ids that no column of it ever had."""
    version = manifest.header.data_format.version
    return writable_fields(schema, first_id=max_field_id(manifest) + 1, data_version=version or "2.0")


def merged(
    manifest: Manifest, files: dict[int, tuple[DataFile, ...]], fields: Sequence[Field], *, nullable: bool
) -> Merge:
    """All fragments with the new files beside the old ones, under the new schema."""
    fragments = []
    for fragment in manifest.fragments:
        made = DataFragment()
        made.CopyFrom(fragment)
        made.files.extend(files.get(fragment.id, ()))
        fragments.append(made)
    metadata = dict(manifest.header.schema_metadata)
    return Merge(tuple(fragments), tuple(fields), metadata, preserves_nullability=nullable)


def _change(
    operation: Merge, manifest: Manifest, files: dict[int, tuple[DataFile, ...]], names: Sequence[str]
) -> Change:
    written = [file for each in files.values() for file in each]
    return Change(
        operation,
        rows=sum(map(rows_left, manifest.fragments)),
        files=len(written),
        bytes=sum(file.file_size_bytes for file in written),
        notes={"columns": ", ".join(names)},
    )


def _all_nullable(schema: pa.Schema) -> bool:
    return all(field.nullable for field in schema)
