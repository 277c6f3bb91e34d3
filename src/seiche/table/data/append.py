"""Append and overwrite: rows that do not depend on what the table holds."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from seiche.core.given import texts, wrong
from seiche.errors import InvalidInput, RetryableConflict
from seiche.table.change import Change
from seiche.table.data.conform import conform
from seiche.table.data.source import Rows, Source
from seiche.table.data.write import Limits, Written, write_rows
from seiche.table.format.manifest_pb2 import Field
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.format.schema import metadata_from_arrow, to_arrow, writable_fields
from seiche.table.operations import Append, Overwrite
from seiche.table.operations.context import Build
from seiche.table.operations.fields import check_fit
from seiche.table.snapshot import Snapshot

__all__ = ["Appending", "Overwriting", "still_fits"]


class Appending:
    """Prepares an Append. The rows are written once: after a conflict the same files are offered again."""

    def __init__(self, rows: Rows, limits: Limits) -> None:
        self._source = Source(rows)
        self._limits = limits
        self._written: Written | None = None
        self._header: Header | None = None

    def __call__(self, snapshot: Snapshot) -> Change | None:
        header = snapshot.manifest.header
        written = self._written
        if written is None or self._header is None or not still_fits(written, self._header, snapshot):
            written = self._written = self._write(snapshot)
            self._header = header
        if not written.fragments:
            return None
        return Change(Append(written.fragments), rows=written.rows, files=written.files, bytes=written.bytes)

    def forget(self) -> None:
        """Write the rows anew, if they can be read again."""
        self._written = None

    def _write(self, snapshot: Snapshot) -> Written:
        opened = self._source.open(snapshot.schema)
        if not opened.schema.names:
            return Written()  # an empty list, or a stream that ends before its first batch
        made = conform(opened.schema, snapshot.schema)
        batches = made.batches(opened.batches)
        return write_rows(
            snapshot.store, snapshot.manifest.header, made.schema, batches, self._limits, snapshot.runtime
        )


class Overwriting:
    """Prepares an Overwrite: other rows under their own schema, whose field ids begin at 0 again."""

    def __init__(self, rows: Rows, schema: pa.Schema | None, config: Mapping[str, str] | None, limits: Limits) -> None:
        self._source = Source(rows)
        if not isinstance(schema, pa.Schema | None):
            raise wrong("the schema of a table", schema, "Give an Arrow schema, or leave it out for that of the rows.")
        self._schema = schema
        self._config = texts(config, "config", "Give texts by name.")
        self._limits = limits
        self._written: tuple[str, Written, Sequence[Field], pa.Schema] | None = None

    def __call__(self, snapshot: Snapshot) -> Change:
        version = snapshot.manifest.header.data_format.version
        if self._written is None or self._written[0] != version:
            self._written = (version, *self._write(snapshot, version))
        _, written, fields, schema = self._written
        operation = Overwrite(
            written.fragments, tuple(fields), metadata_from_arrow(schema), config_upsert_values=self._config
        )
        return Change(operation, rows=written.rows, files=written.files, bytes=written.bytes)

    def forget(self) -> None:
        """Write the rows anew, if they can be read again."""
        self._written = None

    def _write(self, snapshot: Snapshot, version: str) -> tuple[Written, Sequence[Field], pa.Schema]:
        opened = self._source.open(self._schema)
        schema = opened.schema if self._schema is None else self._schema
        if len(schema) == 0:
            raise InvalidInput(
                "the rows do not say what columns the table shall have",
                remedy="Give `schema=`, or rows with at least one column.",
            )
        fields = writable_fields(schema, data_version=version) if version else writable_fields(schema)
        header = snapshot.manifest.copy_header()
        del header.fields[:]
        header.fields.extend(fields)
        # As the table will have the columns: of a vector, for example, Lance does not know that no item may be null.
        made = conform(opened.schema, to_arrow(fields)) if opened.schema.names else None
        if made is None:
            return Written(), fields, schema
        batches = made.batches(opened.batches)
        written = write_rows(snapshot.store, header, made.schema, batches, self._limits, snapshot.runtime)
        return written, fields, schema


def still_fits(written: Written, then: Header, snapshot: Snapshot) -> bool:
    """Whether files that were written for the one schema mean the same under that of the snapshot."""
    if then.data_format != snapshot.manifest.header.data_format:
        return False
    try:
        # Against the schema they were written for, by which ids are compared; and as if they had been written for this
        # one, which is what the commit will say of them.
        for schema in (then.fields, snapshot.manifest.header.fields):
            check_fit(written.fragments, snapshot.manifest, Build(snapshot.version, read_schema=schema))
    except (InvalidInput, RetryableConflict):
        return False
    return True
