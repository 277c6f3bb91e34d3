"""Some fragments of a version, as a value that can be sent to another process and worked on there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seiche.core.runtime import Runtime
from seiche.errors import SPENT, RetryableConflict
from seiche.store.base import Store
from seiche.table.format.deletions import rows_left
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.snapshot import Snapshot

__all__ = ["Portion"]


@dataclass(frozen=True, slots=True)
class Portion:
    """Fragments of one version and what is needed to read them, in the order of their ids.

    It holds everything itself, so it does not matter whether the version is published, or still is the newest. Can be
    pickled.
    """

    version: int
    header: bytes
    encoded: tuple[bytes, ...]
    # Whether the version has its manifest under its plain name, or had when this was made.
    published: bool = False
    # The version of the lake that it was taken from, if it is that of a lake's table.
    since: int | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, fragments: Sequence[DataFragment]) -> "Portion":
        """These fragments of the snapshot."""
        header = snapshot.manifest.copy_header()
        header.ClearField("index_section")
        if snapshot.published_version is not None:
            # Native code opens a version with dictionaries only if there is a manifest of that number.
            header.version = snapshot.published_version
        encoded = tuple(one.SerializeToString() for one in fragments)
        published = snapshot.published_version == snapshot.version
        return cls(snapshot.version, header.SerializeToString(), encoded, published, snapshot.since)

    @staticmethod
    def oldest(portions: "Iterable[Portion]", snapshot: Snapshot) -> int | None:
        """The oldest version of the lake that any of them was taken from: what was made of them is as old as that.

        `RetryableConflict` if a clean-up has come since. It may come yet: then the commit is refused.
        """
        since = min((one.since for one in portions if one.since is not None), default=None)
        if since is not None and since < snapshot.fence:
            raise RetryableConflict(
                f"the work began at version {since} of the lake; versions below {snapshot.fence} have since been given"
                " up by an expiry or clean-up.",
                remedy="Nothing was written. Plan and execute it again.",
                read_version=since,
                reason=SPENT,
            )
        return since

    @property
    def fragments(self) -> tuple[DataFragment, ...]:
        return tuple(map(DataFragment.FromString, self.encoded))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(one.id for one in self.fragments)

    @property
    def rows(self) -> int:
        """How many rows there are, without the deleted ones."""
        return sum(map(rows_left, self.fragments))

    @property
    def manifest(self) -> Manifest:
        """A version that has nothing but these fragments, and no indices."""
        return Manifest(Header.FromString(self.header), Fragments(self.fragments))

    def snapshot(self, store: Store, runtime: Runtime) -> Snapshot:
        """That version, of the table at `store`."""
        return Snapshot(store, self.manifest, runtime, staged=True, since=self.since)

    def is_in(self, manifest: Manifest) -> bool:
        """Whether a version has all these fragments, each of them exactly as it is here."""
        return all(manifest.fragments.get(one.id) == one for one in self.fragments)

    def __repr__(self) -> str:
        return f"<fragments {', '.join(map(str, self.ids))} of version {self.version}>"
