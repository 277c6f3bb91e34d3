"""Two who write the fragment-reuse index: a version has one, which must lead on from what either moved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from seiche.errors import InvalidInput
from seiche.table import footprint, index_rebase
from seiche.table.encounter import Encounter
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.index_details import FRAGMENT_REUSE, ReuseContent, ReuseIndexFiles, find
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.index_conditions import reuse_written
from seiche.table.operations import CreateIndex, Rewrite

__all__ = ["ReuseMerge", "Written", "written"]


@dataclass(frozen=True, slots=True)
class Written:
    """A fragment-reuse index that others wrote, and whose content ours must hold too."""

    meeting: Encounter
    entry: IndexMetadata


def written(meeting: Encounter) -> Written | None:
    """What the other one wrote, if ours writes the fragment-reuse index too. If we drop it, a retryable conflict."""
    dropped = footprint.drops(meeting.ours, FRAGMENT_REUSE)
    if not dropped and footprint.of_name(meeting.ours, FRAGMENT_REUSE) is None:
        return None
    entry = reuse_written(meeting.other)
    if dropped and entry is not None:
        raise meeting.retry("wrote the fragment-reuse index, which we drop")
    return None if entry is None else Written(meeting, entry)


@dataclass(frozen=True, slots=True)
class ReuseMerge:
    """What others wrote into the fragment-reuse index since we read the table, to be put together with ours."""

    others: Sequence[Written]
    files: DeletionFiles

    def of_rewrite(self, operation: Rewrite, latest: Manifest) -> Rewrite:
        """The Rewrite, with a fragment-reuse index that holds both sides if it carries one. It is on disk then."""
        entry = operation.frag_reuse_index
        if entry is None or not self.others:
            return operation
        return replace(operation, frag_reuse_index=self._merged(entry, latest))

    def of_indices(self, operation: CreateIndex, latest: Manifest) -> CreateIndex:
        """A CreateIndex that writes the fragment-reuse index itself, with one that holds both sides."""
        entry = footprint.of_name(operation, FRAGMENT_REUSE)
        if entry is None or not self.others:
            return operation
        merged = self._merged(entry, latest)
        return replace(operation, new_indices=tuple(merged if one is entry else one for one in operation.new_indices))

    def _merged(self, entry: IndexMetadata, latest: Manifest) -> IndexMetadata:
        runtime = self.files.runtime
        files = ReuseIndexFiles(self.files.store, runtime, bases=self.files.bases)
        known = find(self.others[0].meeting.read().indices, FRAGMENT_REUSE)
        before = files.read(known) if known is not None else ReuseContent()
        content = files.read(entry)
        for other in self.others:
            try:
                content = index_rebase.merged_reuse(before, content, files.read(other.entry))
            except InvalidInput as error:
                raise other.meeting.retry(f"wrote a fragment-reuse index, and {error.message}") from error
        created_at = int(runtime.clock.now().timestamp() * 1000)
        return files.write(content, uuid=runtime.uuid(), dataset_version=latest.version, created_at=created_at)
