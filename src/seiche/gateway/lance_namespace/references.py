"""Branches and tags on a desk: the files by which pylance knows them, and the lake, which decides.

pylance makes tags, and deletes tags and branches, by itself: it writes or removes a file, and tells nobody. So whenever
a table is opened, the files on its desk are compared with what the lake has. A note beside them says what was shown:
what was shown and is gone was deleted by a client, what is there and was not shown is new.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lance_namespace import LanceNamespaceError

from seiche.core.insisting import insist
from seiche.core.runtime import SYSTEM
from seiche.errors import Corrupt, NotFound, SeicheError
from seiche.gateway.lance_namespace.branches import branches, found_branch, table_of
from seiche.gateway.lance_namespace.desk import LINES
from seiche.gateway.lance_namespace.tags import TableTag, put_tag, remove_tag, tags
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.root import at_millis, millis
from seiche.store.base import Store
from seiche.table.format.refs import BRANCHES, TAGS, Tag, branch_path, branch_root, name_of, tag_path

if TYPE_CHECKING:
    from seiche.lake.lake import Lake

__all__ = ["References"]

log = logging.getLogger("seiche.gateway")

# What was shown: a file of the same name as that of the branch or tag.
_SHOWN: Final = "_shown"
# pylance writes the file of a branch some time after the branch is made. Until then it is not ours to write.
_MAKING_MILLIS: Final = 60_000


class References:
    """The branches and tags of one table, in the lake and on its desk."""

    def __init__(self, lake: "Lake", desk: Store, name: Name, row: TableRow) -> None:
        self._lake = lake
        self._desk = desk
        self._name = name
        self._row = row

    def settle(self) -> None:
        """Take over what clients did to the files, and show what the lake has. Never fails: opening a table goes on."""
        try:
            # In this order: what another server shows at this moment must not look as if it had been deleted.
            shown = {info.path.removeprefix(f"{_SHOWN}/") for info in self._desk.list(_SHOWN)}
            files = {info.path for info in self._desk.list("_refs")}
            self._settle_branches(files, shown)
            self._settle_tags(files, shown)
        except (SeicheError, LanceNamespaceError) as error:
            log.warning("%s: branches and tags were not compared: %s", text(self._name), error)

    def _settle_branches(self, files: set[str], shown: set[str]) -> None:
        state = self._lake.state()
        known = branches(state, self._name, self._row)
        now = millis(self._lake.states.runtime.clock.now())
        for branch, (full, row) in known.items():
            path = branch_path(branch)
            if path in files:
                self._note(path, shown)
            elif path in shown and self._was_deleted(path):
                self._drop(full)
                self.hide(path)
            elif now - row.created_at_millis > _MAKING_MILLIS:
                self.show_branch(branch)
        for path in files:
            branch_name = name_of(path) if path.startswith(f"{BRANCHES}/") else None
            if branch_name is not None and branch_name not in known and (path in shown or self._was_shown(path)):
                self.forget_branch(branch_name)
        self._tidy_notes(BRANCHES, shown - files - {branch_path(branch) for branch in known})

    def _drop(self, full: Name) -> None:
        self._lake.run(lambda transaction: transaction.drop_table(full))

    def _settle_tags(self, files: set[str], shown: set[str]) -> None:
        known = tags(self._lake.state(), self._row)
        for tag, found in known.items():
            path = tag_path(tag)
            if path in files:
                self._move(tag, found)
                self._note(path, shown)
            elif path in shown and self._was_deleted(path):
                remove_tag(self._lake, self._row, tag)
                self.hide(path)
            else:
                self.show_tag(tag, found)
        for path in files:
            tag_name = name_of(path) if path.startswith(f"{TAGS}/") else None
            if tag_name is None or tag_name in known:
                continue
            if path in shown:
                self.hide(path)
            else:
                self._adopt(tag_name, path, shown)
        self._tidy_notes(TAGS, shown - files - {tag_path(tag) for tag in known})

    def _was_deleted(self, path: str) -> bool:
        """Whether a client has removed a file that was shown.

        Looked at once more, now that it is known what the lake has: another may have taken away what was shown and made
        it anew since, and its file is still to come.
        """
        return self._desk.exists(f"{_SHOWN}/{path}") and not self._desk.exists(path)

    def _was_shown(self, path: str) -> bool:
        """Whether versions of a branch have been, which is dropped or renamed before anybody has noted its file."""
        return self._desk.exists(f"{LINES}/{path}")

    def _tidy_notes(self, folder: str, paths: set[str]) -> None:
        """Remove notes of what is neither in the lake nor on the desk any more.

        What gets the same name later, or comes back by a rollback, was not shown yet: it must not look deleted.
        """
        for path in paths:
            if path.startswith(f"{folder}/"):
                self._desk.delete(f"{_SHOWN}/{path}")

    def _adopt(self, tag: str, path: str, shown: set[str]) -> None:
        """A tag that a client has made: from now on it keeps what it stands for."""
        if self._take_over(tag, path, None):
            self._note(path, shown)

    def _move(self, tag: str, found: TableTag) -> None:
        """A tag of the lake that a client may have moved. What cannot be is shown again as it is."""
        if not self._take_over(tag, tag_path(tag), found):
            self.show_tag(tag, found)

    def _take_over(self, tag: str, path: str, found: TableTag | None) -> bool:
        """Whether the tag stands for what its file says. One for which it cannot must not stop the others."""
        try:
            wanted = Tag.decode(self._desk.get(path), path=path)
            if found is None or (wanted.version, wanted.branch) != (found.version, found.branch):
                line = self._line(wanted.branch)
                replaces = found is not None
                put_tag(self._lake, self._row, line, tag, wanted.version, wanted.branch, replaces=replaces)
        except (Corrupt, NotFound, LanceNamespaceError) as error:
            log.warning("%s: tag %s was not taken over: %s", text(self._name), tag, error)
            return False
        return True

    def _line(self, branch: str | None) -> TableRow:
        return self._row if branch is None else found_branch(self._lake.state(), self._name, self._row, branch)[1]

    def show_branch(self, branch: str) -> None:
        """Write the file of a branch that the lake has."""
        _, row = found_branch(self._lake.state(), self._name, self._row, branch)
        self._show(branch_path(branch), table_of(row).encode())

    def show_tag(self, tag: str, found: TableTag) -> None:
        """Write the file of a tag that the lake has."""
        at = at_millis(found.created_at_millis)
        self._show(
            tag_path(tag), Tag(version=found.version, branch=found.branch, created_at=at, updated_at=at).encode()
        )

    def forget_branch(self, branch: str) -> None:
        """Clear away the file of a branch that the lake does not have, and everything that was done on it."""
        self.hide(branch_path(branch))
        for info in list(self._desk.list(branch_root(branch))):
            self._desk.delete(info.path)

    def hide(self, path: str) -> None:
        """Remove a file, and the note that it was shown."""
        self._desk.delete(path)
        self._desk.delete(f"{_SHOWN}/{path}")

    def _show(self, path: str, data: bytes) -> None:
        self._put(path, data)
        self._put(f"{_SHOWN}/{path}", b"{}")

    def _note(self, path: str, shown: set[str]) -> None:
        if path not in shown:
            self._put(f"{_SHOWN}/{path}", b"{}")

    def _put(self, path: str, data: bytes) -> None:
        insist(lambda: self._desk.put(path, data, durable=False), SYSTEM)

    def branches(self) -> Mapping[str, TableRow]:
        found = branches(self._lake.state(), self._name, self._row)
        return {branch: row for branch, (_, row) in found.items()}

    def tags(self) -> Mapping[str, TableTag]:
        return tags(self._lake.state(), self._row)
