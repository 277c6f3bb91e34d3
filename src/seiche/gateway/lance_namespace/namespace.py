"""A lake as pylance works with it over HTTP: as `lake.namespace()`, but on desks.

So pylance's own rebase works: it finds what others committed, under the same numbers, in manifests that it may write
upon. Every commit is still the lake's, and is checked as those of `lake.namespace()` are.
"""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import lance_namespace as lance

from seiche.errors import InvalidInput, NotFound, RetryableConflict, SeicheError
from seiche.gateway.lance_namespace.branches import (
    Start,
    as_named,
    branch_of,
    branches,
    family,
    first_version,
    wanted_branch,
)
from seiche.gateway.lance_namespace.desk import Desk, Desks, main_desk
from seiche.gateway.lance_namespace.elsewhere_verbs import ElsewhereVerbs
from seiche.gateway.lance_namespace.reference_verbs import ReferenceVerbs
from seiche.lake.engines.answers import answering, asked
from seiche.lake.engines.catalog import id_of
from seiche.lake.engines.declared import Declared
from seiche.lake.engines.native_commit import NativeVersion, before_first, commit_native
from seiche.lake.engines.native_manifest import NativeManifest, new_files, read_native
from seiche.lake.engines.object_paths import object_path, path_inside
from seiche.lake.engines.table_namespace import found
from seiche.lake.objects.keys import name_of
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.versions import LakeVersions
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.format.refs import branch_root
from seiche.table.format.schema import to_arrow
from seiche.table.operations import Clone, Restore
from seiche.table.versions.naming import Naming

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.lake import Lake

__all__ = ["DeskNamespace"]

log = logging.getLogger("seiche.gateway")

_NO_WAY_AROUND: Final = "seiche://commit-through-the-namespace"


class DeskNamespace(ReferenceVerbs, ElsewhereVerbs):
    """The newest version of a lake, for clients of a server or of this process. A server makes one for each request;
    `desks` and `declared` outlive them.

    Files that a client wrote on a desk cannot be taken for garbage, and are copied after the commit has begun: so a
    clean-up of the lake never stands in the way of a client, however long ago it opened the table.
    """

    def __init__(self, lake: "Lake", desks: Desks, declared: Declared) -> None:
        super().__init__(lake)
        self._desks = desks
        self._declared = declared

    def namespace_id(self) -> str:
        return f"DeskNamespace {{ lake: '{self._lake.uri}' }}"

    def describe_table(self, request: Any) -> lance.DescribeTableResponse:
        """Where the desk of a table is; at a version or tag, if one is asked for."""
        request = self.on_branch(self._at_tag(request))
        name = id_of(request)
        with answering("table"):
            foreign = self.foreign(name)
        if foreign is not None:
            return foreign
        self._adopt(name)
        described = super().describe_table(request)
        if not described.is_only_declared and branch_of(self.check_lance(name)) is None:
            self._references(name).settle()
        if described.table_uri is not None:
            # Only clients that pass servers by when they write ask for it, as DuckDB does, and some of their statements
            # take no notice of flags in manifests. They open what they read by its location, and cannot open this.
            described.table_uri = f"{_NO_WAY_AROUND}/{'/'.join(name)}"
        return described

    def schema(self, request: Any) -> "pa.Schema":
        """The columns of what `describe_table` describes: of a branch, and at a version or tag, if these are named."""
        request = self.on_branch(self._at_tag(request))
        name, version = id_of(request), asked(request, "version")
        row = None if version is None else self.check_lance(name)
        if row is None or version is None or version == row.table_version:
            return self._lake.table(name).schema
        with answering("version"):
            header = LakeVersions(self._lake.store, row).read(version).manifest.header
            return to_arrow(header.fields, header.schema_metadata)

    def _at_tag(self, request: Any) -> Any:
        """The request, about the version and the branch that a tag stands for if it names one."""
        tag = asked(request, "tag")
        if tag is None:
            return request
        known = self.get_table_tag_version({"id": list(id_of(request)), "tag": tag})
        found_there = {"tag": None, "version": known.version, "branch": known.branch}
        return {**request, **found_there} if isinstance(request, dict) else request.model_copy(update=found_there)

    def _row_of(self, name: Name) -> TableRow:
        return as_named(self._lake.state(), super()._row_of(name))

    def _place(self, row: TableRow) -> Store:
        return self._desks.of(row).store

    def list_table_versions(self, request: Any) -> lance.ListTableVersionsResponse:
        """The versions of a table or of a branch of it, oldest first unless `descending`."""
        try:
            asked_for = self.on_branch(request)
        except lance.TableBranchNotFoundError as error:
            # pylance asks before it makes the branch. A branch of that name that is gone must not be in its way, and
            # only of a missing *table* it believes that there are no versions.
            self._references(id_of(request)).forget_branch(wanted_branch(request) or "")
            raise lance.TableNotFoundError(str(error)) from error
        return super().list_table_versions(asked_for)

    def describe_table_version(self, request: Any) -> lance.DescribeTableVersionResponse:
        """Where the manifest of a version is, on the desk."""
        return super().describe_table_version(self.on_branch(request))

    def _create_all(self, entries: Sequence[Any]) -> list[lance.TableVersion]:
        if len(entries) == 1 and wanted_branch(entries[0]) is not None:
            begun = self._begin_branch(entries[0])
            if begun is not None:
                return [begun]
        return super()._create_all([self.on_branch(entry) for entry in entries])

    def _begin_branch(self, entry: Any) -> lance.TableVersion | None:
        """pylance's `create_branch`: the first version of a branch that does not exist; `None` if it does."""
        with answering("version"):
            name, branch = parts(id_of(entry), what="table"), wanted_branch(entry) or ""
            root = self.check_lance(name)
            found_there = branches(self._lake.state(), name, root).get(branch)
            if found_there is not None and asked(entry, "version") != first_version(found_there[1]):
                return None
            there = below(self._lake.store, f"{main_desk(self._lake.store, root)}/{branch_root(branch)}")
            path = path_inside(there, asked(entry, "manifest_path"))
            native = read_native(there, path, asked(entry, "version"))
            clone = native.transaction.operation
            if not isinstance(clone, Clone) or not clone.is_shallow or clone.ref_version != native.version:
                raise lance.TableBranchNotFoundError(f"{text(name)} has no branch {branch}")
            parent = self._behind(name, root, clone.ref_path)
            if parent is None:
                raise InvalidInput(f"{clone.ref_path} is no line of {text(name)}", remedy="Open the table again.")
            row = Start(name, root, parent, branch, native.version, native.message.uuid).commit(self._lake)
            shown = self._shown(self._row_of((row.id,)), native.version)
            with suppress(SeicheError):  # the branch is made; what is left there is overwritten, or cleared by age
                there.delete(path)
            return shown

    def _behind(self, name: Name, root: TableRow, address: str) -> TableRow | None:
        """The table or branch whose desk, or directory, has this address; `name` is what the table is called."""
        wanted = address.removeprefix("file://").rstrip("/")
        for one in (root, *(row for _, row in branches(self._lake.state(), name, root).values())):
            places = (self._desks.of(one).store, below(self._lake.store, one.location))
            if any(place.native_uri().removeprefix("file://").rstrip("/") == wanted for place in places):
                return one
        return None

    def _adopt(self, name: Name) -> None:
        """Bring in a version that a client has put on the desk past the server, believing that it committed.

        DuckDB makes tables so, and pylance's `LanceDataset.commit` unless it is told otherwise. It counts if it follows
        what the lake has; whatever does not is overwritten when the lake makes a version of that number.
        """
        try:
            row = self._awaited(name) or self.check_lance(name)
            desk, number = self._desks.of(row), row.table_version + 1
            path = desk.put_past(row)
            if path is not None:
                self._make([{"id": name, "version": number, "manifest_path": object_path(desk.store, path)}])
        except (SeicheError, lance.LanceNamespaceError) as error:
            log.debug("%s: nothing was adopted: %s", text(name), error)

    def _newest(self, name: Name) -> lance.TableVersion:
        return self._shown(self.check_lance(name))

    def _version(self, name: Name, version: int) -> lance.TableVersion:
        row = self.check_lance(name)
        self._published(row, version)  # says what is wrong if there is none
        return self._shown(row, version)

    def _shown(self, row: TableRow, version: int | None = None) -> lance.TableVersion:
        desk = self._desks.of(row)
        path, size = desk.show(self._lake.state(), row, version, self._lake.states.runtime.clock.now())
        return found(desk.store, row.table_version if version is None else version, path, size)

    def _create(self, entries: Sequence[Any]) -> list[lance.TableVersion]:
        for entry in entries:
            self._adopt(parts(id_of(entry), what="table"))
        return self._make(entries)

    def _make(self, entries: Sequence[Any]) -> list[lance.TableVersion]:
        wanted = [self._wanted(entry) for entry in entries]
        if not all(map(self._is_done, wanted)):
            with self._turn(wanted):
                self._commit_all(wanted)
        made = [self._answer(one) for one in wanted]
        for one, entry in zip(wanted, entries, strict=True):
            self._desks.following.committed(one.row.id, one.native.message.uuid)
            self._declared.forget(one.name)
            self._clear(one.row, entry)
        return made

    def _turn(self, wanted: Sequence[NativeVersion]) -> AbstractContextManager[object]:
        """Who has lost before is let in first: from here on nobody shall be quicker."""
        lost = any(self._desks.following.has_lost(one.row.id, one.native.message.uuid) for one in wanted)
        return self._lake.first() if lost else nullcontext()

    def _commit_all(self, wanted: Sequence[NativeVersion]) -> None:
        # From here on: what is copied into the table now cannot have been seen by an earlier clean-up.
        since = self._lake.version
        try:
            for one in wanted:
                self._take_over(one)
            commit_native(self._lake, wanted, since)
        except RetryableConflict:
            if all(map(self._is_done, wanted)):
                return
            for one in wanted:
                # pylance is told that it lost only when it can find what it has lost against.
                with suppress(NotFound):
                    self._newest(one.name)
                    self._desks.following.refused(one.row.id, one.native.message.uuid, partial(self._newest, one.name))
            raise

    def _take_over(self, one: NativeVersion) -> None:
        if one.declared:
            previous = before_first(one.native)
        else:
            row = self._row_of(one.name)
            if row.table_version != one.native.version - 1:
                self._check_not_ahead(one, row)
                raise RetryableConflict(
                    f"{text(one.name)}: version {row.table_version} was committed meanwhile.",
                    remedy="Nothing was written. Rebase on the newest version.",
                    table=text(one.name),
                )
            previous = LakeVersions(self._lake.store, row).read(row.table_version).manifest
            self._desks.of(row).check_seen(one.native, previous)
            if isinstance(one.native.transaction.operation, Restore):
                return  # it brings no files: those of the version that it goes back to are the lake's, wherever written
        desk = self._desks.of(one.row)
        desk.take_over(new_files(previous, one.native.manifest, desk.store))

    @staticmethod
    def _check_not_ahead(one: NativeVersion, row: TableRow) -> None:
        if row.table_version < one.native.version - 1:
            raise InvalidInput(
                f"{text(one.name)}: version {one.native.version} cannot be made, the newest is {row.table_version}",
                remedy="Open the table again.",
                table=text(one.name),
            )

    def _answer(self, one: NativeVersion) -> lance.TableVersion:
        """A version that was committed. Whatever fails from here on must not look as if the commit had."""
        desk = self._desks.of(one.row)
        with suppress(SeicheError):
            return self._shown(self._row_of(one.name), one.native.version)
        return found(desk.store, one.native.version, Naming.V2.path(one.native.version), len(one.native.data))

    def _clear(self, row: TableRow, entry: Any) -> None:
        """Remove the manifest that pylance has left, unless it stands under the name of the version itself."""
        desk = self._desks.of(row)
        path = path_inside(desk.store, asked(entry, "manifest_path"))
        if not path.endswith(".manifest"):
            with suppress(SeicheError):  # the commit is done; what is left on a desk is cleared by age
                desk.store.delete(path)

    def _read(self, row: TableRow, entry: Any) -> NativeManifest:
        desk: Desk = self._desks.of(row)
        path, version = path_inside(desk.store, asked(entry, "manifest_path")), asked(entry, "version")
        if branch_of(row) is None:
            return desk.read(path, version)
        state = self._lake.state()
        table_id, location = family(row)
        try:
            root = self._row_of((table_id,))
        except NotFound:  # it is dropped, and the branch goes on: its files are there as long as that refers to them
            root = TableRow(id=table_id, location=location)
        key = state.key_of(row.id)
        if key is None:
            raise NotFound(f"there is no branch {branch_of(row)} any more", table=text(id_of(entry)))
        *outer, own = name_of(key)
        lines = (*outer, own.rpartition("@")[0])
        known = LakeVersions(state.store, row, state.manifests).read(row.table_version).manifest.header.base_paths

        def really(address: str) -> str:
            line = self._behind(lines, root, address)
            return address if line is None else below(state.store, line.location).native_uri()

        return desk.read(path, version, tuple(known), really)
