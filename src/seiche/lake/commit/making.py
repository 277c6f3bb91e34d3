"""New versions of a Lance table from the statements of a transaction, on top of what the lake holds now."""

import hashlib
from collections.abc import Sequence
from uuid import UUID

from seiche.core.runtime import Runtime
from seiche.core.values import replaced
from seiche.errors import AlreadyExists
from seiche.lake.commit.made import Made, Progress
from seiche.lake.commit.renumber import renumbered, reserved, restamped, trimmed
from seiche.lake.commit.work import Folded, Work
from seiche.lake.manifest_cache import Built
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.tree.root import micros
from seiche.lake.versions import LakeVersions, staged_path
from seiche.store.paths import join
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Append, ReserveFragments
from seiche.table.pending import Pending
from seiche.table.transaction import Transaction

__all__ = ["Made", "make_versions"]


def make_versions(
    work: Work, folded: Folded, now: TableRow, state: State, *, uuid: str, runtime: Runtime, table: str, durable: bool
) -> Made:
    """The versions that `folded` makes after version `now.table_version`; conflicts with what came since are raised.

    `uuid` is that of the table's own transaction: the same at every attempt, so that one that succeeded without an
    answer is recognised. `durable` says whether the row is that of a root, or of an earlier member of the same group,
    whose manifests must then be published together with these.
    """
    if (version := _as_it_stands(work, folded, now)) is not None:
        transaction = Transaction(work.base.version, uuid, work.statements[0].operation)
        signed = _signed(version, transaction, runtime)
        return _staged(now, [(transaction, signed)], runtime, content=True, durable=durable)
    progress = work.progress if durable else Progress()
    versions = progress.versions or LakeVersions(state.store, now, state.manifests)
    versions.follow(now)
    operations = list(folded.followers) if folded.content is None else [folded.content, *folded.followers]
    made: list[tuple[Transaction, Manifest]] = []
    for number, operation in enumerate(operations):
        unique = uuid if number == 0 else str(runtime.derived_uuid(UUID(uuid), str(number)))
        # Each was prepared on the base, so each is checked against everything that others committed since.
        pending = progress.pending if operation is folded.content else None
        if pending is None:
            transaction = Transaction(work.base.version, unique, operation)
            rows = folded.affected_rows if operation is folded.content else None
            pending = Pending(transaction, work.base, versions, runtime, affected_rows=rows, table=table)
        made.append(_next(pending, now, made[-1][1] if made else None))
        if operation is folded.content:
            progress.pending, progress.versions = pending, versions
            latest, moved = renumbered(made[0][1], folded, work, versions.store)
            made[0] = made[0][0], latest
            following = trimmed(operations[1:], moved)
            operations[1:] = restamped(following, work.base.version + 1, latest.version)
        elif isinstance(operation, ReserveFragments):
            later = number + 1
            operations[later:] = reserved(operations[later:], made[-1][1], operation.num_fragments)
    return _staged(now, made, runtime, content=folded.content is not None, durable=durable)


def _as_it_stands(work: Work, folded: Folded, now: TableRow) -> Manifest | None:
    """The version that the only statement, an append, has made already, if nobody has changed the table since.

    Whoever was given an operation by others, as the service is, has not built a version of it yet.
    """
    only = isinstance(folded.content, Append) and len(work.statements) == 1 and not folded.followers
    unchanged = now.table_version == work.base.version and work.running.version == now.table_version + 1
    return work.running if only and unchanged else None


def _signed(made: Manifest, transaction: Transaction, runtime: Runtime) -> Manifest:
    """The version as that of another transaction: the table's own, whose id the statement did not know."""
    header = made.copy_header()
    header.transaction_file = transaction.file_name
    header.timestamp.FromMicroseconds(micros(runtime.clock.now()))
    return Manifest(header, made.fragments, made.index_section, field_ids=made.field_ids)


def _next(pending: Pending, now: TableRow, latest: Manifest | None) -> tuple[Transaction, Manifest]:
    """The version after `latest`, or after the table's newest one if this is the first of the transaction."""
    if now.table_version == 0:
        return pending.build(latest, managed=True)
    if pending.check_against(now.table_version) is not None:
        raise AlreadyExists(
            f"transaction {pending.transaction.uuid} of this table has been applied already",
            remedy="Ask for the status of the lake's transaction instead of running it again.",
            transaction_id=pending.transaction.uuid,
        )
    return pending.build(latest, managed=True)


def _staged(
    now: TableRow,
    made: Sequence[tuple[Transaction, Manifest]],
    runtime: Runtime,
    *,
    content: bool,
    durable: bool,
) -> Made:
    files: dict[str, bytes] = {}
    refs: list[ManifestRef] = []
    built: list[Built] = []
    for transaction, manifest in made:
        encoded = transaction.encode()
        built.append((manifest, encoded))
        data = b"".join(file.encode(manifest, encoded))
        path = staged_path(manifest.version, f"{runtime.u64():016x}")
        files[join(now.location, path)] = data
        refs.append(
            ManifestRef(path=path, transaction=transaction.uuid, sha256=hashlib.sha256(data).digest(), size=len(data))
        )
    before = () if durable or now.manifest is None else (*now.earlier, now.manifest)
    row = replaced(
        now,
        table_version=made[-1][1].version,
        logical_version=now.logical_version + content,
        manifest=refs[-1],
        earlier=(*before, *refs[:-1]),
    )
    return Made(row, files, tuple(files.values()), tuple(built))
