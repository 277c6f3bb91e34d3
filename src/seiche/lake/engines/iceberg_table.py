"""A PyIceberg table whose commits go through the lake, or into a transaction of it."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import isnan
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import And, BooleanExpression, EqualTo, IsNaN, IsNull, Or, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io import pyarrow as pyarrow_io
from pyiceberg.table import ALWAYS_TRUE, Table
from pyiceberg.table import Transaction as PyIcebergTransaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from seiche.lake.commit.reads import Aspect
from seiche.lake.iceberg.asking import ask_what_is_meant
from seiche.lake.iceberg.columns import unfit
from seiche.lake.iceberg.conditions import agree_on_nulls, explicit
from seiche.lake.iceberg.dictionaries import read_values
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.hidden_rows import keep_hidden
from seiche.lake.iceberg.no_rows import read_nothing
from seiche.lake.iceberg.null_lists import keep_nulls
from seiche.lake.iceberg.partitions import keep_rows
from seiche.lake.iceberg.past_columns import know_past_columns
from seiche.lake.iceberg.updates import previewed
from seiche.store.base import Store

__all__ = ["EngineFileIO", "EngineTable", "EngineTransaction"]

keep_nulls()
keep_rows()
agree_on_nulls()
ask_what_is_meant()
keep_hidden()
read_nothing()
know_past_columns()
read_values()


class EngineFileIO(LakeFileIO):
    """Remembers which files were written through it, and which version the lake had at the time."""

    def __init__(self, store: Store, version: Callable[[], int], note: Callable[[str], None]) -> None:
        self.written: dict[str, int] = {}

        def noted(path: str) -> None:
            self.written[path] = version()
            note(path)

        super().__init__(store, noted)


# What each word of a PyIceberg table shows of it. Snapshots tell how many rows there are, and when they changed. Not
# `metadata`: PyIceberg itself goes by it, also where rows are only added.
_SHOWN: Final[Mapping[str, Aspect]] = {
    **dict.fromkeys(("scan", "incremental_append_scan", "inspect"), Aspect.CONTENT),
    **dict.fromkeys(("current_snapshot", "snapshots", "snapshot_by_id", "snapshot_by_name"), Aspect.CONTENT),
    **dict.fromkeys(("snapshot_as_of_timestamp", "history", "refs", "last_sequence_number"), Aspect.CONTENT),
    **dict.fromkeys(("to_polars", "to_daft", "to_bodo", "__datafusion_table_provider__"), Aspect.CONTENT),
    **dict.fromkeys(("schema", "schemas"), Aspect.COLUMNS),
    "properties": Aspect.PROPERTIES,
}


class EngineTable(Table):
    """As PyIceberg's, except that inside a transaction reading counts as reading, nothing is ever deleted, and a
    condition means the same to a scan and to a delete.
    """

    # Set while a commit is on its way that was worked out from the table's rows.
    exclusive = False
    on_look: Callable[[Aspect], None] = staticmethod(lambda _aspect: None)

    def __getattribute__(self, name: str) -> Any:
        if name in _SHOWN:
            self.on_look(_SHOWN[name])
        return super().__getattribute__(name)

    def transaction(self) -> "EngineTransaction":
        return EngineTransaction(self)

    def scan(self, row_filter: str | BooleanExpression = ALWAYS_TRUE, *args: Any, **options: Any) -> Any:
        return super().scan(explicit(row_filter), *args, **options)

    def refresh(self) -> "EngineTable":
        # Not the files' side of it: what was written through this handle must stay known.
        fresh = self.catalog.load_table(self._identifier)
        self._check_uuid(self.metadata, fresh.metadata)
        self.metadata = fresh.metadata
        self.metadata_location = fresh.metadata_location
        return self


class EngineTransaction(PyIcebergTransaction):
    """As PyIceberg's, except that an upsert and an overwrite are known to depend on the rows that they found, even if
    they only add some, and a delete to have looked for rows, even if it found none.
    """

    _table: EngineTable

    def __init__(self, table: EngineTable, autocommit: bool = False) -> None:
        super().__init__(table, autocommit)
        self._exclusive = False
        self._columns = table.metadata.schema()
        # The metadata as it would be, behind the table's own and the updates that it was made of.
        self._made: tuple[TableMetadata, object, TableMetadata] = (table.metadata, (), table.metadata)

    @property
    def table_metadata(self) -> TableMetadata:
        """As it would be. PyIceberg asks dozens of times in a statement, and would apply all updates each time, to a
        copy of all that the table ever was.
        """
        base, updates, made = self._made
        if base is not self._table.metadata or updates is not self._updates:
            base, updates = self._table.metadata, self._updates
            made = previewed(base, self._updates)
            self._made = base, updates, made
        return made

    def upsert(self, *args: Any, **options: Any) -> Any:
        self._exclusive = True
        self._table.on_look(Aspect.CONTENT)
        return super().upsert(*args, **options)

    def overwrite(self, *args: Any, **options: Any) -> Any:
        self._exclusive = True
        return super().overwrite(*args, **options)

    def dynamic_partition_overwrite(self, *args: Any, **options: Any) -> Any:
        self._exclusive = True
        return super().dynamic_partition_overwrite(*args, **options)

    def delete(self, delete_filter: str | BooleanExpression, *args: Any, **options: Any) -> Any:
        self._table.on_look(Aspect.CONTENT)
        return super().delete(explicit(delete_filter), *args, **options)

    def swap(self, removed: Sequence[Any], written: Sequence[Any], new: pa.Table) -> None:
        """Put data files in the place of others and add rows: what was worked out from the rows that the table has."""
        self._exclusive = True
        if not removed:
            self.append(new)
            return
        added = pyarrow_io._dataframe_to_data_files(self.table_metadata, new, self._table.io) if new.num_rows else ()
        with self.update_snapshot().overwrite() as swap:
            for one in removed:
                swap.delete_data_file(one)
            for one in (*written, *added):
                swap.append_data_file(one)

    def _rebuild_snapshot_updates(self) -> None:
        """Before the same files are sent again: not as if they were written by columns that cannot show them."""
        why = unfit(self._columns, self._table.metadata.schema())
        if why:
            raise ValidationException(f"the rows were written when the table had other columns: {why}. Load it again.")
        super()._rebuild_snapshot_updates()

    def commit_transaction(self) -> Table:
        self._table.exclusive = self._exclusive
        try:
            return super().commit_transaction()
        finally:
            self._table.exclusive = False

    def _build_partition_predicate(
        self, partition_records: set[Record], partition_fields: list[str]
    ) -> BooleanExpression:
        """As PyIceberg's, which has no word for a partition of not a number: nothing in it could be written anew."""
        odd = {one for one in partition_records if any(_is_nan(one[at]) for at in range(len(partition_fields)))}
        found = super()._build_partition_predicate(partition_records - odd, partition_fields)
        for one in odd:
            parts = (_is(Reference(name), one[at]) for at, name in enumerate(partition_fields))
            found = Or(found, reduce(And, parts))
        return found


def _is(column: Reference, value: Any) -> BooleanExpression:
    if value is None:
        return IsNull(term=column)
    return IsNaN(term=column) if _is_nan(value) else EqualTo(term=column, value=literal(value))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)
