"""What bodies of the Iceberg REST protocol look like, as far as this server promises it."""

from typing import Any, Final

from seiche.gateway.http.openapi import query

__all__ = ["PAGES", "SCHEMAS", "ref"]

PAGES: Final = (query("pageToken"), query("pageSize", {"type": "integer", "minimum": 1}))

_TEXT: Final = {"type": "string"}
_NAME: Final = {"type": "string", "minLength": 1}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_LEVELS: Final = {"type": "array", "items": _NAME, "minItems": 1}
_OBJECT: Final = {"type": "object"}
_LIST: Final = {"type": "array", "items": _OBJECT}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): schema for name, schema in properties.items()}
    return {"type": "object", "required": required.split(), "properties": named}


_IDENTIFIER: Final = _object("namespace name", namespace=_LEVELS, name=_NAME, format=_TEXT)

SCHEMAS: Final[dict[str, Any]] = {
    "Config": _object(
        "defaults overrides", defaults=_TEXTS, overrides=_TEXTS, endpoints={"type": "array", "items": _TEXT}
    ),
    "Token": _object("access_token token_type", access_token=_TEXT, token_type=_TEXT, expires_in={"type": "integer"}),
    "Namespace": _object("namespace", namespace=_LEVELS, properties=_TEXTS),
    "NewNamespace": _object("namespace", namespace=_LEVELS, properties=_TEXTS),
    "Namespaces": _object("namespaces", namespaces={"type": "array", "items": _LEVELS}, next_page_token=_TEXT),
    "PropertyChanges": _object("", removals={"type": "array", "items": _NAME}, updates=_TEXTS),
    "PropertiesChanged": _object(
        "updated removed",
        updated={"type": "array", "items": _TEXT},
        removed={"type": "array", "items": _TEXT},
        missing={"type": "array", "items": _TEXT},
    ),
    "Identifiers": _object("identifiers", identifiers={"type": "array", "items": _IDENTIFIER}, next_page_token=_TEXT),
    "NewTable": _object(
        "name schema",
        name=_NAME,
        schema=_OBJECT,
        location=_TEXT,
        partition_spec=_OBJECT,
        write_order=_OBJECT,
        stage_create={"type": "boolean"},
        properties=_TEXTS,
    ),
    "Table": _object("metadata", metadata_location=_TEXT, metadata=_OBJECT, config=_TEXTS, storage_credentials=_LIST),
    "Commit": _object("requirements updates", identifier=_IDENTIFIER, requirements=_LIST, updates=_LIST),
    "Committed": _object("metadata-location metadata", metadata_location=_TEXT, metadata=_OBJECT),
    "Changes": _object("table-changes", table_changes={"type": "array", "items": ref("Commit"), "minItems": 1}),
    "Registration": _object(
        "name metadata-location", name=_NAME, metadata_location=_TEXT, overwrite={"type": "boolean"}
    ),
    "Functions": _object("identifiers", identifiers={"type": "array", "items": _LEVELS}, next_page_token=_TEXT),
    "Rename": _object("source destination", source=_IDENTIFIER, destination=_IDENTIFIER),
    "StorageCredentials": _object("storage-credentials", storage_credentials=_LIST),
    "NewView": _object(
        "name schema view-version properties",
        name=_NAME,
        schema=_OBJECT,
        view_version=_OBJECT,
        properties=_TEXTS,
        location=_TEXT,
    ),
    "ViewCommit": _object("updates", identifier=_IDENTIFIER, requirements=_LIST, updates=_LIST),
    "View": _object("metadata-location metadata", metadata_location=_TEXT, metadata=_OBJECT, config=_TEXTS),
    "Anything": _OBJECT,
}
