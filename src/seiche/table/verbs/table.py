"""All verbs of a table together."""

from seiche.table.verbs.rows import RowVerbs

__all__ = ["TableVerbs"]


class TableVerbs(RowVerbs):
    """Everything that can be done to a table, by itself or inside a transaction of a lake."""
