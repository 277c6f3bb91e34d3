"""What a lake remembers about its exports.

An export is recorded before its first file is copied: from then on the versions that it copies from do not expire, so
no clean-up can take a file away under it. When all is copied the record says so. A full export holds nothing then; the
others go on holding the version whose files they share. One that died stands there as running, and is gone on with by
running it again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound, Unavailable
from seiche.lake.commit.edits import Planned
from seiche.lake.commit.intent import Intent
from seiche.lake.objects import rows
from seiche.lake.objects.keys import export_key, tag_key
from seiche.lake.objects.names import Name, tables_named, text
from seiche.lake.objects.rows import ExportRow, TagRow
from seiche.lake.pins import EXPORTS, TAGS, check_kept
from seiche.lake.state import State
from seiche.lake.tree.root import at_millis, millis

__all__ = [
    "Beginning",
    "Export",
    "Finishing",
    "Forgetting",
    "Mode",
    "check_mode",
    "exports",
    "find_export",
    "remembered",
]

Mode: TypeAlias = Literal["full", "minimal", "partial"]


@dataclass(frozen=True, slots=True)
class Export:
    """An export as the lake knows it.

    `tables` are those that it was restricted to, `None` if it was not; `tags` are carried over, with the versions that
    they name. `address` is where it will stand, if it is to be moved. `done` says that it is complete.
    """

    name: str
    version: int
    location: str
    mode: Mode
    tables: tuple[Name, ...] | None
    tags: Mapping[str, int]
    created_at: datetime
    done: bool
    address: str = ""

    @property
    def versions(self) -> list[int]:
        """The versions of the lake that it has, ascending: its own is the last."""
        return sorted({self.version, *self.tags.values()})

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "name": self.name,
            "version": self.version,
            "location": self.location,
            "mode": self.mode,
            "tables": None if self.tables is None else [text(one) for one in self.tables],
            "tags": dict(self.tags),
            "created_at": self.created_at.isoformat(),
            "done": self.done,
            **({"address": self.address} if self.address else {}),
        }

    def row(self) -> ExportRow:
        """As it stands in the tree."""
        said: dict[str, str] = {"state": "done" if self.done else "running", "tags": json.dumps(dict(self.tags))}
        if self.tables is not None:
            said["tables"] = json.dumps(self.tables)
        if self.address:
            said["address"] = self.address
        return ExportRow(
            version=self.version,
            location=self.location,
            mode=self.mode,
            created_at_millis=millis(self.created_at),
            properties=said,
        )

    @classmethod
    def of(cls, name: str, row: ExportRow) -> "Export":
        """The export that a row is about."""
        tables: Any = json.loads(row.properties.get("tables", "null"))
        mode: Mode = "full" if row.mode == "full" else "partial" if row.mode == "partial" else "minimal"
        return cls(
            name=name,
            version=row.version,
            location=row.location,
            mode=mode,
            tables=None if tables is None else tuple(tuple(one) for one in tables),
            tags=json.loads(row.properties.get("tags", "{}")),
            created_at=at_millis(row.created_at_millis),
            done=row.properties.get("state", "done") == "done",
            address=row.properties.get("address", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning(Intent):
    """Records that an export is under way. Planned on the newest version: whether the name is free and the version
    may be kept is seen there only.
    """

    export: Export

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        name = self.export.name
        for key, what in ((tag_key(name), "a tag"), (export_key(name), "an export")):
            if state.get(key) is not None:
                raise AlreadyExists(
                    f"there is {what} {name!r} already",
                    remedy="Choose another name; `lake.untag` and `lake.unexport` take names away.",
                    export=name,
                )
        check_kept(state, self.export.version)
        kept = self.export
        if kept.mode == "full":
            # A tag that was taken away meanwhile is left out; what has one now cannot have been given up.
            kept = replace(kept, tags=_tags(state, kept.version))
        elif kept.tags:
            raise InvalidInput("only a full export carries tags")
        yield Planned({export_key(name): rows.encode(kept.row())})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finishing(Intent):
    """Records that an export is complete: the one that was begun, not another that has its name by now."""

    export: Export

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        remembered(state, self.export)
        yield Planned({export_key(self.export.name): rows.encode(replace(self.export, done=True).row())})


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting(Intent):
    """Takes the record of an export away, and with it the hold that it had on its version; of `export` only, if it is
    given, not of another that has the name by now.
    """

    name: str
    export: Export | None = None

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        found = find_export(state, self.name)
        if found is None or (self.export is not None and not _is_same(found, self.export)):
            raise _none(self.name)
        yield Planned({export_key(self.name): None})


def exports(state: State) -> dict[str, Export]:
    """The exports that a version knows, by name."""
    found = ((key[4:].decode(), rows.decode(value, ExportRow)) for key, value in state.scan(EXPORTS))
    return {name: Export.of(name, row) for name, row in found}


def find_export(state: State, name: str) -> Export | None:
    """The export of this name, if there is one."""
    value = state.get(export_key(name))
    return None if value is None else Export.of(name, rows.decode(value, ExportRow))


def remembered(state: State, export: Export) -> Export:
    """The export as it was begun, with its tags; `Unavailable` if it was forgotten since, also if another one has got
    its name.
    """
    found = find_export(state, export.name)
    if found is None or not _is_same(found, export):
        raise Unavailable(
            f"the export {export.name!r} was forgotten while it was made",
            remedy="Somebody called `unexport`. Run it again, under another name if that one is taken.",
            export=export.name,
        )
    return found


def _is_same(found: Export, export: Export) -> bool:
    """Whether both are one export, however far it has come."""
    return replace(found, tags=export.tags, done=export.done) == export


def check_mode(mode: str, tables: Sequence[str | Sequence[str]] | None) -> tuple[Mode, tuple[Name, ...] | None]:
    """Both as they must be; `InvalidInput` if they do not go together."""
    if mode not in get_args(Mode):
        raise InvalidInput(f"the mode {mode!r} is unknown", remedy='Use "full", "minimal" or "partial".')
    if mode == "partial" and tables is None:
        raise InvalidInput("a partial export copies some tables", remedy="Say which, with `tables=`.")
    if mode == "minimal" and tables is not None:
        raise InvalidInput("a minimal export copies no table", remedy='Use mode="partial", or leave `tables=` out.')
    names = None if tables is None else tuple(sorted(set(tables_named(tables))))
    return ("full" if mode == "full" else "partial" if mode == "partial" else "minimal"), names


def _tags(state: State, version: int) -> dict[str, int]:
    """The tags of versions up to this one."""
    found = ((key[4:].decode(), rows.decode(value, TagRow).version) for key, value in state.scan(TAGS))
    return {name: tagged for name, tagged in found if tagged <= version}


def _none(name: str) -> NotFound:
    return NotFound(f"there is no export {name!r}", remedy="`lake.exports()` lists those that exist.", export=name)
