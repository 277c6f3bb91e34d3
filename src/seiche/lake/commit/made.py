"""New versions of a table on their way into a root, and what is kept of them between the attempts of a commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seiche.lake.manifest_cache import Built, ManifestCache
from seiche.lake.objects.rows import TableRow
from seiche.lake.publish import closed, fenced
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
    # The same as values, if they were built here.
    built: tuple[Built, ...] = ()

    def published(self) -> list[bytes]:
        """What readers that know nothing of the lake are given for the staged manifests."""
        if self.built:
            return [closed(manifest, transaction) for manifest, transaction in self.built]
        return [fenced(data, self.row.location) for data in self.staged]

    def remember(self, cache: ManifestCache) -> None:
        """Spare the next transaction the reading of what is in memory here."""
        held: Sequence[Built | bytes] = self.built or self.staged
        for (_, ref), one in zip(reversed(manifests(self.row)), reversed(held), strict=False):
            cache.keep(ref, one)


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
