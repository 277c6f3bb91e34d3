"""Tables whose data files hold no rows: everything that is committed, named and removed is real, nothing is scanned.

What a version needs is worked out here from its manifest a second time, in the plainest way, as the oracle of tests.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

import pyarrow as pa
from pyroaring import BitMap

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.bases import deletion_files
from seiche.table.format import file, roaring
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import UUID as UuidMessage
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile, IndexFile, IndexMetadata
from seiche.table.operations import (
    Append,
    CreateIndex,
    Delete,
    Overwrite,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
)
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.table.versions.external import ManifestRecord, ManifestStore
from seiche.table.versions.naming import DETACHED, Naming
from seiche.testing import DictStore

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.string())])
ROWS = 10


class MadeUpTable:
    """A table at a directory of a store that is shared with whoever else is tested."""

    def __init__(
        self, store: Store, name: str = "table", *, seed: int = 1, clock: SimulatedClock | None = None
    ) -> None:
        seeded = Runtime.seeded(seed)
        self.store = store
        self.name = name
        self.runtime = seeded if clock is None else Runtime(clock, seeded.random)
        self.root = below(store, name)
        self.table = Table.create(self.root, SCHEMA, runtime=self.runtime)

    def copier(self) -> Callable[[], Store]:
        """Makes fresh stores that hold what the table's holds now."""
        content = {path: self.store.get(path) for path in paths_below(self.store)}

        def copy() -> Store:
            store = DictStore()
            for path, data in content.items():
                store.put(path, data)
            return store

        return copy

    def fence(self) -> None:
        """Close the newest version to plain writers, as that of a table of a lake is."""
        path = Naming.V2.path(self.table.version)
        read = file.decode(self.root.get(path), path=path)
        read.manifest.header.writer_feature_flags |= SEICHE_FENCE
        assert read.transaction is not None
        self.root.put(path, b"".join(file.encode(read.manifest, read.transaction.SerializeToString())))

    def fragment(self, table: Table | None = None, *, blobs: int = 0) -> DataFragment:
        """A new data file, written below the root of the table, with values beside it that are left out of it."""
        store = (table or self.table).store
        name = self.runtime.uuid().hex
        store.put_if_absent(f"data/{name}.lance", b"rows")
        for number in range(blobs):
            store.put_if_absent(f"data/{name}/{number}.blob", b"large")
        made = DataFile(
            path=f"{name}.lance",
            fields=[0, 1],
            column_indices=[0, 1],
            file_major_version=2,
            file_minor_version=2,
            file_size_bytes=4,
        )
        return DataFragment(files=[made], physical_rows=ROWS)

    def append(self, table: Table | None = None, *, blobs: int = 0) -> int:
        on = table or self.table
        on.commit(Append((self.fragment(on, blobs=blobs),)), read_version=on.version)
        return on.version

    def overwrite(self, table: Table | None = None) -> int:
        on = table or self.table
        schema = tuple(on.manifest.header.fields)
        on.commit(Overwrite((self.fragment(on),), schema), read_version=on.version)
        return on.version

    def delete(self, table: Table | None = None, *, offset: int = 0) -> int:
        """One more row of the first fragment."""
        on = table or self.table
        manifest = on.manifest
        fragment = DataFragment()
        fragment.CopyFrom(manifest.fragments[0])
        deletions = deletion_files(manifest, on.store, self.runtime)
        gone = deletions.read(fragment)
        free = [one for one in range(ROWS) if one not in gone]
        if len(free) == 1:
            on.commit(Delete((), (fragment.id,), "true"), read_version=manifest.version)
            return on.version
        gone.add(free[offset % len(free)])
        fragment.deletion_file.CopyFrom(deletions.write(fragment.id, manifest.version, gone))
        on.commit(Delete((fragment,), (), "id = 1"), read_version=manifest.version)
        return on.version

    def compact(self, table: Table | None = None) -> int:
        """All fragments into as many new ones as their rows fill, without deletions."""
        on = table or self.table
        manifest = on.manifest
        if not len(manifest.fragments):
            return on.version
        deletions = deletion_files(manifest, on.store, self.runtime)
        left = sum(one.physical_rows - len(deletions.read(one)) for one in manifest.fragments)
        on.commit(ReserveFragments(1), read_version=manifest.version)
        new = self.fragment(on)
        new.id, new.physical_rows = on.manifest.max_fragment_id, left
        group = RewriteGroup(old_fragments=list(manifest.fragments), new_fragments=[new] if left else [])
        on.commit(Rewrite((group,)), read_version=manifest.version)
        return on.version

    def index(self, table: Table | None = None) -> int:
        """An index in the place of all that there are."""
        on = table or self.table
        manifest = on.manifest
        uuid = self.runtime.uuid()
        on.store.put_if_absent(f"_indices/{uuid}/page.lance", b"page")
        entry = IndexMetadata(
            uuid=UuidMessage(uuid=uuid.bytes),
            name="by_id",
            fields=[0],
            dataset_version=manifest.version,
            fragment_bitmap=roaring.encode(BitMap(manifest.fragments.ids())),
            files=[IndexFile(path="page.lance", size_bytes=4)],
        )
        on.commit(CreateIndex((entry,), manifest.indices), read_version=manifest.version)
        return on.version

    def restore(self, version: int, table: Table | None = None) -> int:
        on = table or self.table
        on.commit(Restore(version), read_version=on.version)
        return on.version

    def detached(self, table: Table | None = None) -> int:
        """A version outside of the line, as pylance makes them, with a data file of its own."""
        on = table or self.table
        header = on.manifest.copy_header()
        header.version = DETACHED | self.runtime.random.getrandbits(60)
        fragment = self.fragment(on)
        fragment.id = on.manifest.max_fragment_id + 1
        header.max_fragment_id = fragment.id
        made = Manifest(header, on.manifest.fragments.extended([fragment]), on.manifest.index_section)
        transaction = Transaction(on.version, str(self.runtime.uuid()), Append((fragment,)))
        data = b"".join(file.encode(made, transaction.encode()))
        on.store.put_if_absent(f"_versions/d{header.version}.manifest", data)
        return header.version


def paths_below(store: Store, folder: str = "") -> set[str]:
    return {info.path for info in store.list(folder)}


def manifests_at(store: Store, root: str) -> dict[str, Manifest]:
    """Every manifest in the directory of versions, by path; detached ones too."""
    found = {}
    for path in paths_below(store, f"{root}/_versions"):
        if path.endswith(".manifest"):
            found[path] = file.decode(store.get(path), path=path).manifest
    return found


def needed_by(manifest: Manifest, root: str, store: Store) -> Iterator[str]:
    """The files of a version as paths of the whole store; `root` is the directory of its table."""
    bases = {base.id: base.path for base in manifest.header.base_paths}
    home = store.native_uri().rstrip("/") + "/"

    def place(entry: DataFile | DeletionFile | IndexMetadata) -> str:
        return bases[entry.base_id].removeprefix(home) if entry.HasField("base_id") else root

    for fragment in manifest.fragments:
        for data in fragment.files:
            path = f"{place(data)}/data/{data.path}"
            yield path
            yield from paths_below(store, path.removesuffix(".lance"))
        if fragment.HasField("deletion_file"):
            one = fragment.deletion_file
            ending = "bin" if one.file_type == 1 else "arrow"
            yield f"{place(one)}/_deletions/{fragment.id}-{one.read_version}-{one.id}.{ending}"
    for index in manifest.indices:
        for part in index.files:
            yield f"{place(index)}/_indices/{UUID(bytes=index.uuid.uuid)}/{part.path}"


def missing_files(store: Store, roots: Iterable[str]) -> list[str]:
    """What versions of the tables at these directories need and storage does not have."""
    there = paths_below(store)
    return [
        f"{posixpath.basename(path)} needs {needed}"
        for root in roots
        for path, manifest in manifests_at(store, root).items()
        for needed in needed_by(manifest, root, store)
        if needed not in there
    ]


def simulated() -> tuple[DictStore, SimulatedClock]:
    """A store, and the clock that dates its files."""
    clock = SimulatedClock()
    return DictStore(runtime=Runtime(clock, Runtime.seeded(0).random)), clock


def unfinished(store: Store, records: ManifestStore, version: int) -> str:
    """As if the writer of a version had died between claim and copy; returns where its manifest is staged."""
    final, base = Naming.V2.path(version), records.base_uri(store)
    staged, data = f"{final}-{UUID(int=version)}", store.get(final)
    store.put(staged, data)
    record = ManifestRecord(version, f"{base}/{staged}", len(data))
    assert records.put_if_present(base, record, replacing=f"{base}/{final}") is None
    store.delete(final)
    return staged
