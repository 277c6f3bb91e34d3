"""The document that describes an application's routes, made from the routes themselves."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from seiche.gateway.http.calls import Answer, Call, Route

__all__ = ["PATH", "document", "document_route", "operation", "query"]

PATH = "/openapi.json"

_PARAMETER = re.compile(r"{(\w+)}")
Schema = Mapping[str, Any]


def query(name: str, schema: Schema | None = None) -> dict[str, Any]:
    """An optional parameter of the query."""
    return {"name": name, "in": "query", "required": False, "schema": schema or {"type": "string"}}


def operation(
    name: str,
    summary: str,
    *,
    body: Schema | None = None,
    media_type: str = "application/json",
    parameters: Sequence[Mapping[str, Any]] = (),
    answers: Mapping[int, Schema | None] | None = None,
) -> dict[str, Any]:
    """What an operation takes and gives; `answers` are the schemas by status, `None` for an answer without a body."""
    made: dict[str, Any] = {"operationId": name, "summary": summary, "parameters": list(parameters)}
    if body is not None:
        made["requestBody"] = {"required": True, "content": {media_type: {"schema": body}}}
    made["responses"] = {str(status): _response(schema) for status, schema in (answers or {200: {}}).items()}
    return made


def document(
    title: str, version: str, routes: Sequence[Route], *, schemas: Mapping[str, Schema], problem: Schema
) -> dict[str, Any]:
    """The OpenAPI document of `routes`. Every operation may fail with `problem`."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        described: dict[str, Any] = {"responses": {"200": _response({})}, **route.about}
        inside = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in _PARAMETER.findall(route.path)
        ]
        described["parameters"] = [*inside, *described.get("parameters", ())]
        failures = {"4XX": _problem(problem, route), "5XX": _problem(problem, route)}
        described["responses"] = {**described["responses"], **failures}
        described["security"] = [] if route.public else [{"bearer": []}]
        paths.setdefault(route.path, {})[route.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {
            "schemas": dict(schemas),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def document_route(described: Mapping[str, Any]) -> Route:
    """A route that hands the document out, to everybody."""
    about = operation("openapi", "This document.", answers={200: {"type": "object"}})

    def hand_out(_: Call) -> Answer:
        return Answer(body=dict(described))

    return Route("GET", PATH, hand_out, about, public=True)


def _response(schema: Schema | None) -> dict[str, Any]:
    made: dict[str, Any] = {"description": "Done."}
    if schema is not None:
        made["content"] = {"application/json": {"schema": schema}}
    return made


def _problem(schema: Schema, route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {"description": "Why not."}
    if route.method != "HEAD":
        made["content"] = {"application/json": {"schema": schema}}
    return made
