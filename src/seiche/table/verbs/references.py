"""The verbs about names for versions, and about further lines of versions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput
from seiche.table.branches import create_branch, delete_branch
from seiche.table.format.flags import SEICHE_FENCE
from seiche.table.format.manifest import Manifest
from seiche.table.format.refs import Branch, Tag
from seiche.table.refs import References, branch_of
from seiche.table.versions.base import Versions
from seiche.table.versions.naming import check_version

if TYPE_CHECKING:
    from seiche.table.table import Table

__all__ = ["ReferenceVerbs"]


class ReferenceVerbs(ABC):
    """`tag`, `untag`, `tags`, `branch`, `branches` and `delete_branch`: of tables that belong to no lake.

    They make no version. All of them may be called on a table that was opened at a version. Tags and branches are files
    that pylance writes and reads, too.
    """

    _versions: Versions
    _manifest: Manifest
    _runtime: Runtime

    @property
    @abstractmethod
    def version(self) -> int:
        """The version this handle is at."""

    def tags(self) -> dict[str, Tag]:
        """All tags of the table by name, with the version and the branch that each stands for."""
        return self._references.tags()

    def tag(
        self,
        name: str,
        version: int | str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> Tag:
        """Name a version: that of this handle, or the one given by number or by another tag. Clean-up leaves it alone.

        `AlreadyExists` if the tag exists; with `replace` it moves. `NotFound` if there is no such version.
        """
        references, number = self._point(version)
        self._refuse_managed("tag", "lake.tag(...)")
        return references.put_tag(name, number, metadata=metadata, move=replace)

    def untag(self, name: str) -> None:
        """Take a tag away; the version it stood for stays until it is cleaned up. `NotFound` if there is none."""
        self._references.remove_tag(name)

    def branches(self) -> dict[str, Branch]:
        """All branches of the table by name, the main line not among them."""
        return self._references.branches()

    def branch(self, name: str, version: int | str | None = None) -> "Table":
        """Make a branch and return it as a live table: it begins at the version of this handle or at the one given.

        Its versions go on from the number of that version, and nothing that is committed to it shows on the line that
        it came from. No data is copied. `AlreadyExists` if there is one of that name; parts of a name are separated by
        slashes.
        """
        from seiche.table.table import Table

        references, number = self._point(version)
        self._refuse_managed("branch", "lake.export(...)")
        return Table._at(create_branch(references, name, number), None, None, self._runtime)

    def delete_branch(self, name: str) -> None:
        """Remove a branch with all its versions and files.

        `InvalidInput` if a tag stands for a version of it or another branch began at it; `NotFound` if there is none.
        """
        delete_branch(self._references, name)

    @property
    def _references(self) -> References:
        return References(self._versions, branch_of(self._manifest.header), self._runtime)

    def _point(self, version: int | str | None) -> tuple[References, int]:
        """The line and the number of a version that is given in any of the ways."""
        references = self._references
        if isinstance(version, str):
            tag = references.find_tag(version)
            return references.on(tag.branch), tag.version
        return references, self.version if version is None else check_version(version)

    def _refuse_managed(self, verb: str, remedy: str) -> None:
        if self._manifest.header.writer_feature_flags & SEICHE_FENCE:
            raise InvalidInput(
                f"{self._versions.store.uri} is managed by a lake, which would not know of the {verb}",
                remedy=f"Use `{remedy}` of the lake.",
            )
