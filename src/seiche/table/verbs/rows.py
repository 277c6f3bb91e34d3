"""The verbs about rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from seiche.table.change import Result
from seiche.table.engines import engine_for
from seiche.table.verbs.base import Verbs
from seiche.table.verbs.merge import MergeBuilder

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RowVerbs"]


class RowVerbs(Verbs):
    """`append`, `overwrite`, `delete`, `update` and `merge`.

    All raise `InvalidInput` before anything is written if what they were given cannot be right, `RetryableConflict`
    when other writers were in the way for all `attempts` or until `timeout` seconds had passed, and
    `IncompatibleConflict` when trying again may mean something else than was meant. Nothing is visible unless they
    return.

    `data` is an Arrow table, record batches, a reader, an iterator of batches, a pandas or Polars data frame, or
    dictionaries: one for each row, in a list or one by one from a generator, or one with a list of values for each
    column. A named tuple or an object of a dataclass may stand for the dictionary of a row. Another table, and whatever
    else has Arrow's interface for streams or arrays, is taken as well; a data frame of Spark is written by its workers.
    What comes in batches or one by one is written as it comes: memory does not grow with the number of rows. Blobs are
    given as bytes.
    """

    def append(
        self,
        data: Any,
        *,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Add rows. Columns that may be null can be left out; types are cast where nothing can be lost.

        The rows are written once: when other writers come first, the same data files are committed after them. Without
        a single row there is nothing to do.
        """
        from seiche.table.data.append import Appending
        from seiche.table.data.write import Limits

        limits = Limits.of(max_rows_per_file, max_bytes_per_file)
        elsewhere = engine_for(data)
        prepare = Appending(data, limits) if elsewhere is None else elsewhere.appending(data, limits)
        return self._run("append", prepare, attempts=attempts, timeout=timeout)

    def overwrite(
        self,
        data: Any,
        schema: "pa.Schema | None" = None,
        config: Mapping[str, str] | None = None,
        *,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Replace all rows, and the schema by `schema` or else that of the data. Indices go; earlier versions stay.

        The table keeps its configuration, over which `config` is laid, its metadata, and all counters.
        """
        from seiche.table.data.append import Overwriting
        from seiche.table.data.write import Limits

        limits = Limits.of(max_rows_per_file, max_bytes_per_file)
        elsewhere = engine_for(data)
        make = Overwriting if elsewhere is None else elsewhere.overwriting
        prepare = make(data, schema, config, limits)
        return self._run("overwrite", prepare, attempts=attempts, timeout=timeout)

    def delete(self, predicate: str, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Remove the rows for which the SQL condition is true; `"true"` removes all."""
        from seiche.table.data.delete import Deleting

        return self._run("delete", Deleting(predicate), attempts=attempts, timeout=timeout)

    def update(
        self,
        set: Mapping[str, str],  # noqa: A002 - the word for it
        where: str | None = None,
        *,
        mode: Literal["rows", "columns"] | None = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Set columns to SQL expressions over the old values, in the rows for which `where` is true, or in all.

        `mode="rows"` writes the changed rows anew, `"columns"` the changed columns of each fragment that has such a
        row; without it the one is chosen that seems to write less. `notes["mode"]` of the result says which it was.
        """
        from seiche.table.data.update import Updating
        from seiche.table.data.write import Limits

        prepare = Updating(set, where, mode, Limits.of(max_rows_per_file, max_bytes_per_file))
        return self._run("update", prepare, attempts=attempts, timeout=timeout)

    def merge(
        self,
        data: Any,
        on: str | Sequence[str],
        *,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
    ) -> MergeBuilder:
        """Begin to merge rows by key: say with the builder what shall happen to which, then `execute()`.

        table.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
        """
        return MergeBuilder(self._run, data, on, (max_rows_per_file, max_bytes_per_file))
