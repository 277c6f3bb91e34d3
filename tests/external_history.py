"""A short history of a table as pylance made it, to be committed again through a manifest store, step by step."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lance
import pyarrow as pa

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.store.files import joined
from seiche.table.format import file
from seiche.table.versions.external import ExternalVersions, ManifestStore
from seiche.table.versions.naming import Naming, parse

VERSIONS = 5


@dataclass(frozen=True)
class History:
    """Version n holds the rows 1 to n."""

    manifests: dict[int, bytes]
    files: dict[str, bytes]


@cache
def history() -> History:
    """Made once by pylance: every manifest, and every other file of the table."""
    with TemporaryDirectory() as folder:
        for version in range(1, VERSIONS + 1):
            lance.write_dataset(pa.table({"row": [version]}), folder, mode="append" if version > 1 else "create")
        manifests, files = {}, {}
        for path in Path(folder).rglob("*"):
            if path.is_file():
                named = parse(path.name)
                if named is not None:
                    manifests[named[1]] = path.read_bytes()
                elif "_versions" not in path.parts:
                    files[str(path.relative_to(folder))] = path.read_bytes()
    assert sorted(manifests) == list(range(1, VERSIONS + 1))
    return History(manifests, files)


def another_manifest(version: int) -> bytes:
    """The manifest of somebody else who made the same version, as many bytes long."""
    read = file.decode(history().manifests[version], path="history")
    assert read.transaction is not None
    transaction = type(read.transaction)()
    transaction.CopyFrom(read.transaction)
    transaction.uuid = "0" * len(transaction.uuid)
    data = joined(file.encode(read.manifest, transaction.SerializeToString()))
    assert data != history().manifests[version]
    return data


def begin(store: Store, manifest_store: ManifestStore, versions: int, *, seed: int = 0) -> ExternalVersions:
    """Lay out the data files and commit the first `versions` through the manifest store."""
    for path, data in history().files.items():
        store.put(path, data)
    external = ExternalVersions(store, manifest_store, naming=Naming.V2, runtime=Runtime.seeded(seed))
    for version in range(1, versions + 1):
        external.claim(version, history().manifests[version])
    return external


def check_version(external: ExternalVersions, version: int) -> None:
    """That `external` sees exactly the history up to `version`."""
    assert external.newest() == version
    assert external.all() == list(range(1, version + 1))
    for one in range(1, version + 1):
        assert external.store.get(external.path(one)) == history().manifests[one]
        assert external.read(one).manifest.version == one


def plain_version(store: Store, folder: Path) -> int:
    """Copy the directory, without the manifest store; the version that pylance opens there, complete."""
    for info in store.list():
        target = folder / info.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.get(info.path))
    opened: Any = lance.dataset(str(folder))
    opened.validate()
    version = int(opened.version)
    assert opened.to_table()["row"].to_pylist() == list(range(1, version + 1))
    assert [one["version"] for one in opened.versions()] == list(range(1, version + 1))
    return version
