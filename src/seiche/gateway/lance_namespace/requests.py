"""Taking requests of the Lance Namespace protocol apart: what they are about, and what they ask for."""

from typing import Any, Final

import lance_namespace as lance
from pydantic import BaseModel, ValidationError

from seiche.errors import InvalidInput
from seiche.gateway.http.calls import Call, flag, integer

__all__ = ["DELIMITER", "check_commits_here", "object_id", "request"]

DELIMITER: Final = "$"

_FLAGS: Final = ("descending", "with_table_uri", "load_detailed_metadata", "check_declared", "vend_credentials")
_TEXTS: Final = ("page_token", "branch", "mode", "behavior", "tag")


def object_id(call: Call, body: dict[str, Any]) -> list[str]:
    """The parts of the name in the path; empty for the root. A name in the body has to be the same one.

    DuckDB's extension repeats it there without splitting it: so the joined texts are compared.
    """
    delimiter = call.query.get("delimiter") or DELIMITER
    given = call.path["id"]
    parts = [] if given in (delimiter, "") else given.split(delimiter)
    repeated = body.get("id")
    if repeated is not None:
        same = isinstance(repeated, list) and all(isinstance(part, str) for part in repeated)
        if not same or delimiter.join(repeated) != delimiter.join(parts):
            raise InvalidInput(f"the path is about {given!r}, the body about {repeated!r}", remedy="Make them agree.")
    return parts


def check_commits_here(call: Call) -> None:
    """Refuse to give out a place for a table to a client that would fill it without telling: nobody would find it.

    DuckDB's extension, which does, is known by how it spells the name in the body: as one part.
    """
    repeated, delimiter = call.document().get("id"), call.query.get("delimiter") or DELIMITER
    if isinstance(repeated, list) and len(repeated) == 1 and delimiter in call.path["id"]:
        raise lance.UnsupportedOperationError(
            f"{repeated[0]!r} in the body is one part: clients that send names so write tables past the server, where"
            " nobody finds them. Send the parts of the name, and commit versions here; from DuckDB, make the table"
            " through its iceberg extension"
        )


def request(call: Call, model: type[BaseModel], *, named: bool = False) -> Any:
    """The request as the namespace interface takes it; parts of the query count where the body has none.

    With `named` it cannot be about the root.
    """
    body = call.document()
    asked: dict[str, Any] = {name: flag(call.query[name]) for name in _FLAGS if name in call.query}
    asked |= {name: call.query[name] for name in _TEXTS if name in call.query}
    limit = integer(call.query.get("limit"), "limit", 0)
    if limit is not None:
        asked["limit"] = limit
    asked |= body
    if isinstance(asked.get("limit"), int) and asked["limit"] < 0:
        raise InvalidInput(f"limit cannot be {asked['limit']}", remedy="Send a number of at least 0.")
    if "id" in call.path:
        asked["id"] = object_id(call, body)
        if named and not asked["id"]:
            raise InvalidInput("the root is not a table", remedy="Name a table: its namespace, and its own name.")
    asked.pop("identity", None)  # who asks is said by the headers
    try:
        return model.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidInput(
            f"{where or 'the request'}: {first['msg']}", remedy="Send what the protocol says."
        ) from error
