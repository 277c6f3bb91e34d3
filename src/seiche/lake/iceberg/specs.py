"""Partition specs that manifests of a table were written with: nobody can read a manifest without its own."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyiceberg.manifest import ManifestFile

from seiche.lake.iceberg.metadata import Metadata

__all__ = ["missing_spec"]


def missing_spec(
    before: Iterable[Metadata | None], after: Metadata, listed: Callable[[Any], Sequence[ManifestFile]]
) -> str:
    """Which spec was in any of `before`, is not in `after` or is another there, and is needed; empty if there is none.

    `listed` are the manifests of a snapshot. Nothing is read where no spec has gone.
    """
    specs = after.specs()
    gone = {
        number for one in before if one is not None for number, spec in one.specs().items() if specs.get(number) != spec
    }
    for snapshot in after.snapshots if gone else ():
        for manifest in listed(snapshot):
            if manifest.partition_spec_id in gone:
                number = manifest.partition_spec_id
                return f"partition spec {number} cannot be removed: snapshot {snapshot.snapshot_id} has files of it"
    return ""
