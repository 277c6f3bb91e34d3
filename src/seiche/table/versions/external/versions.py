"""Versions that an external store decides, on storage that cannot create a file atomically.

A commit takes four steps, and a reader finishes what a writer began:

    1. stage      write the manifest as `_versions/{name}-{uuid}`, where nobody looks
    2. claim      put the staged path into the manifest store, if the version is not recorded there yet: who wins
    3. finalise   copy the staged file to `_versions/{name}`: plain readers see it; only now is the writer told
    4. flip       record the final path instead of the staged one; then the staged file is garbage
"""

from contextlib import suppress
from functools import partial
from typing import Any

from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)
from seiche.store.base import Data, Store
from seiche.store.files import buffers, joined
from seiche.table.format.file import ManifestFile
from seiche.table.versions.base import Versions
from seiche.table.versions.external.base import ManifestStore
from seiche.table.versions.external.finalising import Finaliser
from seiche.table.versions.external.records import ManifestRecord, place_of
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions

__all__ = ["ExternalVersions"]

_PATIENCE = Patience(attempts=6, timeout=30.0, first_delay=0.01)


class ExternalVersions(Versions):
    """A table whose versions are decided in `manifest_store`.

    Version n is under its final name before n + 1 is claimed: who knows nothing of the manifest store is at most one
    commit behind, and a copy of the directory is a complete table. Everybody who writes must use the same manifest
    store; a manifest that came past it is taken into it when it is met, and is never overwritten knowingly.
    """

    def __init__(
        self,
        store: Store,
        manifest_store: ManifestStore,
        *,
        naming: Naming | None = None,
        runtime: Runtime = SYSTEM,
        patience: Patience = _PATIENCE,
    ) -> None:
        """`naming` is the scheme of a table that is about to be made; for one that exists it is found out."""
        super().__init__(store, runtime)
        self.manifest_store = manifest_store
        self.base_uri = manifest_store.base_uri(store)
        self._naming = naming or Naming.V2
        self._may_be_new = naming is not None
        self._knows_naming = False
        self._runtime = runtime
        self._patience = patience
        self._finaliser = Finaliser(store, manifest_store, self.base_uri, runtime, patience)
        # Versions that were seen under their final name. That never changes, so nobody needs to be asked again.
        self._finalised: set[int] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ExternalVersions, self.store, self.manifest_store, runtime=self._runtime), ()

    @property
    def naming(self) -> Naming:
        """The scheme that this table uses, for ever."""
        if not self._knows_naming:
            try:
                self.newest()
            except NotFound:
                if not self._may_be_new:
                    raise
        return self._naming

    def newest(self, known: int = 0) -> int:
        """Costs one look into the manifest store, and at the first time one for a version that came past it; as it does
        when the records are behind what is `known`, as those of a database that was put back from a copy are.

        The version is under its final name when this returns. `Corrupt`, `PermissionDenied` or `Unavailable` with both
        paths if that cannot be brought about: an older version is never given out instead.
        """
        record = self.manifest_store.get_latest(self.base_uri)
        if record is None:
            return self._newest_stored()
        self._materialise(record)
        if record.version < known or (not known and self.store.exists(self.naming.path(record.version + 1))):
            return max(record.version, self._newest_stored())
        return record.version

    def all(self) -> list[int]:
        """`Corrupt` if the latest is not among them: who takes an older one for it would clear away what it needs."""
        newest = self.newest()
        try:
            versions = self._stored().all()
        except NotFound as error:
            self._check_latest(newest, error)
            raise
        if versions[-1] < newest:
            self._check_latest(newest)
        self._finalised.update(versions)
        return versions

    def path(self, version: int) -> str:
        if version not in self._finalised:
            record = self.manifest_store.get(self.base_uri, version)
            if record is not None:
                return self._materialise(record)
        # A version without a record is looked for where it belongs: the table may be older than its manifest store.
        return self.naming.path(version)

    def read(self, version: int) -> ManifestFile:
        try:
            return super().read(version)
        except NotFound as error:
            self._check_latest(version, error)
            raise

    def announce(self, version: int) -> None:
        """Nothing to do: who knows the manifest store asks it, and who does not lists the directory."""

    def claim(self, version: int, data: Data) -> None:
        self._settle(version - 1)
        final = self.naming.path(version)
        size = sum(memoryview(buffer).nbytes for buffer in buffers(data))
        if self._is_stored(version, data, size):
            return
        staged = f"{final}-{self._runtime.uuid()}"
        self._stage(staged, data)
        record = ManifestRecord(version, f"{self.base_uri}/{staged}", size)
        won = self._decide(record, data)
        if won is None or won.path != record.path:
            # The version is taken for ever, so this file can win nothing any more, not even by a request held up.
            self._discard(staged)
        if won is None:
            raise AlreadyExists(f"{self.store.uri}: version {version} was made by somebody else", version=version)
        try:
            self._materialise(won, data)
        except SeicheError as error:
            raise CommitUnknown(
                f"{self.store.uri}: version {version} is ours by the manifest store, but {staged} could not be copied"
                f" to {final}: {error.message}",
                remedy="The next reader or writer finishes it. Ask for the version before repeating the operation.",
                version=version,
                path=final,
                staged=staged,
            ) from error

    def forget(self, version: int) -> None:
        """Remove the record of a version that was cleaned up. Never the latest: its number could be given out again."""
        latest = self.manifest_store.get_latest(self.base_uri)
        if latest is None or latest.version <= version:
            raise InvalidInput(
                f"{self.store.uri}: version {version} is the latest and its record is kept",
                remedy="Only records below the latest version can be removed.",
                version=version,
            )
        self.manifest_store.delete(self.base_uri, version)
        self._finalised.discard(version)

    def forget_all(self) -> None:
        """Remove every record: the table or branch is given up, and another one may be made under its name."""
        self.manifest_store.delete_all(self.base_uri)
        self._finalised.clear()

    def _settle(self, version: int) -> None:
        """Make sure that `version`, on which the next is built, is under its final name."""
        if version in self._finalised or version == 0:
            return
        record = self.manifest_store.get(self.base_uri, version)
        if record is not None:
            self._materialise(record)
        elif not self.store.exists(self.naming.path(version)):
            self._refuse_gap(version + 1)

    def _refuse_gap(self, version: int) -> None:
        """Only the first version of a table has none before it; that of a clone or branch may be any number."""
        try:
            newest = self.newest()
        except NotFound:
            return
        if newest >= version:
            raise AlreadyExists(f"{self.store.uri}: version {version} was made by somebody else", version=version)
        raise InvalidInput(
            f"{self.store.uri}: version {version} cannot follow the latest, which is {newest}",
            remedy=f"Claim version {newest + 1}: a gap would hide what comes after it.",
            version=version,
        )

    def _check_latest(self, version: int, missing: NotFound | None = None) -> None:
        """`Corrupt` if `version`, which was not found, is the latest: only those before it can have been cleaned up."""
        latest = self.manifest_store.get_latest(self.base_uri)
        if latest is None or latest.version != version or self.store.exists(self.naming.path(version)):
            return
        with suppress(NotFound):
            if (newest := self._newest_stored()) > version:
                raise Unavailable(
                    f"{self.store.uri}: by the manifest store the latest version was {version}, which was cleaned up;"
                    f" its records were behind, and are at version {newest} now, the latest in the directory",
                    remedy="Try again.",
                    table=self.store.uri,
                    version=newest,
                ) from missing
        raise Corrupt(
            f"{self.store.uri}: the manifest store says that the latest version is {version}, in {latest.path},"
            " but there is no such file",
            remedy="Restore the file from a copy. No other version is given out in its place.",
            path=latest.path,
            version=version,
        ) from missing

    def _is_stored(self, version: int, data: Data, size: int) -> bool:
        """Whether our manifest is there already, by an earlier attempt whose outcome was not known.

        `AlreadyExists` if another one is: claiming the version and copying over it would destroy a commit.
        """
        final = self.naming.path(version)
        try:
            found = self.store.head(final).size
        except NotFound:
            return False
        if self.manifest_store.get(self.base_uri, version) is None:
            # It came past the manifest store, or the records are behind: by how much, only the directory tells.
            self._newest_stored()
        if found == size and self.store.get(final) == joined(data):
            return True
        raise AlreadyExists(f"{final}: exists already", path=final, version=version)

    def _stage(self, staged: str, data: Data) -> None:
        for _ in self._patience.tries(self._runtime):
            with suppress(CommitUnknown):
                # Not if-absent, which this storage may not have. Nobody else has this name, so nothing is overwritten.
                self.store.put(staged, data)
                return
        raise Unavailable(f"{self.store.uri}: {staged} could not be written", path=staged)

    def _decide(self, record: ManifestRecord, data: Data) -> ManifestRecord | None:
        """The record of our manifest if the version is ours, whatever answers were lost; `None` if somebody has it.

        Absence says nothing, since the request may still be on its way; so the identical record is put again. Only
        another record says no. `CommitUnknown` if none of this can be found out.
        """
        unclear: SeicheError | None = None
        for _ in self._patience.tries(self._runtime):
            try:
                self.manifest_store.put_if_absent(self.base_uri, record)
                return record
            except AlreadyExists:
                try:
                    return self._ours(record, data)
                except (NotFound, PermissionDenied, Unavailable) as error:
                    unclear = error
            except CommitUnknown as error:
                unclear = error
            except SeicheError:
                if unclear is None:  # else it may have been done before we were refused, or before nobody answered
                    raise
        raise CommitUnknown(
            f"{self.store.uri}: the manifest store did not say whether version {record.version} is at {record.path}",
            remedy="Ask again before repeating it: if the version exists, its transaction id tells whose it is.",
            version=record.version,
            path=record.path,
        ) from unclear

    def _ours(self, record: ManifestRecord, data: Data) -> ManifestRecord | None:
        """The record that is there, if it stands for the manifest that we bring, whatever the file is called.

        A reader may have flipped the record between a request of ours and its repetition, and an earlier attempt to
        claim this version may have staged the same manifest under another name.
        """
        there = self.manifest_store.get(self.base_uri, record.version)
        if there is None or there.path == record.path:
            return there
        if there.size != record.size:
            return None
        place = place_of(there, self.base_uri)
        try:
            recorded = self.store.get(place.recorded)
        except NotFound:
            recorded = self.store.get(place.final)
        return there if recorded == joined(data) else None

    def _materialise(self, record: ManifestRecord, data: Data | None = None) -> str:
        """Where the recorded manifest is: under its final name when this returns."""
        place = self._finaliser.finalise(record, data)
        self._naming, self._knows_naming = place.naming, True
        self._finalised.add(record.version)
        return place.final

    def _discard(self, staged: str) -> None:
        """Remove a staged file that lost. If that fails, a clean-up takes it when it is old."""
        with suppress(SeicheError):
            self.store.delete(staged)

    def _stored(self) -> PutVersions:
        """The versions that can be seen in the directory alone; a new object, which takes nothing for known."""
        return PutVersions(self.store, runtime=self._runtime)

    def _newest_stored(self) -> int:
        """The newest version in the directory, where the manifest store has none or an older one."""
        stored = self._stored()
        newest = stored.newest()
        self._naming, self._knows_naming = stored.naming, True
        self._finalised.add(newest)
        self._record_stored(newest)
        return newest

    def _record_stored(self, version: int) -> None:
        """Take a version into the manifest store that came past it, so that nobody else can claim it.

        A failure is no harm: who may only read needs no record, and a writer looks at the directory again.
        """
        final = self.naming.path(version)
        with suppress(SeicheError):
            size = self.store.head(final).size
            self.manifest_store.put_if_absent(self.base_uri, ManifestRecord(version, f"{self.base_uri}/{final}", size))
