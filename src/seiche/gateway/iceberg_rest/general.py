"""Routes that are about no object: configuration, tokens, and what this server does not do."""

import base64
from collections.abc import Sequence
from functools import partial
from typing import Final
from urllib.parse import parse_qs, unquote_plus

from seiche.errors import PermissionDenied
from seiche.gateway.http.auth import Auth
from seiche.gateway.http.calls import Answer, Call, Route
from seiche.gateway.http.openapi import operation, query
from seiche.gateway.iceberg_rest import schemas
from seiche.gateway.iceberg_rest.catalog import Catalog, require_namespace
from seiche.gateway.iceberg_rest.names import namespace_in
from seiche.gateway.iceberg_rest.problems import Refusal
from seiche.gateway.iceberg_rest.routing import route

__all__ = ["config_route", "function_routes", "refused_routes", "token_route"]

# How long an Idempotency-Key is remembered at least; in truth, as long as the lake keeps its history.
_KEY_LIFETIME: Final = "PT30M"
_CLIENT: Final = "client_credentials"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TABLE: Final = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
_FUNCTIONS: Final = "/v1/{prefix}/namespaces/{namespace}/functions"
_PLANNING: Final = "scans are planned by the client: this server does not do it"
_SIGNING: Final = "requests to storage are not signed here: ask for vended credentials"


def config_route(catalog: Catalog, routes: Sequence[Route]) -> Route:
    """Says which operations there are; what is not listed, clients do not try."""
    endpoints = [f"{one.method} {one.path}" for one in routes if one.path.startswith("/v1/{prefix}/")]

    def config(call: Call) -> Answer:
        warehouse = call.query.get("warehouse")
        if warehouse not in (None, "", catalog.name):
            raise Refusal(404, "NoSuchWarehouseException", f"there is no warehouse {warehouse}")
        return Answer(
            body={
                "defaults": {},
                "overrides": {"prefix": catalog.name},
                "endpoints": endpoints,
                "idempotency-key-lifetime": _KEY_LIFETIME,
            }
        )

    about = operation(
        "getConfig",
        "What the catalog is called and can do.",
        parameters=[query("warehouse")],
        answers={200: schemas.ref("Config")},
    )
    return Route("GET", "/v1/config", config, about)


def token_route(auth: Auth) -> Route:
    """Exchanges a client's id and secret, in the form or as HTTP Basic, for a token; or a token for a newer one."""
    about = operation(
        "getToken",
        "A token for a client that has an id and a secret.",
        body={"type": "object", "properties": {"grant_type": {"type": "string"}}},
        media_type="application/x-www-form-urlencoded",
        answers={
            200: schemas.ref("Token"),
            400: {"type": "object", "required": ["error"]},
            401: {"type": "object", "required": ["error"]},
        },
    )
    return Route("POST", "/v1/oauth/tokens", partial(_token, auth), about, public=True)


def function_routes(catalog: Catalog) -> list[Route]:
    """A lake keeps no functions. That is what these say, so that engines that look for some go on."""

    def listed(call: Call) -> Answer:
        with catalog.reading(call) as transaction:
            require_namespace(transaction, namespace_in(call.path["namespace"]))
        return Answer(body={"identifiers": []})

    def load(call: Call) -> Answer:
        with catalog.reading(call) as transaction:
            require_namespace(transaction, namespace_in(call.path["namespace"]))
        raise Refusal(404, "NoSuchFunctionException", f"no function {call.path['function']}: a lake keeps none")

    return [
        route(f"GET {_FUNCTIONS}", listed, "listFunctions", "None.", gives="Functions", parameters=schemas.PAGES),
        route(f"GET {_FUNCTIONS}/{{function}}", load, "loadFunction", "None.", gives="Anything"),
    ]


def refused_routes() -> list[Route]:
    """Operations of the protocol that are not here. They are not in the list of endpoints either."""
    return [
        _refused("POST", f"{_TABLE}/plan", "planTableScan", _PLANNING),
        _refused("GET", f"{_TABLE}/plan/{{plan}}", "fetchPlanningResult", _PLANNING),
        _refused("DELETE", f"{_TABLE}/plan/{{plan}}", "cancelPlanning", _PLANNING),
        _refused("POST", f"{_TABLE}/tasks", "fetchScanTasks", _PLANNING),
        _refused("POST", f"{_TABLE}/sign", "signRequest", _SIGNING),
    ]


def _refused(method: str, path: str, name: str, why: str) -> Route:
    def refuse(_: Call) -> Answer:
        raise Refusal(406, "UnsupportedOperationException", why)

    return Route(method, path, refuse, operation(name, f"Refused: {why}."))


def _token(auth: Auth, call: Call) -> Answer:
    form = {name: values[-1] for name, values in parse_qs(call.body.decode("utf-8", "replace")).items()}
    kind = form.get("grant_type")
    if kind not in (_CLIENT, _EXCHANGE):
        return _oauth_problem(400, "unsupported_grant_type", f"known here: {_CLIENT}, {_EXCHANGE}")
    client, secret = _basic(call) or (form.get("client_id", ""), form.get("client_secret", ""))
    scope = form.get("scope", "")
    try:
        # Java's client sends its secret along when its token has expired: then that is what counts.
        by_token = kind == _EXCHANGE and not secret
        granted = auth.renew(form.get("subject_token", ""), scope) if by_token else auth.grant(client, secret, scope)
    except PermissionDenied as error:
        return _oauth_problem(401, "invalid_client", error.message)
    return Answer(
        body={
            "access_token": granted.token,
            "token_type": "bearer",
            "expires_in": granted.seconds,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            **({"scope": granted.scope} if granted.scope else {}),
        },
        headers={"Cache-Control": "no-store"},
    )


def _basic(call: Call) -> tuple[str, str] | None:
    kind, _, given = call.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        client, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
    except ValueError:  # not of base 64, or of no text in it
        return None
    return unquote_plus(client), unquote_plus(secret)


def _oauth_problem(status: int, error: str, description: str) -> Answer:
    """Tokens have a shape of problems of their own. The common one is in it too: PyIceberg reads either."""
    return Answer(status, {"error": error, "error_description": description})
