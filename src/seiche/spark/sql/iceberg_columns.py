"""The columns of an Iceberg table, for ALTER TABLE: PyIceberg changes them, as part of the transaction."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

from seiche.errors import InvalidInput
from seiche.lake.engines.iceberg_answers import unwrapped

if TYPE_CHECKING:
    from pyiceberg.table.update.schema import UpdateSchema

    from seiche.lake.handles import TransactionTable

__all__ = ["IcebergColumns"]


class IcebergColumns:
    """The verbs that a Lance table has for its columns. All of them raise `InvalidInput` for what Iceberg forbids."""

    def __init__(self, table: "TransactionTable") -> None:
        self._table = table
        self._names = table.schema.names

    def add_columns(self, columns: pa.Schema) -> None:
        """More columns, of types that Iceberg has, null in all rows that are there."""
        with self._changing() as update:
            for field in self._in_iceberg(columns):
                update.add_column(field.name, field.field_type, field.doc)

    def drop_columns(self, columns: Sequence[str]) -> None:
        """Fewer columns."""
        if not set(self._names) - set(columns):
            raise InvalidInput("a table cannot be without columns", remedy="Keep at least one.")
        with self._changing() as update:
            for column in columns:
                update.delete_column(column)

    def replace_columns(self, columns: pa.Schema) -> None:
        """Other columns under names that there are: of what stands there nothing is left."""
        with self._changing() as update:
            for column in columns.names:
                update.delete_column(column)
            for field in self._in_iceberg(columns):
                update.add_column(field.name, field.field_type, field.doc)

    def rename_columns(self, names: Mapping[str, str]) -> None:
        """Other names, by those that there are."""
        with self._changing() as update:
            for old, new in names.items():
                update.rename_column(old, new)

    def alter_columns(self, change: Mapping[str, Any]) -> None:
        """Another type (`data_type`), or with or without nulls (`nullable`), for the column at `path`."""
        column, kind, nullable = change["path"], change.get("data_type"), change.get("nullable")
        with self._changing() as update:
            wanted = None if kind is None else self._in_iceberg(pa.schema([(column, kind)]))[0].field_type
            update.update_column(column, wanted, None if nullable is None else not nullable)

    @contextmanager
    def _changing(self) -> "Iterator[UpdateSchema]":
        try:
            with unwrapped(), self._table.to_iceberg().update_schema() as update:
                yield update
        except (TypeError, ValueError, NotImplementedError, ValidationError, UnsupportedPyArrowTypeException) as error:
            raise InvalidInput(
                f"the columns of {self._table.name}, an Iceberg table, cannot become so: {error}",
                remedy="Types can become wider, and NOT NULL can go; for everything else add another column.",
                table=self._table.name,
            ) from error

    def _in_iceberg(self, columns: pa.Schema) -> Any:
        version = self._table.to_iceberg().metadata.format_version
        return Catalog._convert_schema_if_needed(columns, version).fields
