"""Bringing decided manifests to their plain Lance names, for readers that know nothing of the lake."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, Corrupt, NotFound, SeicheError, Unavailable
from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.lake.objects.rows import TableRow
from seiche.lake.versions import manifests
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.format import file
from seiche.table.format.file import ManifestFile
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.format.manifest import Manifest
from seiche.table.versions import hint
from seiche.table.versions.naming import Naming

__all__ = ["Publisher", "closed", "fenced", "opened"]

_TRYING = Patience(attempts=6, timeout=20.0, first_delay=0.05, longest_delay=1.0)


def fenced(staged: bytes, path: str) -> bytes:
    """The bytes that are published for a staged manifest: the same version, closed to plain Lance writers.

    Everybody who publishes makes the same bytes, so doing it twice is doing it once.
    """
    return _flagged(staged, path, SEICHE_FENCE)


def closed(manifest: Manifest, transaction: bytes) -> bytes:
    """The bytes that are published, as of `fenced`, from the manifest itself and its transaction as it is stored."""
    return _with_flag(manifest, transaction, SEICHE_FENCE)


def opened(published: bytes, path: str) -> bytes:
    """The bytes of a published manifest that plain Lance writers may go on from."""
    return _flagged(published, path, 0)


def _flagged(data: bytes, path: str, fence: int) -> bytes:
    read = file.decode(data, path=path)
    return _with_flag(read.manifest, _stored(read), fence)


def _stored(read: ManifestFile) -> bytes:
    return b"" if read.transaction is None else read.transaction.SerializeToString(deterministic=True)


def _with_flag(manifest: Manifest, transaction: bytes, fence: int) -> bytes:
    header = manifest.copy_header()
    header.writer_feature_flags = header.writer_feature_flags & ~SEICHE_FENCE | fence
    return b"".join(file.encode(Manifest(header, manifest.fragments, manifest.index_section), transaction))


class Publisher:
    """Publishes the manifests that rows of the lake name, and remembers what it knows to be published.

    Published is not decided: the root has decided before. So this can be done late, again, and by anyone.
    """

    def __init__(self, lake: Store, runtime: Runtime) -> None:
        self._lake = lake
        self._runtime = runtime
        self._done: dict[str, int] = {}

    def check(self, row: TableRow, cache: ManifestCache) -> None:
        """`publish` for versions that others made. Those have published them, unless they were stopped: it is cheaper
        to look first. And what a commit was just built upon is in memory.
        """
        if not self._is_done(row):
            held = [cache.recall(ref) for _, ref in manifests(row)]
            ready = [] if None in held else [closed(one.manifest, _stored(one)) for one in held if one is not None]
            self.publish(row, ready, expected=True)

    def publish(self, row: TableRow, ready: Iterable[bytes] = (), *, expected: bool = False) -> None:
        """See to it that every version up to the row's is published, in order.

        `ready` is what is to be published for its last manifests, if at hand. `Corrupt` if a manifest that the lake did
        not decide on stands under one of the names. If they are `expected` to be published, a look comes first.
        """
        if self._is_done(row):
            return
        done = self._done.get(row.id, 0)
        store = below(self._lake, row.location)
        at_hand = dict(zip(range(row.table_version, 0, -1), reversed(tuple(ready)), strict=False))
        fresh = False
        for version, ref in manifests(row):
            if version > done:
                fresh = self._publish_one(store, version, ref, at_hand.get(version), expected)
        self._done[row.id] = row.table_version
        # Whoever reads an old version finds it published: the hint must not go back to it.
        if fresh and store.lists_in_one_request:
            hint.write(store, row.table_version)

    def _is_done(self, row: TableRow) -> bool:
        return row.type != "managed" or row.format != "lance" or self._done.get(row.id, 0) >= row.table_version

    def _publish_one(self, store: Store, version: int, ref: ManifestRef, ready: bytes | None, expected: bool) -> bool:
        """Whether it was not there before, as far as the storage says."""
        target = Naming.V2.path(version)
        wanted = fenced(_staged(store, ref), ref.path) if ready is None else ready
        if expected:
            with suppress(NotFound, Unavailable):
                if store.get(target) == wanted:
                    return False
        unanswered: SeicheError | None = None
        for _ in _TRYING.tries(self._runtime):
            try:
                store.put_if_absent(target, wanted)
                return True
            except (AlreadyExists, CommitUnknown, Unavailable) as error:
                unanswered = error
            # A put without an answer may have arrived, or may yet: what stands there says so, nothing there says
            # nothing.
            with suppress(NotFound, Unavailable):
                if _same(store.get(target), wanted, target):
                    return not isinstance(unanswered, AlreadyExists)
                raise _foreign(store, target, version, ref)
        raise Unavailable(f"{store.uri}: {target} could not be published") from unanswered


def _same(found: bytes, wanted: bytes, path: str) -> bool:
    """Another release may encode the same manifest in other bytes. In the copy that an export makes, it is open."""
    if found == wanted:
        return True
    return file.decode(fenced(found, path), path=path) == file.decode(wanted, path=path)


def _staged(store: Store, ref: ManifestRef) -> bytes:
    try:
        data = store.get(ref.path)
    except NotFound as error:
        raise Corrupt(
            f"{store.uri}: the manifest {ref.path} that the lake decided on is missing",
            remedy="Restore it from a copy of the lake, or roll the lake back to the version before.",
            path=ref.path,
        ) from error
    if hashlib.sha256(data).digest() != ref.sha256:
        raise Corrupt(
            f"{store.uri}: {ref.path} is not the manifest that the lake decided on",
            remedy="Restore it from a copy of the lake.",
            path=ref.path,
        )
    return data


def _foreign(store: Store, target: str, version: int, ref: ManifestRef) -> Corrupt:
    return Corrupt(
        f"{store.uri}: {target} was written by somebody who does not know the lake; the lake's own is {ref.path}",
        remedy="Look at it. `lake.adopt(table)` brings its changes into the lake; nothing was overwritten.",
        path=target,
        version=version,
        transaction_id=ref.transaction,
    )
