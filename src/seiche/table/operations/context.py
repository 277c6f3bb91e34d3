"""What an operation is told when it makes the next version."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import NotFound
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field

__all__ = ["Build", "Schema", "nothing_to_load"]

# Fields as a manifest lists them: depth first, parents before their children.
Schema = Sequence[Field]


def nothing_to_load(version: int) -> Manifest:
    """Where no earlier version can be asked for."""
    raise NotFound(f"version {version} is not there to be read", version=version)


class Build(NamedTuple):
    """The number of the version being made, and what can be looked up meanwhile."""

    version: int
    # Earlier versions of the same table: for Restore.
    load: Callable[[int], Manifest] = nothing_to_load
    # The schema that the operation was prepared against, or how to get it; `None` if it is the one of the manifest.
    read_schema: Schema | Callable[[], Schema] | None = None
    runtime: Runtime = SYSTEM

    def schema_read(self, manifest: Manifest) -> Schema:
        """The schema that the operation was prepared against."""
        if self.read_schema is None:
            return manifest.header.fields
        return self.read_schema() if callable(self.read_schema) else self.read_schema
