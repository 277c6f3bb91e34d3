"""Who says what the current metadata of an Iceberg table is, if it is not the lake.

| source | current is | a commit is |
|---|---|---|
| a catalog | what it answers | its `commit_table`, with everything that was seen required |
| a folder with numbered metadata (`v7.metadata.json`) | the highest number | the next number, put if absent |
| a metadata file | that file, always | refused |
| another lake | the file that one of its versions named, always | refused |

The last is what minimal and partial exports refer to: its files are known by their places in that lake, wherever it
stood when their addresses were written.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.io import FileIO
from pyiceberg.table.update import _update_table_metadata_log

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput, NotFound, SeicheError
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.foreign.files import PlaceFileIO
from seiche.lake.iceberg.metadata import Metadata, decode, encode, read
from seiche.lake.iceberg.places import address
from seiche.lake.iceberg.updates import apply
from seiche.lake.outside import Outside, plain_address
from seiche.lake.tree.root import millis
from seiche.store.base import Store
from seiche.store.beside import open_beside

__all__ = ["FileSource", "FolderSource", "Found", "InDoubt", "LakeSource", "Outpaced", "Source", "source_of"]

_NUMBERED: Final = re.compile(r"v(\d+)(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)")
_HINT: Final = "metadata/version-hint.text"


class Outpaced(Exception):
    """Somebody else has committed first; nothing was changed."""


class InDoubt(Exception):
    """It is not known whether the commit was made."""


@dataclass(frozen=True, slots=True)
class Found:
    """A table as its source has it. `handle` is what the source needs to commit on top of it."""

    metadata: Metadata
    metadata_location: str
    io: FileIO = field(repr=False)
    handle: Any = field(default=None, repr=False)


class Source(ABC):
    """Says what is current, and may take commits."""

    @abstractmethod
    def current(self) -> Found:
        """The table now; `NotFound` if there is none, `Unavailable` if that cannot be found out."""

    def commit(self, found: Found, requirements: Sequence[Any], updates: Sequence[Any], runtime: Runtime) -> Metadata:
        """Make the updates on top of `found`; raises `Outpaced` or `InDoubt`, or says why it cannot be."""
        raise InvalidInput(
            f"{found.metadata_location} is always this one metadata file: nothing can be committed to it",
            remedy="Register the table by its catalog, or by its folder if its metadata files are numbered.",
        )


@dataclass(frozen=True, slots=True)
class FileSource(Source):
    """One metadata file, which is the table for ever: nobody decides on a next one."""

    lake: Store
    outside: Outside
    location: str
    runtime: Runtime

    def current(self) -> Found:
        self.outside.check(self.location)
        folder, _, name = plain_address(self.location).rpartition("/")
        data = open_beside(self.lake, folder, runtime=self.runtime).get(name)
        metadata = decode(data, self.location)
        self.outside.check(metadata.location)  # what the file says is no more to be believed than where it is
        place = open_beside(self.lake, plain_address(metadata.location), runtime=self.runtime)
        return Found(metadata, self.location, PlaceFileIO(place, metadata.location, self.outside))


@dataclass(frozen=True, slots=True)
class LakeSource(Source):
    """The metadata that a version of another lake named."""

    lake: Store
    outside: Outside
    other: str
    path: str
    runtime: Runtime

    def current(self) -> Found:
        self.outside.check(self.other)
        store = open_beside(self.lake, self.other, runtime=self.runtime)
        return Found(read(store, self.path), address(store, self.path), LakeFileIO(store, outside=self.outside))


@dataclass(frozen=True, slots=True)
class FolderSource(Source):
    """A table whose metadata files are numbered, and whose next number belongs to whoever writes it first."""

    lake: Store
    outside: Outside
    location: str
    runtime: Runtime

    def current(self) -> Found:
        store = self._store()
        named = ((info.path, _NUMBERED.fullmatch(info.path.rpartition("/")[2])) for info in store.list("metadata"))
        found = [(int(match[1]), path) for path, match in named if match is not None]
        if not found:
            raise NotFound(
                f"{self.location} has no numbered Iceberg metadata (metadata/v1.metadata.json)",
                remedy="Name the full address of a .metadata.json file, or the catalog that decides about the table.",
                location=self.location,
            )
        number, path = max(found)
        metadata = decode(store.get(path), path)
        files = PlaceFileIO(store, metadata.location, self.outside)
        return Found(metadata, f"{self.location.rstrip('/')}/{path}", files, number)

    def commit(self, found: Found, requirements: Sequence[Any], updates: Sequence[Any], runtime: Runtime) -> Metadata:
        before, store = found.metadata, self._store()
        if before.properties.get("write.metadata.compression-codec", "none").lower() == "gzip":
            raise InvalidInput(
                f"{self.location} has compressed metadata, whose names leave room for two of one number",
                remedy="Write it where it is kept, or set write.metadata.compression-codec to none there.",
            )
        made: Any = apply(before, updates, now_millis=millis(runtime.clock.now()))
        logged = made.model_copy(update={"metadata_log": before.metadata_log})
        after: Metadata = _update_table_metadata_log(logged, found.metadata_location, before.last_updated_ms)
        number = found.handle + 1
        try:
            store.put_if_absent(f"metadata/v{number}.metadata.json", encode(after))
        except AlreadyExists as error:
            raise Outpaced(str(number)) from error
        except CommitUnknown as error:
            raise InDoubt(str(error)) from error
        with suppress(SeicheError):
            store.put(_HINT, str(number).encode(), durable=False)
        return after

    def _store(self) -> Store:
        self.outside.check(self.location)
        return open_beside(self.lake, plain_address(self.location), runtime=self.runtime)


def source_of(lake: Store, outside: Outside, location: str, source: Mapping[str, str], runtime: Runtime) -> Source:
    """The source that a row of the lake speaks of. Nothing is opened that is not the lake's or allowed `outside`."""
    if "lake" in source:
        return LakeSource(lake, outside, source["lake"], source["metadata"], runtime)
    if "identifier" in source:
        from seiche.lake.iceberg.foreign.catalog import CatalogSource

        return CatalogSource.of(source, outside)
    kind = FileSource if location.endswith((".metadata.json", ".metadata.json.gz")) else FolderSource
    return kind(lake, outside, location, runtime)
