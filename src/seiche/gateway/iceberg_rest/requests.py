"""Commit requests: from JSON to what a transaction takes. What is wrong with one shows before anything begins."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pyiceberg.exceptions import ValidationError as IcebergValidationError
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.update import AddSnapshotUpdate

from seiche.errors import InvalidInput
from seiche.gateway.http.calls import Call
from seiche.gateway.iceberg_rest.names import identifier
from seiche.lake.iceberg.applying import NO_ID
from seiche.lake.objects.names import Name, text

__all__ = [
    "ACTIONS",
    "REQUIREMENTS",
    "TableChange",
    "call_hash",
    "checked",
    "one_change",
    "request_hash",
    "several_changes",
]

REQUIREMENTS: Final = frozenset(
    {
        "assert-create",
        "assert-table-uuid",
        "assert-ref-snapshot-id",
        "assert-last-assigned-field-id",
        "assert-current-schema-id",
        "assert-last-assigned-partition-id",
        "assert-default-spec-id",
        "assert-default-sort-order-id",
    }
)
# All that the protocol has. Encryption keys are not kept by the lake's tables, and refused by name.
ACTIONS: Final = frozenset(
    {
        "assign-uuid",
        "upgrade-format-version",
        "add-schema",
        "set-current-schema",
        "add-spec",
        "set-default-spec",
        "add-sort-order",
        "set-default-sort-order",
        "add-snapshot",
        "set-snapshot-ref",
        "remove-snapshots",
        "remove-snapshot-ref",
        "set-location",
        "set-properties",
        "remove-properties",
        "set-statistics",
        "remove-statistics",
        "set-partition-statistics",
        "remove-partition-statistics",
        "remove-partition-specs",
        "remove-schemas",
        "add-encryption-key",
        "remove-encryption-key",
    }
)
_GREATEST: Final = (1 << 63) - 1
# One spelling for all that mean the same.
_SPELLING: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_REFUSED: Final = frozenset({"add-encryption-key", "remove-encryption-key"})


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a request asks of one table: PyIceberg's models, and the JSON that they came from."""

    name: Name
    requirements: tuple[Any, ...]
    updates: tuple[Any, ...]
    given: Mapping[str, Any]

    @property
    def snapshots(self) -> frozenset[int]:
        """The ids of the snapshots that it adds."""
        return frozenset(one.snapshot.snapshot_id for one in self.updates if isinstance(one, AddSnapshotUpdate))


def one_change(body: Mapping[str, Any], name: Name) -> TableChange:
    """The change that is sent to the route of a table; a name in the body has to be the same one."""
    if body.get("identifier") is not None and identifier(body["identifier"]) != name:
        raise InvalidInput(
            f"the path is about {text(name)}, the body about {body['identifier']!r}", remedy="Make them agree."
        )
    return _change(body, name)


def several_changes(body: Mapping[str, Any]) -> list[TableChange]:
    """The changes of one request to several tables; each may be there once."""
    given = body.get("table-changes")
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise InvalidInput("there are no table-changes", remedy="Send at least one.")
    changes = [_change(one, identifier(one.get("identifier"))) for one in given]
    for name, times in Counter(one.name for one in changes).items():
        if times > 1:
            raise InvalidInput(f"{text(name)} is changed twice", remedy="Send one change for each table.")
    return changes


def request_hash(changes: list[TableChange]) -> str:
    """What tells one request from another: SHA-256 of its changes in one spelling, in base64 for URLs."""
    canonical = [
        {
            "identifier": {"namespace": list(one.name[:-1]), "name": one.name[-1]},
            "requirements": one.given.get("requirements") or [],
            "updates": one.given.get("updates") or [],
        }
        for one in changes
    ]
    return _hashed(canonical)


def call_hash(call: Call) -> str:
    """The same for a request that is no commit: its route, what stands in the path, and its body."""
    return _hashed([call.route, dict(call.path), call.body.decode("latin-1")])


def _hashed(value: Any) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(_SPELLING.encode(value).encode()).digest()).rstrip(b"=").decode()


def checked(model: type[BaseModel], given: Mapping[str, Any]) -> Any:
    """A request as one of PyIceberg's models; `InvalidInput` says what is wrong with it."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{where}: {first['msg']}", remedy="Send what the protocol says.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, IcebergValidationError) as error:
        raise InvalidInput(f"the request cannot be read: {error}", remedy="Send what the protocol says.") from error


def _change(body: Mapping[str, Any], name: Name) -> TableChange:
    if "requirements" not in body and "updates" not in body:
        raise InvalidInput("the body has neither requirements nor updates", remedy="Send what is to be changed.")
    requirements, updates = _listed(body, "requirements"), _listed(body, "updates")
    for one in requirements:
        _known(one, "type", REQUIREMENTS, "requirement")
        if one["type"] == "assert-ref-snapshot-id" and not isinstance(one.get("ref"), str):
            raise InvalidInput("assert-ref-snapshot-id names no ref", remedy="Say which branch or tag it is about.")
    for one in updates:
        _known(one, "action", ACTIONS, "update")
        _check_update(one)
    asked = {
        "identifier": {"namespace": list(name[:-1]), "name": name[-1]},
        "requirements": requirements,
        "updates": [_with_ids(one) for one in updates],
    }
    model: CommitTableRequest = checked(CommitTableRequest, asked)
    return TableChange(name, tuple(model.requirements), tuple(model.updates), body)


def _with_ids(update: dict[str, Any]) -> dict[str, Any]:
    """The update, with a sign in the place of each id that a partition spec or a sort order need not have by the
    protocol.
    """
    if update["action"] == "add-sort-order" and isinstance(update.get("sort-order"), dict):
        return {**update, "sort-order": {"order-id": NO_ID, **update["sort-order"]}}
    spec = update.get("spec") if update["action"] == "add-spec" else None
    fields = spec.get("fields") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(fields, list):
        return update
    numbered = [{"field-id": NO_ID, **one} if isinstance(one, dict) else one for one in fields]
    return {**update, "spec": {"spec-id": NO_ID, **spec, "fields": numbered}}


def _listed(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    given = body.get(name)
    if given is None:
        given = []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise InvalidInput(f"{name} is not a list of objects", remedy="Send a list; it may be empty.")
    return given


def _known(given: Mapping[str, Any], key: str, known: frozenset[str], what: str) -> None:
    named = given.get(key)
    if not isinstance(named, str) or named not in known:
        raise InvalidInput(f"{named!r} is no {what} that is known", remedy="See the protocol for a list.")


def _check_update(update: Mapping[str, Any]) -> None:
    action = update["action"]
    if action in _REFUSED:
        raise InvalidInput(f"{action}: tables of a lake keep no encryption keys", remedy="Encrypt the storage.")
    if action == "add-snapshot":
        snapshot = update.get("snapshot")
        number = snapshot.get("snapshot-id") if isinstance(snapshot, dict) else None
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _GREATEST:
            raise InvalidInput("add-snapshot has no snapshot with an id of 0 or more, in 64 bits", remedy="Send one.")
        if isinstance(snapshot, dict) and snapshot.get("key-id") is not None:
            raise InvalidInput("add-snapshot: tables of a lake keep no encryption keys", remedy="Encrypt the storage.")
