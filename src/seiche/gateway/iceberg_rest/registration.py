"""Tables that come from another catalog, or go to one."""

from typing import TYPE_CHECKING

from seiche.errors import InvalidInput, NotFound
from seiche.gateway.http.calls import Answer, Call, Route
from seiche.gateway.iceberg_rest.catalog import Catalog, Repeated, check_free, require_namespace
from seiche.gateway.iceberg_rest.loading import Loading
from seiche.gateway.iceberg_rest.names import namespace_in, table_in
from seiche.gateway.iceberg_rest.routing import route
from seiche.lake.iceberg.table import at_state
from seiche.lake.objects.names import check_name

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["registration_routes"]


def registration_routes(catalog: Catalog, loading: Loading) -> list[Route]:
    """In and out."""
    do = _Registration(catalog, loading)
    return [
        route(
            "POST /v1/{prefix}/namespaces/{namespace}/register",
            do.register,
            "registerTable",
            "Make a table of metadata that exists.",
            takes="Registration",
            gives="Table",
        ),
        route(
            "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
            do.unregister,
            "unregisterTable",
            "Give it up to another catalog, with all its files.",
            gives="Committed",
        ),
    ]


class _Registration:
    def __init__(self, catalog: Catalog, loading: Loading) -> None:
        self._catalog = catalog
        self._loading = loading

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
                check_free(transaction, name)
            try:
                transaction.register_iceberg(name, where, overwrite=overwrite)
            except NotFound as error:
                raise InvalidInput(error.message, remedy=error.remedy) from error

        return self._loading.made(call, name, self._catalog.change(call, register))

    def unregister(self, call: Call) -> Answer:
        """The metadata in the answer has every commit that was ever answered with success."""
        name = table_in(call.path)

        def unregister(transaction: "Transaction") -> Answer:
            self._loading.found(transaction, name)
            return self._loading.left(transaction.unregister_iceberg(name))

        done = self._catalog.change(call, unregister)
        if isinstance(done, Repeated):
            return self._loading.left(at_state(self._catalog.lake.states.at(done.before), name))
        return done.result
