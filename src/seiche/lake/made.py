"""New versions of a table on their way into a root, and what is kept of them between the attempts of a commit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.objects.rows import TableRow
from seiche.lake.versions import LakeVersions, manifests
from seiche.table.pending import Pending

__all__ = ["Made", "Progress"]


@dataclass(frozen=True, slots=True)
class Made:
    """The row that names the new versions, and their manifests: as files to be written, and in order to be
    published.
    """

    row: TableRow
    files: Mapping[str, bytes] = field(default_factory=dict)
    staged: tuple[bytes, ...] = ()

    def remember(self, cache: ManifestCache) -> None:
        """Spare the next transaction the reading of what is in memory here."""
        for (_, ref), data in zip(reversed(manifests(self.row)), reversed(self.staged), strict=False):
            cache.keep(ref, data)


@dataclass(slots=True)
class Progress:
    """What a commit has found out about one table. An attempt after a lost race goes on from there.

    Only what was planned on rows of a root counts: those of a group's earlier members may never come true.
    """

    # The row that the last plan was made on, and the plan: on an unchanged row it is still right, and nothing of it is
    # written again.
    row: TableRow | None = None
    made: Made | None = None
    # The change of content, checked against everything up to that row.
    pending: Pending | None = None
    versions: LakeVersions | None = None
