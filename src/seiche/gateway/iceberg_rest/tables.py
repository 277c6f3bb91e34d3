"""Routes about tables, and the commit to several of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog.rest import CreateTableRequest

from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput, NotFound, SeicheError
from seiche.gateway.http.calls import Answer, Call, Joint, Route, flag
from seiche.gateway.http.openapi import query
from seiche.gateway.iceberg_rest.catalog import Catalog, missing_table, page, require_namespace
from seiche.gateway.iceberg_rest.commits import Committed, Request
from seiche.gateway.iceberg_rest.loading import Loading, Snapshots
from seiche.gateway.iceberg_rest.names import identifier, namespace_in, table_in
from seiche.gateway.iceberg_rest.problems import Refusal
from seiche.gateway.iceberg_rest.requests import checked, one_change, several_changes
from seiche.gateway.iceberg_rest.routing import route
from seiche.gateway.iceberg_rest.schemas import PAGES
from seiche.gateway.sessions import HEADER
from seiche.lake.iceberg.creating import new_metadata
from seiche.lake.iceberg.places import path_of
from seiche.lake.objects.keys import name_of
from seiche.lake.objects.names import Name, check_name, text
from seiche.lake.objects.rows import TableRow

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["table_routes"]

# In the answer to a commit: the id by which the lake and the transaction service tell what became of it.
DECIDED_BY = "X-Seiche-Transaction-Id"

_SMALL: Final = 16 * 1024
_ALL = "/v1/{prefix}/namespaces/{namespace}/tables"
_ONE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"


def table_routes(catalog: Catalog) -> list[Route]:
    """What there is, making, loading, committing, renaming and dropping."""
    do = _Tables(catalog)
    return [
        route(f"GET {_ALL}", do.listed, "listTables", "Of every format.", gives="Identifiers", parameters=PAGES),
        route(f"POST {_ALL}", do.create, "createTable", "Make one, or stage it.", takes="NewTable", gives="Table"),
        route(
            f"GET {_ONE}",
            do.load,
            "loadTable",
            "Its metadata.",
            gives="Table",
            parameters=[query("snapshots", {"enum": ["all", "refs"]})],
            unchanged=True,
        ),
        route(f"HEAD {_ONE}", do.exists, "tableExists", "Whether it is there."),
        route(
            f"POST {_ONE}",
            do.commit,
            "updateTable",
            "Commit to it.",
            takes="Commit",
            gives="Committed",
            together=Joint(_is_small, do.commit_each),
        ),
        route(
            f"DELETE {_ONE}",
            do.drop,
            "dropTable",
            "Remove it; its files go with the lake's clean-up.",
            parameters=[query("purgeRequested", {"type": "boolean"})],
        ),
        route(f"GET {_ONE}/credentials", do.credentials, "loadCredentials", "Keys.", gives="StorageCredentials"),
        route(f"POST {_ONE}/metrics", do.metrics, "reportMetrics", "Ignored.", takes="Anything", commits=False),
        route(
            "POST /v1/{prefix}/namespaces/{namespace}/register",
            do.register,
            "registerTable",
            "Make a table of metadata that exists.",
            takes="Registration",
            gives="Table",
        ),
        route("POST /v1/{prefix}/tables/rename", do.rename, "renameTable", "Give it another name.", takes="Rename"),
        route(
            "POST /v1/{prefix}/transactions/commit",
            do.commit_all,
            "commitTransaction",
            "Commit to several tables at once.",
            takes="Changes",
        ),
    ]


class _Tables:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._loading = Loading(catalog)

    def listed(self, call: Call) -> Answer:
        outer = namespace_in(call.path["namespace"])
        with self._catalog.reading(call) as transaction:
            require_namespace(transaction, outer)
            formats = [(name, _format(transaction, name)) for name in transaction.tables(outer)]
        found, token = page([(name, kind) for name, kind in formats if kind is not None], call)
        listed = [{"namespace": list(name[:-1]), "name": name[-1], "format": kind} for name, kind in found]
        body: dict[str, Any] = {"identifiers": listed}
        return Answer(body=body if token is None else {**body, "next-page-token": token})

    def create(self, call: Call) -> Answer:
        given = call.document()
        asked: CreateTableRequest = checked(
            CreateTableRequest, {"location": None, "partition-spec": None, "write-order": None, **given}
        )
        name = (*namespace_in(call.path["namespace"]), check_name(asked.name, what="table"))
        if asked.stage_create:
            return self._stage(call, name, asked)
        repeated = self._catalog.done_before(call)
        if repeated is None:
            _, state = self._catalog.change(call, lambda transaction: self._make(transaction, name, asked))
        else:
            state = repeated
        return self._shown(call, name, state)

    def load(self, call: Call) -> Answer:
        wanted = call.query.get("snapshots") or "all"
        if wanted not in ("all", "refs"):
            raise InvalidInput(f"snapshots cannot be {wanted!r}", remedy="Use `all` or `refs`.")
        shown: Snapshots = "refs" if wanted == "refs" else "all"
        with self._catalog.reading(call) as transaction:
            table = self._loading.found(transaction, table_in(call.path))
            return self._loading.answer(call, table, snapshots=shown)

    def exists(self, call: Call) -> Answer:
        with self._catalog.reading(call) as transaction:
            _require_table(transaction, table_in(call.path))
        return Answer(204)

    def commit(self, call: Call) -> Answer:
        name = table_in(call.path)
        change = one_change(call.document(), name)
        self._catalog.check_prefix(call)
        if HEADER in call.headers:
            with self._catalog.sessions.using(call.headers[HEADER], changes=True) as session:
                self._catalog.commits.plan(session.transaction, [change])
                return self._loading.kept(session.transaction.iceberg(name))
        return self._committed(name, self._catalog.commits.commit([change], self._key(call)))

    def commit_each(self, calls: Sequence[Call]) -> list[Answer | Exception | None]:
        """Calls of `commit` that came at the same time: as many as can are decided by one root."""
        found: list[Answer | Exception | None] = [None] * len(calls)
        asked: dict[int, Request] = {}
        for number, call in enumerate(calls):
            try:
                self._catalog.check_prefix(call)
                asked[number] = Request([one_change(call.document(), table_in(call.path))], self._key(call))
            except Exception as error:  # noqa: BLE001 - the answer to this one, and no concern of the others
                found[number] = error
        committed = self._catalog.commits.commit_each(list(asked.values()))
        for (number, request), one in zip(asked.items(), committed, strict=True):
            try:
                found[number] = self._committed(request.changes[0].name, one) if isinstance(one, Committed) else one
            except Exception as error:  # noqa: BLE001 - likewise
                found[number] = error
        return found

    def _committed(self, name: Name, committed: Committed) -> Answer:
        try:
            answer = self._loading.committed(committed.state, name)
        except SeicheError as error:  # nothing else may be said of what is committed: the client would delete its files
            raise CommitUnknown(
                f"{text(name)} was changed, and cannot be shown: {error.message}", transaction_id=committed.transaction
            ) from error
        self._catalog.aftercare.note(committed.state, [name])
        return replace(answer, headers={DECIDED_BY: committed.transaction})

    def commit_all(self, call: Call) -> Answer:
        """Inside a transaction that the call names, this commits it, with these changes and all before."""
        self._catalog.check_prefix(call)
        if HEADER in call.headers:
            self._commit_session(call.headers[HEADER], call.document())
            return Answer(204)
        changes = several_changes(call.document())
        state, transaction = self._catalog.commits.commit(changes, self._key(call))
        self._catalog.aftercare.note(state, [one.name for one in changes])
        return Answer(204, headers={DECIDED_BY: transaction})

    def _commit_session(self, name: str, body: Mapping[str, Any]) -> None:
        changes = several_changes(body) if body.get("table-changes") else []
        sessions = self._catalog.sessions
        if sessions.is_committed(name):
            return  # asked again, after an answer that was lost
        with sessions.using(name, changes=True) as session:
            self._catalog.commits.plan(session.transaction, changes)
            touched = [name_of(edit.key) for edit in session.transaction.edits.values() if edit.key is not None]
        sessions.commit(name)
        self._catalog.aftercare.note(self._catalog.lake.state(), touched)

    def drop(self, call: Call) -> Answer:
        name = table_in(call.path)
        flag(call.query.get("purgeRequested"))  # files of a lake go when no version needs them, whatever is asked

        def drop(transaction: "Transaction") -> None:
            _require_table(transaction, name)
            transaction.drop_table(name)

        if self._catalog.done_before(call) is None:
            self._catalog.change(call, drop)
        return Answer(204)

    def rename(self, call: Call) -> Answer:
        body = call.document()
        source, target = identifier(body.get("source")), identifier(body.get("destination"))

        def rename(transaction: "Transaction") -> None:
            _require_table(transaction, source)
            _check_free(transaction, target)
            transaction.rename_table(source, target)

        if self._catalog.done_before(call) is None:
            self._catalog.change(call, rename)
        return Answer(204)

    def register(self, call: Call) -> Answer:
        body = call.document()
        where = body.get("metadata-location")
        if not isinstance(where, str) or ("://" not in where and not where.startswith(("/", "file:"))):
            raise InvalidInput(f"metadata-location cannot be {where!r}", remedy="Send the address of a metadata file.")
        name = (*namespace_in(call.path["namespace"]), check_name(str(body.get("name") or ""), what="table"))
        overwrite = body.get("overwrite") is True

        def register(transaction: "Transaction") -> None:
            require_namespace(transaction, name[:-1])
            if not overwrite:
                _check_free(transaction, name)
            try:
                transaction.register_iceberg(name, where, overwrite=overwrite)
            except NotFound as error:
                raise InvalidInput(error.message, remedy=error.remedy) from error

        repeated = self._catalog.done_before(call)
        state = self._catalog.change(call, register)[1] if repeated is None else repeated
        return self._shown(call, name, state)

    def credentials(self, call: Call) -> Answer:
        with self._catalog.reading(call) as transaction:
            table = self._loading.found(transaction, table_in(call.path))
            return Answer(body={"storage-credentials": self._loading.credentials(call, table)})

    def metrics(self, call: Call) -> Answer:
        call.document()
        with self._catalog.reading(call) as transaction:
            _require_table(transaction, table_in(call.path))
        return Answer(204)

    def _stage(self, call: Call, name: Name, asked: CreateTableRequest) -> Answer:
        with self._catalog.reading(call) as transaction:
            _check_free(transaction, name)
            metadata = new_metadata(
                name,
                asked.table_schema,
                transaction.state.store,
                transaction.runtime,
                partition_spec=asked.partition_spec,
                sort_order=asked.write_order,
                properties=asked.properties,
                location=asked.location,
            )
        self._make_directories(metadata.location)
        return self._loading.staged(call, metadata)

    def _make(self, transaction: "Transaction", name: Name, asked: CreateTableRequest) -> None:
        _check_free(transaction, name)
        transaction.create_table(
            name,
            asked.table_schema,
            format="iceberg",
            partition_spec=asked.partition_spec,
            sort_order=asked.write_order,
            properties=asked.properties,
            location=asked.location,
        )

    def _shown(self, call: Call, name: Name, state: Any) -> Answer:
        if state is not None:
            from seiche.lake.iceberg.table import at_state

            table = at_state(state, name)
            self._make_directories(table.metadata.location)
            return self._loading.answer(call, table)
        with self._catalog.reading(call) as transaction:
            return self._loading.answer(call, self._loading.found(transaction, name))

    def _make_directories(self, location: str) -> None:
        """DuckDB writes into directories that it expects to be there, on a disk."""
        store = self._catalog.lake.store
        path = path_of(store, location)
        native = store.native_uri("" if path is None else path)
        if path is not None and native.startswith("/"):
            for folder in ("data", "metadata"):
                Path(native, folder).mkdir(parents=True, exist_ok=True)

    @staticmethod
    def _key(call: Call) -> str | None:
        given = call.headers.get("idempotency-key")
        if given is not None and not (0 < len(given) <= 255 and given.isprintable()):
            raise InvalidInput("the Idempotency-Key is not a short text", remedy="Send a uuid.")
        return None if given is None else f"key:{call.caller.account}:{given}"


def _is_small(call: Call) -> bool:
    """Whether a commit is quickly planned: files that come with a snapshot are looked at one by one."""
    return len(call.body) < _SMALL and b"add-snapshot" not in call.body and HEADER not in call.headers


def _format(transaction: "Transaction", name: Name) -> str | None:
    """The format of a table; `None` for a view."""
    try:
        return transaction.named(name).row.format
    except NotFound:
        return None


def _require_table(transaction: "Transaction", name: Name) -> TableRow:
    """A table of any format."""
    try:
        return transaction.named(name).row
    except NotFound as error:
        raise missing_table(name) from error


def _check_free(transaction: "Transaction", name: Name) -> None:
    try:
        transaction.check_free(name)
    except AlreadyExists as error:
        raise Refusal(409, "AlreadyExistsException", f"Table already exists: {text(name)}") from error
