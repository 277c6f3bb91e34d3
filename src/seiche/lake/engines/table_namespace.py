"""Versions of tables through the Lance Namespace interface: which there are, where they are, and making new ones.

pylance asks a namespace which versions a table has and where their manifests are, and gives it the manifest of each
version that it wants to make. After any refusal it looks for the version itself: if it finds its own transaction there
the commit has happened, if it finds another's it has lost, and if it finds nothing it does not know.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import lance_namespace as lance

from seiche.errors import InvalidInput, NotFound, SeicheError
from seiche.lake.engines.answers import answering, asked, refused
from seiche.lake.engines.batch import batch_commit
from seiche.lake.engines.catalog import CatalogNamespace, id_of
from seiche.lake.engines.native_manifest import NativeManifest, read_native
from seiche.lake.engines.object_paths import is_inside, object_path, path_inside
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.versions import manifests
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.versions.naming import Naming, named

__all__ = ["TableNamespace", "found"]

# More digits than the number of a version has: Python itself reads only so many.
_LONGEST: Final = 32


class TableNamespace(CatalogNamespace):
    """What the namespaces of a lake and of a transaction have in common: versions of tables.

    `refusal` is why the last version that was not made was not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refusal: Exception | None = None

    @abstractmethod
    def _row_of(self, name: Name) -> TableRow:
        """The table of this name, or of this id; `NotFound` if there is none."""

    @abstractmethod
    def _store(self) -> Store:
        """The storage of the lake."""

    @abstractmethod
    def _newest(self, name: Name) -> lance.TableVersion:
        """The newest version of a table."""

    @abstractmethod
    def _version(self, name: Name, version: int) -> lance.TableVersion:
        """A version of a table; `NotFound` if there is none of this number."""

    @abstractmethod
    def _numbers(self, name: Name) -> Sequence[int]:
        """All versions of a table that are kept, ascending."""

    @abstractmethod
    def _create(self, entries: Sequence[Any]) -> list[lance.TableVersion]:
        """Make new versions, all or none of them."""

    def describe_table(self, request: lance.DescribeTableRequest) -> lance.DescribeTableResponse:
        """Where a table is, and that its versions are made through this namespace only; at a version, if one is asked
        for.
        """
        _check_no_branch(request)
        if asked(request, "tag") is not None:
            raise lance.UnsupportedOperationError("this namespace has no tags: use `lake.namespace(branches=True)`")
        name, wanted = id_of(request), asked(request, "version")
        with answering("table"):
            declared = self._awaited(name)
            row = self.check_lance(name) if declared is None else declared
            store = self._place(row)
            newest = None if declared is not None else self._newest(name).version
        with answering("version"):
            version = newest if wanted is None else self._version(name, wanted).version
        return lance.DescribeTableResponse(
            location=store.native_uri(),
            table_uri=store.native_uri() if asked(request, "with_table_uri") else None,
            version=version,
            storage_options=dict(store.native_options) or None,
            properties=dict(row.properties) or None,
            managed_versioning=True,
            is_only_declared=declared is not None,
        )

    def table_exists(self, request: lance.TableExistsRequest) -> lance.TableExistsResponse:
        """Returns if there is such a table, and if one is asked for, this version of it."""
        answer, version = super().table_exists(request), asked(request, "version")
        if version is not None:
            with answering("version"):
                self._version(id_of(request), version)
        return answer

    def list_table_versions(self, request: lance.ListTableVersionsRequest) -> lance.ListTableVersionsResponse:
        """The versions of a table, oldest first unless `descending`."""
        _check_no_branch(request)
        limit, token = asked(request, "limit"), asked(request, "page_token")
        with answering("table"):
            name = id_of(request)
            self.check_lance(name)
            if limit == 1 and asked(request, "descending") and token is None:
                # Asked before every commit, and so answered without looking for what came before; there may be none.
                newest = self._newest(name)
                before = str(newest.version - 1) if newest.version > 1 else None
                return lance.ListTableVersionsResponse(versions=[newest], page_token=before)
            last_first = bool(asked(request, "descending"))
            numbers = sorted(self._numbers(name), reverse=last_first)
            if token is not None:
                # By number, not by place: what has expired since must not make anybody begin again.
                since = _since(token)
                numbers = [one for one in numbers if (one <= since if last_first else one >= since)]
            page = numbers if limit is None else numbers[:limit]
            following = numbers[len(page) : len(page) + 1]
            versions = [self._version(name, number) for number in page]
        return lance.ListTableVersionsResponse(
            versions=versions, page_token=str(following[0]) if following and page else None
        )

    def describe_table_version(self, request: lance.DescribeTableVersionRequest) -> lance.DescribeTableVersionResponse:
        """Where the manifest of a version is."""
        _check_no_branch(request)
        with answering("version"):
            name = id_of(request)
            number = asked(request, "version")
            found = self._newest(name) if number is None else self._version(name, number)
            return lance.DescribeTableVersionResponse(version=found)

    def create_table_version(self, request: lance.CreateTableVersionRequest) -> lance.CreateTableVersionResponse:
        """Make the manifest that pylance has written the next version of a table.

        Refused if the table has a version of that number, by another's transaction; told again, it is done once.
        """
        (version,) = self._create_all([request])
        return lance.CreateTableVersionResponse(version=version)

    def batch_create_table_versions(
        self, request: lance.BatchCreateTableVersionsRequest
    ) -> lance.BatchCreateTableVersionsResponse:
        """Make manifests that pylance has written the next versions of several tables: all change, or none does."""
        return lance.BatchCreateTableVersionsResponse(versions=self._create_all(asked(request, "entries")))

    def batch_commit_tables(self, request: lance.BatchCommitTablesRequest) -> lance.BatchCommitTablesResponse:
        """Several operations on tables: all of them happen, or none."""
        with answering("version"):
            return batch_commit(self, request)

    def batch_delete_table_versions(
        self, request: lance.BatchDeleteTableVersionsRequest
    ) -> lance.BatchDeleteTableVersionsResponse:
        """Refused: which versions are needed is known to the whole lake only."""
        raise lance.UnsupportedOperationError(
            "use `lake.expire` and `lake.gc`: versions of the lake need those of tables"
        )

    def _create_all(self, entries: Sequence[Any]) -> list[lance.TableVersion]:
        for entry in entries:
            _check_no_branch(entry)
        try:
            return self._create(entries)
        except Exception as error:
            # pylance drops it on its way to the user, whom the handles of `to_lance` tell all the same.
            self.refusal = error
            if isinstance(error, SeicheError):
                raise refused(error, "version") from error
            raise

    def _place(self, row: TableRow) -> Store:
        """Where pylance works on a table."""
        return below(self._store(), row.location)

    def _awaited(self, name: Name) -> TableRow | None:
        """The place that was declared last for a table which there is not yet: one that others have made counts."""
        places = self._declared.of(name)
        if not places:
            return None
        try:
            self._row_of(name)
        except NotFound:
            return places[-1]
        return None

    def _meant(self, name: Name, entry: Any) -> tuple[TableRow, bool]:
        """The table that a version is for, and whether it would be its first: where pylance left it tells."""
        for row in self._declared.of(name):
            if is_inside(self._place(row), asked(entry, "manifest_path")):
                with suppress(NotFound):
                    found = self._row_of(name)
                    if found.id == row.id:  # an earlier attempt has made it
                        return found, False
                return row, True
        return self.check_lance(name), False

    def check_lance(self, name: Name) -> TableRow:
        """The table, if pylance can open it."""
        row = self._row_of(name)
        if not row.is_own("lance"):
            raise InvalidInput(
                f"{text(name)} is a table of type {row.type} and format {row.format}: it cannot be opened by pylance",
                remedy="Use its own engine.",
                table=text(name),
            )
        return row

    def _published(self, row: TableRow, version: int) -> lance.TableVersion:
        """A version that the lake has decided on."""
        store = below(self._store(), row.location)
        if not 0 < version <= row.table_version:
            raise NotFound(
                f"{store.uri} has no version {version}, it is at version {row.table_version}",
                remedy="Open one that exists.",
                version=version,
            )
        staged = dict(manifests(row)).get(version)
        if staged is not None:
            # Not the published one, which nobody may write upon.
            return found(store, version, staged.path, staged.size)
        path = Naming.V2.path(version)
        return found(store, version, path, store.head(path).size)

    def _kept(self, row: TableRow) -> list[int]:
        found = {number for _, number in named(below(self._store(), row.location)) if number <= row.table_version}
        return sorted(found | {version for version, _ in manifests(row)})

    def _read(self, row: TableRow, entry: Any) -> NativeManifest:
        store = self._place(row)
        return read_native(store, path_inside(store, asked(entry, "manifest_path")), asked(entry, "version"))

    def _clear(self, row: TableRow, entry: Any) -> None:
        """Remove the manifest that pylance has left, of which there is a copy now."""
        store = self._place(row)
        with suppress(SeicheError):  # the commit is done; a clean-up takes what is left
            store.delete(path_inside(store, asked(entry, "manifest_path")))


def found(store: Store, version: int, path: str, size: int) -> lance.TableVersion:
    return lance.TableVersion(version=version, manifest_path=object_path(store, path), manifest_size=size)


def _since(token: str) -> int:
    if not (token.isascii() and token.isdigit() and len(token) < _LONGEST):
        raise InvalidInput(f"{token!r} is not a page token of this server", remedy="Begin at the first page.")
    return int(token)


def _check_no_branch(request: Any) -> None:
    if asked(request, "branch") not in (None, "", "main"):
        raise lance.UnsupportedOperationError(
            "this namespace has no branches: use `lake.namespace(branches=True)` or `seiche serve --lance-port`"
        )
