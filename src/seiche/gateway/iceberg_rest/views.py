"""Routes about views.

The metadata of a view stands in its row: it is committed, kept, rolled back and expired with the lake, and has no
files.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog.rest import CreateViewRequest

from seiche.errors import InvalidInput, PermissionDenied, SeicheError
from seiche.gateway.http.calls import Answer, Call, Route
from seiche.gateway.iceberg_rest.catalog import (
    Catalog,
    Repeated,
    check_free,
    missing_view,
    page,
    paged,
    require_namespace,
)
from seiche.gateway.iceberg_rest.names import identifier, namespace_in, table_in
from seiche.gateway.iceberg_rest.requests import checked
from seiche.gateway.iceberg_rest.routing import route
from seiche.gateway.iceberg_rest.schemas import PAGES
from seiche.gateway.iceberg_rest.view_metadata import new_view, registered_view, with_updates
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.places import root_address
from seiche.lake.objects import rows
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import Name, check_name
from seiche.lake.objects.rows import ViewRow
from seiche.lake.tree.root import millis
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["view_routes"]

_ALL = "/v1/{prefix}/namespaces/{namespace}/views"
_ONE = "/v1/{prefix}/namespaces/{namespace}/views/{view}"
# The property of a view's row that holds its Iceberg metadata, as JSON.
METADATA: Final = "seiche.iceberg-view"


def view_routes(catalog: Catalog) -> list[Route]:
    """What there is, making, loading, replacing, renaming and dropping."""
    do = _Views(catalog)
    return [
        route(f"GET {_ALL}", do.listed, "listViews", "Those in one.", gives="Identifiers", parameters=PAGES),
        route(f"POST {_ALL}", do.create, "createView", "Make one.", takes="NewView", gives="View"),
        route(f"GET {_ONE}", do.load, "loadView", "Its metadata.", gives="View"),
        route(f"HEAD {_ONE}", do.exists, "viewExists", "Whether it is there."),
        route(f"POST {_ONE}", do.replace, "replaceView", "Commit to it.", takes="ViewCommit", gives="View"),
        route(f"DELETE {_ONE}", do.drop, "dropView", "Remove it."),
        route(
            "POST /v1/{prefix}/namespaces/{namespace}/register-view",
            do.register,
            "registerView",
            "Make a view of metadata that exists.",
            takes="Registration",
            gives="View",
        ),
        route("POST /v1/{prefix}/views/rename", do.rename, "renameView", "Give it another name.", takes="Rename"),
    ]


class _Views:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def listed(self, call: Call) -> Answer:
        outer = namespace_in(call.path["namespace"])
        with self._catalog.reading(call) as transaction:
            require_namespace(transaction, outer)
            found, token = page(transaction.tables(outer), call, lambda name: _row(transaction, name))
        return paged("identifiers", [{"namespace": list(one[:-1]), "name": one[-1]} for one in found], token)

    def create(self, call: Call) -> Answer:
        asked: CreateViewRequest = checked(CreateViewRequest, {"location": None, **call.document()})
        name = (*namespace_in(call.path["namespace"]), check_name(asked.name, what="view"))

        def create(transaction: "Transaction") -> ViewRow:
            check_free(transaction, name)
            view_id = str(transaction.runtime.uuid())
            place = asked.location or f"{root_address(transaction.state.store)}/views/{view_id}"
            metadata = new_view(view_id, place, asked.view_schema, asked.view_version, asked.properties)
            return _put(transaction, name, _new_row(view_id, metadata, transaction))

        return self._changed(call, name, create)

    def load(self, call: Call) -> Answer:
        return self._loaded(call, table_in(call.path, "view"))

    def exists(self, call: Call) -> Answer:
        with self._catalog.reading(call) as transaction:
            _require(transaction, table_in(call.path, "view"))
        return Answer(204)

    def replace(self, call: Call) -> Answer:
        name = table_in(call.path, "view")
        body = call.document()
        requirements, updates = body.get("requirements") or [], body.get("updates")
        if not isinstance(requirements, list) or not isinstance(updates, list):
            raise InvalidInput("requirements and updates have to be lists", remedy="Send lists.")

        def replace(transaction: "Transaction") -> ViewRow:
            row = _require(transaction, name)
            now = millis(transaction.runtime.clock.now())
            metadata = with_updates(_metadata(row, transaction.state.store), requirements, updates, now)
            return _put(transaction, name, _with(row, metadata))

        return self._changed(call, name, replace)

    def drop(self, call: Call) -> Answer:
        name = table_in(call.path, "view")

        def drop(transaction: "Transaction") -> None:
            _require(transaction, name)
            transaction.drop_view(name)

        self._catalog.change(call, drop)
        return Answer(204)

    def register(self, call: Call) -> Answer:
        body = call.document()
        name = (*namespace_in(call.path["namespace"]), check_name(str(body.get("name") or ""), what="view"))
        where = body.get("metadata-location")

        def register(transaction: "Transaction") -> ViewRow:
            check_free(transaction, name)
            metadata = _read(str(where), transaction)
            view_id = str(transaction.runtime.uuid())
            return _put(transaction, name, _new_row(view_id, metadata, transaction))

        return self._changed(call, name, register)

    def rename(self, call: Call) -> Answer:
        body = call.document()
        source, target = identifier(body.get("source"), "view"), identifier(body.get("destination"), "view")

        def rename(transaction: "Transaction") -> None:
            row = _require(transaction, source)
            check_free(transaction, target)
            transaction.write_row(table_key(source), None)
            transaction.write_row(table_key(target), rows.encode(row))

        self._catalog.change(call, rename)
        return Answer(204)

    def _changed(self, call: Call, name: Name, do: "Callable[[Transaction], ViewRow]") -> Answer:
        """The view that was made or changed: as the lake has it, because the same request may have come twice, under
        one key, and the other one have been first.
        """
        done = self._catalog.change(call, do)
        if isinstance(done, Repeated):
            return self._shown_again(call, name, done)
        there = None if done.state is None else done.state.relation(name)
        return self._shown(there if isinstance(there, ViewRow) else done.result, self._catalog.lake.store)

    def _shown_again(self, call: Call, name: Name, repeated: Repeated) -> Answer:
        """The view as it is, to whoever asks again for what was done, having lost the answer; as it was then if it is
        gone by now, or another.
        """
        state = repeated.showing(name)
        if state is None:
            return self._loaded(call, name)
        row = state.relation(name)
        if not isinstance(row, ViewRow):
            raise missing_view(name)
        return self._shown(row, state.store)

    def _loaded(self, call: Call, name: Name) -> Answer:
        with self._catalog.reading(call) as transaction:
            return self._shown(_require(transaction, name), transaction.state.store)

    @staticmethod
    def _shown(row: ViewRow, store: Store) -> Answer:
        metadata = _metadata(row, store)
        # There is no such file: the name tells one state of the view from another.
        where = f"{metadata['location']}/metadata/{row.pointer_version:05d}-{row.id}.metadata.json"
        return Answer(body={"metadata-location": where, "metadata": metadata, "config": {}})


def _put(transaction: "Transaction", name: Name, row: ViewRow) -> ViewRow:
    transaction.write_row(table_key(name), rows.encode(row))
    return row


def _row(transaction: "Transaction", name: Name) -> ViewRow | None:
    value = transaction.row_behind(table_key(name))
    if value is None or rows.kind_of(value) is not ViewRow:
        return None
    return rows.decode(value, ViewRow)


def _require(transaction: "Transaction", name: Name) -> ViewRow:
    require_namespace(transaction, name[:-1])
    row = _row(transaction, name)
    if row is None:
        raise missing_view(name)
    return row


def _new_row(view_id: str, metadata: Mapping[str, Any], transaction: "Transaction") -> ViewRow:
    made = ViewRow(id=view_id, pointer_version=0, created_at_millis=millis(transaction.runtime.clock.now()))
    return _with(made, metadata)


def _with(row: ViewRow, metadata: Mapping[str, Any]) -> ViewRow:
    """The row of a view with this metadata; its SQL stands there for those who do not speak Iceberg."""
    current = next(one for one in metadata["versions"] if one["version-id"] == metadata["current-version-id"])
    first = (current.get("representations") or [{}])[0]
    properties = {**metadata.get("properties", {}), METADATA: json.dumps(metadata, sort_keys=True)}
    return ViewRow(
        id=row.id,
        pointer_version=row.pointer_version + 1,
        sql=str(first.get("sql", "")),
        dialect=str(first.get("dialect", "")),
        properties=properties,
        created_at_millis=row.created_at_millis,
        default_namespace=tuple(current.get("default-namespace") or ()),
    )


def _metadata(row: ViewRow, store: Store) -> dict[str, Any]:
    """The Iceberg metadata of a view; one that was made by Seiche has SQL and no columns."""
    kept = row.properties.get(METADATA)
    if kept is not None:
        found: dict[str, Any] = json.loads(kept)
        return found
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": row.created_at_millis,
        "summary": {"engine-name": "seiche"},
        "representations": [{"type": "sql", "sql": row.sql, "dialect": row.dialect or "spark"}],
        "default-namespace": list(row.default_namespace),
    }
    return {
        "view-uuid": row.id,
        "format-version": 1,
        "location": f"{root_address(store)}/views/{row.id}",
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-version-id": 1,
        "versions": [version],
        "version-log": [{"timestamp-ms": row.created_at_millis, "version-id": 1}],
        "properties": dict(row.properties),
    }


def _read(where: str, transaction: "Transaction") -> dict[str, Any]:
    state = transaction.state
    try:
        with LakeFileIO(state.store, outside=state.outside).new_input(where).open() as stream:
            found = json.loads(stream.read())
    except PermissionDenied:
        raise
    except (OSError, ValueError, SeicheError) as error:
        raise InvalidInput(
            f"there is no view metadata at {where}", remedy="Send the address of such a file."
        ) from error
    return registered_view(found)
