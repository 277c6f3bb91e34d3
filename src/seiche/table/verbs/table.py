"""All verbs of a table together."""

from seiche.table.verbs.columns import ColumnVerbs
from seiche.table.verbs.compaction import CompactionVerbs
from seiche.table.verbs.indices import IndexVerbs
from seiche.table.verbs.rows import RowVerbs
from seiche.table.verbs.settings import SettingVerbs

__all__ = ["TableVerbs"]


class TableVerbs(RowVerbs, ColumnVerbs, CompactionVerbs, IndexVerbs, SettingVerbs):
    """Everything that can be done to a table, by itself or inside a transaction of a lake."""
