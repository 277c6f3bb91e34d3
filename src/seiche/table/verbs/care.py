"""The verbs about a table as a whole: copies of it, what is kept of it, what its files are called."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from seiche.core.durations import Duration
from seiche.core.given import a_flag, a_function, several
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.store.base import Store
from seiche.store.beside import open_beside
from seiche.store.paths import check_new_place
from seiche.table.cleanup import Cleaner
from seiche.table.cleanup_plan import Cleanup, Policy
from seiche.table.cleanup_survey import Protection
from seiche.table.clone import Carry, ProgressCallback, clone
from seiche.table.format.refs import MAIN
from seiche.table.format.transaction_pb2 import Transaction as TransactionMessage
from seiche.table.format.transactions import decode
from seiche.table.refs import References, find_tag
from seiche.table.transaction import Transaction
from seiche.table.verbs.references import ReferenceVerbs
from seiche.table.versions.base import Versions
from seiche.table.versions.external import ExternalVersions
from seiche.table.versions.migration import migrate_to_v2
from seiche.table.versions.naming import Naming, check_version
from seiche.table.versions.opening import open_versions

if TYPE_CHECKING:
    from seiche.table.data.changes import Changes
    from seiche.table.table import Table
    from seiche.table.versions.external import ManifestStore

__all__ = ["CareVerbs", "Protected"]

# What clean-up can be asked to leave alone: a version, a transaction or its bytes, a shallow clone or its address.
Protected: TypeAlias = Union[int, bytes, Transaction, str, Store, "CareVerbs"]


class CareVerbs(ReferenceVerbs):
    """`clone`, `changes`, `cleanup` and `migrate_naming`: of tables that belong to no lake."""

    _pinned: bool

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
        carry: Carry | None = None,
        manifest_store: "str | ManifestStore | None" = None,
        **options: Any,
    ) -> "Table":
        """Make a table at `target` that begins as this one is, or was at a version or tag or is on a branch; returns
        it.

        Its first version has the number of the one that was cloned. A deep clone has all files of that version and
        depends on nothing; they are copied within the storage where source and target share it, else through this
        process in pieces, several at a time, and `progress` is called after each; or by `carry`, if it is given. A
        shallow clone copies nothing and refers to the files of this table; so that clean-up leaves those alone, this
        table gets a tag `clone-...`, unless `protect` is false, and so do the tables that this one is a shallow clone
        of. Remove them when the clone is gone.

        `AlreadyExists` if there is a table at the target, which is then left as it is. If the clone fails or dies,
        there is none, and doing it again begins anew.
        """
        from seiche.table.table import Table

        a_function(progress, "progress", "Give a function of one argument, which is called after each file.")
        a_function(carry, "carry", "Give a function that copies files to a store.")
        source, number = self._source(version, tag, branch)
        made = self._target(target, manifest_store, options)
        clone(source, number, made, shallow=bool(shallow), protect=protect, progress=progress, carry=carry)
        return Table._at(made, None, None, self._runtime)

    def changes(
        self, from_version: int | str, to_version: int | str | None = None, *, columns: Sequence[str] | None = None
    ) -> "Changes":
        """The rows that were inserted, updated and deleted after `from_version`, up to and with `to_version` (that of
        this handle, if not given), with the version that did it. Tags are taken for versions, too; 0 is before all.

        Every version is looked at by itself: a row that was inserted and then updated shows twice. Compaction and
        everything else that leaves rows as they were shows nothing; columns that were added, cast or replaced are
        updates of the rows that have values in them, one that came back with a restore of all rows. With stable row
        ids, a row that an update wrote elsewhere is an update; without, it is a delete and an insert, because nothing
        says that it is the same row.

        Iterate over the result for record batches. `NotFound` if a version in between has been cleaned up.
        """
        from seiche.table.data.changes import find_changes
        from seiche.table.data.native import open_version

        first, last = self._number(from_version, may_be_zero=True), self._number(to_version)
        store = self._versions.store
        return find_changes(
            self._versions, lambda number: open_version(store, number), first, last, columns, self._runtime
        )

    def cleanup(
        self,
        older_than: Duration | None = None,
        retain: int | None = None,
        *,
        dry_run: bool = True,
        grace: Duration = "7d",
        gaps: bool = False,
        protect: "Iterable[Protected]" = (),
    ) -> Cleanup:
        """Find what nobody needs any more of this line of versions, and unless it is a dry run, remove it.

        A version goes when it ceased to be the latest more than `older_than` ago (7 days, if nothing is said) and is
        not among the newest `retain`: so whoever opened the table since then can go on reading. What goes is always the
        beginning of the line. A version that has a tag stays, and so does every one after it; with `gaps` those after
        it can go. Do that only if nobody writes from old versions: pylance does not check against versions that are
        missing. Other branches keep the files that they need.

        Files that no version names are leftovers of writers that died, or belong to a commit that is under way: they go
        when they are older than `grace`, by the storage's own clock. No version goes within two minutes, either,
        because writers may count on its number being taken. With `grace=0` you say that nobody else is at work.

        `protect` is for what cannot be seen from here: numbers of versions, transactions that wait to be committed, and
        addresses of shallow clones that others made (those of `clone` are known by their tags). Raises `InvalidInput`
        for a table with features that are not understood, and for one that is managed by a lake.
        """
        for flag, what in ((dry_run, "dry_run"), (gaps, "gaps")):
            a_flag(flag, what)
        policy = Policy.of(older_than, retain, grace, gaps=gaps)
        protection = self._protection(protect)
        if self._pinned:
            raise InvalidInput(
                f"{self._versions.store.uri} was opened at version {self._manifest.version} and is read-only",
                remedy="Open the table without a version to clean it up.",
            )
        cleaner = Cleaner(self._references, policy, protection)
        return cleaner.plan() if dry_run else cleaner.run()

    @staticmethod
    def migrate_naming(
        uri: str | PathLike[str] | Store,
        *,
        manifest_store: "str | ManifestStore | None" = None,
        runtime: Runtime = SYSTEM,
        **options: Any,
    ) -> int:
        """Give the manifests of the table at `uri` their new names (V2), under which the latest is found at once.

        Returns how many were renamed; none if the table has such names. Nobody can commit meanwhile. If it is
        interrupted the table cannot be opened until this is called again, which goes on where it stopped.
        `InvalidInput` for a table with a manifest store, which has recorded the names as they are.
        """
        versions = open_versions(uri, manifest_store=manifest_store, runtime=runtime, options=options)
        if isinstance(versions, ExternalVersions):
            raise InvalidInput(
                f"the versions of {versions.store.uri} are recorded in a manifest store under the names that they have",
                remedy="Finding the latest does not depend on names there. To have new ones nevertheless, make a deep"
                " clone: `table.clone(target, manifest_store=...)`.",
                table=versions.store.uri,
            )
        return migrate_to_v2(versions.store, runtime)

    def _number(self, version: int | str | None, *, may_be_zero: bool = False) -> int:
        """The number of a version of this line."""
        if isinstance(version, str):
            return find_tag(self._versions.store, version, self._references.branch)
        if version is None:
            return self.version
        return 0 if may_be_zero and version == 0 else check_version(version)

    def _protection(self, protect: "Iterable[Protected]") -> Protection:
        versions: set[int] = set()
        transactions: list[TransactionMessage] = []
        clones: list[Store] = []
        remedy = "Give numbers of versions, transactions, or addresses of shallow clones, in a list."
        for one in (protect,) if isinstance(protect, str | bytes) else several(protect, "protect", remedy):
            match one:
                case int() if type(one) is int:
                    versions.add(one)
                case bytes():
                    transactions.append(decode(one, path="a transaction in `protect`"))
                case Transaction():
                    transactions.append(one.to_proto())
                case str():
                    clones.append(open_beside(self._versions.store, one, runtime=self._runtime))
                case Store():
                    clones.append(one)
                case CareVerbs():
                    clones.append(one._versions.store)
                case _:
                    raise InvalidInput(
                        f"{one!r} cannot be protected",
                        remedy=remedy,
                    )
        return Protection(frozenset(versions), tuple(transactions), tuple(clones))

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
        check_new_place(made.store.native_uri())
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
