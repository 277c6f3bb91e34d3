"""A stream that follows the changes of a table.

An offset is a version of the table, which table it is, and which transaction made that version: a lake that was put
back from a copy gives the same numbers to other versions. Offset 0 is before everything: what the table holds when the
stream begins comes as inserted rows, in one piece.
"""

# ruff: noqa: N802 - methods are called what Spark calls them

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from seiche.errors import InvalidInput, NotFound
from seiche.lake.history.tags import version_of
from seiche.lake.objects.names import parts
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import LakeVersions, newest_manifest
from seiche.spark.changes import (
    ChangeScan,
    History,
    OnChange,
    read_changes,
)
from seiche.spark.columns import Columns
from seiche.spark.options import Options
from seiche.spark.types import shown_schema
from seiche.table.data.changes import CHANGE_TYPE, COMMIT_VERSION, kinds_of
from seiche.table.row_changes import VersionChanges

__all__ = ["ChangesReader"]


_FOR_READS = {
    "filter": "Choose rows of the stream with `.where(...)`.",
    "version": "Give `starting_version`: earliest, latest, a version of the lake, or a tag.",
    "as_of": "Give `starting_version`: earliest, latest, a version of the lake, or a tag.",
}


class ChangePartition(InputPartition):
    """One task; it carries all it needs."""

    def __init__(self, scan: ChangeScan) -> None:
        super().__init__(None)
        self.scan = scan


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows new rows, or with the option `changes` everything that happens to rows.

    `starting_version` is `earliest` (all that is there, then what comes), `latest` (only what comes), or a version or
    tag of the lake. `max_rows_per_trigger` and `max_files_per_trigger` bound a batch, but for what the table holds at
    the beginning, and a version is never divided.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        options.refuse(_FOR_READS)
        self._options = options
        self._lake = options.open(writing=True)
        self._columns = shown_schema(schema)
        self._named = self._names()
        self._all_changes = options.yes("changes")
        wanted = options.values.get("on_change", "fail")
        if wanted not in ("fail", "skip"):
            raise InvalidInput(f'the option "on_change" must be fail or skip, not {wanted!r}')
        self._on_change: OnChange = "skip" if wanted == "skip" else "fail"
        self._until: int | None = None
        # The version up to which the stream has come, and the table for which it was last seen to be that one.
        self._seen: tuple[int, TableRow] | None = None

    def initialOffset(self) -> dict[str, Any]:
        start = self._options.values.get("starting_version", "earliest")
        state = self._lake.state()
        if start == "earliest":
            return self._offset(self._row(state), 0)
        if start != "latest":
            states = self._lake.states
            state = states.at(version_of(states, int(start) if start.isdecimal() else start))
        row = self._row(state)
        return self._offset(row, row.table_version)

    def getDefaultReadLimit(self) -> ReadLimit:
        rows, files = self._options.number("max_rows_per_trigger"), self._options.number("max_files_per_trigger")
        if rows is not None:
            return ReadMaxRows(rows)
        return ReadAllAvailable() if files is None else ReadMaxFiles(files)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._row(self._lake.state()).table_version

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        row = self._known(start)
        newest = row.table_version if self._until is None else min(row.table_version, self._until)
        begun = int(start["version"])
        if newest <= begun:
            return start
        with self._still_kept(begun):
            return self._offset(row, self._bounded(row, begun, newest, limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        row = self._row(self._lake.state())
        return self._offset(row, row.table_version)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = int(start["version"]), int(end["version"])
        if first == last:
            return []
        history = self._history(self._known(start, end))
        with self._still_kept(first):
            scans = self._between(history, first, last) if first else history.everything(last, self._columns)
            return [ChangePartition(one) for one in scans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, ChangePartition):
            yield from read_changes(partition.scan)

    def _between(self, history: History, first: int, last: int) -> Iterator[ChangeScan]:
        for version in range(first + 1, last + 1):
            if self._all_changes:
                for kind, rows in kinds_of(history.changes(version)):
                    if len(rows):
                        yield from history.scans(version, kind, rows, self._columns)
                continue
            added = history.appended(version, self._on_change)
            if added is not None and len(added.inserted):
                yield from history.scans(version, "insert", added.inserted, self._columns)

    def _bounded(self, row: TableRow, begun: int, newest: int, limit: ReadLimit) -> int:
        """The last version of a batch that begins behind `begun`."""
        if isinstance(limit, ReadAllAvailable) or not begun:
            return newest
        history, taken = self._history(row), 0
        for version in range(begun + 1, newest + 1):
            taken += _size(history.changes(version), limit)
            if taken > _most(limit):
                # At least one version, or nothing would ever move.
                return max(version - 1, begun + 1)
        return newest

    def _names(self) -> Columns:
        """What the columns are called now, whatever they were called before, or will be while the stream runs."""
        state = self._lake.state()
        row = self._row(state)
        if not row.is_own("lance"):
            raise InvalidInput(
                f"{self._options.table} is a table of type {row.type} and format {row.format}, whose changes cannot be"
                " followed",
                remedy="Streams come out of Lance tables of the lake. Read it with spark.read instead.",
                table=self._options.table,
            )
        named = Columns.of(newest_manifest(state.store, row, state.manifests))
        known = {*named.names, CHANGE_TYPE, COMMIT_VERSION}
        for name in self._columns.names:
            if name not in known:
                raise InvalidInput(
                    f"{self._options.table} has no column {name!r}", remedy="Check the names.", column=name
                )
        return named

    def _history(self, row: TableRow) -> History:
        return History(LakeVersions(self._lake.store, row), self._named)

    def _row(self, state: State) -> TableRow:
        return state.table(parts(self._options.table))

    @contextmanager
    def _still_kept(self, seen: int) -> Iterator[None]:
        try:
            yield
        except NotFound as error:
            raise NotFound(
                f"what happened to {self._options.table} after its version {seen}, up to which the stream has come, is"
                f" not known any more: {error.message}",
                remedy="Its history was cleaned up before the stream had read it. Start a new stream with a checkpoint"
                " of its own; keep versions for longer than streams stand still.",
                table=self._options.table,
            ) from error

    def _known(self, *offsets: Mapping[str, Any]) -> TableRow:
        """The table as it is now, which must be the one that the stream began with, and have what it has come through.

        The second offset is one that was planned, perhaps by a query that did not come to do it.
        """
        row = self._row(self._lake.state())
        for one in offsets:
            self._check_known(row, one)
        return row

    def _check_known(self, row: TableRow, start: Mapping[str, Any]) -> None:
        if row.id != start["table"]:
            raise InvalidInput(
                f"{self._options.table} is another table than the one that the stream followed: it was dropped and made"
                " anew",
                remedy="Start a new stream with a checkpoint of its own.",
                table=self._options.table,
            )
        version = int(start["version"])
        if row.table_version < version:
            # Versions up to there will come again, with other rows, and would be taken for those that were read.
            raise self._put_back(f"is at version {row.table_version}", version)
        made_by = start.get("transaction")
        if made_by is not None and self._seen != (version, row):
            with suppress(NotFound):  # cleaned up: if there is anything to read, that cannot be done, and is said
                if self._history(row).made_by(version) != made_by:
                    raise self._put_back("has got another version of that number", version)
            self._seen = version, row

    def _put_back(self, what: str, version: int) -> InvalidInput:
        return InvalidInput(
            f"{self._options.table} {what}, and the stream has come up to version {version}: the lake was put back to"
            " an earlier state",
            remedy="Put the checkpoint back to the same time, or start a new stream with a checkpoint of its own.",
            table=self._options.table,
        )

    def _offset(self, row: TableRow, version: int) -> dict[str, Any]:
        made_by = self._history(row).made_by(version) if version else None
        return {"table": row.id, "version": version} | ({"transaction": made_by} if made_by else {})

    def __getstate__(self) -> dict[str, Any]:
        """To workers goes only what they need to read: their tasks have the rest."""
        return {"_columns": self._columns}


def _size(changes: VersionChanges, limit: ReadLimit) -> int:
    rows = (changes.deleted, changes.updated, changes.inserted)
    return sum(len(one.offsets) if isinstance(limit, ReadMaxFiles) else len(one) for one in rows)


def _most(limit: ReadLimit) -> int:
    if isinstance(limit, ReadMaxFiles):
        return int(limit.max_files)
    return int(limit.max_rows) if isinstance(limit, ReadMaxRows) else 1 << 62
