"""The operations of the Lance Namespace protocol, by their routes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import lance_namespace as lance
from pydantic import BaseModel

from seiche.errors import InvalidInput
from seiche.gateway.credentials import Credentials
from seiche.gateway.http.calls import Answer, Call, Route
from seiche.gateway.http.openapi import operation, query
from seiche.gateway.lance_namespace.arrow_schema import schema_json
from seiche.gateway.lance_namespace.batch import batch_commit
from seiche.gateway.lance_namespace.desk import Desks
from seiche.gateway.lance_namespace.namespace import DeskNamespace
from seiche.gateway.lance_namespace.requests import check_commits_here, request
from seiche.gateway.sessions import HEADER, Sessions
from seiche.lake.engines.catalog import id_of
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow

if TYPE_CHECKING:
    from seiche.lake.engines.table_namespace import TableNamespace
    from seiche.lake.lake import Lake

__all__ = ["Operations", "models"]

_DELIMITER = query("delimiter")
_PAGES = (query("page_token"), query("limit", {"type": "integer", "minimum": 0}))
_FLAG = {"type": "boolean"}
_DETAILS = tuple(query(name, _FLAG) for name in ("with_table_uri", "load_detailed_metadata", "check_declared"))


@dataclass(frozen=True, slots=True)
class _Operation:
    """One that the namespace interface has a method for."""

    method: str
    path: str
    name: str
    takes: type[BaseModel]
    gives: type[BaseModel]
    commits: bool = False
    parameters: tuple[Mapping[str, Any], ...] = ()


def _post(path: str, name: str, words: str, *, commits: bool = False, parameters: Any = ()) -> _Operation:
    takes, gives = getattr(lance, f"{words}Request"), getattr(lance, f"{words}Response")
    return _Operation("POST", path, name, takes, gives, commits, parameters)


def _get(path: str, name: str, words: str) -> _Operation:
    return _Operation(
        "GET", path, name, getattr(lance, f"{words}Request"), getattr(lance, f"{words}Response"), False, _PAGES
    )


_PLAIN: Final = (
    _get("/v1/namespace/{id}/list", "list_namespaces", "ListNamespaces"),
    _get("/v1/namespace/{id}/table/list", "list_tables", "ListTables"),
    _post("/v1/namespace/{id}/create", "create_namespace", "CreateNamespace", commits=True),
    _post("/v1/namespace/{id}/describe", "describe_namespace", "DescribeNamespace"),
    _post("/v1/namespace/{id}/drop", "drop_namespace", "DropNamespace", commits=True),
    _post("/v1/namespace/{id}/exists", "namespace_exists", "NamespaceExists"),
    _post("/v1/table/{id}/declare", "declare_table", "DeclareTable"),
    _post("/v1/table/{id}/exists", "table_exists", "TableExists"),
    _post("/v1/table/{id}/drop", "drop_table", "DropTable", commits=True),
    _post("/v1/table/{id}/rename", "rename_table", "RenameTable", commits=True),
    _post("/v1/table/{id}/register", "register_table", "RegisterTable", commits=True),
    _post("/v1/table/{id}/deregister", "deregister_table", "DeregisterTable", commits=True),
    _post("/v1/table/{id}/version/create", "create_table_version", "CreateTableVersion", commits=True),
    _post("/v1/table/{id}/version/describe", "describe_table_version", "DescribeTableVersion"),
    _post("/v1/table/{id}/version/delete", "batch_delete_table_versions", "BatchDeleteTableVersions"),
    _post(
        "/v1/table/{id}/version/list",
        "list_table_versions",
        "ListTableVersions",
        parameters=(*_PAGES, query("descending", _FLAG), query("branch")),
    ),
    _post("/v1/table/{id}/tags/list", "list_table_tags", "ListTableTags", parameters=_PAGES),
    _post("/v1/table/{id}/tags/version", "get_table_tag_version", "GetTableTagVersion"),
    _post("/v1/table/{id}/tags/create", "create_table_tag", "CreateTableTag", commits=True),
    _post("/v1/table/{id}/tags/update", "update_table_tag", "UpdateTableTag", commits=True),
    _post("/v1/table/{id}/tags/delete", "delete_table_tag", "DeleteTableTag", commits=True),
    _post("/v1/table/{id}/branches/list", "list_table_branches", "ListTableBranches", parameters=_PAGES),
    _post("/v1/table/{id}/branches/create", "create_table_branch", "CreateTableBranch", commits=True),
    _post("/v1/table/{id}/branches/delete", "delete_table_branch", "DeleteTableBranch", commits=True),
    _post("/v1/table/version/batch-create", "batch_create_table_versions", "BatchCreateTableVersions", commits=True),
)

# What a lake does otherwise, or engines do themselves. Refused by name, so that clients do not have to guess.
_REFUSED: Final = {
    "rows are read and written by engines, which open the table here and commit through it": (
        "insert", "merge_insert", "update", "delete", "query", "count_rows", "explain_plan", "analyze_plan",
        "add_columns", "alter_columns", "drop_columns", "backfill_column", "restore", "stats",
        "schema_metadata/update", "update_field_metadata",
    ),
    "indices are built by engines, which commit them here": (
        "create_index", "create_scalar_index", "index/list", "index/{index_name}/stats", "index/{index_name}/drop",
    ),
}  # fmt: skip
_REFUSED_ELSEWHERE: Final = {
    ("POST", "/v1/materialized_view/{id}/create"): "there are no materialized views",
    ("POST", "/v1/materialized_view/{id}/refresh"): "there are no materialized views",
}


class Operations:
    """All operations on one lake."""

    def __init__(self, lake: "Lake", sessions: Sessions, credentials: Credentials) -> None:
        self._lake = lake
        self._credentials = credentials
        self._desks = Desks(lake.store)
        self._declared: dict[Name, TableRow] = {}
        self._sessions = sessions

    def routes(self) -> list[Route]:
        """Every operation of the protocol: what is there, and a refusal for what is not."""
        made = [self._route(one) for one in _PLAIN]
        made += [
            self._special(
                "POST",
                "/v1/table/{id}/describe",
                "describe_table",
                lance.DescribeTableRequest,
                lance.DescribeTableResponse,
                self._describe_table,
                parameters=_DETAILS,
            ),
            self._special(
                "POST", "/v1/table/batch-commit", "batch_commit_tables", lance.BatchCommitTablesRequest,
                lance.BatchCommitTablesResponse, self._batch_commit, commits=True,
            ),
            self._special(
                "POST", "/v1/transaction/{id}/describe", "describe_transaction", lance.DescribeTransactionRequest,
                lance.DescribeTransactionResponse, self._describe_transaction,
            ),
            self._special(
                "POST", "/v1/transaction/{id}/alter", "alter_transaction", lance.AlterTransactionRequest,
                lance.AlterTransactionResponse, self._alter_transaction, commits=True,
            ),
            self._special(
                "GET", "/v1/table", "list_all_tables", lance.ListTablesRequest, lance.ListTablesResponse,
                self._list_all, parameters=_PAGES,
            ),
        ]  # fmt: skip
        made.append(self._create_table_route())
        for why, names in _REFUSED.items():
            made += [_refused("POST", f"/v1/table/{{id}}/{name}", why) for name in names]
        made += [_refused(method, path, why) for (method, path), why in _REFUSED_ELSEWHERE.items()]
        return made

    def _route(self, one: _Operation) -> Route:
        named = one.path.startswith("/v1/table/{id}")

        def handle(call: Call) -> Answer:
            asked = request(call, one.takes, named=named)
            if one.name == "declare_table":
                check_commits_here(call)
            given = self._do(call, lambda namespace: getattr(namespace, one.name)(asked), changes=one.commits)
            return _answer(self._vended(call, given))

        return Route(one.method, one.path, handle, _about(one.name, one.takes, one.gives, one), commits=one.commits)

    def _special(
        self,
        method: str,
        path: str,
        name: str,
        takes: type[BaseModel],
        gives: type[BaseModel],
        handle: Callable[[Call], Any],
        *,
        commits: bool = False,
        parameters: tuple[Mapping[str, Any], ...] = (),
    ) -> Route:
        one = _Operation(method, path, name, takes, gives, commits, parameters)
        return Route(method, path, lambda call: _answer(handle(call)), _about(name, takes, gives, one), commits=commits)

    def _create_table_route(self) -> Route:
        about = operation(
            "create_table",
            "Make a table of the rows in an Arrow IPC stream.",
            body={"type": "string", "format": "binary"},
            media_type="application/vnd.apache.arrow.stream",
            parameters=[_DELIMITER, query("mode")],
            answers={200: _schema(lance.CreateTableResponse)},
        )
        return Route("POST", "/v1/table/{id}/create", self._create_table, about, commits=True)

    def _do(self, call: Call, work: "Callable[[TableNamespace], Any]", *, changes: bool) -> Any:
        """In the transaction that the headers name, or on the lake as it is now."""
        name = call.headers.get(HEADER)
        if not name:
            return work(DeskNamespace(self._lake, self._desks, self._declared))
        with self._sessions.using(name, changes=changes) as session:
            return work(session.transaction.namespace())

    def _describe_table(self, call: Call) -> Any:
        asked = request(call, lance.DescribeTableRequest, named=True)
        described = self._vended(call, self._do(call, lambda namespace: namespace.describe_table(asked), changes=False))
        if asked.load_detailed_metadata and not described.is_only_declared:
            schema = self._lake.table(tuple(id_of(asked))).schema
            return {**_answer(described).body, "schema": schema_json(schema)}
        return described

    def _vended(self, call: Call, given: Any) -> Any:
        """An answer that says where a table is, with what opens it for this caller."""
        if getattr(given, "storage_options", None) is not None:
            given.storage_options = dict(self._credentials.storage_options(given.location or "", call.caller)) or None
        return given

    def _create_table(self, call: Call) -> Answer:
        without_body = Call(call.path, call.query, call.headers, b"", call.caller, call.request_id)
        asked = request(without_body, lance.CreateTableRequest, named=True)
        made = self._do(call, lambda namespace: namespace.create_table(asked, call.body), changes=True)
        return _answer(self._vended(call, made))

    def _batch_commit(self, call: Call) -> Any:
        asked = request(call, lance.BatchCommitTablesRequest)
        return self._do(call, lambda namespace: batch_commit(namespace, asked), changes=True)

    def _describe_transaction(self, call: Call) -> Any:
        request(call, lance.DescribeTransactionRequest)
        return lance.DescribeTransactionResponse(status=self._sessions.state(call.path["id"]))

    def _alter_transaction(self, call: Call) -> Any:
        asked = request(call, lance.AlterTransactionRequest)
        if len(asked.actions) != 1 or asked.actions[0].set_status_action is None:
            raise lance.UnsupportedOperationError("a transaction can be given a status, and nothing else")
        wanted = (asked.actions[0].set_status_action.status or "").lower()
        name = call.path["id"]
        if wanted == "succeeded":
            self._sessions.commit(name)
            return lance.AlterTransactionResponse(status="Succeeded")
        if wanted in ("canceled", "failed"):
            self._sessions.cancel(name)
            return lance.AlterTransactionResponse(status="Canceled")
        raise InvalidInput(f"a transaction cannot be made {wanted!r}", remedy="Use `Succeeded` or `Canceled`.")

    def _list_all(self, call: Call) -> Any:
        """All tables, by their joined names, as the protocol wants it."""
        asked = request(call, lance.ListTablesRequest)
        delimiter = call.query.get("delimiter") or "$"
        state = self._lake.state()
        names: list[str] = []

        def look(outer: Name) -> None:
            transaction = self._lake.transaction()
            for inner in transaction.namespaces(outer):
                look(inner)
                for name in transaction.tables(inner):
                    row = state.relation(name)
                    if isinstance(row, TableRow) and row.format == "lance":
                        names.append(delimiter.join(name))

        look(())
        names.sort()
        left = [name for name in names if asked.page_token is None or name > asked.page_token]
        page = left if asked.limit is None else left[: asked.limit]
        token = page[-1] if page and len(page) < len(left) else None
        return lance.ListTablesResponse(tables=page, page_token=token)


@cache
def models() -> Mapping[str, Any]:
    """The schemas that the routes refer to, by name."""
    found: dict[str, Any] = {}
    wanted: list[type[BaseModel]] = [
        lance.CreateTableResponse,
        lance.BatchCommitTablesRequest,
        lance.BatchCommitTablesResponse,
    ]
    wanted += [lance.DescribeTableRequest, lance.DescribeTableResponse, lance.ListTablesResponse]
    wanted += [lance.DescribeTransactionRequest, lance.DescribeTransactionResponse]
    wanted += [lance.AlterTransactionRequest, lance.AlterTransactionResponse]
    for one in _PLAIN:
        wanted += [one.takes, one.gives]
    for model in wanted:
        schema = model.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        found |= schema.pop("$defs", {})
        found[model.__name__] = schema
    return found


def _about(name: str, takes: type[BaseModel], gives: type[BaseModel], one: _Operation) -> dict[str, Any]:
    summary = (getattr(DeskNamespace, name, None) or _about).__doc__ or name
    has_body = one.method == "POST" and name != "list_table_versions"
    return operation(
        name,
        summary.split("\n")[0] if hasattr(DeskNamespace, name) else name.replace("_", " "),
        body=_schema(takes) if has_body else None,
        parameters=[_DELIMITER, *one.parameters],
        answers={200: _schema(gives)},
    )


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _answer(given: Any) -> Answer:
    if isinstance(given, BaseModel):
        return Answer(body=given.model_dump(mode="json", by_alias=True, exclude_none=True))
    return Answer(body=given)


def _refused(method: str, path: str, why: str) -> Route:
    def refuse(_: Call) -> Answer:
        raise lance.UnsupportedOperationError(why)

    return Route(method, path, refuse, operation(path.rpartition("}/")[2].replace("/", "_"), f"Refused: {why}."))
