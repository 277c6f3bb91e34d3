"""The metadata of a view: made, and changed by updates. Pure: values in, values out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.view.metadata import ViewMetadata, ViewVersion

from seiche.errors import InvalidInput, RetryableConflict
from seiche.gateway.iceberg_rest.requests import checked

__all__ = ["new_view", "registered_view", "with_updates"]

_LAST: Final = -1
_HISTORY: Final = "version.history.num-entries"
_COUNT: Final = re.compile("[1-9][0-9]{0,8}")
# Of ids of versions and schemas, and of times: Java reads no greater ones.
_GREATEST_ID: Final = (1 << 31) - 1
_GREATEST: Final = (1 << 63) - 1


def new_view(
    view_id: str, location: str, schema: Schema, version: ViewVersion, properties: Mapping[str, str]
) -> dict[str, Any]:
    """The metadata of a view that is made of one version."""
    made = version.model_copy(update={"version_id": max(1, version.version_id), "schema_id": schema.schema_id})
    values = {
        "view-uuid": view_id,
        "format-version": 1,
        "location": location,
        "schemas": [schema],
        "current-version-id": made.version_id,
        "versions": [made],
        "version-log": [{"timestamp-ms": made.timestamp_ms, "version-id": made.version_id}],
        "properties": dict(properties),
    }
    return _trimmed(_sound(checked(ViewMetadata, values), 1), 1)


def registered_view(found: Any) -> dict[str, Any]:
    """The metadata of a view as it stands in a file, if it is that of one."""
    made = checked(ViewMetadata, found)
    return _sound(made, len(made.versions))


def with_updates(
    metadata: Mapping[str, Any], requirements: Sequence[Any], updates: Sequence[Any], now_millis: int
) -> dict[str, Any]:
    """What the updates make of a view; a conflict if it is not the view that is meant."""
    for one in requirements:
        if not isinstance(one, dict) or one.get("type") != "assert-view-uuid":
            raise InvalidInput(f"{one!r} is no requirement for a view", remedy="Views know assert-view-uuid.")
        if one.get("uuid") != metadata["view-uuid"]:
            raise RetryableConflict("Requirement failed: this is another view of the same name")
    change = _Change(dict(metadata), now_millis)
    for update in updates:
        change.one(update)
    made = checked(ViewMetadata, change.metadata)
    new = len(made.versions) - len(metadata["versions"])
    return _trimmed(_sound(made, new), new)


def _sound(made: ViewMetadata, new: int) -> dict[str, Any]:
    """The metadata, refused if no client could load the view by it; of its versions the last `new` ones are looked at,
    as the others are there.
    """
    if not made.location:
        raise InvalidInput("a view needs a location", remedy="Send one, or none at all when the view is made.")
    if made.current_version_id not in {one.version_id for one in made.versions}:
        raise InvalidInput(f"the view has no version {made.current_version_id}", remedy="Add it first.")
    schemas = {one.schema_id for one in made.schemas}
    for version in made.versions[len(made.versions) - new :]:
        _check_dialects(version)
        if version.schema_id not in schemas:
            raise InvalidInput(f"the view has no schema {version.schema_id!r}", remedy="Add it first.")
        ids = (version.version_id, version.schema_id)
        if not all(0 <= one <= _GREATEST_ID for one in ids) or abs(version.timestamp_ms) > _GREATEST:
            raise InvalidInput("a version has an id beyond 32 bits or a time beyond 64", remedy="Send smaller ones.")
    return _dumped(made)


def _trimmed(metadata: dict[str, Any], new: int) -> dict[str, Any]:
    """The metadata with the current version and the newest others, as many as its properties say or as there are new
    ones: a view that is replaced every hour would grow for ever.
    """
    given = metadata.get("properties", {}).get(_HISTORY, "10")
    if not _COUNT.fullmatch(given):
        raise InvalidInput(f"{_HISTORY} cannot be {given[:20]!r}", remedy="Send a number of at least 1.")
    current = metadata["current-version-id"]
    others = sorted(one["version-id"] for one in metadata["versions"] if one["version-id"] != current)
    kept = {current, *others[max(0, len(others) + 1 - max(int(given), new)) :]}
    log: list[Any] = []
    for entry in metadata["version-log"]:  # from behind the last that is about a version which has gone
        log = [*log, entry] if entry["version-id"] in kept else []
    versions = [one for one in metadata["versions"] if one["version-id"] in kept]
    return {**metadata, "versions": versions, "version-log": log}


def _check_dialects(version: ViewVersion) -> None:
    seen: set[str] = set()
    for one in version.representations:
        dialect = one.root.dialect
        if dialect.lower() in seen:
            raise InvalidInput(
                f"the view has two texts in the dialect {dialect!r}", remedy="Send one for each dialect."
            )
        seen.add(dialect.lower())


class _Change:
    """Metadata while updates are applied to it.

    An id of -1 means what was added last. An id that the client gave to something it adds means that, even if it was
    added under another id, because another client had taken this one first.
    """

    def __init__(self, metadata: dict[str, Any], now_millis: int) -> None:
        self.metadata = metadata
        self._now = now_millis
        self._schema_id: int | None = None
        self._version_id: int | None = None
        # By the ids that they were sent with.
        self._schemas: dict[object, int] = {}
        self._versions: dict[object, int] = {}

    def one(self, update: Any) -> None:
        action = update.get("action") if isinstance(update, dict) else None
        apply = {
            "assign-uuid": self._uuid,
            "upgrade-format-version": self._format,
            "add-schema": self._schema,
            "set-location": self._location,
            "set-properties": self._properties,
            "remove-properties": self._remove,
            "add-view-version": self._version,
            "set-current-view-version": self._current,
        }.get(str(action))
        if apply is None:
            raise InvalidInput(f"{action!r} is no update of a view", remedy="See the protocol for a list.")
        try:
            apply(update)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidInput(f"{action} cannot be read: {error}", remedy="Send what the protocol says.") from error

    def _uuid(self, update: Any) -> None:
        if update["uuid"] != self.metadata["view-uuid"]:
            raise InvalidInput("a view keeps its uuid for life", remedy="Drop it and make another.")

    def _format(self, update: Any) -> None:
        if update["format-version"] != 1:
            raise InvalidInput("views have format version 1", remedy="Use that.")

    def _schema(self, update: Any) -> None:
        schema: Schema = checked(Schema, update["schema"])
        known = [checked(Schema, one) for one in self.metadata["schemas"]]
        same = [one.schema_id for one in known if one.fields == schema.fields]
        number = same[0] if same else max((one.schema_id for one in known), default=-1) + 1
        self._schema_id = self._schemas[update["schema"].get("schema-id")] = number
        if not same:
            self.metadata["schemas"] = [*self.metadata["schemas"], {**update["schema"], "schema-id": number}]

    def _location(self, update: Any) -> None:
        if not isinstance(update["location"], str):
            raise TypeError("the location is no text")
        self.metadata["location"] = update["location"]

    def _properties(self, update: Any) -> None:
        self.metadata["properties"] = {**self.metadata.get("properties", {}), **update["updates"]}

    def _remove(self, update: Any) -> None:
        gone = update["removals"]
        if not isinstance(gone, list):  # the letters of a text are names of properties too
            raise TypeError("removals is no list")
        kept = {name: value for name, value in self.metadata.get("properties", {}).items() if name not in gone}
        self.metadata["properties"] = kept

    def _version(self, update: Any) -> None:
        version = dict(update["view-version"])
        version["schema-id"] = self._schemas.get(version.get("schema-id"), version.get("schema-id", _LAST))
        if version["schema-id"] == _LAST:
            version["schema-id"] = self._schema_id
        elif version["schema-id"] not in [one.get("schema-id", 0) for one in self.metadata["schemas"]]:
            raise InvalidInput(f"the view has no schema {version['schema-id']!r}", remedy="Add it first.")
        number = max((one["version-id"] for one in self.metadata["versions"]), default=0) + 1
        self._version_id = self._versions[version.get("version-id")] = version["version-id"] = number
        self.metadata["versions"] = [*self.metadata["versions"], version]

    def _current(self, update: Any) -> None:
        wanted = update["view-version-id"]
        wanted = self._version_id if wanted == _LAST else self._versions.get(wanted, wanted)
        if wanted not in {one["version-id"] for one in self.metadata["versions"]}:
            raise InvalidInput(f"the view has no version {wanted}", remedy="Add it first.")
        self.metadata["current-version-id"] = wanted
        entry = {"timestamp-ms": self._now, "version-id": wanted}
        self.metadata["version-log"] = [*self.metadata.get("version-log", []), entry]


def _dumped(metadata: ViewMetadata) -> dict[str, Any]:
    made: dict[str, Any] = metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made
