"""Bringing in what somebody committed past the lake.

A plain Lance writer that the fence did not stop leaves a manifest under the name of a version that is the lake's to
give. It is not lost, and must not be taken for the lake's own: its transaction is committed through the lake, where it
meets everything else that happened, and the lake's own version goes back under its name.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from seiche.errors import AlreadyExists, Corrupt, IncompatibleConflict, InvalidInput, NotFound, RetryableConflict
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.work import Work
from seiche.lake.engines.native_manifest import new_files
from seiche.lake.objects import rows
from seiche.lake.objects.keys import retention_key
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import RetentionRow, TableRow
from seiche.lake.publish import fenced
from seiche.lake.state import State
from seiche.lake.versions import LakeVersions, manifests
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table.build import build
from seiche.table.change import Change
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.format.transaction_pb2 import Transaction as TransactionMessage
from seiche.table.operations import Append, Overwrite
from seiche.table.reachable import Reach
from seiche.table.transaction import Transaction as TableTransaction
from seiche.table.versions.naming import Naming, parse

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["KEPT", "Adopted", "adopt"]

# The folder of a table in which foreign manifests wait.
KEPT = "_foreign"
# The rows that name foreign commits which were brought in.
_ADOPTED: Final = "adopted/"


@dataclass(frozen=True, slots=True)
class Adopted:
    """One foreign commit that is part of the lake now."""

    transaction: str
    operation: str
    foreign_version: int
    lake_version: int


def adopt(lake: "Lake", name: str | Sequence[str]) -> list[Adopted]:
    """Commit what foreign writers left in a table's directory; returns what was brought in, oldest first.

    A conflict with what the lake holds is raised; the foreign manifest is then kept aside in `_foreign/`, nothing is
    lost, and the table works again. Interrupted, it can be run again: each foreign commit is applied once.
    """
    full = parts(name, what="table")
    lake.check_writable()
    row = _own(lake.state(), full)
    store = LakeVersions(lake.store, row).store
    # Newest first: as long as one stands there, so does what it was prepared on.
    for version in reversed(list(_foreign(lake, full, row, store))):
        _set_aside(lake, full, row, store, version)
    adopted = []
    for path in sorted(info.path for info in store.list(KEPT)):
        try:
            data = store.get(path)
        except NotFound:
            continue  # somebody else has brought it in
        made = _commit(lake, full, row, store, path, data)
        if made is not None:
            adopted.append(made)
        store.delete(path)
    return adopted


def _foreign(lake: "Lake", name: Name, row: TableRow, store: Store) -> Iterator[int]:
    """Versions whose published manifest is not the lake's: those it does not have, and those it has another of.

    What the lake has is looked at after what stands there: a version that is decided and published meanwhile would
    otherwise pass for a foreign one, and be committed a second time.
    """
    listed = [parse(info.path.rpartition("/")[2]) for info in store.list("_versions")]
    row = _same(lake.state(), name, row)
    own = dict(manifests(row))
    for version in sorted(found[1] for found in listed if found is not None):
        made = file.read_transaction(store, Naming.V2.path(version)) if version in own else None
        if _is_foreign(version, made, row):
            yield version


def _is_foreign(version: int, made: TransactionMessage | None, row: TableRow) -> bool:
    """Whether a published manifest that this transaction made is not the lake's, which has the table as in `row`.

    What came before the versions that the row names was published before them: there stands the lake's.
    """
    own = dict(manifests(row)).get(version)
    if own is None:
        return version > row.table_version
    return made is None or made.uuid != own.transaction


def _set_aside(lake: "Lake", name: Name, row: TableRow, store: Store, version: int) -> None:
    """Keep the foreign manifest under another name, then give the version back to the lake.

    The name says what is in it, since another foreign writer may get the same number while this one waits; and what it
    was prepared on, since that may be foreign too, and not be there any more when its turn comes.
    """
    target = Naming.V2.path(version)
    try:
        found = store.get(target)
    except NotFound:
        return  # somebody else sets it aside
    row = _same(lake.state(), name, row)
    if not _is_foreign(version, _transaction(found), row):
        return  # somebody else has set it aside, and the lake has made this version since
    content = hashlib.sha256(found).hexdigest()[:16]
    store.put(f"{KEPT}/{version:020}-{content}-{_prepared_on(store, found)}.manifest", found)
    own = dict(manifests(row)).get(version)
    if own is None:
        store.delete(target)
        _give_back(lake, row, store, version)
    else:
        store.put(target, fenced(store.get(own.path), own.path))


def _give_back(lake: "Lake", row: TableRow, store: Store, version: int) -> None:
    """Publish the lake's own version, if there is one by now under a name that was just made free.

    Somebody else may have set the same foreign manifest aside, and the lake have made and published this version before
    the name was freed: then that is what has gone, and whoever published it will not look again.
    """
    state = lake.state()
    for at in range(state.version, -1, -1):
        made = state.table_at(at, row.id)
        if made is None or not made.is_own("lance") or made.table_version < version:
            return
        own = dict(manifests(made)).get(version)
        if own is not None:
            with suppress(AlreadyExists):
                store.put_if_absent(Naming.V2.path(version), fenced(store.get(own.path), own.path))
            return


def _own(state: State, name: Name) -> TableRow:
    """The table; `InvalidInput` if it is none whose versions the lake numbers."""
    row = state.table(name)
    if not row.is_own("lance"):
        raise InvalidInput(
            f"{text(name)} is {row.type}, of format {row.format}: only of Lance tables that the lake manages does it"
            " number the versions, and only there can a foreign one be adopted",
            remedy="Nothing has to be done: what other writers commit to it is read as they left it.",
            table=text(name),
        )
    return row


def _same(state: State, name: Name, row: TableRow) -> TableRow:
    """The table as it is now; `RetryableConflict` if another one has its name."""
    now = _own(state, name)
    if now.id != row.id:
        raise RetryableConflict(
            f"{text(name)} was dropped and made anew meanwhile: what others left with the old one is no part of it",
            remedy="Nothing was written. Run it again.",
            table=text(name),
        )
    return now


def _commit(lake: "Lake", name: Name, table: TableRow, store: Store, path: str, data: bytes) -> Adopted | None:
    """Bring in one foreign commit; `None` if it has been brought in before.

    As long as the outcome of that is remembered, it is told again. For afterwards there is a row that stays: whoever
    brought it in may have been stopped before the manifest was gone, and nothing in the table need tell any more.
    """
    read = file.decode(data, path=path)
    if read.transaction is None:
        raise Corrupt(
            f"{store.uri}/{path} does not say what it did: it has no transaction inside",
            remedy="Look at it by hand; its rows can be read with pylance from a copy of the table.",
            path=path,
        )
    foreign = TableTransaction.from_proto(read.transaction)
    noted = retention_key(f"{_ADOPTED}{foreign.uuid}")
    with lake.transaction(key=f"adopt {foreign.uuid}", properties={"adopted": text(name)}) as tx:
        if tx.row_behind(noted) is not None:
            return None
        _repeat(tx, name, table, foreign, path, read.manifest)
        tx.write_row(noted, rows.encode(RetentionRow(maximum_age_millis=0, properties={"table": table.id})))
    return Adopted(foreign.uuid, foreign.operation.name, read.manifest.version, tx.version or 0)


def _repeat(
    tx: "Transaction", name: Name, table: TableRow, foreign: TableTransaction, path: str, made: Manifest
) -> None:
    """Make the foreign operation, which `made` a version, a statement of the transaction, as prepared on the version
    that it had read.
    """
    row = _same(tx.state, name, table)
    base = _base(name, row, foreign, path, tx.state)
    if not made.header.base_paths:
        _check_files(name, foreign, tx.state.store, row.location)
    statement = replace(foreign, read_version=base.version)
    # New rows mean what the columns are there, whatever the lake's version of that number has under their ids.
    written_for = made.header.fields if isinstance(foreign.operation, Append) else None
    running = build(base, statement, runtime=tx.runtime, managed=True, read_schema=written_for)
    # Plain writers flush nothing: without this, a power failure could leave the commit without its rows.
    brought = new_files(base, running, below(tx.state.store, row.location))
    tx.unflushed += [join(row.location, path) for path in brought]
    work = Work.begin(base).with_statement(Change(foreign.operation), running)
    edit: TableEdit = tx.edit(tx.table(name).id)
    tx.put_edit(replace(edit, work=work))


def _base(name: Name, row: TableRow, foreign: TableTransaction, path: str, state: State) -> Manifest:
    """The lake's version of the number that the foreign operation was prepared on.

    `IncompatibleConflict` if it is gone, or if the operation speaks of fragments that are other ones there.
    """
    operation = f"{text(name)}: a foreign {foreign.operation.name}"
    way_out = (
        f"Nothing was written. Do through the lake what it was meant to do, then remove {path} in the table's folder"
    )
    try:
        base = LakeVersions(state.store, row).read(min(foreign.read_version, row.table_version)).manifest
    except NotFound as error:
        raise IncompatibleConflict(
            f"{operation} was prepared on version {foreign.read_version}, which has been cleared away since: whether it"
            " goes together with what came after it cannot be told any more",
            remedy=f"{way_out}; its rows can be read with pylance from a copy of the table.",
            table=text(name),
            path=path,
        ) from error
    if not isinstance(foreign.operation, Append | Overwrite) and not path.endswith(f"-{_shape(base)}.manifest"):
        raise IncompatibleConflict(
            f"{operation} was prepared on a version {foreign.read_version} that is not the lake's: what it says of"
            " fragments is about others there",
            remedy=f"{way_out}.",
            table=text(name),
            path=path,
        )
    return base


def _check_files(name: Name, foreign: TableTransaction, lake: Store, location: str) -> None:
    """`NotFound` if a file is gone that the foreign commit brings: with it the table could not be read any more."""
    files: set[str] = set()
    Reach(files).add_transaction(foreign.to_proto())
    store = below(lake, location)
    for path, is_there in zip(sorted(files), store.in_parallel(store.exists, sorted(files)), strict=True):
        if not is_there:
            raise NotFound(
                f"{text(name)}: a foreign {foreign.operation.name} names {location}/{path}, which is gone",
                remedy="Nothing was written. Look for it with `lake.trash()`; without it this cannot be brought in.",
                table=text(name),
                path=f"{location}/{path}",
            )


def _prepared_on(store: Store, data: bytes) -> str:
    """The shape of the version that a foreign manifest was prepared on, as it stands there now."""
    with suppress(Corrupt, InvalidInput, NotFound):
        made = _transaction(data)
        if made is not None:
            before = Naming.V2.path(made.read_version)
            return _shape(file.decode(store.get(before), path=before).manifest)
    return "unknown"


def _transaction(data: bytes) -> TransactionMessage | None:
    """What made a manifest; `None` if it does not say so, or cannot be read."""
    with suppress(Corrupt, InvalidInput):
        return file.decode(data, path="").transaction
    return None


def _shape(manifest: Manifest) -> str:
    """What tells apart two versions of the same number: the files behind the numbers of fragments and columns."""
    fragments = [
        (one.id, [part.path for part in one.files], one.deletion_file.id, one.deletion_file.read_version)
        for one in manifest.fragments
    ]
    fields = [(one.id, one.parent_id, one.name, one.logical_type) for one in manifest.header.fields]
    return hashlib.sha256(repr((fragments, fields)).encode()).hexdigest()[:16]
