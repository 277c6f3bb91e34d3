"""Replacing a column: other values in the place of the old ones, fragment by fragment."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from seiche.core.given import number, several, text
from seiche.errors import IncompatibleConflict, InvalidInput
from seiche.table.change import Change
from seiche.table.data.columns.given_rows import GivenRows
from seiche.table.data.columns.new_files import NewFiles, Part, require_columns_apart
from seiche.table.data.conform import conform
from seiche.table.data.source import Source
from seiche.table.data.write import fields_of
from seiche.table.format.deletions import rows_left
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import DataReplacement, DataReplacementGroup
from seiche.table.snapshot import Snapshot

__all__ = ["ReplacingColumn"]


class ReplacingColumn:
    """Prepares a DataReplacement. The values are for the rows of the version that is read first, in their order.

    A row keeps its place in a fragment while it is there, so the files stay right when the change is prepared again. If
    it is elsewhere by then, the change would pass it over, and is refused.
    """

    def __init__(self, name: str, data: Any, fragments: Iterable[int] | None) -> None:
        self._name = text(name, "the name of a column", "Replace one column, by its name.")
        self._source = Source(_column(name, data))
        self._wanted = None if fragments is None else _ids(fragments)
        self._ids: list[int] | None = None
        self._fields: list[int] | None = None
        self._rows = GivenRows()
        self._files = NewFiles()

    def forget(self) -> None:
        """Write the values anew, if they can be read again."""
        self._files = NewFiles()

    def __call__(self, snapshot: Snapshot) -> Change | None:
        header = snapshot.manifest.header
        require_columns_apart(header)
        if self._name not in snapshot.schema.names:
            raise InvalidInput(
                f"the table has no column {self._name!r}, only {', '.join(map(repr, snapshot.schema.names))}",
                remedy="Replace whole columns by their names; `add_columns` makes new ones.",
                column=self._name,
            )
        schema = pa.schema([snapshot.schema.field(self._name)])
        fragments = self._fragments(snapshot)
        fields = fields_of(header, [self._name])
        self._require_same([field.id for field in fields])
        self._rows.check(snapshot)
        self._files.depend_on(fields)
        feed = None if self._known(snapshot, fragments) else _Feed(self._source, schema)

        def values(fragment: DataFragment) -> Iterator[Part]:
            offsets = self._rows.offsets(snapshot, fragment)
            start = 0
            while feed is not None and start < len(offsets):
                column = feed.take(len(offsets) - start)
                yield offsets[start : start + len(column)], [column]
                start += len(column)
            if feed is not None and fragment.id == fragments[-1].id:
                feed.require_end()

        files = self._files.write(snapshot, fragments, fields, schema, values, lambda _: b"", parallel=False)
        if not fragments:
            return None
        groups = tuple(
            DataReplacementGroup(fragment_id=fragment_id, new_file=each[0]) for fragment_id, each in files.items()
        )
        return Change(
            DataReplacement(groups),
            rows=sum(map(rows_left, fragments)),
            files=len(groups),
            bytes=sum(group.new_file.file_size_bytes for group in groups),
            notes={"column": self._name, "fragments": len(groups)},
        )

    def _fragments(self, snapshot: Snapshot) -> list[DataFragment]:
        manifest = snapshot.manifest
        if self._ids is None:
            self._ids = manifest.fragments.ids() if self._wanted is None else self._wanted
            unknown = [one for one in self._ids if manifest.fragments.get(one) is None]
            if unknown:
                raise InvalidInput(
                    f"version {snapshot.version} has no fragment {unknown[0]}",
                    remedy="`[one.id for one in table.manifest.fragments]` are those that it has.",
                    fragments=unknown,
                )
        found = [manifest.fragments.get(one) for one in self._ids]
        if None in found:
            raise IncompatibleConflict(
                "others have moved or removed the rows that the new values are for.",
                remedy="Nothing was written. Read the table again, and give values for the rows that it has.",
                fragments=[one for one in self._ids if manifest.fragments.get(one) is None],
            )
        return [one for one in found if one is not None]

    def _require_same(self, fields: list[int]) -> None:
        """The name must stand for the column that it stood for at first."""
        if self._fields not in (None, fields):
            raise IncompatibleConflict(
                f"column {self._name!r} is another one now: others dropped or cast it.",
                remedy="Nothing was written. Look at the table first.",
                column=self._name,
            )
        self._fields = fields

    def _known(self, snapshot: Snapshot, fragments: Sequence[DataFragment]) -> bool:
        return bool(fragments) and all(self._files.knows(snapshot, one, b"") for one in fragments)


class _Feed:
    """The given values, a part at a time, made to fit the column."""

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        (self._name,) = schema.names
        opened = source.open(schema)
        if opened.schema.names != [self._name]:
            raise InvalidInput(
                f"values of column {self._name!r} alone are needed, not of {opened.schema.names}",
                remedy="Replace one column at a time.",
                column=self._name,
            )
        self._batches = conform(opened.schema, schema).batches(opened.batches)
        self._rest: pa.Array | None = None

    def take(self, most: int) -> pa.Array:
        """Some of the next values, `most` at most."""
        values = self._rest
        if values is None:
            batch = next(self._batches, None)
            if batch is None:
                raise self._count("fewer")
            values = batch.column(0)
        self._rest = values.slice(most) if len(values) > most else None
        return values.slice(0, most)

    def require_end(self) -> None:
        if self._rest is not None or next(self._batches, None) is not None:
            raise self._count("more")

    def _count(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"there are {what} values for column {self._name!r} than rows",
            remedy="Give one for each row of the fragments that is not deleted, in their order.",
            column=self._name,
        )


def _ids(given: Iterable[int]) -> list[int]:
    remedy = "Give ids of fragments, in a list; or nothing for all."
    ids = several(given, "the fragments of a column", remedy)
    return sorted({number(one, "one of the fragments of a column", remedy) for one in ids})


def _column(name: str, data: Any) -> Any:
    """Bare values as the rows of one column."""
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return pa.table({name: data})
    if isinstance(data, Sequence) and not (data and isinstance(data[0], dict | pa.RecordBatch | pa.Table)):
        return {name: data}
    return data
