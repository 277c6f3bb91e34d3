"""What a lake can do about its own past."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from seiche.core.given import text
from seiche.lake.commit.intent import Intent
from seiche.lake.history.diff import Diff, diff
from seiche.lake.history.log import Log, history
from seiche.lake.history.rollback import roll_back
from seiche.lake.history.tags import Point, Tag, Tagging, Untagging, check_tag_name, tags, version_of
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.export.records import Export, Mode

__all__ = ["HistoryVerbs"]


def _silent(_what: str, _done: int) -> None:
    pass


class HistoryVerbs(ABC):
    """`log`, `diff`, `tag`, `untag`, `tags`, `rollback`, `export`, `unexport` and `exports`. Versions are given by
    number, tag or time.
    """

    @property
    @abstractmethod
    def states(self) -> States:
        """All versions of the lake, to look things up in."""

    @abstractmethod
    def state(self) -> State:
        """The version this handle is at."""

    @abstractmethod
    def decide(self, intent: Intent) -> int:
        """Commit what was put together by other means than a transaction; returns the version that it made."""

    def log(self, limit: int | None = None, *, since: Point | None = None) -> Log:
        """The versions up to this handle's, newest first: at most `limit`, and only those made after `since`.

        Roots are read as the result is gone through, not before.
        """
        return history(self.states, self.state().version, limit=limit, since=since)

    def diff(self, before: Point, after: Point | None = None) -> Diff:
        """What leads from one version to another, by default to this handle's: objects, and in tables operations, rows,
        files and columns. Either may be the later one.
        """
        later = self.state() if after is None else self.states.at(version_of(self.states, after))
        return diff(self.states.at(version_of(self.states, before)), later)

    def tag(self, name: str, version: Point | None = None) -> int:
        """Give a version a name, by default the newest, and return its number. It does not expire while it has one.

        `AlreadyExists` if the name is taken, `NotFound` if the version has expired or does so meanwhile.
        """
        check_tag_name(name)
        latest = self.states.latest().version
        number = latest if version is None else version_of(self.states, version)
        self.decide(Tagging(str(self.states.runtime.uuid()), latest, name=name, version=number))
        return number

    def untag(self, name: str) -> None:
        """Take a name away again; `NotFound` if there is no such tag."""
        text(name, "a tag")
        self.decide(Untagging(str(self.states.runtime.uuid()), self.states.latest().version, name=name))

    def tags(self) -> dict[str, Tag]:
        """The names that versions have now, whatever version this handle is at."""
        return tags(self.states.latest())

    @overload
    def rollback(
        self,
        to: Point,
        *,
        expected_version: int | None = None,
        dry_run: Literal[False] = False,
        tables: Sequence[str | Sequence[str]] | None = None,
    ) -> int: ...

    @overload
    def rollback(
        self,
        to: Point,
        *,
        expected_version: int | None = None,
        dry_run: Literal[True],
        tables: Sequence[str | Sequence[str]] | None = None,
    ) -> Diff: ...

    def rollback(
        self,
        to: Point,
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        tables: Sequence[str | Sequence[str]] | None = None,
    ) -> int | Diff:
        """Make the lake, or only some `tables`, what it was at a version; see `seiche.lake.history.rollback`.

        Returns the version that does so. It undoes whatever was committed after `to`, also by others until it is
        decided; with `expected_version` it is an `IncompatibleConflict` if the lake is not at that version any more.
        A `dry_run` returns what would happen, and does nothing.
        """
        return roll_back(self, to, expected_version=expected_version, dry_run=dry_run, tables=tables)

    def export(
        self,
        name: str,
        target: str | PathLike[str] | Store,
        version: Point | None = None,
        mode: "Mode" = "full",
        tables: Sequence[str | Sequence[str]] | None = None,
        *,
        address: str | None = None,
        progress: Callable[[str, int], None] = _silent,
        **options: Any,
    ) -> "Export":
        """Copy a version (by default the newest) to an empty place, where it is a lake of its own; returns the record.

        `full` copies everything that the version needs, and the versions that have tags up to it; with `tables`, only
        these. Nothing in it leads back here, and it can be moved. `minimal` copies no table, `partial` only `tables`:
        the others stand in the copy as external tables that are read where they are. The version that these belong to
        does not expire until `unexport`.

        The copy keeps the numbers of versions. Files are copied in parallel, hashed, and read back; `_export/files` in
        the copy lists them. `AlreadyExists` if the name is taken or the place is not empty. Interrupted anywhere, the
        same call finishes it: until then there is no lake at the target, and what it needs here stays. Plain Lance
        writers are not kept out of the tables of a copy until a lake commits to them again. Iceberg tables name their
        files by address: if the copy is to be moved before plain Iceberg engines read it, `address` says where to. As a
        lake it is read wherever it is. `options` are those of the target's storage.
        """
        from seiche.lake.export.export import export_lake

        return export_lake(
            self, name, target, version, mode=mode, tables=tables, address=address, progress=progress, **options
        )

    def unexport(self, name: str) -> None:
        """Forget an export; `NotFound` if there is none of this name. What it shares with this lake may go then."""
        from seiche.lake.export.records import Forgetting

        text(name, "the name of an export")
        self.decide(Forgetting(str(self.states.runtime.uuid()), self.states.latest().version, name=name))

    def exports(self) -> "dict[str, Export]":
        """The exports that were made, or begun, of this lake, by name."""
        from seiche.lake.export.records import exports

        return exports(self.states.latest())
