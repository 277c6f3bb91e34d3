"""A private table over the files of a version, in which native code may commit.

Some of what pylance does to indices it does only while committing: leading them on when rows move, adding new rows to
them. It must not commit to our tables, so it is given a shadow: a table of its own in a corner of ours, which refers to
all files and copies none. What pylance leaves there in its last version, index files and entries, is taken over and
committed by us. The shadow goes when the work is done; one whose process died is garbage that nothing refers to.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from seiche.core.insisting import insist
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, NotFound, SeicheError
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.build import build
from seiche.table.data.native import open_version
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.format.side_files import put_new
from seiche.table.operations import Clone
from seiche.table.reachable import SHADOWS
from seiche.table.snapshot import Snapshot
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions

if TYPE_CHECKING:
    import lance

__all__ = ["Shadow", "shadow"]


@dataclass(frozen=True, slots=True)
class Shadow:
    """A table that begins as a copy of a version, without copying a file."""

    table: Store
    # Where in the table it stands.
    place: str
    first: Manifest
    # The base under which the files of the table itself are referred to.
    base_id: int
    dataset: "lance.LanceDataset"
    runtime: Runtime

    def newest(self) -> tuple[Manifest, Transaction]:
        """The last version that native code made here, and how it did."""
        versions = PutVersions(below(self.table, self.place), naming=Naming.V2)
        number = versions.newest()
        return versions.read(number).manifest, versions.transaction(number)

    def take_over(self, segments: Iterable[IndexMetadata]) -> tuple[int, ...]:
        """Move the files of index segments to where the table itself keeps its own; returns how large each is.

        They are durable when this returns.
        """
        moved: dict[str, int] = {}
        for segment in segments:
            inside = f"{self.place}/_indices/{UUID(bytes=segment.uuid.uuid)}"
            for one in list(self.table.list(inside)):
                target = one.path.removeprefix(f"{self.place}/")
                insist(partial(self._move, one.path, target), self.runtime)
                moved[target] = one.size
        self.table.flush(moved)
        return tuple(moved.values())

    def _move(self, source: str, target: str) -> None:
        """The name holds an id that was drawn here: what has it is the same file, by an attempt that had no answer."""
        if not self.table.lists_in_one_request:
            # On object stores a rename is a download and an upload, a copy is one request. The source goes with the
            # shadow.
            self.table.copy_from(self.table, source, target)
            return
        try:
            self.table.rename_if_absent(source, target)
        except AlreadyExists:
            return
        except NotFound:
            if not self.table.exists(target):
                raise


@contextmanager
def shadow(snapshot: Snapshot, *, last_fragment_id: int | None = None) -> Iterator[Shadow]:
    """A shadow of the snapshot for as long as the block lasts.

    Native code numbers new fragments from the one after `last_fragment_id` on, if given.
    """
    place = f"{SHADOWS}/{snapshot.runtime.uuid()}"
    store = below(snapshot.store, place)
    first, transaction = _first_version(snapshot, last_fragment_id)
    try:
        encoded = transaction.encode()
        put_new(store, f"_transactions/{transaction.file_name}", encoded, snapshot.runtime, durable=False)
        put_new(store, Naming.V2.path(first.version), file.encode(first, encoded), snapshot.runtime, durable=False)
        base_id = first.header.base_paths[-1].id
        yield Shadow(snapshot.store, place, first, base_id, open_version(store, first.version), snapshot.runtime)
    finally:
        # What cannot be removed now is garbage for the clean-up, and no reason to fail.
        with suppress(SeicheError):
            for one in list(snapshot.store.list(place)):
                snapshot.store.delete(one.path)
            snapshot.store.prune(place)


def _first_version(snapshot: Snapshot, last_fragment_id: int | None) -> tuple[Manifest, Transaction]:
    manifest = snapshot.manifest
    header = manifest.copy_header()
    # Settings tell native writers to clean up after a commit, and tags and branches to be somewhere else.
    header.config.clear()
    header.ClearField("branch")
    clone = Clone(is_shallow=True, ref_version=manifest.version, ref_path=snapshot.store.native_uri())
    transaction = Transaction(manifest.version, str(snapshot.runtime.uuid()), clone)
    source = Manifest(header, manifest.fragments, manifest.index_section)
    made = build(source, transaction, runtime=snapshot.runtime, managed=True)
    if last_fragment_id is not None:
        renumbered = made.copy_header()
        renumbered.max_fragment_id = last_fragment_id
        made = Manifest(renumbered, made.fragments, made.index_section)
    return made, transaction
