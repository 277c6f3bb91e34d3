"""Which Arrow types fit into which without losing anything."""

import pyarrow as pa
import pyarrow.types as kinds

from seiche.table.data.blobs import is_binary, is_blob

__all__ = ["fits", "is_list", "is_text", "left_out"]

_UNITS = ("s", "ms", "us", "ns")


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of the one type is a value of the other. Lengths of lists are seen only in the values."""
    if is_blob(wanted) and (is_blob(given) or is_binary(given)):
        return True
    given, wanted = _plain(given), _plain(wanted)
    if given == wanted or kinds.is_null(given):
        return True
    if kinds.is_dictionary(given):
        return fits(given.value_type, wanted)
    if kinds.is_dictionary(wanted):
        return fits(given, wanted.value_type)
    return any(rule(given, wanted) for rule in (_texts, _numbers, _decimals, _times, _lists, _structs, _maps))


def left_out(given: pa.DataType, wanted: pa.DataType) -> str | None:
    """What a struct, or one inside of the type, has and that of the other type has not, if there is anything.

    Arrow's casts go by names there, and leave it out in silence.
    """
    given, wanted = _plain(given), _plain(wanted)
    if kinds.is_struct(given) and kinds.is_struct(wanted):
        inside = {field.name: field.type for field in wanted}
        for field in given:
            if field.name not in inside:
                return str(field.name)
            if lost := left_out(field.type, inside[field.name]):
                return f"{field.name}.{lost}"
    if kinds.is_map(given) and kinds.is_map(wanted):
        return left_out(given.item_type, wanted.item_type)
    return left_out(given.value_type, wanted.value_type) if is_list(given) and is_list(wanted) else None


def is_list(kind: pa.DataType) -> bool:
    """Whether its values are lists, in whichever of Arrow's ways."""
    plain = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    return bool(plain or kinds.is_list_view(kind) or kinds.is_large_list_view(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether its values are texts, in whichever of Arrow's ways."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _texts(given: pa.DataType, wanted: pa.DataType) -> bool:
    if is_text(given):
        return is_text(wanted)
    return (is_binary(given) or kinds.is_fixed_size_binary(given)) and is_binary(wanted)


def _numbers(given: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_integer(given) and kinds.is_integer(wanted):
        if kinds.is_signed_integer(given) == kinds.is_signed_integer(wanted):
            return bool(given.bit_width <= wanted.bit_width)
        return bool(kinds.is_unsigned_integer(given) and given.bit_width < wanted.bit_width)
    if kinds.is_floating(given) and kinds.is_floating(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    # A float of 64 bits counts every integer of 53 bits, one of 32 bits every one of 24.
    return bool(kinds.is_integer(given) and kinds.is_floating(wanted) and given.bit_width * 2 <= wanted.bit_width)


def _decimals(given: pa.DataType, wanted: pa.DataType) -> bool:
    if not (kinds.is_decimal(given) and kinds.is_decimal(wanted)):
        return False
    more_digits = wanted.precision - wanted.scale >= given.precision - given.scale
    return bool(more_digits and wanted.scale >= given.scale)


def _times(given: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_date(given):
        return bool(kinds.is_date32(given) and kinds.is_date(wanted))
    if kinds.is_timestamp(given):
        # Without a time zone it is not known which moment is meant.
        return kinds.is_timestamp(wanted) and (given.tz is None) == (wanted.tz is None) and _finer(given, wanted)
    for is_kind in (kinds.is_time, kinds.is_duration):
        if is_kind(given):
            return is_kind(wanted) and _finer(given, wanted)
    return False


def _finer(given: pa.DataType, wanted: pa.DataType) -> bool:
    return _UNITS.index(given.unit) <= _UNITS.index(wanted.unit)


def _lists(given: pa.DataType, wanted: pa.DataType) -> bool:
    if not (is_list(given) and is_list(wanted)):
        return False
    same_length = not kinds.is_fixed_size_list(given) or not kinds.is_fixed_size_list(wanted)
    return (same_length or given.list_size == wanted.list_size) and fits(given.value_type, wanted.value_type)


def _structs(given: pa.DataType, wanted: pa.DataType) -> bool:
    if not (kinds.is_struct(given) and kinds.is_struct(wanted)):
        return False
    inside = {field.name: field for field in wanted}
    named = [field.name for field in given]
    return (
        len(set(named)) == len(named)
        and all(field.name in inside and fits(field.type, inside[field.name].type) for field in given)
        and all(field.nullable or field.name in named for field in wanted)
    )


def _maps(given: pa.DataType, wanted: pa.DataType) -> bool:
    if not (kinds.is_map(given) and kinds.is_map(wanted)):
        return False
    return fits(given.key_type, wanted.key_type) and fits(given.item_type, wanted.item_type)
