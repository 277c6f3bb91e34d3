"""The columns of a table: as Lance keeps them, a list of fields depth first, and as an Arrow schema."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import pyarrow as pa

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import logical_types
from seiche.table.format.arrow_export import exported_metadata
from seiche.table.format.fields import BLOB, SYSTEM_COLUMNS, path_of
from seiche.table.format.manifest_pb2 import Field

__all__ = ["check_names", "from_arrow", "metadata_from_arrow", "to_arrow", "writable_fields"]

_EXTENSION_NAME = "ARROW:extension:name"
_BLOB = "lance-encoding:blob"
_ARROW_JSON, _LANCE_JSON = "arrow.json", "lance.json"
_PRIMARY_KEY = "lance-schema:unenforced-primary-key"
_CLUSTERING_KEY = "lance-schema:unenforced-clustering-key"

_FIXED_LIST_OF_STRUCTS = f"{logical_types.FIXED_SIZE_LIST}struct:"
_FIXED_LIST_OF_TEXTS = re.compile(rf"({logical_types.FIXED_SIZE_LIST})+((large_)?(string|binary)|dict):")
_PLAIN, _VAR_BINARY, _DICTIONARY = 1, 2, 3
_VAR_BINARY_TYPES = frozenset({"string", "large_string", "binary", "large_binary", "json"})
# What Arrow itself can read back; nobody nests deeper on purpose.
_MOST_NESTING = 60
_DAMAGED = "The manifest is damaged. Restore the file from a copy, or open an older version."


def from_arrow(schema: pa.Schema, *, first_id: int = 0, data_version: str = "2.2") -> list[Field]:
    """The fields that pylance writes for this schema, with ids from `first_id` on in depth-first order.

    A type that Lance does not have, or a name that it keeps for itself, is `InvalidInput`. From data version 2.2 on,
    columns that are marked as blobs in the old way become the new kind of blob.
    """
    given: object = schema
    if not isinstance(given, pa.Schema):
        shown = given if given is None else f"a {type(given).__name__}"  # rows, by mistake, may be many
        remedy = 'Give pa.schema([("id", pa.int64()), ...]); of rows in Arrow it is `rows.schema`. Append them then.'
        raise InvalidInput(f"{shown} is not an Arrow schema", remedy=remedy)
    check_names(schema)
    modern_blobs = tuple(map(int, data_version.split("."))) >= (2, 2)
    fields: list[Field] = []
    for column in schema:
        if "." in column.name:
            raise InvalidInput(
                f"column {column.name!r} has a dot in its name", remedy="Rename it, or make it a field of a struct."
            )
        if column.name in ("", "*"):
            said = "has no name" if not column.name else "is called '*', which means all columns"
            raise InvalidInput(f"a column {said}", remedy="Give it another name.")
        if column.name in SYSTEM_COLUMNS:
            raise InvalidInput(
                f"column {column.name!r} has a name that Lance gives to what it knows of each row", remedy="Rename it."
            )
        _add(fields, column, -1, column.name, modern_blobs)
    for offset, field in enumerate(fields):
        field.id = first_id + offset
        field.parent_id += first_id if field.parent_id >= 0 else 0
    return fields


def check_names(schema: pa.Schema) -> None:
    """`InvalidInput` if the name of a column, or of something inside of one, is not UTF-8, as Arrow's readers of files
    let through: whoever asks for such a name gets an error of Python's.
    """
    waiting = list(schema)
    while waiting:
        field = waiting.pop()
        try:
            _ = field.name
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"a column, or something inside of one, is called {error.object!r}, which is not UTF-8",
                remedy="Rename it, or have the file that it is from written in UTF-8.",
            ) from error
        kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
        waiting.extend(kind.field(index) for index in range(kind.num_fields))


def writable_fields(schema: pa.Schema, *, first_id: int = 0, data_version: str = "2.2") -> list[Field]:
    """`from_arrow` for columns that rows are to be written to; those that could never be read are `InvalidInput`."""
    fields = from_arrow(schema, first_id=first_id, data_version=data_version)
    if len(set(schema.names)) < len(schema.names):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise InvalidInput(f"two columns are named {twice!r}", remedy="Give each a name of its own.", column=twice)
    for field in fields:
        # A NUL ends names where rows go from native code to Arrow: of an outer one the process dies. And no scan finds
        # a column that has a backtick, not even one of all columns.
        if "\0" in field.name or ("`" in field.name and field.parent_id == -1):
            raise InvalidInput(
                f"column {path_of(fields, field.id)!r} has a character in its name with which nobody could read it",
                remedy="Rename it, without backticks and NULs.",
                column=field.name,
            )
        # Native code writes them, into columns of more rows than the others have, and then reads none of these rows.
        if field.logical_type.startswith(_FIXED_LIST_OF_STRUCTS):
            raise InvalidInput(
                f"column {path_of(fields, field.id)!r} is a fixed-size list of structs, which pylance writes but cannot"
                " read",
                remedy="Make it a list of any length, `pa.list_(...)` without a size.",
            )
        # Native code panics at every row of them.
        if _FIXED_LIST_OF_TEXTS.match(field.logical_type):
            raise InvalidInput(
                f"column {path_of(fields, field.id)!r} is a fixed-size list of texts, bytes or dictionaries, which"
                " pylance cannot write",
                remedy="Make it a list of any length, `pa.list_(...)` without a size.",
            )
    return fields


def metadata_from_arrow(schema: pa.Schema) -> dict[str, bytes]:
    """The schema's own metadata in the form that a manifest keeps."""
    return _checked(schema.metadata or {})


def to_arrow(fields: Iterable[Field], metadata: Mapping[str, bytes] | None = None) -> pa.Schema:
    """The Arrow schema that pylance shows for these fields; fields that make no sense are `Corrupt`."""
    listed = list(fields)
    if metadata or any(field.metadata for field in listed):
        return _to_arrow(listed, metadata)
    # Every statement on a table asks for it, and it hardly ever changes. What metadata say depends on more than them.
    return _plain_schema(tuple(field.SerializeToString() for field in listed))


@lru_cache(maxsize=256)
def _plain_schema(encoded: tuple[bytes, ...]) -> pa.Schema:
    return _to_arrow(map(Field.FromString, encoded), None)


def _to_arrow(fields: Iterable[Field], metadata: Mapping[str, bytes] | None) -> pa.Schema:
    below: dict[int, list[Field]] = {}
    for field in fields:
        below.setdefault(field.parent_id, []).append(field)
    columns = [_arrow_field(field, below, field.name, 0) for field in below.get(-1, [])]
    schema = pa.schema(columns, metadata=dict(metadata) if metadata else None)
    # Reading a stored schema is what turns extension metadata into the registered types.
    return pa.ipc.read_schema(pa.py_buffer(schema.serialize()))


def _add(fields: list[Field], arrow: pa.Field, parent: int, where: str, modern_blobs: bool) -> None:
    if where.count(".") > _MOST_NESTING:
        raise InvalidInput(
            f"column {where.partition('.')[0]!r} is nested more than {_MOST_NESTING} levels deep",
            remedy="Flatten it into several columns, or store it as JSON (`pa.json_()`).",
        )
    metadata = _checked(_metadata(arrow))
    kind = arrow.type.storage_type if isinstance(arrow.type, pa.BaseExtensionType) else arrow.type
    if _BLOB in metadata and modern_blobs:
        del metadata[_BLOB]
        metadata[_EXTENSION_NAME] = BLOB.encode()
        kind = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
    is_json = metadata.get(_EXTENSION_NAME) == _ARROW_JSON.encode()
    if is_json:
        metadata[_EXTENSION_NAME] = _LANCE_JSON.encode()
    name = "json" if is_json else _logical_type(kind, where)
    field = Field(
        name=arrow.name,
        parent_id=parent,
        logical_type=name,
        nullable=arrow.nullable,
        encoding=_encoding(name),
        metadata=metadata,
        extension_name=_text(metadata.get(_EXTENSION_NAME, b"")),
    )
    _mark_keys(field, metadata)
    fields.append(field)
    own = len(fields) - 1
    for child in _arrow_children(kind):
        _add(fields, child, own, f"{where}.{child.name}", modern_blobs)


def _logical_type(kind: pa.DataType, where: str) -> str:
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_list(kind):
        return "list.struct" if pa.types.is_struct(kind.value_type) else "list"
    if pa.types.is_large_list(kind):
        return "large_list.struct" if pa.types.is_struct(kind.value_type) else "large_list"
    if pa.types.is_map(kind):
        if kind.keys_sorted:
            raise InvalidInput(
                f"column {where!r} is a map with sorted keys, which Lance does not have",
                remedy="Declare the map without sorted keys.",
            )
        return "map"
    return logical_types.from_arrow(kind, where=where)


def _arrow_children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.value_field]
    if pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type):
        return [kind.value_field]
    if pa.types.is_map(kind):
        return [pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)]
    return []


def _encoding(name: str) -> int:
    if name in ("struct", "null"):
        return 0
    if name in _VAR_BINARY_TYPES:
        return _VAR_BINARY
    return _DICTIONARY if logical_types.is_dictionary(name) else _PLAIN


def _mark_keys(field: Field, metadata: Mapping[str, bytes]) -> None:
    position = _position(metadata, _PRIMARY_KEY)
    declared = metadata.get(_PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes")
    if declared or position is not None:
        field.unenforced_primary_key = True
        field.unenforced_primary_key_position = position or 0
    field.unenforced_clustering_key_position = _position(metadata, _CLUSTERING_KEY) or 0


def _position(metadata: Mapping[str, bytes], key: str) -> int | None:
    stated = metadata.get(f"{key}:position", b"")
    return int(stated) if stated.isdigit() and int(stated) < 1 << 32 else None


def _arrow_field(field: Field, below: Mapping[int, Sequence[Field]], where: str, depth: int) -> pa.Field:
    if depth > _MOST_NESTING:
        raise Corrupt(
            f"the fields of the schema are nested more than {_MOST_NESTING} levels deep, or in a circle",
            remedy=_DAMAGED,
        )
    inside = [_arrow_field(child, below, f"{where}.{child.name}", depth + 1) for child in below.get(field.id, [])]
    metadata = dict(field.metadata)
    if field.extension_name == _LANCE_JSON:
        metadata[_EXTENSION_NAME] = _ARROW_JSON.encode()
    return pa.field(field.name, _arrow_type(field, inside, where), nullable=field.nullable, metadata=metadata or None)


def _arrow_type(field: Field, inside: Sequence[pa.Field], where: str) -> pa.DataType:
    name = field.logical_type
    if name == "struct":
        return pa.struct(inside)
    if name == "json":
        return pa.string()
    if logical_types.is_list(name):
        (item,) = _exactly(inside, 1, where)
        return pa.large_list(item) if name.startswith("large") else pa.list_(item)
    if name == "map":
        (entries,) = _exactly(inside, 1, where)
        key, value = _exactly(list(entries.type) if pa.types.is_struct(entries.type) else [], 2, where)
        return pa.map_(key.with_nullable(False), value)
    if name.startswith(f"{logical_types.FIXED_SIZE_LIST}struct:"):
        (item,) = _exactly(inside, 1, where)
        size = name.rpartition(":")[2]
        if size.isdigit() and int(size) < 1 << 31:
            return pa.list_(item, int(size))
    return logical_types.to_arrow(name, where=where)


def _exactly(inside: Sequence[pa.Field], count: int, where: str) -> Sequence[pa.Field]:
    if len(inside) != count:
        raise Corrupt(f"field {where!r} has {len(inside)} fields inside it, expected {count}", remedy=_DAMAGED)
    return inside


def _metadata(arrow: pa.Field) -> dict[bytes, bytes]:
    """The field's metadata, with the marks that make a registered extension type what it is."""
    own = dict(arrow.metadata or {})
    if isinstance(arrow.type, pa.BaseExtensionType):
        # Python has no way to ask a built-in extension type for its parameters; the C interface passes them on.
        own.update(exported_metadata(arrow))
    return own


def _checked(metadata: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """Metadata with keys as text. Values must be text as well: pylance takes nothing else in."""
    return {_text(key): _text(value).encode() for key, value in metadata.items()}


def _text(data: bytes) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"metadata {data!r} is not text in UTF-8",
            remedy="Write bytes as text, for instance with `base64.b64encode(value)`.",
        ) from error
