"""The Lance Namespace server of a lake, as an ASGI application."""

from typing import TYPE_CHECKING

from seiche import __version__
from seiche.core.runtime import SYSTEM, Runtime
from seiche.gateway.credentials import Credentials, StoreCredentials
from seiche.gateway.http.app import Application, Server
from seiche.gateway.http.auth import Auth, Open
from seiche.gateway.http.calls import Counted
from seiche.gateway.http.limits import Limits
from seiche.gateway.http.openapi import document, document_route
from seiche.gateway.lance_namespace.problems import PROBLEM, LanceProtocol
from seiche.gateway.lance_namespace.protocol import models
from seiche.gateway.lance_namespace.routes import Operations
from seiche.gateway.sessions import Sessions

if TYPE_CHECKING:
    from seiche.lake.lake import Lake

__all__ = ["lance_namespace_app"]


def lance_namespace_app(
    lake: "Lake",
    auth: Auth | None = None,
    limits: Limits | None = None,
    *,
    sessions: Sessions | None = None,
    credentials: Credentials | None = None,
    runtime: Runtime = SYSTEM,
    counted: Counted | None = None,
) -> Application:
    """An application that speaks the Lance Namespace protocol for `lake`.

    `sessions` are the transactions that clients choose by a header, if other applications know them too. `credentials`
    decides what opens the files of tables; without it, everybody gets the lake's own.
    """
    routes = Operations(lake, sessions or Sessions(lake, runtime), credentials or StoreCredentials(lake.store)).routes()
    described = document("Lance Namespace of a Seiche lake", __version__, routes, schemas=models(), problem=PROBLEM)
    server = Server(LanceProtocol(), auth or Open(), limits or Limits(), runtime, "lance", counted)
    return Application([*routes, document_route(described)], server)
