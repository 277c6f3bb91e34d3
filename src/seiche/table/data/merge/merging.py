"""Merge: rows of the data find those of the table that have their keys, and clauses say what becomes of each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seiche.table.change import Change
from seiche.table.data.merge.check import check_any, check_clauses
from seiche.table.data.merge.clauses import Clause
from seiche.table.data.merge.key_hashes import inserted_keys
from seiche.table.data.merge.plan import MergePlan, about, plan
from seiche.table.data.merge.source import MergeSource, prepared
from seiche.table.data.moving import Moved
from seiche.table.data.removal import by_fragment, remove_rows
from seiche.table.data.source import Rows, Source
from seiche.table.data.write import Limits, Written, fields_of, write_rows
from seiche.table.format.fields import column_ids
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.operations import REWRITE_ROWS, KeyExistenceFilter, Update
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Merging"]


class Merging:
    """Prepares an Update that merges rows by key.

    The operation says which keys it inserts, so that two merges that insert the same one cannot both be committed.
    """

    def __init__(self, rows: Rows, on: Sequence[str], clauses: Sequence[Clause], limits: Limits) -> None:
        check_any(clauses)
        self._given = Source(rows)
        self._on = tuple(on)
        self._clauses = tuple(clauses)
        self._limits = limits
        self._rows: pa.Table | None = None
        self._source: tuple[pa.Schema, MergeSource] | None = None
        self._copied: tuple[Header, NDArray[np.int64], Written] | None = None

    def forget(self) -> None:
        """Write the new rows anew."""
        self._copied = None

    def __call__(self, snapshot: Snapshot) -> Change | None:
        source = self._prepared(snapshot)
        if not len(source) and not about(self._clauses, "not matched by source"):
            return None
        check_clauses(snapshot, source, self._on, self._clauses)
        planned = plan(snapshot, source, self._on, self._clauses)
        gone = by_fragment(planned.taken_out)
        if not gone and not len(planned.new):
            return None
        moved = Moved(snapshot.manifest.has_stable_row_ids)
        written = self._write(planned, moved)
        removal = remove_rows(snapshot, gone)
        operation = Update(
            removal.removed,
            removal.updated,
            moved.with_row_ids(written),
            fields_for_preserving_frag_bitmap=self._unchanged(planned),
            update_mode=REWRITE_ROWS,
            inserted_rows=self._inserted(planned),
        )
        counts = {
            "inserted": planned.count("insert"),
            "updated": planned.count("update"),
            "deleted": planned.count("delete"),
        }
        return Change(
            operation,
            removal.rows,
            rows=sum(counts.values()),
            files=written.files + removal.files,
            bytes=written.bytes + removal.bytes,
            notes=counts,
        )

    def _prepared(self, snapshot: Snapshot) -> MergeSource:
        schema = snapshot.schema
        if self._source is None or not self._source[0].equals(schema, check_metadata=True):
            # Rows without types of their own get those that the columns have now.
            if self._rows is None or self._given.stays:
                opened = self._given.open(schema)
                self._rows = pa.Table.from_batches(list(opened.batches), opened.schema)
            self._source = schema, prepared(self._rows, schema, self._on, self._clauses)
        return self._source[1]

    def _write(self, planned: MergePlan, moved: Moved) -> Written:
        """Write the new rows; not again if they are those of the data and were written by an earlier attempt."""
        header = planned.snapshot.manifest.header
        copied = planned.copied
        if copied is not None and self._copied is not None:
            then, rows, written = self._copied
            same_target = list(then.fields) == list(header.fields) and then.data_format == header.data_format
            if same_target and np.array_equal(rows, copied):
                planned.note_copied(moved)
                return written
        written = write_rows(
            planned.snapshot.store, header, planned.snapshot.schema, planned.new_rows(moved), self._limits
        )
        self._copied = None if copied is None else (header, copied, written)
        return written

    def _inserted(self, planned: MergePlan) -> KeyExistenceFilter:
        """The keys of the rows that are new: none, if there are none."""
        ids = column_ids(planned.snapshot.manifest.header.fields)
        columns = dict(zip((ids[name] for name in self._on), planned.source.keys, strict=True))
        rows = pa.array(planned.new)
        return inserted_keys(sorted(columns), [columns[field_id].take(rows) for field_id in sorted(columns)])

    def _unchanged(self, planned: MergePlan) -> tuple[int, ...]:
        """The fields whose values no update changed: always the key, by which the rows were found."""
        header = planned.snapshot.manifest.header
        changed: set[str] = set()
        for one in planned.updates:
            changed.update(planned.source.shared if one.clause.assignments is None else one.clause.assignments)
        touched = {field.id for field in fields_of(header, sorted(changed - set(self._on)))}
        return tuple(field.id for field in header.fields if field.id not in touched)
