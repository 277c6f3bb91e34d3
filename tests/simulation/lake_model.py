"""A lake whose tables have fragments but no data: everything that is decided, nothing that is scanned."""

from collections.abc import Iterable
from typing import TypeVar

import pyarrow as pa

import seiche
from seiche import Lake
from seiche.core.runtime import Runtime
from seiche.lake.lake import open_lake
from seiche.lake.versions import LakeVersions
from seiche.store.base import Store
from seiche.table.change import Change
from seiche.table.format.manifest_pb2 import DataFile, DataFragment
from seiche.table.operations import Append
from seiche.testing import DictStore

SCHEMA = pa.schema([("id", pa.int64())])
TABLES = ("bank.a", "bank.b", "bank.c")


def fragment(name: str) -> DataFragment:
    """A fragment of one row, known by the name of its file."""
    file = DataFile(path=f"{name}.lance", fields=[0], column_indices=[0], file_major_version=2, file_minor_version=2)
    return DataFragment(files=[file], physical_rows=1)


def append(name: str) -> Change:
    """An append that can be told from every other."""
    return Change(Append((fragment(name),)), rows=1)


def prepared(seed: int = 0, tables: Iterable[str] = TABLES) -> DictStore:
    """A store with a lake of empty tables in it."""
    runtime = Runtime.seeded(seed)
    return filled(DictStore(runtime=runtime), runtime, tables)


S = TypeVar("S", bound=Store)


def filled(store: S, runtime: Runtime, tables: Iterable[str] = TABLES) -> S:
    """The store, with a lake of empty tables in it."""
    lake = seiche.create(store, runtime=runtime)
    lake.create_namespace("bank")
    for table in tables:
        lake.create_table(table, SCHEMA)
    return store


def opened(store: Store, seed: int = 1) -> Lake:
    """The lake, as another process opens it."""
    return open_lake(store, runtime=Runtime.seeded(seed))


def contents(lake: Lake, version: int | None = None) -> dict[str, list[str]]:
    """What was appended to each table, in order, at a version of the lake."""
    state = (lake if version is None else open_lake(lake.store, version=version)).state()
    found = {}
    for name in TABLES:
        row = state.table(tuple(name.split(".")))
        manifest = LakeVersions(lake.store, row).read(row.table_version).manifest
        found[name] = [one.files[0].path.removesuffix(".lance") for one in manifest.fragments]
    return found


def published(store: Store, lake: Lake) -> dict[str, int]:
    """For each table the newest version that a plain Lance reader finds; versions must be whole and have no gap."""
    from seiche.store.prefix import below
    from seiche.table.versions.stored import PutVersions

    found = {}
    for name in TABLES:
        row = lake.state().table(tuple(name.split(".")))
        plain = PutVersions(below(store, row.location))
        versions = plain.all()
        assert versions == list(range(1, versions[-1] + 1)), f"{name} has a gap: {versions}"
        assert [plain.read(one).manifest.version for one in versions] == versions
        found[name] = versions[-1]
    return found
