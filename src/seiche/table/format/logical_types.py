"""Names of column types as Lance stores them, and the Arrow types they stand for."""

import re
from typing import Final

import pyarrow as pa

from seiche.errors import Corrupt, InvalidInput

__all__ = ["BFLOAT16", "BFLOAT16_BYTES", "FIXED_SIZE_LIST", "from_arrow", "is_dictionary", "is_list", "to_arrow"]

_UNITS = ("s", "ms", "us", "ns")
BFLOAT16: Final = "lance.bfloat16"
BFLOAT16_BYTES: Final = 2
FIXED_SIZE_LIST: Final = "fixed_size_list:"

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    **{f"time32:{unit}": pa.time32(unit) for unit in ("s", "ms")},
    **{f"time64:{unit}": pa.time64(unit) for unit in ("us", "ns")},
    **{f"duration:{unit}": pa.duration(unit) for unit in _UNITS},
    **{f"timestamp:{unit}:-": pa.timestamp(unit) for unit in _UNITS},
}
# Stored as the ordinary type: views are a form in memory.
_NAMES: dict[pa.DataType, str] = {
    **{arrow: name for name, arrow in _SIMPLE.items()},
    pa.string_view(): "string",
    pa.binary_view(): "binary",
}
_INDEX_TYPES = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})

_TIMESTAMP = re.compile(r"timestamp:(s|ms|us|ns):(.+)")
_DECIMAL = re.compile(r"decimal:(128|256):(\d{1,2}):(-?\d{1,3})")
_FIXED_BINARY = re.compile(r"fixed_size_binary:(\d{1,9})")
_DICTIONARY = re.compile(r"dict:([a-z_0-9]+):([a-z0-9]+):(?:true|false)")
_FIXED_LIST = re.compile(r"fixed_size_list:(.+):([1-9]\d{0,8})")
# Lists inside lists make names long; longer than this is a name made to exhaust the stack.
_LONGEST = 1000
_SUPPORTED = (
    "Use booleans, integers, floats, decimals of 128 or 256 bits, strings, binaries, dates, times, timestamps,"
    " durations, dictionaries of plain values, structs, lists, fixed-size lists or maps."
)


def from_arrow(arrow: pa.DataType, *, where: str) -> str:
    """The stored name of a type without child fields of its own; one that Lance does not have is `InvalidInput`."""
    name = _NAMES.get(arrow)
    if name is not None:
        return name
    if pa.types.is_timestamp(arrow):
        return f"timestamp:{arrow.unit}:{arrow.tz or '-'}"
    if pa.types.is_decimal128(arrow) or pa.types.is_decimal256(arrow):
        return f"decimal:{arrow.bit_width}:{arrow.precision}:{arrow.scale}"
    if pa.types.is_fixed_size_binary(arrow):
        return f"fixed_size_binary:{arrow.byte_width}"
    if pa.types.is_dictionary(arrow):
        return _dictionary_name(arrow, where)
    if pa.types.is_fixed_size_list(arrow):
        return f"{FIXED_SIZE_LIST}{_item_name(arrow, where)}:{arrow.list_size}"
    raise InvalidInput(f"column {where!r} has the type {arrow}, which Lance does not have", remedy=_SUPPORTED)


def _dictionary_name(arrow: pa.DataType, where: str) -> str:
    value = from_arrow(arrow.value_type, where=where)
    if ":" in value:
        raise InvalidInput(
            f"column {where!r} has the type {arrow}; Lance has no dictionaries of {arrow.value_type}",
            remedy="Store the column without a dictionary.",
        )
    return f"dict:{value}:{from_arrow(arrow.index_type, where=where)}:false"


def _item_name(arrow: pa.DataType, where: str) -> str:
    item = arrow.value_type
    if not arrow.list_size:
        raise InvalidInput(f"column {where!r} is a fixed-size list of no items", remedy="Give it at least one item.")
    if isinstance(item, pa.BaseExtensionType):
        # Of the items only the storage is kept, except for this one, whose storage means nothing to readers.
        return BFLOAT16 if item.extension_name == BFLOAT16 else from_arrow(item.storage_type, where=where)
    if pa.types.is_fixed_size_list(item) and pa.types.is_struct(item.value_type):
        raise InvalidInput(
            f"column {where!r} nests fixed-size lists of structs, which Lance does not have",
            remedy="Make the outer list one of any length, `pa.list_(...)` without a size.",
        )
    return "struct" if pa.types.is_struct(item) else from_arrow(item, where=where)


def is_dictionary(name: str) -> bool:
    """Whether values of the type are written down as numbers into a list of values."""
    return name.startswith("dict:")


def is_list(name: str) -> bool:
    """Whether values of the type are lists of any length, whose items are a child field."""
    return name in ("list", "list.struct", "large_list", "large_list.struct")


def to_arrow(name: str, *, where: str) -> pa.DataType:
    """The Arrow type of a stored name, for types without child fields; any other name is `Corrupt`."""
    simple = _SIMPLE.get(name)
    if simple is not None:
        return simple
    if len(name) > _LONGEST:
        raise _unknown(name[:100] + "...", where)
    if match := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(match[1], tz=match[2])
    if match := _DECIMAL.fullmatch(name):
        return _decimal(int(match[1]), int(match[2]), int(match[3]), name, where)
    if match := _FIXED_BINARY.fullmatch(name):
        return pa.binary(int(match[1]))
    if match := _DICTIONARY.fullmatch(name):
        if match[1] in _SIMPLE and match[2] in _INDEX_TYPES:
            return pa.dictionary(_SIMPLE[match[2]], _SIMPLE[match[1]])
    elif match := _FIXED_LIST.fullmatch(name):
        return pa.list_(_item_field(match[1], where), int(match[2]))
    raise _unknown(name, where)


def _item_field(name: str, where: str) -> pa.Field:
    if name == BFLOAT16:
        # Readers give the item its type back by this metadata.
        marks = {"ARROW:extension:name": BFLOAT16, "ARROW:extension:metadata": ""}
        return pa.field("item", pa.binary(BFLOAT16_BYTES), metadata=marks)
    return pa.field("item", to_arrow(name, where=where))


def _decimal(bits: int, precision: int, scale: int, name: str, where: str) -> pa.DataType:
    try:
        return (pa.decimal128 if bits == 128 else pa.decimal256)(precision, scale)
    except ValueError as error:
        raise _unknown(name, where) from error


def _unknown(name: str, where: str) -> Corrupt:
    return Corrupt(
        f"field {where!r} has the type {name!r}, which is not one of Lance's",
        remedy="A newer writer made it, or the manifest is damaged. Use a newer Seiche, or open an older version.",
    )
