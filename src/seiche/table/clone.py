"""Copies of a table: with all files of one version, or with none, referring to those of the source."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidInput,
    NotFound,
    RetryableConflict,
    SeicheError,
    Unavailable,
)
from seiche.store.base import Store
from seiche.table.bases import base_stores
from seiche.table.build import build
from seiche.table.commit import Committer
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Clone
from seiche.table.refs import References, branch_of
from seiche.table.transaction import Transaction
from seiche.table.version_files import StoredFile, VersionFiles
from seiche.table.versions.base import Versions
from seiche.table.versions.opening import open_versions
from seiche.table.versions.stored import StoredVersions

__all__ = ["CLONE_PROPERTY", "Carry", "Progress", "ProgressCallback", "clone", "copy_one"]

# Metadata of the tag that keeps what a shallow clone refers to: where the clone is.
CLONE_PROPERTY = "seiche.clone"

_PATIENCE = Patience(attempts=6, timeout=60.0)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a copy is."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


ProgressCallback: TypeAlias = Callable[[Progress], None]
# Copies files into a store, by whichever means; all are there when it returns.
Carry: TypeAlias = Callable[[Sequence[StoredFile], Store], object]


def clone(
    source: References,
    version: int,
    target: Versions,
    *,
    shallow: bool,
    protect: bool = True,
    progress: ProgressCallback | None = None,
    carry: Carry | None = None,
) -> Manifest:
    """Make the table `target` as a copy of `version`, whose number its first version keeps; returns that version.

    The manifest is written last. Whatever fails before, the target is no table, and cloning to it again begins anew.
    `AlreadyExists` if there is a table, before anything is written.
    """
    runtime, store = source.runtime, source.versions.store
    manifest = source.versions.read(version).manifest
    if manifest.header.writer_feature_flags & SEICHE_FENCE:
        manifest = _released(manifest, source.versions.store, shallow=shallow)
    operation = Clone(is_shallow=shallow, ref_name=source.branch, ref_version=version, ref_path=store.native_uri())
    transaction = Transaction(version, str(runtime.uuid()), operation)
    build(manifest, transaction, runtime=runtime)  # what cannot be cloned shows before anything is written
    _refuse_existing(target)
    if shallow:
        return _clone_shallow(source, manifest, transaction, target, protect=protect)
    files = VersionFiles(manifest, store, runtime).all()
    if carry is None:
        _copy(files, target.store, runtime, progress)
    else:
        carry(files, target.store)
    return _commit(target, transaction, manifest, runtime)


def _clone_shallow(
    source: References, manifest: Manifest, transaction: Transaction, target: Versions, *, protect: bool
) -> Manifest:
    """The tags are there before the clone is, so that no clean-up can come between."""
    kept = {f"clone-{transaction.uuid}": (source, manifest.version)} if protect else {}
    for further in _further(source, manifest) if protect else ():
        kept[f"clone-{source.runtime.uuid()}"] = further
    for tag, (line, version) in kept.items():
        line.put_tag(tag, version, metadata={CLONE_PROPERTY: target.store.native_uri()})
    try:
        return _commit(target, transaction, manifest, source.runtime)
    except (AlreadyExists, RetryableConflict):
        for tag, (line, _) in kept.items():
            line.remove_tag(tag)
        raise


def _further(source: References, manifest: Manifest) -> Iterator[tuple[References, int]]:
    """The versions of other tables that are kept for the source, which is itself a shallow clone of them.

    The new clone refers to their files too, and needs them longer if the source is removed, and its tag there.
    """
    ours, runtime = source.versions.store.native_uri(), source.runtime
    stores = base_stores(manifest, source.versions.store, runtime)
    for base in manifest.header.base_paths:
        if not base.is_dataset_root:
            continue
        with suppress(NotFound):
            versions = open_versions(stores[base.id], naming=None, manifest_store=None, runtime=runtime, options={})
            table = References(versions, branch_of(versions.read(versions.newest()).manifest.header), runtime)
            for tag in table.tags().values():
                if tag.metadata.get(CLONE_PROPERTY) == ours and tag.branch == table.branch:
                    yield table, tag.version


def _copy(files: Sequence[StoredFile], target: Store, runtime: Runtime, progress: ProgressCallback | None) -> None:
    """Copy all files, several at a time. When this returns they are there, as large as they were."""
    total = sum(file.size for file in files)
    done = Progress(0, len(files), 0, total)
    lock = Lock()

    def copy(file: StoredFile) -> None:
        nonlocal done
        copy_one(file, target, runtime)
        with lock:
            done = Progress(done.files_done + 1, len(files), done.bytes_done + file.size, total)
            if progress is not None:
                progress(done)

    if progress is not None:
        progress(done)
    target.in_parallel(copy, files)


def copy_one(file: StoredFile, target: Store, runtime: Runtime) -> None:
    """Copy a file, however often it takes. When this returns it is there, as large as it was."""
    failure: SeicheError | None = None
    for _ in _PATIENCE.tries(runtime):
        try:
            target.copy_from(file.store, file.path, file.target)
            size = target.head(file.target).size
        except (CommitUnknown, Unavailable) as error:
            failure = error  # copying twice is the same as once
            continue
        if size != file.size:
            raise Corrupt(
                f"{file.target} has {size} bytes in {target.uri}, but {file.size} in {file.store.uri}",
                remedy="Somebody else writes to the target, or the storage lost bytes. Clone to another address.",
                path=file.target,
            )
        return
    raise Unavailable(
        f"{file.path} of {file.store.uri} could not be copied to {target.uri}: {failure.message if failure else ''}",
        remedy=failure.remedy if isinstance(failure, Unavailable) else "",
        path=file.path,
    ) from failure


def _commit(target: Versions, transaction: Transaction, manifest: Manifest, runtime: Runtime) -> Manifest:
    """Claim the first version.

    Two clones of different versions claim different names, and neither stops the other. Who sees the other one
    afterwards withdraws; if both do, there is no table, and both are told.
    """
    made = Committer(target, runtime, Patience()).create(transaction, manifest).manifest
    if isinstance(target, StoredVersions) and _has_rival(target, made.version):
        target.store.delete(target.path(made.version))
        raise RetryableConflict(
            f"{target.store.uri}: somebody else made a table here at the same time",
            remedy="Open that one, or clone to another address.",
            table=target.store.uri,
        )
    return made


def _has_rival(target: Versions, version: int) -> bool:
    """Whether there is a version that does not follow from ours."""
    versions = target.all()
    if versions[0] < version:
        return True
    if versions[-1] == version:
        return False
    try:
        return isinstance(target.transaction(version + 1).operation, Clone)
    except NotFound:
        return True


def _refuse_existing(target: Versions) -> None:
    with suppress(NotFound):
        newest = target.newest()
        raise AlreadyExists(
            f"there is a table at {target.store.uri} already, at version {newest}",
            remedy="Open it with `Table.open`, or choose another address.",
            table=target.store.uri,
            version=newest,
        )


def _released(manifest: Manifest, store: Store, *, shallow: bool) -> Manifest:
    """As a table of its own, which belongs to no lake."""
    if shallow:
        raise InvalidInput(
            f"{store.uri} is managed by a lake, which does not know what a shallow clone refers to",
            remedy="Make a deep clone, or export the table from the lake.",
        )
    header = manifest.copy_header()
    header.writer_feature_flags &= ~SEICHE_FENCE
    return Manifest(header, manifest.fragments, manifest.index_section)
