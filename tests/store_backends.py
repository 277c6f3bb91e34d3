"""Every kind of store that there is, as the contract suite and the probe's tests take them."""

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from seiche.core.runtime import SYSTEM
from seiche.store import Store, open_store
from seiche.store.hdfs import HdfsStore
from seiche.store.local import LocalStore
from seiche.store.prefix import below
from seiche.store.staging import Staging
from seiche.testing import CountingStore, DictStore, SimulatedStore

# Stores that need a server which the tests cannot start themselves: the variables that say where one is.
CONFIGURED = {
    "gcs": ("SEICHE_TEST_GCS", "gs://BUCKET of Google Cloud Storage or an emulator"),
    "azure": ("SEICHE_TEST_AZURE", "az://CONTAINER of Azure Blob Storage or of Azurite"),
    "hdfs": ("SEICHE_TEST_HDFS", "hdfs://NAMENODE:PORT/DIRECTORY"),
}
BY_ADDRESS = ("local-fsync", "local-os", "memory", "seaweedfs", "moto")
BY_HAND = ("local-named", "local-rename", "prefix", "dict", "simulated", "counting", "hdfs-logic")
REACHABLE = tuple(name for name, (variable, _) in CONFIGURED.items() if variable in os.environ)
BACKENDS = BY_ADDRESS + BY_HAND + REACHABLE


@dataclass(frozen=True)
class Backend:
    """One place in storage that nobody else uses. `open` gives another handle on it, as another process would have."""

    name: str
    open: Callable[[], Store]
    uri: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def remote(self) -> bool:
        return self.uri.startswith(("s3:", "gs:", "az:", "hdfs:"))


def backend(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Backend:
    """The backend of that name."""
    match name:
        case "local-fsync":
            return _at(name, str(tmp_path / "store"))
        case "local-os":
            return Backend(name, lambda: open_store(tmp_path / "store", durability="os"), uri=str(tmp_path / "store"))
        case "local-named" | "local-rename":
            # On file systems that have no files without names, or no links either.
            return Backend(name, lambda: _restricted(str(tmp_path / "store"), links=name == "local-named"))
        case "prefix":
            return Backend(name, lambda: below(open_store(tmp_path, durability="os"), "some/where"))
        case "memory":
            return _at(name, f"memory://{uuid.uuid4().hex}")
        case "seaweedfs" | "moto":
            server = request.getfixturevalue(name)
            return _at(name, server.uri(), **server.options)
        case "hdfs-logic":
            # The code of the HDFS store over pyarrow's local files, with a rename that refuses as the NameNode does.
            root = str(tmp_path / "store")
            return Backend(name, lambda: HdfsStore("hdfs://test", root, lambda: (LocalFileSystem(), rename)))
        case "dict" | "simulated" | "counting":
            shared = DictStore()
            wrap: Callable[[Store], Store] = {"simulated": SimulatedStore, "counting": CountingStore}.get(name, _bare)
            return Backend(name, lambda: wrap(shared))
    variable, _ = CONFIGURED[name]
    options = json.loads(os.environ.get(f"{variable}_OPTIONS", "{}"))
    return _at(name, f"{os.environ[variable].rstrip('/')}/{uuid.uuid4().hex}", **options)


def rename(source: str, target: str) -> bool:
    """Rename as HDFS does: False if the target is taken."""
    try:
        os.link(source, target)
    except OSError:
        return False
    os.unlink(source)
    return True


def _restricted(root: str, *, links: bool) -> Store:
    store = LocalStore(root, durability="os")
    store._staging = Staging(SYSTEM, anonymous=False, links=links)
    return store


def _at(name: str, uri: str, **options: Any) -> Backend:
    return Backend(name, lambda: open_store(uri, **options), uri, options)


def _bare(store: Store) -> Store:
    return store
