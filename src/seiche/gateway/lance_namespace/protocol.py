"""The operations of the Lance Namespace protocol, as a table, and how they are described."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import lance_namespace as lance
from pydantic import BaseModel

from seiche.gateway.http.openapi import operation, query
from seiche.gateway.lance_namespace.namespace import DeskNamespace

__all__ = [
    "DELIMITER",
    "DETAILS",
    "PAGES",
    "PLAIN",
    "REFUSED",
    "REFUSED_ELSEWHERE",
    "Operation",
    "about",
    "models",
    "schema_of",
]

DELIMITER: Final = query("delimiter")
PAGES: Final = (query("page_token"), query("limit", {"type": "integer", "minimum": 0}))
_FLAG: Final = {"type": "boolean"}
DETAILS: Final = tuple(query(name, _FLAG) for name in ("with_table_uri", "load_detailed_metadata", "check_declared"))


@dataclass(frozen=True, slots=True)
class Operation:
    """One that the namespace interface has a method for."""

    method: str
    path: str
    name: str
    takes: type[BaseModel]
    gives: type[BaseModel]
    commits: bool = False
    parameters: tuple[Mapping[str, Any], ...] = ()


def _post(path: str, name: str, words: str, *, commits: bool = False, parameters: Any = ()) -> Operation:
    takes, gives = getattr(lance, f"{words}Request"), getattr(lance, f"{words}Response")
    return Operation("POST", path, name, takes, gives, commits, parameters)


def _get(path: str, name: str, words: str) -> Operation:
    return Operation(
        "GET", path, name, getattr(lance, f"{words}Request"), getattr(lance, f"{words}Response"), False, PAGES
    )


PLAIN: Final = (
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
        parameters=(*PAGES, query("descending", _FLAG), query("branch")),
    ),
    _post("/v1/table/{id}/tags/list", "list_table_tags", "ListTableTags", parameters=PAGES),
    _post("/v1/table/{id}/tags/version", "get_table_tag_version", "GetTableTagVersion"),
    _post("/v1/table/{id}/tags/create", "create_table_tag", "CreateTableTag", commits=True),
    _post("/v1/table/{id}/tags/update", "update_table_tag", "UpdateTableTag", commits=True),
    _post("/v1/table/{id}/tags/delete", "delete_table_tag", "DeleteTableTag", commits=True),
    _post("/v1/table/{id}/branches/list", "list_table_branches", "ListTableBranches", parameters=PAGES),
    _post("/v1/table/{id}/branches/create", "create_table_branch", "CreateTableBranch", commits=True),
    _post("/v1/table/{id}/branches/delete", "delete_table_branch", "DeleteTableBranch", commits=True),
    _post("/v1/table/version/batch-create", "batch_create_table_versions", "BatchCreateTableVersions", commits=True),
)

# What a lake does otherwise, or engines do themselves. Refused by name, so that clients do not have to guess.
REFUSED: Final = {
    "rows are read and written by engines, which open the table here and commit through it": (
        "insert", "merge_insert", "update", "delete", "query", "count_rows", "explain_plan", "analyze_plan",
        "add_columns", "alter_columns", "drop_columns", "backfill_column", "restore", "stats",
        "schema_metadata/update", "update_field_metadata",
    ),
    "indices are built by engines, which commit them here": (
        "create_index", "create_scalar_index", "index/list", "index/{index_name}/stats", "index/{index_name}/drop",
    ),
}  # fmt: skip
REFUSED_ELSEWHERE: Final = {
    ("POST", "/v1/materialized_view/{id}/create"): "there are no materialized views",
    ("POST", "/v1/materialized_view/{id}/refresh"): "there are no materialized views",
}


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
    for one in PLAIN:
        wanted += [one.takes, one.gives]
    for model in wanted:
        schema = model.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        found |= schema.pop("$defs", {})
        found[model.__name__] = schema
    return found


def about(name: str, takes: type[BaseModel], gives: type[BaseModel], one: Operation) -> dict[str, Any]:
    summary = (getattr(DeskNamespace, name, None) or about).__doc__ or name
    has_body = one.method == "POST" and name != "list_table_versions"
    return operation(
        name,
        summary.split("\n")[0] if hasattr(DeskNamespace, name) else name.replace("_", " "),
        body=schema_of(takes) if has_body else None,
        parameters=[DELIMITER, *one.parameters],
        answers={200: schema_of(gives)},
    )


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
