"""Names for versions of a lake, and versions by whatever a user calls them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from seiche.core.given import text
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.lake.commit.edits import Planned
from seiche.lake.commit.intent import Intent
from seiche.lake.objects import rows
from seiche.lake.objects.keys import export_key, tag_key
from seiche.lake.objects.names import check_name
from seiche.lake.objects.rows import ExportRow, TagRow
from seiche.lake.pins import TAGS, check_kept
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.root import at_millis, millis

__all__ = ["Point", "Tag", "Tagging", "Untagging", "check_tag_name", "tags", "version_of"]

# What stands for a version: its number, the name of a tag or an export, or a time, meaning the newest at that time.
Point: TypeAlias = int | str | datetime

# Numbers of versions have 64 bits.
_MOST_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version, which does not expire as long as it has one."""

    name: str
    version: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagging(Intent):
    """Gives a version a name. Planned on whatever version is the newest: whether it may be is seen there only."""

    name: str
    version: int

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        for key, what in ((tag_key(self.name), "a tag"), (export_key(self.name), "an export")):
            if state.get(key) is not None:
                raise AlreadyExists(
                    f"there is {what} {self.name!r} already",
                    remedy="Choose another name; `lake.untag` and `lake.unexport` take names away.",
                    tag=self.name,
                )
        check_kept(state, self.version)
        row = TagRow(version=self.version, created_at_millis=millis(runtime.clock.now()))
        yield Planned({tag_key(self.name): rows.encode(row)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Untagging(Intent):
    """Takes a name away. The version stays until it expires."""

    name: str

    def plan(self, state: State, runtime: Runtime) -> Iterator[Planned]:
        if state.get(tag_key(self.name)) is None:
            raise _no_tag(self.name)
        yield Planned({tag_key(self.name): None})


def tags(state: State) -> dict[str, Tag]:
    """The tags in a version, by name."""
    found = (_tag(key, value) for key, value in state.scan(TAGS))
    return {tag.name: tag for tag in found}


def check_tag_name(name: str, *, what: str = "tag") -> str:
    """The name unchanged if a version may be called so; one of digits only would be taken for a version's number."""
    check_name(name, what=what)
    if name.isdecimal():
        remedy = "Use a name with a letter in it."
        raise InvalidInput(f"{name!r} cannot be a {what}: it is a number", remedy=remedy, tag=name)
    return name


def version_of(states: States, point: Point) -> int:
    """The number of the version that is meant; `NotFound` if there is no such tag or export, or time.

    Names are looked up in the newest version of the lake, since there they stay as they were through a rollback.
    """
    if isinstance(point, bool):
        raise InvalidInput(f"{point} is not a version", remedy="Give a number, the name of a tag, or a time.")
    if isinstance(point, int):
        return point
    if isinstance(point, datetime):
        if point.tzinfo is None:
            raise InvalidInput(f"{point} has no time zone", remedy="Give an aware datetime, such as one in UTC.")
        return states.as_of(point)
    text(point, "a version", "Give a number, the name of a tag, or a time.")
    if point.isdecimal() and point.isascii():
        if len(point) > _MOST_DIGITS:  # Python itself refuses to read some thousands of them
            raise NotFound(f"there is no version whose number has {len(point)} digits")
        return int(point)
    state = states.latest()
    tag = state.get(tag_key(point))
    if tag is not None:
        return rows.decode(tag, TagRow).version
    export = state.get(export_key(point))
    if export is not None:
        return rows.decode(export, ExportRow).version
    raise _no_tag(point)


def _tag(key: bytes, value: bytes) -> Tag:
    row = rows.decode(value, TagRow)
    return Tag(key[4:].decode(), row.version, at_millis(row.created_at_millis))


def _no_tag(name: str) -> NotFound:
    return NotFound(f"there is no tag {name!r}", remedy="`lake.tags()` lists those that exist.", tag=name)
