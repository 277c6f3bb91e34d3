"""Several operations on tables in one request: all of them happen, or none."""

from typing import TYPE_CHECKING, Any

import lance_namespace as lance

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.lake.engines.table_namespace import TableNamespace

__all__ = ["batch_commit"]


def batch_commit(
    namespace: "TableNamespace", request: lance.BatchCommitTablesRequest
) -> lance.BatchCommitTablesResponse:
    """New versions of any number of tables, in one commit of the lake; results in the order of the operations.

    A place for a new table (`declare_table`) is nothing that anybody else sees, so it does not have to be taken back.
    What a lake does not do is refused before anything is done.
    """
    operations = request.operations
    for one in operations:
        _check(one)
    results: dict[int, lance.CommitTableResult] = {}
    versions = []
    for place, one in enumerate(operations):
        if one.declare_table is not None:
            declared = namespace.declare_table(one.declare_table)
            results[place] = lance.CommitTableResult(declare_table=declared)
        else:
            versions.append((place, one.create_table_version))
    if versions:
        entries: Any = [entry for _, entry in versions]
        made = namespace._create_all(entries)
        for (place, _), version in zip(versions, made, strict=True):
            answer = lance.CreateTableVersionResponse(version=version)
            results[place] = lance.CommitTableResult(create_table_version=answer)
    return lance.BatchCommitTablesResponse(results=[results[place] for place in range(len(operations))])


def _check(operation: lance.CommitTableOperation) -> None:
    given = [name for name in lance.CommitTableOperation.model_fields if getattr(operation, name) is not None]
    if len(given) != 1:
        raise InvalidInput(f"an operation has to be one thing, not {given}", remedy="Send one of them in each entry.")
    if given[0] == "delete_table_versions":
        raise lance.UnsupportedOperationError("versions go with those of the lake: `lake.expire` and `lake.gc`")
    if given[0] == "deregister_table":
        raise lance.UnsupportedOperationError("use `drop_table`, or export the table first to keep its files")
