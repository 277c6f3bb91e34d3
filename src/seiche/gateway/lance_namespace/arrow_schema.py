"""Arrow schemas in the JSON of the Lance Namespace protocol."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["schema_json"]

# What pyarrow calls a type, and what the protocol does; the others have the same name in both.
_NAMES: Final = {
    "string": "utf8",
    "large_string": "large_utf8",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
}


def schema_json(schema: "pa.Schema") -> dict[str, Any]:
    """A schema: clients such as DuckDB show tables without columns if they are not told."""
    return {"fields": [_field(field) for field in schema], "metadata": _metadata(schema.metadata)}


def _field(field: "pa.Field") -> dict[str, Any]:
    made: dict[str, Any] = {"name": field.name, "nullable": field.nullable, "type": _type(field.type)}
    if field.metadata:
        made["metadata"] = _metadata(field.metadata)
    return made


def _type(kind: "pa.DataType") -> dict[str, Any]:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(index)) for index in range(kind.num_fields)]}
    if pa.types.is_fixed_size_list(kind):
        return {"type": "fixed_size_list", "length": kind.list_size, "fields": [_field(kind.value_field)]}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        name = "large_list" if pa.types.is_large_list(kind) else "list"
        return {"type": name, "fields": [_field(kind.value_field)]}
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    text = str(kind)
    return {"type": _NAMES.get(text, text)}


def _metadata(metadata: Any) -> dict[str, str]:
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in (metadata or {}).items()}
