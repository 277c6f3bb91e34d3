"""All verbs of a table together."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seiche.table.verbs.columns import ColumnVerbs
from seiche.table.verbs.compaction import CompactionVerbs
from seiche.table.verbs.indices import IndexVerbs
from seiche.table.verbs.rows import RowVerbs
from seiche.table.verbs.settings import SettingVerbs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableVerbs"]


class TableVerbs(RowVerbs, ColumnVerbs, CompactionVerbs, IndexVerbs, SettingVerbs):
    """Everything that can be done to a table, by itself or inside a transaction of a lake."""

    @abstractmethod
    def to_arrow(self, *, columns: Sequence[str] | None = None, filter: str | None = None) -> "pa.Table":
        """Rows as an Arrow table: all of them, or the `columns` and the rows that match `filter` (SQL)."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows, for whatever takes Arrow: `polars.DataFrame(table)`, `duckdb.sql("FROM table")`, a verb of another
        table.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)
