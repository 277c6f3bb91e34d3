"""The verbs about columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seiche.table.change import Result
from seiche.table.preparing.schema import Dropping, Renaming
from seiche.table.verbs.base import Verbs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnVerbs"]


class ColumnVerbs(Verbs):
    """`add_columns`, `alter_columns`, `drop_columns`, `rename_columns` and `replace_column`.

    Whatever cannot be right about names and types is `InvalidInput`, before anything is written; so is a value that
    does not fit, whenever it is met, and nothing is visible then either.
    """

    def add_columns(
        self,
        columns: Any,
        *,
        on: str | Sequence[str] | None = None,
        read_columns: Sequence[str] | None = None,
        schema: "pa.Schema | None" = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Add columns, from one of:

        - SQL: `{"total": "price * amount"}`;
        - a function that makes a batch with the new columns of each batch of rows, or of their `read_columns`; `schema`
          says which columns if they cannot be seen from what it makes of the first;
        - rows in the order of the table's rows, one for each, in any form that `append` takes; read as they come;
        - rows to be joined `on` key columns; where the table has a key that they do not have, there are nulls;
        - an Arrow schema or field: the columns are null everywhere, and nothing is written.

        Rows in the table's order that no longer fit it, because others added some first, are `IncompatibleConflict`.
        """
        import pyarrow as pa

        from seiche.table.data.columns.add import AddingColumns, AddingNulls
        from seiche.table.data.columns.sources import column_source

        fields = [columns] if isinstance(columns, pa.Field) else columns
        if isinstance(fields, list) and fields and all(isinstance(one, pa.Field) for one in fields):
            fields = pa.schema(fields)
        if isinstance(fields, pa.Schema):
            return self._run("add_columns", AddingNulls(fields), attempts=attempts, timeout=timeout)
        source = column_source(columns, on=on, read_columns=read_columns, schema=schema)
        return self._run("add_columns", AddingColumns(source), attempts=attempts, timeout=timeout)

    def alter_columns(
        self, *alterations: Mapping[str, Any], attempts: int | None = None, timeout: float | None = None
    ) -> Result:
        """Change columns: each alteration has a `path`, and a new `name`, `nullable` or `data_type`.

        Names and nullability are a matter of the schema alone; a column that has nulls cannot be made to have none.
        Another type writes the column anew, and drops its indices; values that it cannot hold are `InvalidInput`.
        """
        from seiche.table.data.columns.alter import Alteration, Altering

        prepare = Altering([Alteration.of(one) for one in alterations])
        return self._run("alter_columns", prepare, attempts=attempts, timeout=timeout)

    def drop_columns(
        self, columns: str | Iterable[str], *, attempts: int | None = None, timeout: float | None = None
    ) -> Result:
        """Remove columns, or with dots in the name fields inside them. No file is touched; their indices go."""
        return self._run("drop_columns", Dropping(columns), attempts=attempts, timeout=timeout)

    def rename_columns(
        self, names: Mapping[str, str], *, attempts: int | None = None, timeout: float | None = None
    ) -> Result:
        """Give columns other names: `{"old": "new"}`. No file is touched, and their indices stay."""
        return self._run("rename_columns", Renaming(names), attempts=attempts, timeout=timeout)

    def replace_column(
        self,
        name: str,
        data: Any,
        fragments: Iterable[int] | None = None,
        *,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Give a column other values: one for each row that is not deleted, in the order of the table.

        With `fragments`, only for the rows of these. `data` is an array, or anything that `append` takes with this one
        column in it; it is read as it comes. The rows are those of the version at which the call begins: if others move
        them before it ends, that is an `IncompatibleConflict`; rows that they add keep their values.
        """
        from seiche.table.data.columns.replace import ReplacingColumn

        prepare = ReplacingColumn(name, data, fragments)
        return self._run("replace_column", prepare, attempts=attempts, timeout=timeout)
