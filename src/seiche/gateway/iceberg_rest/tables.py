"""Routes about tables, but for commits and registration."""

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import CreateTableRequest

from seiche.errors import InvalidInput, NotFound
from seiche.gateway.http.calls import Answer, Call, Route, flag
from seiche.gateway.http.openapi import query
from seiche.gateway.iceberg_rest.catalog import Catalog, check_free, missing_table, page, paged, require_namespace
from seiche.gateway.iceberg_rest.loading import Loading, Snapshots, make_directories
from seiche.gateway.iceberg_rest.names import identifier, namespace_in, table_in
from seiche.gateway.iceberg_rest.requests import checked
from seiche.gateway.iceberg_rest.routing import route
from seiche.gateway.iceberg_rest.schemas import PAGES
from seiche.lake.iceberg.creating import new_metadata
from seiche.lake.objects.names import Name, check_name
from seiche.lake.objects.rows import TableRow

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["table_routes"]

_ALL = "/v1/{prefix}/namespaces/{namespace}/tables"
_ONE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"


def table_routes(catalog: Catalog, loading: Loading) -> list[Route]:
    """What there is, making, loading, renaming and dropping."""
    do = _Tables(catalog, loading)
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
            f"DELETE {_ONE}",
            do.drop,
            "dropTable",
            "Remove it; its files go with the lake's clean-up.",
            parameters=[query("purgeRequested", {"type": "boolean"})],
        ),
        route(f"GET {_ONE}/credentials", do.credentials, "loadCredentials", "Keys.", gives="StorageCredentials"),
        route(f"POST {_ONE}/metrics", do.metrics, "reportMetrics", "Ignored.", takes="Anything", commits=False),
        route("POST /v1/{prefix}/tables/rename", do.rename, "renameTable", "Give it another name.", takes="Rename"),
    ]


class _Tables:
    def __init__(self, catalog: Catalog, loading: Loading) -> None:
        self._catalog = catalog
        self._loading = loading

    def listed(self, call: Call) -> Answer:
        outer = namespace_in(call.path["namespace"])
        with self._catalog.reading(call) as transaction:
            require_namespace(transaction, outer)
            found, token = page(transaction.tables(outer), call, lambda name: _format(transaction, name))
        listed = [{"namespace": list(name[:-1]), "name": name[-1], "format": kind} for name, kind in found.items()]
        return paged("identifiers", listed, token)

    def create(self, call: Call) -> Answer:
        given = {"location": None, "partition-spec": None, "write-order": None, **call.document()}
        spec = _numbered(given["partition-spec"])
        asked: CreateTableRequest = checked(CreateTableRequest, {**given, "partition-spec": spec})
        name = (*namespace_in(call.path["namespace"]), check_name(asked.name, what="table"))
        if asked.stage_create:
            return self._stage(call, name, asked)
        done = self._catalog.change(call, lambda transaction: self._make(transaction, name, asked))
        return self._loading.made(call, name, done)

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

    def drop(self, call: Call) -> Answer:
        name = table_in(call.path)
        flag(call.query.get("purgeRequested"))  # files of a lake go when no version needs them, whatever is asked

        def drop(transaction: "Transaction") -> None:
            _require_table(transaction, name)
            transaction.drop_table(name)

        self._catalog.change(call, drop)
        return Answer(204)

    def rename(self, call: Call) -> Answer:
        body = call.document()
        source, target = identifier(body.get("source")), identifier(body.get("destination"))

        def rename(transaction: "Transaction") -> None:
            _require_table(transaction, source)
            check_free(transaction, target)
            transaction.rename_table(source, target)

        self._catalog.change(call, rename)
        return Answer(204)

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
            check_free(transaction, name)
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
        make_directories(self._catalog.lake.store, metadata.location)
        return self._loading.staged(call, metadata)

    def _make(self, transaction: "Transaction", name: Name, asked: CreateTableRequest) -> None:
        check_free(transaction, name)
        transaction.create_table(
            name,
            asked.table_schema,
            format="iceberg",
            partition_spec=asked.partition_spec,
            sort_order=asked.write_order,
            properties=asked.properties,
            location=asked.location,
        )


def _numbered(spec: Any) -> Any:
    """A partition spec of a new table, whose fields need not have ids by the protocol: they are given new ones."""
    fields = spec.get("fields") if isinstance(spec, dict) else None
    if not isinstance(fields, list):
        return spec
    numbered = [{"field-id": 1000 + n, **one} if isinstance(one, dict) else one for n, one in enumerate(fields)]
    return {**spec, "fields": numbered}


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
