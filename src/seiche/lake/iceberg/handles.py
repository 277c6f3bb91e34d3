"""Iceberg tables of a lake, as a user holds them: the same handles as for Lance tables, as far as PyIceberg goes."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from seiche.core.given import names, wrong
from seiche.errors import InvalidInput, SeicheError
from seiche.lake.engines.iceberg_answers import unwrapped
from seiche.lake.handles import LakeTable, TransactionTable
from seiche.lake.iceberg.condition_text import EVERYTHING, condition
from seiche.lake.iceberg.merging import IcebergMerge
from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.iceberg.reading import changing, check_writable_version, files_of, reading
from seiche.lake.iceberg.sources import as_arrow
from seiche.lake.iceberg.table import IcebergTable, at_state
from seiche.lake.objects.keys import name_of
from seiche.lake.objects.names import Name, text
from seiche.table.change import Prepare, Result
from seiche.table.data.assigning import with_assigned

if TYPE_CHECKING:
    import lance
    import pyarrow as pa
    from pyiceberg.schema import Schema

    from seiche.lake.engines.iceberg_table import EngineTable

__all__ = ["IcebergLakeTable", "IcebergTransactionTable"]

_COLUMNS = 'Give columns: on="id", or on=["day", "id"].'
# How often and how long a verb is tried: taken by every table, whatever its format.
_BOUNDS = ("attempts", "timeout")
# What to do where there is no such verb.
_INSTEAD = {
    "compact": "To write it anew, `overwrite` it with its own rows.",
    "reorder": "To write it anew, `overwrite` it with its own rows, sorted.",
    "create_index": "Iceberg has no indices; a Lance table has.",
    "optimize_indices": "Iceberg has no indices; a Lance table has.",
    "add_columns": "Use `to_iceberg().update_schema()`.",
    "alter_columns": "Use `to_iceberg().update_schema()`.",
    "drop_columns": "Use `to_iceberg().update_schema()`.",
}


class _Shown:
    """What there is to see of an Iceberg table, wherever one stands."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...

    @property
    def metadata(self) -> Metadata:
        """PyIceberg's `TableMetadata`, at the version that the lake's handle is at or as the transaction sees it."""
        return self._looked().metadata

    def _check_version(self) -> None:
        check_writable_version(self.name, self.metadata.format_version)

    @property
    def metadata_location(self) -> str:
        """The address of the current metadata file; inside a transaction of the one that it found, and empty for a
        table that it makes.
        """
        return self._looked().metadata_location

    def to_lance(self) -> "lance.LanceDataset":
        """Refused: it is an Iceberg table."""
        _refuse(self.name, "to_lance", "Use `to_iceberg()`.")

    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        _refuse(self.name, verb, _INSTEAD.get(verb, "Use `to_iceberg()`."))

    @abstractmethod
    def _looked(self) -> IcebergTable: ...


class IcebergTransactionTable(_Shown, TransactionTable):
    """An Iceberg table inside a transaction: reads see what the transaction did, and nobody else does yet."""

    @property
    def schema(self) -> "pa.Schema":
        """The columns, as an Arrow schema."""
        found: pa.Schema = self.to_iceberg().schema().as_arrow()
        return found

    def to_iceberg(self) -> "EngineTable":
        """The table as PyIceberg has it; what is committed there becomes part of the transaction."""
        with unwrapped():
            return self._transaction.iceberg_catalog().load_table(self._name())

    def to_arrow(self, *, columns: Sequence[str] | None = None, filter: str | None = None) -> "pa.Table":
        """Rows as the transaction sees them; `filter` is a condition as PyIceberg understands it."""
        where = self._condition(EVERYTHING if filter is None else filter)
        if isinstance(columns, str):  # each of its letters could be a column
            raise InvalidInput(f"columns cannot be the text {columns!r}", remedy=f"Give a list: columns=[{columns!r}].")
        # Gone through once: what comes from a generator is not there a second time.
        wanted = None if columns is None else names(columns, "columns", 'Give a list: columns=["id"].')
        _check_columns(self._looked(), wanted or ())
        with reading(self.name):
            return _rows(self.to_iceberg(), wanted, where)

    def count_rows(self, filter: str | None = None) -> int:
        """How many rows the transaction sees, or such as match `filter`, a condition as PyIceberg understands it."""
        where = self._condition(EVERYTHING if filter is None else filter)
        with reading(self.name):
            return _count(self.to_iceberg(), where)

    def append(self, data: Any, **options: Any) -> Result:
        """Add rows; without any the table stays as it is."""
        self._check_version()
        rows = self._taken("append", data, options)
        return self._changed("append", rows.num_rows, lambda table: table.append(rows) if rows.num_rows else None)

    def overwrite(
        self,
        data: Any,
        schema: "pa.Schema | None" = None,
        config: Mapping[str, str] | None = None,
        *,
        where: str = EVERYTHING,
        **options: Any,
    ) -> Result:
        """Replace the rows that match `where`, or all. The schema stays: `to_iceberg().update_schema()` changes it."""
        if schema is not None or config is not None:
            _refuse(self.name, "overwrite with another schema", "Use `to_iceberg().update_schema()` before it.")
        self._check_version()
        rows, chosen = self._taken("overwrite", data, options), self._condition(where)
        return self._changed("overwrite", rows.num_rows, lambda table: table.overwrite(rows, chosen))

    def delete(self, predicate: str, **options: Any) -> Result:
        """Remove the rows that match a condition, as PyIceberg understands it; `"true"` removes all."""
        _check_options(self.name, "delete", options)
        self._check_version()
        chosen = self._condition(predicate)
        return self._changed("delete", None, lambda table: table.delete(chosen))

    def update(self, set: Mapping[str, str], where: str | None = None, **options: Any) -> Result:  # noqa: A002
        """Give columns of the rows that match other values, by SQL expressions as on Lance tables; `where` is a
        condition as PyIceberg understands it. The rows that match are held in memory.
        """
        _check_options(self.name, "update", options)
        self._check_version()
        given: object = set
        if not isinstance(given, Mapping):
            raise wrong("what is set", given, 'Give SQL by column: {"left": "left - 1"}.')
        chosen = self._condition(EVERYTHING if where is None else where)
        rows = self._matching(chosen)
        changed = with_assigned(rows, set)
        if not rows.num_rows:
            return Result("update", self._edit.row.table_version, changed=False)
        return self._changed("update", rows.num_rows, lambda table: table.overwrite(changed, chosen))

    def merge(self, data: Any, on: str | Sequence[str], **options: Any) -> IcebergMerge:  # type: ignore[override]
        """Begin an upsert by key: `when_matched_update_all` and `when_not_matched_insert_all` are what there is."""
        _check_options(self.name, "merge", options)
        self._check_version()
        schema = self.schema
        rows = as_arrow(data, schema, whole=False)
        keys = _keys(on)
        _check_keys(self.name, keys, rows, schema.names)

        def merged(update: bool, insert: bool, **_: Any) -> Result:
            from seiche.lake.iceberg.upserting import upsert

            full, taken = as_arrow(rows, schema), rows.column_names if update else ()
            return self._changed("merge", None, lambda table: upsert(table, full, keys, update=taken, insert=insert))

        return IcebergMerge(self.name, merged)

    def _taken(self, verb: str, data: Any, options: Mapping[str, Any]) -> "pa.Table":
        _check_options(self.name, verb, options)
        return as_arrow(data, self.schema)

    def _condition(self, given: str) -> Any:
        """A condition that this table's columns can be asked."""
        from pyiceberg.expressions.visitors import bind

        found = condition(given)
        try:
            bind(self._looked().metadata.schema(), found, case_sensitive=True)
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"{self.name}: {given!r} cannot be asked of its columns: {error}",
                remedy="Compare columns that there are with values of their types.",
                table=self.name,
            ) from error
        return found

    def _matching(self, chosen: Any) -> "pa.Table":
        from seiche.lake.iceberg.conditions import matching

        with reading(self.name), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return matching(self.to_iceberg(), chosen)

    def _changed(self, verb: str, rows: int | None, do: Callable[[Any], Any]) -> Result:
        self._transaction.check_running()
        self.check_writable()
        # The next thread builds on what this one leaves.
        with self._transaction.alone(self.id), self._transaction.answering(self.id):
            return self._statement_of(verb, rows, do)

    def _statement_of(self, verb: str, rows: int | None, do: Callable[[Any], Any]) -> Result:
        from seiche.lake.iceberg.hidden_rows import hidden_in, with_deletes

        table = self.to_iceberg()
        before = table.metadata
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Delete operation did not match any records")
            with changing(self.name, verb), unwrapped(), files_of(self.name):
                partly = with_deletes(table) if verb == "delete" and rows is None else []
                done = do(table)
        after = table.metadata
        added = {one.snapshot_id for one in after.snapshots} - {one.snapshot_id for one in before.snapshots}
        version = self._edit.row.table_version
        if not added:
            return Result(verb, version, changed=False)
        notes: dict[str, object] = {"snapshot": after.current_snapshot_id}
        if hasattr(done, "rows_updated"):
            notes |= {"updated": done.rows_updated, "inserted": done.rows_inserted}
            rows = done.rows_updated + done.rows_inserted
        counted = [one.summary for one in after.snapshots if one.snapshot_id in added and one.summary is not None]
        files = sum(int(one["added-data-files"] or 0) for one in counted)
        size = sum(int(one["added-files-size"] or 0) for one in counted)
        if rows is None:
            rows = sum(int(one["deleted-records"] or 0) - int(one["added-records"] or 0) for one in counted)
            if partly is None:
                notes["counted"] = "with rows that were deleted by value before"
            with suppress(SeicheError), reading(self.name):  # it is done, whether or not its rows can be counted
                rows -= hidden_in(partly or (), before, table)
        return Result(verb, version + 1, rows=max(0, rows), files=files, bytes=size, notes=notes)

    def _name(self) -> Name:
        return name_of(self._edit.key or b"")

    def _looked(self) -> IcebergTable:
        return self._transaction.iceberg(self._name())


class IcebergLakeTable(_Shown, LakeTable):
    """An Iceberg table of a lake. Every verb is a transaction of its own."""

    _kind = ("iceberg", True)

    def to_lance(self) -> "lance.LanceDataset":
        """Refused: it is an Iceberg table."""
        self._known()
        return super().to_lance()

    def to_iceberg(self) -> "EngineTable":
        """The table as PyIceberg has it; its commits go through the lake, each as a transaction of its own."""
        with unwrapped():
            return self._lake.iceberg_catalog().load_table(self._name)

    def append(self, data: Any, **options: Any) -> Result:
        """Add rows. When others append meanwhile, both are there; the data is written once."""
        self._check_version()
        rows = as_arrow(data, self.schema)
        return self._once(lambda table, rest: table.append(rows, **rest), options)

    def overwrite(self, data: Any, *args: Any, **options: Any) -> Result:
        """Replace the rows that match `where=`, or all."""
        self._check_version()
        rows = as_arrow(data, self.schema)
        return self._once(lambda table, rest: table.overwrite(rows, *args, **rest), options)

    def delete(self, predicate: str, **options: Any) -> Result:
        """Remove the rows that match a condition, as PyIceberg understands it; `"true"` removes all."""
        return self._once(lambda table, rest: table.delete(predicate, **rest), options)

    def update(self, set: Mapping[str, str], where: str | None = None, **options: Any) -> Result:  # noqa: A002
        """Give columns of the rows that match other values, by SQL expressions."""
        return self._once(lambda table, rest: table.update(set, where, **rest), options)

    def merge(self, data: Any, on: str | Sequence[str], **options: Any) -> IcebergMerge:  # type: ignore[override]
        """Begin an upsert by key: `when_matched_update_all` and `when_not_matched_insert_all` are what there is."""
        self._check_version()
        rows, keys = as_arrow(data, self.schema, whole=False), _keys(on)
        _check_options(self.name, "merge", options)

        def merged(update: bool, insert: bool, **bounds: Any) -> Result:
            return self._once(lambda table, _: table.merge(rows, keys).chosen(update, insert), bounds)

        return IcebergMerge(self.name, merged)

    def _past(self) -> NoReturn:
        self._known()
        remedy = "`lake.log()` tells when it changed; its own snapshots are in `to_iceberg().snapshots()`."
        _refuse(self.name, "history of versions", remedy)

    def _check_version(self) -> None:
        self._known()
        super()._check_version()

    def _once(
        self, do: Callable[[IcebergTransactionTable, Mapping[str, Any]], Result], options: Mapping[str, Any]
    ) -> Result:
        rest = {name: value for name, value in options.items() if name not in _BOUNDS}

        def once(table: TransactionTable) -> Result:
            if not isinstance(table, IcebergTransactionTable):
                raise self._other_kind(table._edit.row)
            return do(table, rest)

        return self._alone(once, attempts=options.get("attempts"), timeout=options.get("timeout"))

    def _looked(self) -> IcebergTable:
        with self._lake.reading():
            return at_state(self._lake.state(), self._name)


def _rows(table: "EngineTable", columns: Sequence[str] | None, where: Any) -> "pa.Table":
    from seiche.lake.iceberg.asking import needs_rows
    from seiche.lake.iceberg.conditions import matching

    # Without any column PyIceberg would not say how many rows there are.
    read = [one.name for one in table.schema().fields[:1]] if columns is not None and not columns else columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if needs_rows(table.schema(), where):
            found = matching(table, where, read or ())
        else:
            found = table.scan(row_filter=where, selected_fields=tuple(read) if read else ("*",)).to_arrow()
    return found if columns is None else found.select(_outermost(table.schema(), columns))


def _outermost(schema: "Schema", names: Sequence[str]) -> list[str]:
    """The columns that these names are of, or of something inside of, in their order: PyIceberg gives the table's."""
    found = dict[str, None]()
    for name in names:
        number = schema.find_field(name).field_id
        while (parent := schema._lazy_id_to_parent.get(number)) is not None:
            number = parent
        found[schema.find_field(number).name] = None
    return list(found)


def _count(table: "EngineTable", where: Any) -> int:
    from seiche.lake.iceberg.asking import needs_rows

    if needs_rows(table.schema(), where):
        return int(_rows(table, None, where).num_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(table.scan(row_filter=where).count())


def _check_columns(table: IcebergTable, names: Sequence[str]) -> None:
    """Refuse columns that there are not; a field inside of a column is named with dots."""
    schema = table.metadata.schema()
    try:
        schema.select(*names)
    except ValueError as error:
        there = ", ".join(one.name for one in schema.fields)
        raise InvalidInput(f"{text(table.name)}: {error}", remedy=f"It has {there}.", table=text(table.name)) from error


def _keys(on: str | Sequence[str]) -> list[str]:
    keys = list(names(on, "the key of a merge", _COLUMNS))
    if not keys or len(set(keys)) < len(keys):
        raise InvalidInput(f"the key {keys!r} must be one or more different columns", remedy=_COLUMNS)
    return keys


def _check_keys(table: str, keys: Sequence[str], rows: "pa.Table", known: Sequence[str]) -> None:
    """Refuse what rows cannot be found by."""
    for key in keys:
        if key not in known:
            there = ", ".join(known)
            raise InvalidInput(f"{table} has no column {key!r} to merge by", remedy=f"It has {there}.", table=table)
        if key not in rows.column_names:
            raise InvalidInput(
                f"{table}: the rows that are to be merged by {key!r} do not have it", remedy="Give it.", table=table
            )
        if rows[key].null_count:
            raise InvalidInput(
                f"{table}: {key!r} is null in some of the rows that are to be merged by it, and null equals nothing",
                remedy="Append such rows, or leave them out.",
                table=table,
            )


def _check_options(table: str, verb: str, options: Mapping[str, Any]) -> None:
    given = sorted(name for name, value in options.items() if value is not None and name not in _BOUNDS)
    if given:
        _refuse(table, f"{verb} with {', '.join(given)}", "Leave it out, or use `to_iceberg()`.")


def _refuse(table: str, what: str, remedy: str) -> NoReturn:
    raise InvalidInput(f"{table} is an Iceberg table, for which there is no {what}", remedy=remedy, table=table)
