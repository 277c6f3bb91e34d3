"""The verbs about a table as a whole: copies of it, what is kept of it, what its files are called."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.store.base import Store
from seiche.table.clone import ProgressCallback, clone
from seiche.table.format.refs import MAIN
from seiche.table.refs import References
from seiche.table.verbs.references import ReferenceVerbs
from seiche.table.versions.base import Versions
from seiche.table.versions.migration import migrate_to_v2
from seiche.table.versions.naming import Naming, check_version
from seiche.table.versions.opening import open_versions

if TYPE_CHECKING:
    from seiche.table.table import Table
    from seiche.table.versions.external import ManifestStore

__all__ = ["CareVerbs"]


class CareVerbs(ReferenceVerbs):
    """`clone` and `migrate_naming`: of tables that belong to no lake."""

    def clone(
        self,
        target: str | Store,
        *,
        shallow: bool = False,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        protect: bool = True,
        progress: ProgressCallback | None = None,
        manifest_store: "str | ManifestStore | None" = None,
        **options: Any,
    ) -> "Table":
        """Make a table at `target` that begins as this one is, or was at a version or tag or is on a branch; returns
        it.

        Its first version has the number of the one that was cloned. A deep clone has all files of that version and
        depends on nothing; they are copied within the storage where source and target share it, else through this
        process in pieces, several at a time, and `progress` is called after each. A shallow clone copies nothing and
        refers to the files of this table; so that clean-up leaves those alone, this table gets a tag `clone-...`,
        unless `protect` is false. Remove it when the clone is gone.

        `AlreadyExists` if there is a table at the target, which is then left as it is. If the clone fails or dies,
        there is none, and doing it again begins anew.
        """
        from seiche.table.table import Table

        source, number = self._source(version, tag, branch)
        made = self._target(target, manifest_store, options)
        clone(source, number, made, shallow=shallow, protect=protect, progress=progress)
        return Table._at(made, None, None, self._runtime)

    @staticmethod
    def migrate_naming(uri: str | Store, *, runtime: Runtime = SYSTEM, **options: Any) -> int:
        """Give the manifests of the table at `uri` their new names (V2), under which the latest is found at once.

        Returns how many were renamed; none if the table has such names. Nobody can commit meanwhile. If it is
        interrupted the table cannot be opened until this is called again, which goes on where it stopped.
        """
        return migrate_to_v2(open_versions(uri, runtime=runtime, options=options).store)

    def _source(self, version: int | None, tag: str | None, branch: str | None) -> tuple[References, int]:
        """The version that is to be cloned, and the line that it is on."""
        if tag is not None:
            if version is not None or branch is not None:
                raise InvalidInput(
                    "a tag says which version is meant", remedy="Give `tag=`, or `version=` and `branch=`."
                )
            return self._point(tag)
        if branch is None:
            return self._point(version)
        line = self._references.on(None if branch == MAIN else branch)
        return line, line.versions.newest() if version is None else check_version(version)

    def _target(
        self, target: str | Store, manifest_store: "str | ManifestStore | None", options: Mapping[str, Any]
    ) -> Versions:
        """Where the clone goes; in the same kind of storage with the same credentials, if no others are given."""
        here = self._versions.store
        if isinstance(target, str) and not options and _scheme(target) == _scheme(here.uri):
            options = here.native_options
        made = open_versions(
            target, naming=Naming.V2, manifest_store=manifest_store, runtime=self._runtime, options=options
        )
        root, place = self._references.root.native_uri().rstrip("/") + "/", made.store.native_uri().rstrip("/") + "/"
        if place != root and (place.startswith(root) or root.startswith(place)):
            raise InvalidInput(
                f"{made.store.uri} lies inside {self._references.root.uri}, or the other way round",
                remedy="Clone to an address outside of the table: clean-up and copying would take one for the other.",
            )
        return made


def _scheme(uri: str) -> str:
    scheme, separator, _ = uri.partition("://")
    return scheme.removesuffix("+ddb") if separator else "file"
