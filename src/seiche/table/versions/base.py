"""The protocol that the commit loop claims versions with."""

from abc import ABC, abstractmethod
from functools import cached_property

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import Corrupt, NotFound, SeicheError
from seiche.store.base import Data, Store
from seiche.store.kept_turns import KeptTurns
from seiche.table.format import file, transactions
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.file import ManifestFile
from seiche.table.format.manifest import Manifest
from seiche.table.runs import Run, following
from seiche.table.transaction import Transaction, plain_operation
from seiche.table.versions.naming import refuse_barrier

__all__ = ["Versions"]


class Versions(ABC):
    """The history of one table: which versions exist, where their manifests are, and who gets to make the next.

    Every implementation promises: a version number is claimed by exactly one writer; versions are contiguous from the
    oldest that is kept to the newest; a claimed manifest is whole.
    """

    def __init__(self, store: Store, runtime: Runtime = SYSTEM) -> None:
        """`store` is rooted at the table."""
        self.store = store
        self._runtime = runtime
        # What is known of the versions up to one that was made here.
        self.run: Run | None = None

    @cached_property
    def turns(self) -> KeptTurns:
        """Writers on one machine go one by one, and in a crowd one that has more to do does several in a row."""
        return KeptTurns(self.store, self._runtime)

    @abstractmethod
    def newest(self, known: int = 0) -> int:
        """The latest version, or one that was the latest when this was called. `known` is one the caller has seen.

        `NotFound` if there is no table.
        """

    def presumed(self, known: int) -> int:
        """The latest version, for whoever claims the next one then. That may be taken already: the claim tells.

        It is never one below which versions have been cleaned up, as far as that can be known without a claim.
        """
        return self.newest(known)

    def has(self, manifest: Manifest) -> bool:
        """Whether the version of that number still is this one, as far as that can be known without a request over a
        network: a table may have been removed, and made anew in its place.
        """
        return True

    @abstractmethod
    def all(self) -> list[int]:
        """Every version that is kept, ascending."""

    @abstractmethod
    def path(self, version: int) -> str:
        """Where the manifest of `version` is; whether it exists is found out by reading it."""

    @abstractmethod
    def claim(self, version: int, data: Data) -> None:
        """Make `data` the manifest of `version`, which must be the newest plus one.

        Raises `AlreadyExists` if somebody else has it, and `CommitUnknown` if that could not be found out.
        """

    @abstractmethod
    def announce(self, version: int) -> None:
        """Tell others that `version` exists, where that helps them to find it. Best effort: never raises."""

    def forget(self, version: int) -> None:
        """Remove what is remembered of a version besides its manifest, which is about to be cleaned up."""
        return

    def forget_all(self) -> None:
        """Remove what is remembered of any version: the table or branch is given up."""
        return

    def read(self, version: int) -> ManifestFile:
        """The manifest of `version`; `NotFound` if it is not kept."""
        path = self.path(version)
        read = file.decode(self._bytes_of(version), path=path)
        if read.manifest.version != version:
            raise Corrupt(
                f"{path} calls itself version {read.manifest.version}, not {version}",
                remedy="A manifest was copied or renamed by hand. Put the right file in its place.",
                path=path,
            )
        return read

    def _bytes_of(self, version: int) -> bytes:
        """The bytes of the manifest of `version`."""
        path = self.path(version)
        try:
            data = self.store.get(path)
        except NotFound as error:
            raise self._no_version(version) from error
        refuse_barrier(data, path=path, table=self.store.uri)
        return data

    def read_newest(self, version: int) -> ManifestFile:
        """The manifest of a version that others made and that is about to be built upon."""
        read = self.read(version)
        made = read.transaction
        self.run = None if made is None else following(None, version, made, plain_operation(made))
        return read

    def transaction(self, version: int) -> Transaction:
        """What made `version`."""
        return Transaction.from_proto(self.message(version))

    def message(self, version: int) -> pb.Transaction:
        """What made `version`, as a message: from its manifest file, or from the file that the manifest names."""
        try:
            inline = file.read_transaction(self.store, self.path(version))
        except NotFound as error:
            raise self._no_version(version) from error
        if inline is not None:
            return inline
        beside = f"_transactions/{self.read(version).manifest.header.transaction_file}"
        return transactions.decode(self.store.get(beside), path=beside)

    def _no_version(self, version: int) -> SeicheError:
        return NotFound(
            f"{self.store.uri} has no version {version}",
            remedy="It never existed or was cleaned up; `versions()` lists those that are kept.",
            table=self.store.uri,
            version=version,
        )
