"""The last two steps of a commit through a manifest store, by the writer or by whoever meets an unfinished one."""

from contextlib import suppress
from dataclasses import dataclass

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, Corrupt, NotFound, PermissionDenied, SeicheError, Unavailable
from seiche.store.base import Data, Store
from seiche.store.files import joined
from seiche.table.versions.external.base import ManifestStore
from seiche.table.versions.external.records import ManifestRecord, Place, place_of

__all__ = ["Finaliser"]


@dataclass(frozen=True, slots=True)
class Finaliser:
    """Brings claimed manifests under their final names; any number may work on one version, and die at any point."""

    store: Store
    manifest_store: ManifestStore
    base_uri: str
    runtime: Runtime
    patience: Patience

    def finalise(self, record: ManifestRecord, data: Data | None = None) -> Place:
        """When this returns, the manifest is at `Place.final`; raises an error that names both paths if it cannot be.

        The writer gives the `data` too: should somebody have taken its staged file for garbage, it is written again.
        """
        place = place_of(record, self.base_uri)
        if place.is_staged:
            self._copy(record, place, data)
            self._flip(record, place)
        return place

    def _copy(self, record: ManifestRecord, place: Place, data: Data | None) -> None:
        failure: SeicheError | None = None
        for _ in self.patience.tries(self.runtime):
            try:
                if not self._is_there(record, place, data):
                    self.store.copy(place.recorded, place.final)
                return
            except NotFound as error:
                if self._was_finalised(record):
                    return
                if data is not None:
                    self._restage(place, data)
                elif not self.store.exists(place.final):
                    raise _staged_is_missing(record, place, self.base_uri) from error
                failure = error
            except (CommitUnknown, Unavailable) as error:
                failure = error  # copying twice is the same as once
            except PermissionDenied as error:
                failure = error
                break
        raise _not_copied(record, place, self.base_uri, failure) from failure

    def _is_there(self, record: ManifestRecord, place: Place, data: Data | None) -> bool:
        """Whether the final file exists; `Corrupt` if it is not the one that was claimed, which is left as it is.

        Copying over it would be simpler, and would destroy the commit of a writer that knows no manifest store.
        """
        try:
            size = self.store.head(place.final).size
        except NotFound:
            return False
        if size == record.size:
            try:
                claimed = joined(data) if data is not None else self.store.get(place.recorded)
            except NotFound:
                return True  # finished, and tidied up, by somebody who could not or has yet to record it
            if self.store.get(place.final) == claimed:
                return True
        raise Corrupt(
            f"{self.base_uri}: version {record.version} was claimed for {place.recorded}, but {place.final} is another"
            " manifest",
            remedy="A writer that does not use the manifest store has made this version, too. Decide which one is"
            f" right: remove {place.final}, or record it in the manifest store instead of the staged file.",
            path=place.final,
            staged=place.recorded,
            version=record.version,
        )

    def _was_finalised(self, record: ManifestRecord) -> bool:
        """Whether somebody else has come to the end with this version; it may even be cleaned up by now."""
        there = self.manifest_store.get(self.base_uri, record.version)
        if there is None or there.path != record.path:
            return True
        # A later version is only ever claimed when this one is under its final name.
        latest = self.manifest_store.get_latest(self.base_uri)
        return latest is not None and latest.version > record.version

    def _restage(self, place: Place, data: Data) -> None:
        with suppress(CommitUnknown, Unavailable):
            self.store.put(place.recorded, data)

    def _flip(self, record: ManifestRecord, place: Place) -> None:
        """Record the final path, then remove the staged file. If that fails the next reader does it: nothing is lost.

        In this order: as long as the record names the staged file, somebody may need it.
        """
        final = ManifestRecord(record.version, f"{self.base_uri}/{place.final}", record.size)
        with suppress(SeicheError):
            self.manifest_store.put_if_present(self.base_uri, final, replacing=record.path)
            self.store.delete(place.recorded)


def _staged_is_missing(record: ManifestRecord, place: Place, base_uri: str) -> Corrupt:
    return Corrupt(
        f"{base_uri}: version {record.version} was claimed for {place.recorded}, which is missing, and {place.final}"
        " does not exist either",
        remedy="Put one of the two files back from a copy. If it is lost for good: no writer was told that the"
        " version was made, so remove its record from the manifest store (`delete`) and go on from the one before.",
        path=place.final,
        staged=place.recorded,
        version=record.version,
    )


def _not_copied(record: ManifestRecord, place: Place, base_uri: str, cause: SeicheError | None) -> SeicheError:
    kind = PermissionDenied if isinstance(cause, PermissionDenied) else Unavailable
    return kind(
        f"{base_uri}: version {record.version} was claimed, but {place.recorded} could not be copied to {place.final}:"
        f" {cause.message if cause else 'it keeps vanishing'}",
        remedy="The version is not given out before it can be found by everybody. Open the table again with an account"
        " that may write, or when the storage is back.",
        path=place.final,
        staged=place.recorded,
        version=record.version,
    )
