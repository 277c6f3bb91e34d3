"""Update: rows written anew with other values, or single columns of them beside the old ones."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import pyarrow as pa

from seiche.core.given import text, texts
from seiche.errors import InvalidInput
from seiche.table.change import Change
from seiche.table.data.assign import assigned, check_columns, check_expressions
from seiche.table.data.columns.files import rewrite_columns
from seiche.table.data.columns.new_files import require_columns_apart
from seiche.table.data.cost import Estimate, estimate
from seiche.table.data.moving import Moved, Places, stored_form
from seiche.table.data.removal import by_fragment, remove_rows
from seiche.table.data.scanning import BATCH_BYTES, batches, quoted, rows_at_once, rows_that_fit, scanner
from seiche.table.data.write import Limits, fields_of, write_rows
from seiche.table.format.flags import FIRST_FORMAT
from seiche.table.operations import REWRITE_COLUMNS, REWRITE_ROWS, Update
from seiche.table.snapshot import Snapshot

__all__ = ["Mode", "Updating"]

Mode: TypeAlias = Literal["rows", "columns"]


class Updating:
    """Prepares an Update of the rows that meet a condition, in the cheaper of two ways."""

    def __init__(self, assignments: Mapping[str, str], where: str | None, mode: Mode | None, limits: Limits) -> None:
        if mode not in (None, "rows", "columns"):
            raise InvalidInput(f"the mode {mode!r} is unknown", remedy='Use "rows" or "columns", or leave it out.')
        self._set = texts(assignments, "what is set", 'Give SQL by column: {"left": "left - 1"}.')
        if where is not None:
            text(where, "the condition", "Give SQL, or nothing for all rows.")
        # To say that all rows are meant in words would only be in the way of seeing it.
        self._where = None if where is not None and where.strip().lower() == "true" else where
        self._mode = mode
        self._limits = limits

    def __call__(self, snapshot: Snapshot) -> Change | None:
        check_columns(self._set, snapshot.schema)
        check_expressions(snapshot.dataset, self._set, snapshot.schema, self._where)
        guess = estimate(snapshot, list(self._set), self._where)
        if (self._mode or self._cheaper(snapshot, guess)) == "columns":
            require_columns_apart(snapshot.manifest.header)
            return self._columns(snapshot)
        return self._rows(snapshot, guess)

    @staticmethod
    def _cheaper(snapshot: Snapshot, guess: Estimate) -> Mode:
        return "rows" if snapshot.manifest.header.data_format.version in FIRST_FORMAT else guess.mode

    def _rows(self, snapshot: Snapshot, guess: Estimate) -> Change | None:
        """Write the matching rows into new fragments, and take them out of their old ones."""
        manifest = snapshot.manifest
        moved = Moved(manifest.has_stable_row_ids)
        new_rows = self._new_rows(snapshot, moved, guess)
        written = write_rows(snapshot.store, manifest.header, snapshot.schema, new_rows, self._limits, snapshot.runtime)
        if not written.fragments:
            return None
        removal = remove_rows(snapshot, by_fragment(moved.places.addresses))
        changed = {field.id for field in fields_of(manifest.header, list(self._set))}
        operation = Update(
            removal.removed,
            removal.updated,
            moved.with_row_ids(written),
            fields_for_preserving_frag_bitmap=tuple(
                field.id for field in manifest.header.fields if field.id not in changed
            ),
            update_mode=REWRITE_ROWS,
        )
        return Change(
            operation,
            removal.rows,
            rows=written.rows,
            files=written.files + removal.files,
            bytes=written.bytes + removal.bytes,
            notes={"mode": "rows"},
        )

    def _new_rows(self, snapshot: Snapshot, moved: Moved, guess: Estimate) -> Iterator[pa.RecordBatch]:
        columns = {name: self._set.get(name) or quoted(name) for name in snapshot.schema.names}
        fragments = snapshot.manifest.fragments
        most, whole = rows_at_once(snapshot.schema, fragments, self._where), rows_that_fit(fragments)
        scan = scanner(
            snapshot.dataset,
            columns=columns | moved.system_columns,
            where=self._where,
            what="the update",
            # Of batches in which little matches, little is left.
            batch_size=min(most, whole if guess.share > 0.5 else 4 * whole),
            batch_size_bytes=BATCH_BYTES,
            blob_handling="all_binary",
            late_materialization=guess.late,
        )
        for batch in batches(scan, what="the update"):
            moved.note(Places.of(batch))
            values = [
                (assigned if field.name in self._set else stored_form)(batch.column(field.name), field)
                for field in snapshot.schema
            ]
            yield pa.RecordBatch.from_arrays(values, schema=snapshot.schema)

    def _columns(self, snapshot: Snapshot) -> Change | None:
        """Write the columns that are set into a new file for each fragment with a matching row."""
        made = rewrite_columns(snapshot, self._set, self._where)
        if not made.fragments:
            return None
        operation = Update(
            updated_fragments=made.fragments,
            fields_modified=tuple(field.id for field in fields_of(snapshot.manifest.header, list(self._set))),
            update_mode=REWRITE_COLUMNS,
            # Needed for the versions of rows where those are kept, and for telling which rows changed everywhere.
            updated_offsets=made.offsets,
        )
        return Change(operation, rows=made.rows, files=made.files, bytes=made.size, notes={"mode": "columns"})
