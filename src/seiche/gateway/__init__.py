"""Catalog protocols over HTTP: the lake for engines that people already have.

`apps(lake, auth)` gives the applications, `seiche.gateway.serving` runs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from seiche.gateway.credentials import Credentials
    from seiche.gateway.http.app import Application
    from seiche.gateway.http.auth import Auth
    from seiche.gateway.http.calls import Counted
    from seiche.gateway.http.limits import Limits
    from seiche.lake.lake import Lake

__all__ = ["Apps", "apps"]


@dataclass(frozen=True, slots=True)
class Apps:
    """One ASGI application for each protocol."""

    iceberg: "Application"
    lance: "Application"


def apps(
    lake: "Lake",
    auth: "Auth | None" = None,
    limits: "Limits | None" = None,
    *,
    catalog: str = "lake",
    credentials: "Credentials | None" = None,
    outside: Sequence[str] | None = None,
    runtime: Runtime = SYSTEM,
    counted: "Counted | None" = None,
) -> Apps:
    """The Iceberg REST catalog and the Lance Namespace of a lake, with one idea of who may come in.

    Transactions that clients choose by a header are the same in both.

    Without `auth` everybody may. `credentials` decides what opens the files of tables; without it, the lake's own do.
    With `auth`, addresses that callers send are opened only if they lead into the lake, or below one of those
    `outside`; from now on that holds for everything that is done through this handle of the lake. Without, callers are
    trusted like the process itself, unless there are such addresses.

    `counted` is told of each request that was answered: the operation, the status, and how many seconds it took.

    Needs the extra `server`.
    """
    try:
        from seiche.gateway.iceberg_rest.app import iceberg_rest_app
        from seiche.gateway.lance_namespace.app import lance_namespace_app
        from seiche.gateway.sessions import Sessions
    except ImportError as error:
        raise InvalidInput(
            f"the gateways need {error.name}, which is not installed",
            remedy='Install it with pip install "seiche[server]".',
        ) from error
    if auth is not None or outside is not None:
        lake.states.confine(outside or ())
    sessions = Sessions(lake, runtime)
    return Apps(
        iceberg=iceberg_rest_app(
            lake,
            auth,
            limits,
            catalog=catalog,
            sessions=sessions,
            credentials=credentials,
            runtime=runtime,
            counted=counted,
        ),
        lance=lance_namespace_app(
            lake, auth, limits, sessions=sessions, credentials=credentials, runtime=runtime, counted=counted
        ),
    )
