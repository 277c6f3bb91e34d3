"""The manifests that one commit has in memory."""

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.versions.base import Versions

__all__ = ["HeldManifests"]


class HeldManifests:
    """The version that a commit was handed, and those that it had to read: each is read once.

    Apart from `Pending`, which holds it, so that nothing that is handed the means to load a manifest holds `Pending`:
    such a circle would keep manifests of many megabytes in memory until the garbage collector comes by.
    """

    def __init__(self, versions: Versions, base: Manifest, read_version: int) -> None:
        self._versions = versions
        self._read_version = read_version
        self._base = base
        self._held = {base.version: base}

    def at(self, version: int) -> Manifest:
        """The manifest of `version`."""
        held = self._held.get(version)
        if held is None:
            held = self._held[version] = self._versions.read(version).manifest
        return held

    def at_read_version(self) -> Manifest:
        """What the transaction read."""
        return self.at(self._read_version)

    def message_of_latest(self, version: int) -> pb.Transaction:
        """What made the version that is built upon: all of it is needed, so all of it is read at once."""
        if version in self._held:
            return self._versions.message(version)
        read = self._versions.read(version)
        # Those that were the newest in earlier attempts are not needed any more, and may be large.
        kept = (self._base.version, self._read_version)
        self._held = {one: self._held[one] for one in kept if one in self._held}
        self._held[version] = read.manifest
        return self._versions.message(version) if read.transaction is None else read.transaction
