"""Versions that the storage itself decides: whoever creates the file of version n has made version n."""

from abc import abstractmethod
from functools import partial
from typing import Any

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, CommitUnknown, NotFound, SeicheError
from seiche.store.base import Data, Store
from seiche.store.files import joined
from seiche.table.format.file import ManifestFile
from seiche.table.format.manifest import Manifest
from seiche.table.format.side_files import put_new
from seiche.table.format.transaction_pb2 import Transaction
from seiche.table.versions import hint
from seiche.table.versions.base import Versions
from seiche.table.versions.naming import Naming, detect, named, parse

__all__ = ["PutVersions", "RenameVersions", "StoredVersions"]

# How long what we know about the newest version is built upon without looking at the whole directory again. Clean-up of
# versions younger than this, while writers are at work, could open a gap that a stale writer would fill.
FRESH_SECONDS = 60.0


class StoredVersions(Versions):
    """What both ways of claiming share: finding versions. Use one of the subclasses."""

    def __init__(self, store: Store, *, naming: Naming | None = None, runtime: Runtime = SYSTEM) -> None:
        """`naming` is the scheme of a table that is about to be made; for one that exists it is found out."""
        super().__init__(store, runtime)
        self._naming = naming
        self._fresh_until = 0.0
        # The version that was made here last, if nobody has taken the next one since, as far as we know.
        self._made = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # What is known here holds by the clock of this process.
        return partial(type(self), self.store, naming=self._naming, runtime=self._runtime), ()

    @property
    def naming(self) -> Naming:
        """The scheme that this table uses, for ever."""
        return self._naming or self._list()[0]

    def path(self, version: int) -> str:
        return (self._naming or self.naming).path(version)

    def all(self) -> list[int]:
        return self._list()[1]

    def newest(self, known: int = 0) -> int:
        """Costs one short listing where listings are ordered, else a small read and a look for the next name.

        Never counts up from an old `known` alone: if the versions behind it had been cleaned up, the first missing
        number would look like the next one, and the commit would be lost below the latest.
        """
        return self._find(known, look=True)

    def presumed(self, known: int) -> int:
        """Saves the look for the next name where nobody else seems to be."""
        return self._find(known, look=known != self._made)

    def _find(self, known: int, *, look: bool) -> int:
        if not self.store.lists_in_one_request and self._naming is not Naming.V1:
            return self._first_listed()
        now = self._runtime.clock.monotonic()
        # V1 names may have become V2 names since: the whole directory tells, the names alone that we know would not.
        if known and now < self._fresh_until and self._naming is Naming.V2:
            hinted = hint.read(self.store)
            # A hint that is behind was written late, or the table was removed, and perhaps made anew: then what we know
            # is gone, and a version built on it would name files that are gone, too.
            if hinted == known or (hinted < known and self.store.exists(self.path(known))):
                return self._gallop(known) if look else known
            if hinted > known and self.store.exists(self.path(hinted)):
                return self._gallop(hinted)
        newest = self.all()[-1]
        self._fresh_until = now + FRESH_SECONDS
        return newest

    def has(self, manifest: Manifest) -> bool:
        if not self.store.lists_in_one_request:
            return True
        made_by = manifest.header.transaction_file
        if made_by and self.store.exists(f"_transactions/{made_by}"):
            return True
        # Nobody flushes that file, and others need not write one.
        there = self.read(manifest.version).manifest.header
        return (there.transaction_file, there.timestamp) == (made_by, manifest.header.timestamp)

    def announce(self, version: int) -> None:
        self._made = version
        self._fresh_until = self._runtime.clock.monotonic() + FRESH_SECONDS
        # Stores with ordered listings find the latest in one request anyway, and pylance leaves no hint there either.
        if self.store.lists_in_one_request or self.naming is Naming.V1:
            hint.write(self.store, version)

    def _gallop(self, known: int) -> int:
        """The newest version, counting from `known` in doubling steps, then searching between the last two."""
        step = 1
        low = known
        while self.store.exists(self.path(low + step)):
            low += step
            step *= 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            if self.store.exists(self.path(middle)):
                low = middle
            else:
                high = middle
        return low

    def _list(self) -> tuple[Naming, list[int]]:
        """Look at the whole directory: the only way to know the scheme, and that it is the only one."""
        found = detect(named(self.store), table=self.store.uri)
        if found is None:
            raise self._no_table()
        self._naming = found[0]
        return found

    def _first_listed(self) -> int:
        """The newest version of a V2 directory from the first name of an ordered listing, V1 names being refused.

        V1 names sort before or after all V2 names of a table, never between them: two short listings see them all.
        """
        first = next(named(self.store), None)
        if first is not None and first[0] is Naming.V2:
            if self._naming is Naming.V2:
                return first[1]
            # Without what lies in folders, or a server could not begin behind a name: it would send all before it.
            rest = self.store.list("_versions", start_after=Naming.V2.path(1), recursive=False)
            if all(parse(info.path.rpartition("/")[2]) is None for info in rest):
                self._naming = Naming.V2
                return first[1]
        return self.all()[-1]

    def _no_table(self) -> SeicheError:
        return NotFound(
            f"there is no table at {self.store.uri}",
            remedy="Check the address; `Table.create` makes a new table.",
            table=self.store.uri,
        )

    def read(self, version: int) -> ManifestFile:
        try:
            return super().read(version)
        except NotFound:
            if not self._was_migrated():
                raise
            return super().read(version)

    def message(self, version: int) -> Transaction:
        try:
            return super().message(version)
        except NotFound:
            if not self._was_migrated():
                raise
            return super().message(version)

    def claim(self, version: int, data: Data) -> None:
        self._made = 0  # until it is ours
        if (self._naming or self.naming) is Naming.V2 or version == 1:
            self._create(self.path(version), data)
        else:
            self._claim_v1(version, data)

    @abstractmethod
    def _create(self, path: str, data: Data) -> None:
        """Make `data` the file at `path`, or raise `AlreadyExists`."""

    def _claim_v1(self, version: int, data: Data) -> None:
        """Claim under a V1 name, and make sure that the table still had such names.

        If it was migrated since we looked, the name is free and means nothing: others count on with V2 names. Then the
        claim is withdrawn and made under the V2 name, which decides between us and them.
        """
        try:
            self._create(Naming.V1.path(version), data)
        except CommitUnknown:
            self._naming = None  # whoever looks for the outcome must look at the whole directory
            raise
        self._naming = None  # until it is known
        try:
            if self._has_v2_names():
                self._naming = Naming.V2
                self.store.delete(Naming.V1.path(version))
            else:
                self._naming = Naming.V1
        except SeicheError as error:
            raise CommitUnknown(
                f"{self.store.uri}: version {version} is written, but perhaps under a name that no longer counts.",
                version=version,
            ) from error
        if self._naming is Naming.V2:
            self._claim_migrated(version, data)

    def _has_v2_names(self) -> bool:
        return any(naming is Naming.V2 for naming, _ in named(self.store))

    def _claim_migrated(self, version: int, data: Data) -> None:
        try:
            self._create(Naming.V2.path(version), data)
        except AlreadyExists:
            # The migration may have come by between, and renamed the very file that we wrote.
            if self.store.get(Naming.V2.path(version)) != joined(data):
                raise

    def _was_migrated(self) -> bool:
        """Whether the scheme that we know is no longer that of the table; then we know the new one."""
        return self._naming is Naming.V1 and self._list()[0] is Naming.V2


class PutVersions(StoredVersions):
    """Claims by put-if-not-exists: local disk, S3, GCS, Azure, memory."""

    def _create(self, path: str, data: Data) -> None:
        self.store.put_if_absent(path, data)


class RenameVersions(StoredVersions):
    """Claims by rename-if-not-exists: the manifest is written under a private name first. For stores such as HDFS."""

    def _create(self, path: str, data: Data) -> None:
        staged = f"{path}-{self._runtime.uuid()}"
        put_new(self.store, staged, data, self._runtime)
        # A loser's staged file stays, for the clean-up: after an unclear answer it might be the winner's only copy.
        self.store.rename_if_absent(staged, path)
