"""The class a user of one table holds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap

from seiche.core.given import several, text, texts
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, NotFound, RetryableConflict
from seiche.store.base import Store
from seiche.store.paths import check_new_place, valid
from seiche.table import affected, given, history
from seiche.table.blob_files import with_blobs
from seiche.table.branches import finished
from seiche.table.brought import brought
from seiche.table.build import empty
from seiche.table.change import Change, Prepare, Result
from seiche.table.commit import Committer
from seiche.table.format.flags import require_writable
from seiche.table.format.manifest import Manifest
from seiche.table.format.refs import MAIN
from seiche.table.format.side_files import put_new
from seiche.table.history import Version
from seiche.table.operations import Merge, Operation, Overwrite
from seiche.table.preparing.settings import a_base
from seiche.table.refs import References, find_tag
from seiche.table.snapshot import Snapshot
from seiche.table.transaction import Transaction
from seiche.table.verbs.care import CareVerbs
from seiche.table.verbs.table import TableVerbs
from seiche.table.versions.base import Versions
from seiche.table.versions.naming import Naming, check_version
from seiche.table.versions.opening import open_versions

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

    from seiche.table.versions.external import ManifestStore

__all__ = ["Table", "Version"]

# How often and how long a verb prepares its change anew. Beside four processes that append, one upsert in ten lost ten
# times in a row.
_PREPARING = Patience(attempts=100, timeout=30.0)
# How often and how long a commit is carried over what others commit.
_COMMITTING = Patience()
_COMMIT_MESSAGE = "__lance_commit_message"


class Table(TableVerbs, CareVerbs):
    """One Lance table.

    A table opened without a version is live: every call starts from the latest version, and commits advance it. One
    opened at a version, tag or time stays there and is read-only.

    ```python
    table = seiche.Table.create("memory://plain/stock", pa.schema([("sku", pa.string()), ("left", pa.int64())]))
    table.append([{"sku": "a", "left": 5}])
    table.update({"left": "left - 1"}, where="sku = 'a'")
    table.merge([{"sku": "b", "left": 2}], on="sku").when_not_matched_insert_all().execute()
    assert table.to_arrow(filter="left > 2").to_pylist() == [{"sku": "a", "left": 4}]
    assert seiche.Table.open("memory://plain/stock", version=2).to_arrow().num_rows == 1
    ```
    """

    def __init__(
        self, versions: Versions, manifest: Manifest, *, pinned: bool = False, runtime: Runtime = SYSTEM
    ) -> None:
        """Use `Table.create` or `Table.open`."""
        self._versions = versions
        self._manifest = manifest
        self._pinned = pinned
        self._runtime = runtime
        self._committer = Committer(versions, runtime, _COMMITTING)

    @staticmethod
    def create(
        uri: str | PathLike[str] | Store,
        schema: "pa.Schema",
        *,
        config: Mapping[str, str] | None = None,
        bases: Iterable[Any] = (),
        naming: str = "V2",
        stable_row_ids: bool = False,
        manifest_store: "str | ManifestStore | None" = None,
        runtime: Runtime = SYSTEM,
        **options: Any,
    ) -> "Table":
        """Make an empty table; `AlreadyExists` if there is one, which is then left untouched.

        On storage where two writers can both create a file, a `manifest_store` decides who made a version: the address
        of a SQLite, PostgreSQL or DynamoDB database. Everybody who writes the table must name the same one.
        """
        from seiche.table.format.schema import metadata_from_arrow, writable_fields

        if naming not in tuple(Naming.__members__):
            raise InvalidInput(f"the naming scheme {naming!r} is unknown", remedy="Use 'V2', or 'V1' for old readers.")
        versions = open_versions(
            uri, naming=Naming[naming], manifest_store=manifest_store, runtime=runtime, options=options
        )
        check_new_place(versions.store.native_uri())
        operation = Overwrite(
            schema=tuple(writable_fields(schema)),
            schema_metadata=metadata_from_arrow(schema),
            config_upsert_values=texts(config, "config", "Give texts by name."),
            initial_bases=tuple(map(a_base, several(bases, "bases", "Give the paths of directories, in a list."))),
        )
        first = empty(stable_row_ids=stable_row_ids)
        committed = Committer(versions, runtime, Patience()).create(_transaction(operation, 0, runtime), first)
        return Table(versions, committed.manifest, runtime=runtime)

    @staticmethod
    def open(
        uri: str | PathLike[str] | Store,
        version: int | str | None = None,
        *,
        branch: str | None = None,
        as_of: datetime | None = None,
        manifest_store: "str | ManifestStore | None" = None,
        runtime: Runtime = SYSTEM,
        **options: Any,
    ) -> "Table":
        """The table at `uri`: live, or pinned at a version number, a tag, or the time `as_of`."""
        versions = open_versions(uri, manifest_store=manifest_store, runtime=runtime, options=options)
        if branch is not None:
            line = None if branch == MAIN else branch
            if line is not None:
                versions = finished(References(versions, runtime=runtime), line)
            version = find_tag(versions.store, version, line) if isinstance(version, str) else version
        return Table._at(versions, version, as_of, runtime)

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self._versions.store.uri

    @property
    def store(self) -> Store:
        """The storage of the table, rooted at it."""
        return self._versions.store

    @property
    def version(self) -> int:
        """The version this handle is at: the latest if it is live."""
        return self.manifest.version

    @property
    def schema(self) -> "pa.Schema":
        """The columns, as an Arrow schema."""
        from seiche.table.format.schema import to_arrow

        header = self.manifest.header
        return to_arrow(header.fields, header.schema_metadata)

    @property
    def manifest(self) -> Manifest:
        """Everything that the version consists of, as an immutable value."""
        if not self._pinned:
            newest = self._versions.newest(self._manifest.version)
            if newest != self._manifest.version:
                self._manifest = self._versions.read_newest(newest).manifest
        return self._manifest

    def versions(self) -> list[Version]:
        """The versions that are kept, oldest first, with the time and the operation that made each."""
        return history.kept(self._versions)

    def transactions(self, since: int = 0) -> list[tuple[int, Transaction]]:
        """The transactions that made the kept versions after `since`, with the version each made."""
        return history.transactions(self._versions, since)

    def checkout(
        self, version: int | str | None = None, *, branch: str | None = None, as_of: datetime | None = None
    ) -> "Table":
        """Another handle on the same table: pinned at a version, tag or time, or live on a branch."""
        if branch is not None:
            references, named = self._references, None if branch == MAIN else branch
            versions = references.line(None) if named is None else finished(references, named)
            version = find_tag(versions.store, version, named) if isinstance(version, str) else version
            return Table._at(versions, version, as_of, self._runtime)
        if (version is None) == (as_of is None):
            remedy = "Give one of `version=` and `as_of=`, or a `branch=`."
            raise InvalidInput("say either which version or what time", remedy=remedy)
        line, number = self._versions, 0
        if as_of is not None:
            number = history.version_at(self._versions, as_of)
        elif isinstance(version, str):
            tag = self._references.find_tag(version)
            line, number = self._references.line(tag.branch), tag.version
        else:
            number = check_version(version or 0)
        return Table(line, line.read(number).manifest, pinned=True, runtime=self._runtime)

    def commit(
        self,
        operation: Operation | bytes,
        *,
        read_version: int | None = None,
        affected_rows: Mapping[int, Iterable[int]] | None = None,
        properties: Mapping[str, str] | None = None,
        tag: str = "",
        message: str | None = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> "Table":
        """Commit any of the 15 operations, or the bytes of a serialised Lance `Transaction`; returns this table,
        advanced.

        `read_version` is the version that the operation was built from (that of the handle if not given); whatever
        others committed since is checked and rebased over. `affected_rows` maps fragment ids to the offsets of the
        rows that a Delete or Update touched: with it, two writers can change different rows of one fragment. Raises
        `RetryableConflict`, `IncompatibleConflict` or `CommitUnknown`; nothing is visible unless this returns.
        """
        self._check_writable()
        extra = texts(properties, "properties", "Give texts by name.")
        if message is not None:
            extra[_COMMIT_MESSAGE] = text(message, "the message of a commit")
        text(tag, "the tag of a transaction")
        if fresh := isinstance(operation, Operation):
            known = self._manifest.version if read_version is None else check_version(read_version)
            transaction = Transaction(known, self._runtime.uuid_text(), operation, tag, extra)
        elif isinstance(operation, bytes):
            packed = given.decoded(operation)
            if affected_rows is None:
                affected_rows = self._packed_rows(packed)
            transaction = replace(
                packed,
                read_version=packed.read_version if read_version is None else read_version,
                uuid=packed.uuid or self._runtime.uuid_text(),
                tag=tag or packed.tag,
                properties={**packed.properties, **extra},
            )
            check_version(transaction.read_version)
        else:
            raise given.not_an_operation(operation)
        rows = None if affected_rows is None else given.rows(affected_rows)
        self._flush(transaction.operation)
        self._commit(transaction, rows, given.patience(_COMMITTING, attempts, timeout), fresh=fresh)
        return self

    def _flush(self, operation: Operation) -> None:
        """See to it that the files last that somebody wrote for it: native writers flush nothing."""
        store = self.store

        def named() -> Iterator[str]:  # nothing is looked at where nothing is flushed
            fields = operation.schema if isinstance(operation, Overwrite | Merge) else self._manifest.header.fields
            yield from filter(valid, with_blobs(store, brought(operation, self._manifest), fields))

        try:
            store.flush(named())
        except NotFound:
            # A commit does not ask whether all of them are there; those that are last.
            store.flush(path for path in named() if store.exists(path))

    def pack(
        self,
        operation: Operation,
        *,
        read_version: int | None = None,
        affected_rows: Mapping[int, Iterable[int]] | None = None,
    ) -> bytes:
        """The operation as bytes that any process can hand to `commit`, with the rows that it touches.

        Many rows go into a file beside the table; the bytes then name it.
        """
        if not isinstance(operation, Operation):
            raise given.not_an_operation(operation)
        known = self._manifest.version if read_version is None else check_version(read_version)
        transaction = Transaction(known, self._runtime.uuid_text(), operation)
        if affected_rows is not None:
            packed = affected.pack(given.rows(affected_rows), uuid=transaction.uuid)
            for path, data in packed.files.items():
                put_new(self.store, path, data, self._runtime)
            transaction = replace(transaction, properties=packed.properties)
        return transaction.encode()

    def _packed_rows(self, transaction: Transaction) -> Mapping[int, BitMap] | None:
        path = transaction.properties.get(affected.FILE_PROPERTY)
        files = {} if path is None else {path: self.store.get(path)}
        return affected.unpack(transaction.properties, files)

    def restore(self, version: int | str, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        self._check_writable()
        number = self._number(version) if isinstance(version, str) else version
        if type(number) is not int or not 0 < number < self.version:
            return super().restore(number, attempts=attempts, timeout=timeout)
        require_writable(self._manifest.header)
        # Files that only this old version needs could otherwise be cleaned up just before the new one needs them, too.
        with self._references.held(number, "restore"):
            return super().restore(number, attempts=attempts, timeout=timeout)

    def to_lance(self) -> "lance.LanceDataset":
        """A pylance dataset at this version, for reading with everything that pylance has."""
        from seiche.table.data.native import open_version

        return open_version(self.store, self.version)

    def to_arrow(
        self, *, columns: Sequence[str] | None = None, filter: str | None = None, version: int | str | None = None
    ) -> "pa.Table":
        """Rows as an Arrow table: all of them, or the `columns` and the rows that match `filter` (SQL)."""
        from seiche.table.data.native import open_version, scan

        at = self if version is None else self.checkout(version)
        return scan(open_version(at.store, at.version), columns, filter)

    def count_rows(self, filter: str | None = None, *, version: int | str | None = None) -> int:
        """How many rows there are, or match `filter` (SQL); of them no more is read than it takes to know."""
        from seiche.table.data.native import count, open_version

        at = self if version is None else self.checkout(version)
        return count(open_version(at.store, at.version), filter)

    def _run(self, verb: str, prepare: Prepare, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Prepare the change on the latest version and commit it; again on a newer one after a retryable conflict."""
        conflict: RetryableConflict | None = None
        clock, took = self._runtime.clock, inf
        for attempt in given.patience(_PREPARING, attempts, timeout).tries(self._runtime):
            self._check_writable()
            began = clock.monotonic()
            with self._versions.turns.attempt(attempt, took):
                snapshot = Snapshot(self.store, self.manifest, self._runtime)
                change = prepare(snapshot)
                if change is None:
                    return Result(verb, snapshot.version, changed=False, attempts=attempt)
                try:
                    change = self._commit_prepared(change, snapshot)
                except RetryableConflict as error:
                    conflict, took = error, clock.monotonic() - began
                    continue
            return Result(
                verb,
                self._manifest.version,
                rows=change.rows,
                files=change.files,
                bytes=change.bytes,
                attempts=attempt,
                notes=change.notes,
            )
        raise conflict or InvalidInput("no attempt was allowed", remedy="Give `attempts=` of at least 1.")

    def _commit_prepared(self, change: Change, snapshot: Snapshot) -> Change:
        """Commit a change, and then what follows from it; returns the last one."""
        while True:
            transaction = _transaction(change.operation, snapshot.version, self._runtime)
            self._commit(transaction, change.affected_rows, _COMMITTING, fresh=True)
            snapshot = Snapshot(self.store, self._manifest, self._runtime)
            following = None if change.then is None else change.then(snapshot)
            if following is None:
                return change
            change = following

    def _commit(
        self, transaction: Transaction, rows: Mapping[int, BitMap] | None, patience: Patience, *, fresh: bool
    ) -> None:
        committer = self._committer
        if patience is not committer.patience:
            committer = replace(committer, patience=patience)
        try:
            self._manifest = committer.commit(transaction, self._manifest, affected_rows=rows, fresh=fresh).manifest
        except RetryableConflict:
            if not self._versions.has(self._manifest):  # another table is there by now
                self._manifest = self._versions.read(self._manifest.version).manifest
            raise

    def _check_writable(self) -> None:
        if self._pinned:
            raise InvalidInput(
                f"{self.uri} was opened at version {self._manifest.version} and is read-only",
                remedy="Open the table without a version to change it.",
            )

    def __repr__(self) -> str:
        pinned = ", pinned" if self._pinned else ""
        return f"Table({self.uri!r}, version {self._manifest.version}{pinned})"

    @staticmethod
    def _at(versions: Versions, version: int | str | None, as_of: datetime | None, runtime: Runtime) -> "Table":
        live = Table(versions, versions.read(versions.newest()).manifest, runtime=runtime)
        return live if version is None and as_of is None else live.checkout(version, as_of=as_of)


def _transaction(operation: Operation, read_version: int, runtime: Runtime) -> Transaction:
    return Transaction(read_version, runtime.uuid_text(), operation)
