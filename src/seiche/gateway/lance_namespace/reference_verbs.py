"""Branches and tags through the Lance Namespace interface."""

from contextlib import suppress
from typing import Any

import lance_namespace as lance

from seiche.gateway.lance_namespace.branches import Start, found_branch, wanted_branch
from seiche.gateway.lance_namespace.desk import Desks
from seiche.gateway.lance_namespace.families import FamilyVerbs
from seiche.gateway.lance_namespace.references import References
from seiche.gateway.lance_namespace.tags import TableTag, put_tag, remove_tag
from seiche.lake.engines.answers import answering, asked
from seiche.lake.engines.catalog import id_of, page
from seiche.lake.engines.lance_namespace import LakeNamespace
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.root import millis
from seiche.table.format.refs import check_branch_name

__all__ = ["ReferenceVerbs"]


class ReferenceVerbs(FamilyVerbs, LakeNamespace):
    """The part of a namespace that is about branches and tags. Whatever happens here is a commit of the lake."""

    _desks: Desks

    def list_table_branches(self, request: Any) -> lance.ListTableBranchesResponse:
        """The branches of a table."""
        with answering("table"):
            references = self._references(id_of(request))
            references.settle()
            known = references.branches()
            listed, token = page(sorted(known), request)
            found = {
                branch: {
                    "parentBranch": row.properties.get("seiche.branch.from") or None,
                    "parentVersion": int(row.properties["seiche.branch.version"]),
                    "createAt": row.created_at_millis // 1000,
                    "manifestSize": 0 if row.manifest is None else row.manifest.size,
                }
                for branch, row in ((branch, known[branch]) for branch in listed)
            }
        return lance.ListTableBranchesResponse.model_validate({"branches": found, "page_token": token})

    def create_table_branch(self, request: Any) -> lance.CreateTableBranchResponse:
        """Begin a branch at a version of the table, or of another branch; by default at the newest."""
        name = id_of(request)
        with answering("table"):
            branch, root = check_branch_name(asked(request, "name")), self.check_lance(name)
            origin = asked(request, "from_branch")
            parent = root if origin in (None, "", "main") else self._line(name, root, origin)
            version = asked(request, "from_version") or parent.table_version
            uuid = str(self._lake.states.runtime.uuid())
            Start(name, root, parent, branch, version, uuid).commit(self._lake)
            references = self._references(name)
            references.forget_branch(branch)
            references.show_branch(branch)
        return lance.CreateTableBranchResponse()

    def delete_table_branch(self, request: Any) -> lance.DeleteTableBranchResponse:
        """Remove a branch. Versions of the lake that have it keep it."""
        name = id_of(request)
        with answering("table"):
            branch, root = check_branch_name(asked(request, "name")), self.check_lance(name)
            full, _ = found_branch(self._lake.state(), name, root, branch)
            self._writing(lambda transaction: transaction.drop_table(full))
            self._references(name).forget_branch(branch)
        return lance.DeleteTableBranchResponse()

    def list_table_tags(self, request: Any) -> lance.ListTableTagsResponse:
        """The tags of a table."""
        name = id_of(request)
        with answering("table"):
            references = self._references(name)
            references.settle()
            known = references.tags()
            listed, token = page(sorted(known), request)
            found = {
                tag: {"version": one.version, "branch": one.branch, "manifestSize": self._size(name, one)}
                for tag, one in ((tag, known[tag]) for tag in listed)
            }
        return lance.ListTableTagsResponse.model_validate({"tags": found, "page_token": token})

    def _size(self, name: Name, tag: TableTag) -> int:
        """The size of the manifest that a tag stands for; 0 if it cannot be found now, which harms nobody."""
        wanted: Any = {"id": list(name), "version": tag.version, "branch": tag.branch}
        with suppress(lance.LanceNamespaceError):
            return self.describe_table_version(wanted).version.manifest_size or 0
        return 0

    def get_table_tag_version(self, request: Any) -> lance.GetTableTagVersionResponse:
        """What a tag stands for."""
        with answering("table"):
            references = self._references(id_of(request))
            references.settle()
            found = references.tags().get(asked(request, "tag"))
        if found is None:
            raise lance.TableTagNotFoundError(f"there is no tag {asked(request, 'tag')}")
        return lance.GetTableTagVersionResponse(version=found.version, branch=found.branch)

    def create_table_tag(self, request: Any) -> lance.CreateTableTagResponse:
        """Give a version of the table a name. It is kept as long as it has one."""
        self._put_tag(request, replaces=False)
        return lance.CreateTableTagResponse()

    def update_table_tag(self, request: Any) -> lance.UpdateTableTagResponse:
        """Let a tag stand for another version."""
        self._put_tag(request, replaces=True)
        return lance.UpdateTableTagResponse()

    def delete_table_tag(self, request: Any) -> lance.DeleteTableTagResponse:
        """Take a name away."""
        name, tag = id_of(request), asked(request, "tag")
        with answering("table"):
            references = self._references(name)
            references.settle()
            remove_tag(self._lake, self.check_lance(name), tag)
            references.settle()
        return lance.DeleteTableTagResponse()

    def on_branch(self, request: Any) -> Any:
        """The request, about the table that the branch is if it is about one."""
        branch = wanted_branch(request)
        if branch is None:
            return request
        name = id_of(request)
        with answering("table"):
            full, _ = found_branch(self._lake.state(), name, self.check_lance(name), branch)
        if isinstance(request, dict):
            return {**request, "id": list(full), "branch": None}
        return request.model_copy(update={"id": list(full), "branch": None})

    def _put_tag(self, request: Any, *, replaces: bool) -> None:
        name, tag, version = id_of(request), asked(request, "tag"), asked(request, "version")
        branch = wanted_branch(request)
        with answering("version"):
            root = self.check_lance(name)
            references = self._references(name)
            references.settle()
            line = root if branch is None else self._line(name, root, branch)
            put_tag(self._lake, root, line, tag, version, branch, replaces=replaces)
            references.show_tag(tag, TableTag(version, branch, self._now()))

    def _line(self, name: Name, root: TableRow, branch: str) -> TableRow:
        return found_branch(self._lake.state(), name, root, branch)[1]

    def _references(self, name: Name) -> References:
        row = self.check_lance(name)
        return References(self._lake, self._desks.of(row).main, name, row)

    def _now(self) -> int:
        return millis(self._lake.states.runtime.clock.now())
