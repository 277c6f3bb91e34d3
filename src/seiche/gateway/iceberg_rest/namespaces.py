"""Routes about namespaces."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.gateway.http.calls import Answer, Call, Route
from seiche.gateway.http.openapi import query
from seiche.gateway.iceberg_rest.catalog import Catalog, Repeated, page, paged, require_namespace
from seiche.gateway.iceberg_rest.keys import version_of
from seiche.gateway.iceberg_rest.names import namespace_in
from seiche.gateway.iceberg_rest.problems import Refusal
from seiche.gateway.iceberg_rest.routing import route
from seiche.gateway.iceberg_rest.schemas import PAGES
from seiche.lake.objects.names import Name, parts, text

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["namespace_routes"]

_ALL = "/v1/{prefix}/namespaces"
_ONE = "/v1/{prefix}/namespaces/{namespace}"


def namespace_routes(catalog: Catalog) -> list[Route]:
    """What there is, making, changing and dropping."""
    do = _Namespaces(catalog)
    parent = [query("parent"), *PAGES]
    return [
        route(f"GET {_ALL}", do.listed, "listNamespaces", "Those in one.", gives="Namespaces", parameters=parent),
        route(f"POST {_ALL}", do.create, "createNamespace", "Make one.", takes="NewNamespace", gives="Namespace"),
        route(f"GET {_ONE}", do.load, "loadNamespaceMetadata", "Its properties.", gives="Namespace"),
        route(f"HEAD {_ONE}", do.exists, "namespaceExists", "Whether it is there."),
        route(f"DELETE {_ONE}", do.drop, "dropNamespace", "Remove one that is empty."),
        route(
            f"POST {_ONE}/properties",
            do.properties,
            "updateProperties",
            "Set and remove properties.",
            takes="PropertyChanges",
            gives="PropertiesChanged",
        ),
    ]


class _Namespaces:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def listed(self, call: Call) -> Answer:
        with self._catalog.reading(call) as transaction:
            names = transaction.namespaces(_parent(transaction, call.query.get("parent")))
        found, token = page(names, call, lambda name: name)
        return paged("namespaces", [list(name) for name in found], token)

    def create(self, call: Call) -> Answer:
        body = call.document()
        name = parts(_levels(body.get("namespace")), what="namespace")
        properties = _texts(body.get("properties") or {}, "properties")
        try:
            self._catalog.change(call, lambda transaction: transaction.create_namespace(name, properties))
        except AlreadyExists as error:
            raise Refusal(409, "AlreadyExistsException", f"Namespace already exists: {text(name)}") from error
        return Answer(body={"namespace": list(name), "properties": properties})

    def load(self, call: Call) -> Answer:
        name = namespace_in(call.path["namespace"])
        with self._catalog.reading(call) as transaction:
            found = transaction.namespace_named(name)
        return Answer(body={"namespace": list(name), "properties": dict(found.properties)})

    def exists(self, call: Call) -> Answer:
        with self._catalog.reading(call) as transaction:
            require_namespace(transaction, namespace_in(call.path["namespace"]))
        return Answer(204)

    def drop(self, call: Call) -> Answer:
        name = namespace_in(call.path["namespace"])

        def drop(transaction: "Transaction") -> None:
            require_namespace(transaction, name)
            if transaction.namespaces(name) or transaction.tables(name):
                raise Refusal(409, "NamespaceNotEmptyException", f"Namespace is not empty: {text(name)}")
            transaction.drop_namespace(name)

        self._catalog.change(call, drop)
        return Answer(204)

    def properties(self, call: Call) -> Answer:
        name = namespace_in(call.path["namespace"])
        body = call.document()
        updates = _texts(body.get("updates") or {}, "updates")
        removals = list(dict.fromkeys(_levels(body.get("removals") or [], empty=True)))
        both = sorted(set(removals) & updates.keys())
        if both:
            raise Refusal(422, "UnprocessableEntityException", f"{both[0]} is to be set and to be removed")

        def told(found: Mapping[str, str]) -> Answer:
            removed = [key for key in removals if key in found]
            missing = [key for key in removals if key not in found]
            return Answer(body={"updated": sorted(updates), "removed": removed, "missing": missing})

        def change(transaction: "Transaction") -> Answer:
            found = transaction.namespace_named(name).properties
            gone = dict.fromkeys(key for key in removals if key in found)
            if updates or gone:
                transaction.alter_namespace(name, {**updates, **gone})
            return told(found)

        done = self._catalog.change(call, change)
        if not isinstance(done, Repeated):
            return done.result
        before = version_of(self._catalog.lake, done.before)
        row = None if before is None else before.namespace(name)
        return told({} if row is None else row.properties)


def _parent(transaction: "Transaction", text: str | None) -> Name:
    """The namespace that a query names. PyIceberg and older Java clients encode its levels, and then all of it again:
    what is not there as it was sent is looked for decoded once more.
    """
    if not text:
        return ()
    sent = namespace_in(text)
    try:
        require_namespace(transaction, sent)
    except NotFound:
        meant = namespace_in(unquote(text))
        require_namespace(transaction, meant)
        return meant
    return sent


def _levels(given: Any, *, empty: bool = False) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given) or not (given or empty):
        raise InvalidInput(f"{given!r} is not a list of names", remedy="Send a list of texts.")
    return given


def _texts(given: Any, what: str) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidInput(f"{what} has to be texts by name", remedy="Send an object whose values are texts.")
    return given
