"""Bringing in what somebody committed past the lake.

A plain Lance writer that the fence did not stop leaves a manifest under the name of a version that is the lake's to
give. It is not lost, and must not be taken for the lake's own: its transaction is committed through the lake, where it
meets everything else that happened, and the lake's own version goes back under its name.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from seiche.core.insisting import insist
from seiche.errors import (
    AlreadyExists,
    ConflictError,
    Corrupt,
    IncompatibleConflict,
    InvalidInput,
    NotFound,
    RetryableConflict,
)
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.work import Work
from seiche.lake.engines.native_manifest import named_once, new_files
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
from seiche.table.operations import Append, Operation, Overwrite, ReserveFragments, Restore, Rewrite
from seiche.table.reachable import Reach
from seiche.table.transaction import Transaction as TableTransaction
from seiche.table.versions.naming import Naming, named

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
        try:
            made = _commit(lake, full, row, store, path, data)
        except ConflictError as error:
            raise _kept_aside(error, path) from error
        if made is not None:
            adopted.append(made)
        insist(lambda: store.delete(path), lake.states.runtime)  # noqa: B023 - called at once
    return adopted


def _foreign(lake: "Lake", name: Name, row: TableRow, store: Store) -> Iterator[int]:
    """Versions whose published manifest is not the lake's: those it does not have, and those it has another of.

    What the lake has is looked at after what stands there: a version that is decided and published meanwhile would
    otherwise pass for a foreign one, and be committed a second time.
    """
    listed = sorted(number for _, number in named(store))
    row = _same(lake.state(), name, row)
    own = dict(manifests(row))
    for version in listed:
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
    aside = f"{KEPT}/{version:020}-{content}-{_prepared_on(store, found)}.manifest"
    insist(lambda: store.put(aside, found), lake.states.runtime)
    own = dict(manifests(row)).get(version)
    if own is None:
        insist(lambda: store.delete(target), lake.states.runtime)
        _give_back(lake, row, store, version)
    else:
        own_bytes = fenced(store.get(own.path), own.path)
        insist(lambda: store.put(target, own_bytes), lake.states.runtime)


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
            published = partial(store.put_if_absent, Naming.V2.path(version), fenced(store.get(own.path), own.path))
            with suppress(AlreadyExists):
                insist(published, lake.states.runtime)
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
    """Bring in one foreign commit; `None` if it has been brought in before, or comes with another one.

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
    if isinstance(foreign.operation, ReserveFragments) and _brought_with_a_rewrite(store, path, read.manifest, foreign):
        return None
    noted = retention_key(f"{_ADOPTED}{foreign.uuid}")
    with lake.transaction(key=f"adopt {foreign.uuid}", properties={"adopted": text(name)}) as tx:
        if tx.row_behind(noted) is not None:
            return None
        _repeat(tx, name, table, foreign, path, read.manifest)
        tx.write_row(noted, rows.encode(RetentionRow(maximum_age_millis=0, properties={"table": table.id})))
    return Adopted(foreign.uuid, foreign.operation.name, read.manifest.version, tx.version or 0)


def _kept_aside(error: ConflictError, path: str) -> ConflictError:
    """The conflict with the way out of it: what the lake holds does not go away by running the same again, and later
    foreign commits wait behind this one.
    """
    if "path" in error.details:
        return error
    return type(error)(
        error.message,
        remedy=f"Nothing was written. Run it again; if it is refused again, {_way_out(path)}.",
        **error.details,
        path=path,
    )


def _way_out(path: str) -> str:
    return f"do through the lake what it was meant to do, then remove {path} in the table's folder"


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
    # New rows mean what the columns are there, whatever the lake's version of that number has under their ids.
    written_for = made.header.fields if isinstance(foreign.operation, Append) else None
    versions = LakeVersions(tx.state.store, row)
    work = Work.begin(base)
    for operation in _with_its_reservation(named_once(foreign.operation), base):
        running = build(
            _at(base.version, work.running),
            replace(foreign, read_version=base.version, operation=operation),
            runtime=tx.runtime,
            load=lambda version: versions.read(version).manifest,
            managed=True,
            read_schema=written_for,
        )
        work = work.with_statement(Change(operation), running)
    # Plain writers flush nothing: without this, a power failure could leave the commit without its rows.
    brought = new_files(base, work.running, below(tx.state.store, row.location))
    tx.unflushed += [join(row.location, path) for path in brought]
    edit: TableEdit = tx.edit(tx.table(name).id)
    tx.put_edit(replace(edit, work=work))


def _with_its_reservation(operation: Operation, base: Manifest) -> Iterator[Operation]:
    """What a foreign operation is in the lake: itself, and before a compaction the reservation of its fragment ids.

    A plain writer reserves them in a commit of its own, and prepares the compaction on the version before that. In the
    lake others may have been given those ids meanwhile: with its reservation in one transaction it gets others.
    """
    if isinstance(operation, Rewrite) and not operation.flat:
        beyond = max(_new_ids(operation), default=0) - max(base.max_fragment_id, 0)
        if beyond > 0:
            yield ReserveFragments(beyond)
    yield operation


def _brought_with_a_rewrite(store: Store, path: str, made: Manifest, foreign: TableTransaction) -> bool:
    """Whether a foreign reservation, which `made` a version, is for a compaction that waits behind it.

    One that nobody has used is brought in by itself: the fragments that were added after it have numbers behind it, and
    what was done to these goes by their numbers.
    """
    assert isinstance(foreign.operation, ReserveFragments)  # noqa: S101 - looked at by who calls
    last = made.max_fragment_id
    reserved = range(last - foreign.operation.num_fragments + 1, last + 1)
    for later in sorted(info.path for info in store.list(KEPT) if info.path > path):
        with suppress(Corrupt, InvalidInput, NotFound):
            found = _transaction(store.get(later))
            if found is None or found.read_version >= made.version:
                continue
            operation = TableTransaction.from_proto(found).operation
            if isinstance(operation, Rewrite) and any(one in reserved for one in _new_ids(operation)):
                return True
    return False


def _new_ids(rewrite: Rewrite) -> Iterator[int]:
    return (one.id for group in rewrite.groups for one in group.new_fragments)


def _at(version: int, manifest: Manifest) -> Manifest:
    """A manifest as if it were this version: every statement makes the one version after its base."""
    if manifest.version == version:
        return manifest
    header = manifest.copy_header()
    header.version = version
    return Manifest(header, manifest.fragments, manifest.index_section, field_ids=manifest.field_ids)


def _base(name: Name, row: TableRow, foreign: TableTransaction, path: str, state: State) -> Manifest:
    """The lake's version of the number that the foreign operation was prepared on.

    `IncompatibleConflict` if it is gone, or if the operation speaks of fragments that are other ones there.
    """
    operation = f"{text(name)}: a foreign {foreign.operation.name}"
    way_out = f"Nothing was written: {_way_out(path)}"
    try:
        versions = LakeVersions(state.store, row)
        read_version = min(foreign.read_version, row.table_version)
        base = versions.read(read_version).manifest
        shape = _shape_for(replace(foreign, read_version=read_version), lambda one: versions.read(one).manifest)
    except NotFound as error:
        raise IncompatibleConflict(
            f"{operation} was prepared on version {foreign.read_version}, which has been cleared away since: whether it"
            " goes together with what came after it cannot be told any more",
            remedy=f"{way_out}; its rows can be read with pylance from a copy of the table.",
            table=text(name),
            path=path,
        ) from error
    if not isinstance(foreign.operation, Append | Overwrite) and not path.endswith(f"-{shape}.manifest"):
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
            return _shape_for(TableTransaction.from_proto(made), lambda version: _standing(store, version))
    return "unknown"


def _standing(store: Store, version: int) -> Manifest:
    path = Naming.V2.path(version)
    return file.decode(store.get(path), path=path).manifest


def _shape_for(foreign: TableTransaction, read: Callable[[int], Manifest]) -> str:
    """The shape of what a foreign transaction speaks of: the version that it was prepared on, and the one it brings
    back.
    """
    shape = _shape(read(foreign.read_version))
    if isinstance(foreign.operation, Restore):
        both = f"{shape} {_shape(read(foreign.operation.version))}"
        return hashlib.sha256(both.encode()).hexdigest()[:16]
    return shape


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
