"""The routes of the Lance Namespace protocol: from requests to the namespace, and back."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import lance_namespace as lance
from pydantic import BaseModel

from seiche.errors import InvalidInput
from seiche.gateway.credentials import Credentials
from seiche.gateway.http.calls import Answer, Call, Route
from seiche.gateway.http.openapi import operation, query
from seiche.gateway.lance_namespace.arrow_schema import schema_json
from seiche.gateway.lance_namespace.desk import Desks
from seiche.gateway.lance_namespace.families import SessionNamespace
from seiche.gateway.lance_namespace.namespace import DeskNamespace
from seiche.gateway.lance_namespace.protocol import (
    DELIMITER,
    DETAILS,
    PAGES,
    PLAIN,
    REFUSED,
    REFUSED_ELSEWHERE,
    Operation,
    about,
    schema_of,
)
from seiche.gateway.lance_namespace.requests import check_commits_here, request
from seiche.gateway.sessions import HEADER, Sessions
from seiche.lake.engines.declared import Declared

if TYPE_CHECKING:
    from seiche.lake.lake import Lake

__all__ = ["Operations"]


class Operations:
    """All operations on one lake."""

    def __init__(self, lake: "Lake", sessions: Sessions, credentials: Credentials) -> None:
        self._lake = lake
        self._credentials = credentials
        self._desks = Desks(lake.store)
        self._declared = Declared()
        self._sessions = sessions

    def routes(self) -> list[Route]:
        """Every operation of the protocol: what is there, and a refusal for what is not."""
        made = [self._route(one) for one in PLAIN]
        made += [
            self._special(
                "POST",
                "/v1/table/{id}/describe",
                "describe_table",
                lance.DescribeTableRequest,
                lance.DescribeTableResponse,
                self._describe_table,
                parameters=DETAILS,
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
                self._list_all, parameters=PAGES,
            ),
        ]  # fmt: skip
        made.append(self._create_table_route())
        for why, names in REFUSED.items():
            made += [_refused("POST", f"/v1/table/{{id}}/{name}", why) for name in names]
        made += [_refused(method, path, why) for (method, path), why in REFUSED_ELSEWHERE.items()]
        return made

    def _route(self, one: Operation) -> Route:
        named = one.path.startswith("/v1/table/{id}")

        def handle(call: Call) -> Answer:
            asked = request(call, one.takes, named=named)
            if one.name == "declare_table":  # no commit yet, but the beginning of one
                call.caller.check_writes()
                check_commits_here(call)
            given = self._do(call, lambda namespace: getattr(namespace, one.name)(asked), changes=one.commits)
            return _answer(self._vended(call, given))

        return Route(one.method, one.path, handle, about(one.name, one.takes, one.gives, one), commits=one.commits)

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
        one = Operation(method, path, name, takes, gives, commits, parameters)
        return Route(method, path, lambda call: _answer(handle(call)), about(name, takes, gives, one), commits=commits)

    def _create_table_route(self) -> Route:
        about = operation(
            "create_table",
            "Make a table of the rows in an Arrow IPC stream.",
            body={"type": "string", "format": "binary"},
            media_type="application/vnd.apache.arrow.stream",
            parameters=[DELIMITER, query("mode")],
            answers={200: schema_of(lance.CreateTableResponse)},
        )
        return Route("POST", "/v1/table/{id}/create", self._create_table, about, commits=True)

    def _do(self, call: Call, work: "Callable[[DeskNamespace | SessionNamespace], Any]", *, changes: bool) -> Any:
        """In the transaction that the headers name, or on the lake as it is now."""
        name = call.headers.get(HEADER)
        if not name:
            return work(DeskNamespace(self._lake, self._desks, self._declared))
        with self._sessions.using(name, changes=changes) as session:
            if session.namespace is None:
                session.namespace = SessionNamespace(session.transaction)
            return work(session.namespace)

    def _describe_table(self, call: Call) -> Any:
        asked = request(call, lance.DescribeTableRequest, named=True)
        described = self._vended(call, self._do(call, lambda namespace: namespace.describe_table(asked), changes=False))
        if asked.load_detailed_metadata and not described.is_only_declared:
            columns = self._do(call, lambda namespace: namespace.schema(asked), changes=False)
            return {**_answer(described).body, "schema": schema_json(columns)}
        return described

    def _vended(self, call: Call, given: Any) -> Any:
        """An answer that says where a table is, with what opens it for this caller."""
        if hasattr(given, "storage_options") and given.location:
            given.storage_options = dict(self._credentials.storage_options(given.location, call.caller)) or None
        return given

    def _create_table(self, call: Call) -> Answer:
        without_body = Call(call.path, call.query, call.headers, b"", call.caller, call.request_id)
        asked = request(without_body, lance.CreateTableRequest, named=True)
        made = self._do(call, lambda namespace: namespace.create_table(asked, call.body), changes=True)
        return _answer(self._vended(call, made))

    def _batch_commit(self, call: Call) -> Any:
        asked = request(call, lance.BatchCommitTablesRequest)
        return self._do(call, lambda namespace: namespace.batch_commit_tables(asked), changes=True)

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
        return self._do(call, lambda namespace: namespace.all_tables(asked, delimiter), changes=False)


def _answer(given: Any) -> Answer:
    if isinstance(given, BaseModel):
        return Answer(body=given.model_dump(mode="json", by_alias=True, exclude_none=True))
    return Answer(body=given)


def _refused(method: str, path: str, why: str) -> Route:
    def refuse(_: Call) -> Answer:
        raise lance.UnsupportedOperationError(why)

    return Route(method, path, refuse, operation(path.rpartition("}/")[2].replace("/", "_"), f"Refused: {why}."))
