"""The Iceberg REST catalog of a lake, as an ASGI application."""

from typing import TYPE_CHECKING

from seiche import __version__
from seiche.core.runtime import SYSTEM, Runtime
from seiche.gateway.credentials import Credentials, StoreCredentials
from seiche.gateway.http.app import Application, Server
from seiche.gateway.http.auth import Auth, Open
from seiche.gateway.http.calls import Counted
from seiche.gateway.http.limits import Limits
from seiche.gateway.http.openapi import document, document_route
from seiche.gateway.iceberg_rest.catalog import Catalog
from seiche.gateway.iceberg_rest.commit_routes import commit_routes
from seiche.gateway.iceberg_rest.general import config_route, function_routes, refused_routes, token_route
from seiche.gateway.iceberg_rest.loading import Loading
from seiche.gateway.iceberg_rest.namespaces import namespace_routes
from seiche.gateway.iceberg_rest.problems import PROBLEM, IcebergProtocol
from seiche.gateway.iceberg_rest.registration import registration_routes
from seiche.gateway.iceberg_rest.schemas import SCHEMAS
from seiche.gateway.iceberg_rest.tables import table_routes
from seiche.gateway.iceberg_rest.views import view_routes
from seiche.gateway.sessions import Sessions

if TYPE_CHECKING:
    from seiche.lake.lake import Lake

__all__ = ["iceberg_rest_app"]


def iceberg_rest_app(
    lake: "Lake",
    auth: Auth | None = None,
    limits: Limits | None = None,
    *,
    catalog: str = "lake",
    sessions: Sessions | None = None,
    credentials: Credentials | None = None,
    runtime: Runtime = SYSTEM,
    counted: Counted | None = None,
) -> Application:
    """An application that speaks the Iceberg REST catalog protocol for `lake`.

    `catalog` is the warehouse that clients name. `credentials` decides what opens the files of tables; without it,
    those who ask get the lake's own.
    """
    admitting = auth or Open()
    served = Catalog(
        lake, catalog, sessions or Sessions(lake, runtime), credentials or StoreCredentials(lake.store), runtime
    )
    loading = Loading(served)
    listed = [
        *namespace_routes(served),
        *table_routes(served, loading),
        *commit_routes(served, loading),
        *registration_routes(served, loading),
        *view_routes(served),
        *function_routes(served),
    ]
    routes = [config_route(served, listed), token_route(admitting), *listed, *refused_routes()]
    described = document("Iceberg REST catalog of a Seiche lake", __version__, routes, schemas=SCHEMAS, problem=PROBLEM)
    server = Server(IcebergProtocol(), admitting, limits or Limits(), runtime, "iceberg", counted)
    return Application([*routes, document_route(described)], server)
