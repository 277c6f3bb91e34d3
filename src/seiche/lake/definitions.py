"""What a transaction can define: namespaces, tables and views, of the lake's own and from elsewhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from seiche.core import given
from seiche.core.given import texts, wrong
from seiche.errors import AlreadyExists, InvalidInput, NotFound, SeicheError
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.reads import Aspect
from seiche.lake.commit.work import Work
from seiche.lake.objects import rows
from seiche.lake.objects.keys import children_of, namespace_key, table_key, tables_of
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import NamespaceRow, ViewRow
from seiche.lake.sight import Sight
from seiche.lake.statements import Statements

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.federated.tables import ForeignType
    from seiche.lake.handles import TransactionTable
    from seiche.lake.iceberg.table import IcebergTable
    from seiche.table.data.source import Rows

__all__ = ["Definitions"]

NameLike: TypeAlias = str | Sequence[str]

_ANOTHER = "Choose another name, or use what is there."
_OF_ICEBERG = frozenset({"location", "partition_spec", "sort_order"})
_QUERY = 'Give SQL: "SELECT ...".'
_PROPERTIES = ("properties", 'Give texts by name: {"owner": "me"}.')


class Definitions(Sight, Statements):
    """The statements of a transaction that make, change and remove what has a name."""

    def create_namespace(self, name: str | Sequence[str], properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace; the one around it must exist."""
        full = parts(name, what="namespace")
        with self.defining():
            self.check_parent(full[:-1])
            key = namespace_key(full)
            if self.row_behind(key, Aspect.IDENTITY) is not None:
                raise AlreadyExists(f"there is a namespace {text(full)} already", remedy=_ANOTHER, name=text(full))
            row = NamespaceRow(
                id=str(self.runtime.uuid()),
                properties=texts(properties, *_PROPERTIES),
                created_at_millis=self.now_millis(),
            )
            self.write_row(key, rows.encode(row))

    def alter_namespace(self, name: str | Sequence[str], properties: Mapping[str, str | None]) -> None:
        """Set properties of a namespace, or remove those given as `None`; what is so already is left as it is."""
        full = parts(name, what="namespace")
        with self.defining():
            found = self.namespace_named(full)
            _check_settings(properties)
            merged = {**found.properties, **properties}
            kept = {key: value for key, value in merged.items() if value is not None}
            if kept == found.properties:
                return
            key = namespace_key(full)
            # Once for each transaction, as for tables: so no counter is greater than the version of the lake it stands
            # in.
            counter = found.pointer_version if key in self.rows else found.pointer_version + 1
            self.write_row(key, rows.encode(replace(found, properties=kept, pointer_version=counter)))

    def drop_namespace(self, name: str | Sequence[str]) -> None:
        """Remove an empty namespace."""
        full = parts(name, what="namespace")
        with self.defining():
            self.namespace_named(full)
            inside = [*self.namespaces(full), *self.tables(full)]
            if inside:
                raise InvalidInput(
                    f"namespace {text(full)} is not empty: it has {text(inside[0])}"
                    + (f" and {len(inside) - 1} more" if len(inside) > 1 else ""),
                    remedy="Drop or move what is in it first.",
                    name=text(full),
                )
            self.reads.range(self.state, tables_of(full), structural=True)
            self.reads.range(self.state, children_of(full), structural=True)
            self.write_row(namespace_key(full), None)

    def create_table(
        self,
        name: str | Sequence[str],
        schema: "pa.Schema | Rows",
        *,
        format: str = "lance",
        properties: Mapping[str, str] | None = None,
        stable_row_ids: bool = False,
        **options: Any,
    ) -> "TransactionTable":
        """Make a table: an empty one with this `schema`, or one of rows, which then has their columns.

        An Iceberg table (`format="iceberg"`) takes an Arrow or an Iceberg schema, and as `options` PyIceberg's
        `partition_spec` and `sort_order`; a `location` only if the lake has given it out.
        """
        from seiche.lake.beginning import Beginning

        self.check_running()
        columns, data = Beginning.of(schema).take()
        made = self._empty_table(
            name, columns, format=format, properties=properties, stable_row_ids=stable_row_ids, **options
        )
        if data is not None:
            try:
                made.append(data)
            except BaseException:
                self.drop_table(name)
                raise
        return made

    def _empty_table(
        self,
        name: NameLike,
        schema: Any,
        *,
        format: str,
        properties: Mapping[str, str] | None,
        stable_row_ids: bool,
        **options: Any,
    ) -> "TransactionTable":
        from seiche.lake.creating import creation

        if format == "iceberg":
            from seiche.lake.iceberg import statements

            if unknown := sorted(options.keys() - _OF_ICEBERG):
                raise InvalidInput(
                    f"an Iceberg table cannot be made with {', '.join(unknown)}",
                    remedy=f"Leave it out; there are {', '.join(sorted(_OF_ICEBERG))}.",
                )
            statements.create(self, name, schema, properties=properties, **options)
            return self.table(name)
        if format != "lance":
            raise InvalidInput(f"there is no format {format!r} of tables", remedy='Use format="lance" or "iceberg".')
        if options:
            raise InvalidInput(
                f"a Lance table cannot be made with {', '.join(sorted(options))}",
                remedy="Leave it out; partition_spec, sort_order and location are for Iceberg tables.",
            )
        full = parts(name, what="table")
        self.check_free(full)
        said = texts(properties, *_PROPERTIES)
        row, base, change = creation(full, schema, self.runtime, properties=said, stable_row_ids=stable_row_ids)
        with self.alone(row.id):  # whoever finds the name finds the table with its columns
            self.enter(full, row, Work.begin(base))
            made = self.table(full)
            made.apply(change)
        return made

    def register_table(
        self,
        name: str | Sequence[str],
        location: str,
        type: "ForeignType" = "external",  # noqa: A002 - the word for it
        *,
        format: str = "lance",
        catalog: str | Mapping[str, str] | None = None,
        version: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> "TransactionTable":
        """Give a table that lies elsewhere a name in the lake.

        An `external` one can be read, at its newest version or always at `version`; a `federated` one written too. The
        lake promises less about these: a change of a federated table is committed to it just before the lake's root,
        once for each transaction, and can be seen before the rest; if the root is refused then, an
        `IncompatibleConflict` says so. What others commit there is no part of the lake's versions.

        An Iceberg table (`format="iceberg"`) is named by its metadata file, by its folder if its metadata files are
        numbered, or, with `catalog`, by its name in that catalog: one that PyIceberg's configuration knows by name, or
        the properties of one. `version` is a snapshot of it.
        """
        from seiche.lake.federated.tables import register

        self.check_running()
        register(self, name, location, type, format=format, catalog=catalog, version=version, properties=properties)
        return self.table(name)

    def drop_table(self, name: str | Sequence[str]) -> None:
        """Remove a table. Its files stay until the lake's clean-up finds that no kept version needs them."""
        self.check_running()
        full = parts(name, what="table")
        with self.defining(self.named(full).row.id):
            edit = self.named(full)
            _check_droppable(edit)
            self.edits[edit.row.id] = replace(edit, key=None, work=None)
            self.names[table_key(full)] = None

    def rename_table(self, name: str | Sequence[str], to: str | Sequence[str]) -> None:
        """Give a table another name, also in another namespace. It stays the same table."""
        self.rename_tables([(name, to)])

    def rename_tables(self, names: Iterable[tuple[str | Sequence[str], str | Sequence[str]]]) -> None:
        """Give several tables other names at once, old and new ones in pairs: so two of them can swap theirs."""
        self.check_running()
        pairs = [(parts(name, what="table"), parts(to, what="table")) for name, to in _pairs(names)]
        with self.defining(*{self.named(full).row.id for full, _ in pairs}):
            self._rename(pairs)

    def _rename(self, pairs: Sequence[tuple[Name, Name]]) -> None:
        renamed = [(self.named(full), target) for full, target in pairs]
        if len({edit.row.id for edit, _ in renamed}) < len(renamed):
            raise InvalidInput("a table is given several names at once", remedy="Name each table once.")
        before, edits = dict(self.names), dict(self.edits)
        # All leave their names before any takes one.
        self.names |= {table_key(full): None for full, target in pairs if full != target}
        try:
            for edit, target in renamed:
                self.check_free(target)
                self.edits[edit.row.id] = replace(edit, key=table_key(target))
                self.names[table_key(target)] = edit.row.id
        except SeicheError:
            self.names, self.edits = before, edits
            raise

    def set_properties(self, name: str | Sequence[str], properties: Mapping[str, str | None]) -> None:
        """Set properties of a table, or remove those given as `None`; what is so already is left as it is."""
        self.check_running()
        full = parts(name, what="table")
        with self.defining(self.named(full).row.id):
            edit = self.named(full)
            _check_settings(properties)
            if edit.row.format == "iceberg":
                from seiche.lake.iceberg import statements

                statements.set_properties(self, edit, properties)
            else:
                new = self.other_properties(edit, edit.shown.properties, properties)
                self.edits[edit.row.id] = replace(edit, properties={**edit.properties, **new})

    def create_view(
        self,
        name: str | Sequence[str],
        sql: str,
        *,
        dialect: str = "spark",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Make a view: a name for a query."""
        full = parts(name, what="view")
        query = given.text(sql, "the query of a view", _QUERY)
        if not query.strip():
            raise InvalidInput("the query of a view cannot be empty", remedy=_QUERY)
        with self.defining():
            self.check_free(full)
            row = ViewRow(
                id=str(self.runtime.uuid()),
                sql=query,
                dialect=given.text(dialect, "the dialect of a view", 'Give a dialect of SQL by name, such as "spark".'),
                properties=texts(properties, *_PROPERTIES),
                created_at_millis=self.now_millis(),
            )
            self.write_row(table_key(full), rows.encode(row))

    def drop_view(self, name: str | Sequence[str]) -> None:
        """Remove a view."""
        full = parts(name, what="view")
        with self.defining():
            value = self.row_behind(table_key(full), Aspect.IDENTITY)
            if value is None or rows.kind_of(value) is not ViewRow:
                raise NotFound(f"there is no view {text(full)}", name=text(full))
            self.write_row(table_key(full), None)

    def iceberg(self, name: str | Sequence[str]) -> "IcebergTable":
        """An Iceberg table as this transaction sees it: its metadata, and where the file is that it began from."""
        from seiche.lake.iceberg import statements

        self.check_running()
        return statements.look(self, name)

    def commit_iceberg(
        self,
        name: str | Sequence[str],
        requirements: Sequence[Any],
        updates: Sequence[Any],
        *,
        follow: bool = False,
        exclusive: bool = False,
        written: Mapping[str, int] | None = None,
    ) -> "IcebergTable":
        """Make a commit of an Iceberg engine part of the transaction; returns the table after it.

        `requirements` and `updates` are PyIceberg's models. Requirements are checked against what the transaction sees,
        and a `RetryableConflict` says which one does not hold; when the transaction is committed they are checked again
        if others have changed the table. With `assert-create` among them the table is made. With `follow`, an append
        that was built on an earlier state of the table is put on top of what the transaction sees. An `exclusive` one
        is never moved. `written` tells for files, by their path in the lake, which version the lake had when they were
        written, if that was before the transaction began.
        """
        from seiche.lake.iceberg import statements

        self.check_running()
        return statements.commit(self, name, requirements, updates, follow=follow, exclusive=exclusive, written=written)

    def register_iceberg(
        self, name: str | Sequence[str], metadata_location: str, *, overwrite: bool = False
    ) -> "IcebergTable":
        """Make a table of Iceberg metadata that exists. Files that it has outside of the lake stay there."""
        from seiche.lake.iceberg import statements

        self.check_running()
        metadata_location = given.an_address(metadata_location, "Give the full address of a .metadata.json file.")
        statements.register(self, name, metadata_location, overwrite=overwrite)
        return statements.look(self, name)

    def unregister_iceberg(self, name: str | Sequence[str]) -> "IcebergTable":
        """Give an Iceberg table of the lake up to another catalog, and return it as it was at last.

        Its files stay where they are, for ever: the lake's clean-up leaves them alone. A commit that comes between
        this and the end of the transaction is a conflict: what was returned is the last word of the lake about it.
        """
        from seiche.lake.iceberg import statements

        self.check_running()
        return statements.unregister(self, name)


def _check_settings(properties: Mapping[str, str | None]) -> None:
    """Texts by name, or `None` for what is to be removed."""
    if not isinstance(properties, Mapping):
        raise wrong(_PROPERTIES[0], properties, _PROPERTIES[1])
    texts({name: "" if value is None else value for name, value in properties.items()}, *_PROPERTIES)


def _check_droppable(edit: TableEdit) -> None:
    """`InvalidInput` if the transaction has changed a table that lies elsewhere: the table would stay, and the change,
    which was told as done, would be made nowhere.
    """
    if edit.is_planned_last and edit.worked:
        raise InvalidInput(
            f"the transaction changes {edit.name}, a federated table, and cannot drop its name as well",
            remedy="Do it in two transactions: a federated table stays where it is when its name is dropped.",
            table=edit.name,
        )


def _pairs(names: Iterable[tuple[NameLike, NameLike]]) -> Iterator[tuple[NameLike, NameLike]]:
    remedy = 'Give old and new names in pairs: [("shop.a", "shop.b")].'
    each: Iterable[object] = given.several(names, "names", remedy)
    for pair in each:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise wrong("one of names", pair, remedy)
        yield pair[0], pair[1]
