"""The key-value protocol behind an external manifest store."""

from abc import ABC, abstractmethod
from os.path import realpath

from seiche.errors import AlreadyExists, CommitUnknown, NotFound
from seiche.store.base import Store
from seiche.store.paths import as_uri_path
from seiche.table.versions.external.records import ManifestRecord

__all__ = ["ManifestStore", "lost", "not_there", "unclear"]


class ManifestStore(ABC):
    """One record for each version of each table, with one atomic decision: who puts the record of a version first.

    What every implementation promises, and the contract suite checks:

    - of any number of writers that put different records of one version, exactly one returns;
    - no record goes in below one that is there, however many were deleted: what was made is never made again;
    - what a returned write wrote is durable, and seen by every call that starts later, from every process;
    - putting the identical record twice is the same as once, so an unclear answer is settled by asking again;
    - a write that may or may not have taken effect raises `CommitUnknown`, never `AlreadyExists` or `Unavailable`.

    Objects may be used by several threads, and by a child after a fork.
    """

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where the records are, without credentials."""

    @abstractmethod
    def get(self, base_uri: str, version: int) -> ManifestRecord | None:
        """The record of a version, `None` if there is none."""

    @abstractmethod
    def get_latest(self, base_uri: str) -> ManifestRecord | None:
        """The record of the highest version, `None` if the table has no records."""

    @abstractmethod
    def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
        """Record a version; raises `AlreadyExists` if another record of it, or one of a later version, is there."""

    @abstractmethod
    def put_if_present(self, base_uri: str, record: ManifestRecord, *, replacing: str) -> None:
        """Replace the record of a version whose path is `replacing`; raises `NotFound` if there is no such record.

        The old path is part of the condition: a request that was held up for long cannot undo what came after it.
        """

    @abstractmethod
    def delete(self, base_uri: str, version: int) -> None:
        """Remove the record of a version; removing what is not there is not an error.

        Its number can be claimed again only if it was the latest: that is for an operator, to give up a claim whose
        file is lost.
        """

    def delete_all(self, base_uri: str) -> None:
        """Remove every record of a table or branch that is given up.

        Another one may be made under its name then, and begin with any version.
        """
        while (latest := self.get_latest(base_uri)) is not None:
            self.delete(base_uri, latest.version)

    def base_uri(self, store: Store) -> str:
        """The name under which the table at `store` is kept: the same for everybody, however they reach the table.

        A table that was moved or copied has another name and no records yet.
        """
        address = store.uri
        if address.startswith("file://"):
            # Through a symbolic link the same table would have a second name, and a second winner of each version.
            address = "file://" + as_uri_path(realpath(store.native_uri()))
        return address.rstrip("/")

    def close(self) -> None:
        """Give back connections; the next call opens new ones."""
        return


def lost(record: ManifestRecord, base_uri: str, taken: ManifestRecord | None) -> AlreadyExists:
    """What `put_if_absent` raises when it was not the first."""
    whose = f"it is at {taken.path}" if taken is not None else "later ones exist"
    return AlreadyExists(
        f"{base_uri}: version {record.version} is recorded already: {whose}",
        remedy="Somebody else made this version. Build on the latest one and claim the next.",
        version=record.version,
        path=taken.path if taken is not None else None,
    )


def not_there(record: ManifestRecord, base_uri: str, replacing: str) -> NotFound:
    """What `put_if_present` raises when there is nothing to replace."""
    return NotFound(
        f"{base_uri}: version {record.version} is not recorded at {replacing}",
        remedy="Somebody else has changed or removed the record; look at it again.",
        version=record.version,
    )


def unclear(uri: str, reason: str) -> CommitUnknown:
    """What every write raises when the answer was lost."""
    return CommitUnknown(
        f"{uri}: the record may or may not have been written: {reason}",
        remedy="Put the identical record again, or read it back: a different one says no, a missing one says nothing.",
        uri=uri,
    )
