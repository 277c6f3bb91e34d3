"""What clean-ups found, left for later ones.

A file that nobody needs may still belong to a transaction that has not committed. It cannot be told by looking at it,
nor by its age, for clocks err. But whoever wrote it before it was noted had begun at a version that existed by then. So
a later clean-up that finds the file again, and puts up a fence against everybody who began up to that version, knows
that it will never be needed.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from seiche.core.insisting import insist
from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, NotFound
from seiche.lake.care.layout import NOTED
from seiche.lake.care.listing import Listed, pack, unpack
from seiche.lake.care.path_set import PathSet
from seiche.store.base import Store

__all__ = ["Note", "leave_note", "notes"]

_NAME = re.compile(rf"{NOTED}/(\d{{20}})-[0-9a-f-]{{36}}")


@dataclass(frozen=True, slots=True)
class Note:
    """Files that nobody needed, all of which were there before the version after `version` was made.

    `at` is when the note was written, by the storage's clock.
    """

    version: int
    at: datetime
    path: str

    def load(self, store: Store) -> PathSet:
        """The identities of the files in it; none if the note cannot be read, which costs only time."""
        found = PathSet()
        try:
            what, lines = unpack(store.get(self.path), self.path)
        except (Corrupt, NotFound):
            return found
        if what == str(self.version):
            for line in lines:
                found.add("\t".join(line))
        return found


def leave_note(store: Store, version: int, files: Iterable[Listed], runtime: Runtime) -> Note:
    """Write down files that nobody needs. `version` was the newest after all of them had been seen."""
    path = f"{NOTED}/{version:020}-{runtime.uuid()}"
    data = pack(str(version), ((one.identity,) for one in files))
    while True:
        insist(lambda: store.put(path, data), runtime)
        with suppress(NotFound):  # another clean-up, which has used a newer one, has removed it
            return Note(version, store.head(path).modified, path)


def notes(store: Store) -> Iterator[Note]:
    """All notes that stand there."""
    for info in store.list(NOTED):
        named = _NAME.fullmatch(info.path)
        if named is not None:
            yield Note(int(named[1]), info.modified, info.path)
