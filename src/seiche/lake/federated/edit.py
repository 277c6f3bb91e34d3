"""An edit of a table that somebody else commits to, among those of the lake's own tables.

The root cannot decide about it: other writers commit to the table without asking the lake. So its own commit comes
first, when everything else of the transaction has been checked on the newest version of the lake, and the root right
after. It has a transaction id that follows from the lake's: whoever tries again, in the same run or another one with
the same key, finds what was done and does not do it twice. What can be seen in between is the change of this table
without the rest. If the root is then refused, that stays so: the error says it, and is none that is tried again by
itself.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import ConflictError, Corrupt, IncompatibleConflict, InvalidInput, NotFound, RetryableConflict
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.made import Made
from seiche.lake.commit.renumber import reserved
from seiche.lake.objects.rows import TableRow
from seiche.lake.outside import Outside, plain_address
from seiche.lake.state import State
from seiche.store.base import Store
from seiche.store.beside import open_beside
from seiche.table.bases import deletion_files
from seiche.table.commit import Committer
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Append, Operation, Overwrite, ReserveFragments
from seiche.table.transaction import Transaction
from seiche.table.versions.base import Versions
from seiche.table.versions.opening import open_versions

__all__ = ["Done", "FederatedEdit", "check_one_name", "explained", "place_of", "still_kept"]

_COMMITTING = Patience()
# How many versions are looked through for what an earlier run may have done.
_LOOKED_BACK: Final = 1000


def place_of(lake: Store, outside: Outside, row: TableRow, runtime: Runtime) -> Store:
    """The directory of a table that is not the lake's own, reached as the lake itself is; `PermissionDenied` if nothing
    may be opened there.
    """
    outside.check(row.location, lake.native_uri())
    return open_beside(lake, row.location, runtime=runtime)


@contextmanager
def still_kept(table: str, versions: Versions, version: int) -> Iterator[None]:
    """Around whatever needs the version that a transaction began from of a table that others clean up, too.

    If it is gone, that is a conflict, as it is when a version of the lake has expired: nothing is damaged.
    """
    try:
        yield
    except (Corrupt, NotFound) as error:
        if version in versions.all():
            raise
        raise RetryableConflict(
            f"{table}: version {version}, which the transaction began from, has been cleaned up where the table lies.",
            remedy="Nothing was written. Run the transaction again; whoever cleans up there should keep versions for"
            " longer than transactions take.",
            table=table,
            version=version,
        ) from error


@dataclass(slots=True)
class Done:
    """What this transaction has made there, in words and as a version of the table; nothing yet if it is empty.

    `whole` says that it is all that it was to make.
    """

    version: int = 0
    what: str = ""
    whole: bool = False

    def tell(self, version: int) -> None:
        """There is one more version of it."""
        self.version, self.what = version, f"version {version}"


@dataclass(frozen=True, slots=True)
class FederatedEdit(TableEdit):
    """What a transaction does to a federated table. Planning it commits to that table: it is planned last."""

    done: Done = field(default_factory=Done, compare=False)
    # Whether an earlier run, of which nothing is known here, may have made the change.
    may_be_done: bool = False

    @property
    def is_planned_last(self) -> bool:
        return True

    def _made(self, state: State, now: TableRow, uuid: str, runtime: Runtime, *, durable: bool) -> Made:
        """The row with the version that the change has made there, now or at an earlier attempt."""
        if self.work is None or not self.worked:
            return Made(now)
        if not self.done.whole:
            self.done.tell(self._commit(state, now, uuid, runtime))
            self.done.whole = True
        content = bool(self.work.content)
        return Made(replace(now, table_version=self.done.version, logical_version=now.logical_version + content))

    def _commit(self, state: State, now: TableRow, uuid: str, runtime: Runtime) -> int:
        work = self.work
        assert work is not None  # noqa: S101 - looked at by who calls
        store = place_of(state.store, state.outside, now, runtime)
        folded = work.folded(lambda: deletion_files(work.base, store, runtime))
        self._check_content(state, now, folded)
        versions = open_versions(store, runtime=runtime, options={})
        committer = Committer(versions, runtime, _COMMITTING)
        operations: list[Operation] = [*folded.followers] if folded.content is None else [folded.content]
        ids = [uuid, *(str(runtime.derived_uuid(UUID(uuid), str(number))) for number in range(1, len(operations)))]
        # If the last of them was made, so were all.
        earlier = _made_before(versions, work.base.version, ids[-1]) if self.may_be_done else None
        if earlier is not None:
            return earlier
        _check_same(self.name, versions, work.base)
        version = work.base.version
        # What was computed from the rows that it replaces holds for those rows only.
        unmoved = self.read and isinstance(folded.content, Overwrite)
        for number in range(len(operations)):
            operation = operations[number]
            made = Transaction(work.base.version, ids[number], operation)
            with still_kept(self.name, versions, work.base.version):
                commit = committer.commit(made, work.base, affected_rows=folded.affected_rows, unmoved=unmoved)
            version = commit.version
            if isinstance(operation, ReserveFragments):
                following = number + 1
                operations[following:] = reserved(operations[following:], commit.manifest, operation.num_fragments)
            else:
                self.done.tell(version)
        return version

    def check_statements(self) -> None:
        """`InvalidInput` if the statements so far cannot be one commit of that table.

        Rows of the transaction's own would have to be told again when others commit first, which only the lake's own
        commit knows how to do; and so would an index or a compaction of them.
        """
        content = () if self.work is None else self.work.content
        statements = () if self.work is None else self.work.statements
        appends = all(isinstance(one.operation, Append) for one in content)
        if content and (len(statements) > len(content) or (len(content) > 1 and not appends)):
            raise InvalidInput(
                f"{self.name} is a federated table, and takes one change of its rows in a transaction, or several"
                " appends, and nothing else with them",
                remedy="Do it in two transactions, or copy the rows into a table of the lake's own.",
                table=self.name,
            )


def _check_same(table: str, versions: Versions, base: Manifest) -> None:
    """`IncompatibleConflict` if another table has been made at the place since: what was prepared is about files that
    went with the one before, and naming them there would leave that table unreadable.

    It must not be tried again by itself: rows that are written once lie where they were written.
    """
    try:
        there = versions.read(base.version).manifest.header
        same = (there.timestamp, there.transaction_file) == (base.header.timestamp, base.header.transaction_file)
    except NotFound:
        same = versions.newest() >= base.version  # it was only cleaned up
    if not same:
        raise IncompatibleConflict(
            f"{table}: the table that the transaction began from is gone, and another one lies at its place.",
            remedy="Nothing was written. Run it again if the new one is meant.",
            table=table,
            version=base.version,
        )


def _made_before(versions: Versions, base: int, uuid: str) -> int | None:
    """The version that this very change made before the transaction looked at the table, if it did."""
    kept = [version for version in versions.all() if base - _LOOKED_BACK < version <= base]
    made = versions.store.in_parallel(versions.transaction, kept)
    return next((version for version, one in zip(kept, made, strict=True) if one.uuid == uuid), None)


def check_one_name(edit: TableEdit, edits: Iterable[TableEdit]) -> None:
    """`InvalidInput` if a transaction with these edits has changed the table before, under another name in the lake.

    They would be two commits there, and the second may be refused when the first stands already.
    """
    place = _place(edit)
    for other in list(edits):
        changed = other.is_planned_last and other.worked and other.key is not None
        if changed and other.row.id != edit.row.id and _place(other) == place:
            raise InvalidInput(
                f"{edit.name} and {other.name} are two names of one table, and a transaction changes it under one",
                remedy=f"Do all of it to {other.name}, or do it in two transactions.",
                table=edit.name,
            )


def _place(edit: TableEdit) -> str:
    return plain_address(edit.row.location).rstrip("/")


def explained(error: ConflictError, edits: Iterable[TableEdit], transaction_id: str) -> ConflictError:
    """The conflict that ended a transaction, as one that must not be tried again blindly if a part of it is visible."""
    told = ((one.name, getattr(one, "done", None)) for one in edits)
    made = {name: done for name, done in told if isinstance(done, Done) and done.what}
    if not made:
        return error
    seen = {name: done.version for name, done in made.items()}
    said = ", ".join(f"{done.what} of {name}" for name, done in made.items())
    return IncompatibleConflict(
        f"{error.message} The lake was not changed, but {said} had been made before, which the lake does not decide.",
        remedy="Run it again with the same `key=`: what is done there is not done twice. Without a key, undo it there.",
        transaction_id=transaction_id,
        federated=seen,
        **{name: value for name, value in error.details.items() if name != "transaction_id"},
    )
