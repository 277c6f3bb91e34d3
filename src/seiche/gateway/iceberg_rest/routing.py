"""How routes of the Iceberg REST protocol are written down."""

from collections.abc import Mapping, Sequence
from typing import Any

from seiche.gateway.http.calls import Handler, Joint, Route
from seiche.gateway.http.openapi import operation
from seiche.gateway.iceberg_rest.schemas import ref

__all__ = ["route"]


def route(
    line: str,
    handler: Handler,
    name: str,
    summary: str,
    *,
    takes: str | None = None,
    gives: str | None = None,
    parameters: Sequence[Mapping[str, Any]] = (),
    commits: bool | None = None,
    unchanged: bool = False,
    together: Joint | None = None,
) -> Route:
    """A route by its line, such as `GET /v1/config`.

    `takes` and `gives` are names of schemas; without `gives` the answer has no body. What is not a GET or HEAD commits,
    unless it is said not to. With `unchanged` the answer may also be that the caller has it already.
    """
    method, _, path = line.partition(" ")
    answers: dict[int, Any] = {204: None} if gives is None else {200: ref(gives)}
    if unchanged:
        answers[304] = None
    body = None if takes is None else ref(takes)
    about = operation(name, summary, body=body, parameters=parameters, answers=answers)
    deciding = method not in ("GET", "HEAD") if commits is None else commits
    return Route(method, path, handler, about, commits=deciding, together=together)
