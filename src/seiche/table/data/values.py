"""Python values as Arrow arrays, without losing any of them on the way."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from datetime import datetime, time
from numbers import Integral, Number
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from seiche.table.data.blobs import is_blob, made_blobs
from seiche.table.data.fitting import is_list, is_text

__all__ = ["array_of", "check_infinity", "check_kept", "decoded", "shortened", "spelled", "typed"]

# As Arrow reads it in texts.
_INFINITE = "(?i)^[+-]?inf(inity)?$"


def typed(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """The values as an array of a type, or of the one that Arrow finds; `pa.ArrowInvalid` if they do not fit.

    Arrow by itself cuts fractions off in silence where whole numbers or seconds are asked for, and hours where days
    are, makes infinity of a number that is too large for a short float, a list of letters of a text, and drops members
    that a struct has no field for. Here that is an error.
    """
    once: object = values
    if not isinstance(once, Sized):  # such as a generator, which can be gone through once
        values = list(values)
    if kind is not None and is_blob(kind):
        return made_blobs(values, kind)
    if getattr(values, "ndim", 1) == 2:  # vectors, one below the other
        values = list(values)
    if getattr(values, "dtype", "object") != "object":  # an array of NumPy or a column of pandas, all of one type
        made = array_of(values, kind)
        if kind is not None and not kinds.is_unicode(kind):
            check_kept(pa.array(values), made)
        return made
    if kind is not None and kinds.is_temporal(kind):
        # What pandas puts where there is no time. Arrow takes it for a day of the year 1.
        values = [None if _is_none(value) else value for value in values]
    made = array_of(values, kind)
    _check_parts(values, made.type if kind is None else kind)  # the one that Arrow finds may be that of the first value
    if kind is None or not (_can_cut_off(kind) or _infinities(made, short=True)):
        return made
    if kinds.is_integer(kind) and all(type(value) is int or value is None for value in values):
        return made
    try:
        given = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Of several types, which only the wanted one brings together.
        if kinds.is_integer(kind) and made.to_pylist() != list(values):
            raise
        return made
    check_kept(given, made)
    return made


def array_of(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """As Arrow's own, which makes no arrays of types such as uuids inside of others: it casts to them."""
    if kind is None or not _has_inside(kind):
        return pa.array(values, kind)
    return pa.array(values, _stored(kind)).cast(kind)


def _is_none(value: Any) -> bool:
    return value is not None and bool(value != value)  # noqa: PLR0124 - nothing else differs from itself


def check_kept(given: pa.Array | pa.ChunkedArray, made: pa.Array | pa.ChunkedArray, *, counted: bool = False) -> None:
    """`pa.ArrowInvalid` if a value had more to it before it was made one of another type, or was something else.

    Times may become numbers only if they are to be `counted`: of what, their type says, and not the number.
    """
    if given.type == made.type:
        return
    for chunk in given.chunks if isinstance(given, pa.ChunkedArray) else [given]:
        _check(decoded(chunk), made.type, counted)
    check_infinity(given, made)


def decoded(values: pa.Array) -> pa.Array:
    """The values themselves, if they stand in a dictionary, also in one of views, as the categories of Polars are:
    Arrow does not take these out of one.
    """
    if not kinds.is_dictionary(values.type):
        return values
    known = values.dictionary
    if kinds.is_string_view(known.type) or kinds.is_binary_view(known.type):
        known = known.cast(pa.large_string() if kinds.is_string_view(known.type) else pa.large_binary())
    return known.take(values.indices)


def spelled(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Decimals as texts where floats are wanted, also inside of others. Arrow makes the nearest float of a text, but
    0.8200000000000001 of the decimal 0.82.
    """
    kind = _spelled(values.type, wanted)
    return values if kind == values.type else values.cast(kind)


def _spelled(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if kinds.is_decimal(given) and kinds.is_floating(wanted):
        return pa.string()
    if kinds.is_struct(given) and kinds.is_struct(wanted):
        inside = {field.name: field.type for field in wanted}
        return pa.struct([one.with_type(_spelled(one.type, inside.get(one.name, one.type))) for one in given])
    if kinds.is_map(given) and kinds.is_map(wanted):
        key, item = _spelled(given.key_type, wanted.key_type), _spelled(given.item_type, wanted.item_type)
        return pa.map_(given.key_field.with_type(key), given.item_field.with_type(item), keys_sorted=given.keys_sorted)
    if is_list(given) and is_list(wanted):
        kind = _spelled(given.value_type, wanted.value_type)
        if kind == given.value_type:
            return given
        item = given.value_field.with_type(kind)
        return pa.list_(item, given.list_size) if kinds.is_fixed_size_list(given) else pa.large_list(item)
    return given


def shortened(given: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values under another type, floats rounded to what it can say; `pa.ArrowInvalid` if one does not fit."""
    made = given.cast(kind)
    check_infinity(given, made)
    return made


def _check_parts(values: Iterable[Any], kind: pa.DataType) -> None:
    """`pa.ArrowInvalid` if a value has something that its struct, map or time has no room for, or is a text where a
    list is wanted.
    """
    if kinds.is_temporal(kind) and not kinds.is_interval(kind):
        _check_times(values, kind)
    if kinds.is_float16(kind):
        _check_whole(pa.array((int(value) for value in values if isinstance(value, Integral)), pa.int64()))
    if not kinds.is_nested(kind):
        return
    # Neither nulls nor what pandas puts in their place.
    there = [value for value in values if hasattr(value, "__iter__") and getattr(value, "is_valid", True)]
    if (text := next((value for value in there if isinstance(value, str)), None)) is not None:
        raise pa.ArrowInvalid(f"the text {text!r} is not {kind}")
    if kinds.is_struct(kind):
        names = [field.name for field in kind]
        given = [_members(value, names) for value in there]
        unknown = next((name for value in given for name in value if name not in names), None)
        if unknown is not None:
            raise pa.ArrowInvalid(f"a value has {unknown!r}, which {kind} does not have")
        for field in kind:
            _check_parts((value.get(field.name) for value in given), field.type)
    elif kinds.is_map(kind):
        pairs = [pair for value in there for pair in _pairs(value)]
        typed([key for key, _ in pairs], kind.key_type)
        typed([item for _, item in pairs], kind.item_type)
    elif _has_parts(inside := getattr(kind, "value_type", pa.null())):
        _check_parts((one for value in there for one in value), inside)


def _has_parts(kind: pa.DataType) -> bool:
    return bool(kinds.is_nested(kind) or kinds.is_temporal(kind) or kinds.is_float16(kind))


def _members(value: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """What is in a struct, which Arrow takes in three forms."""
    if isinstance(value, Mapping):
        return value
    return dict(zip(names, value, strict=False) if isinstance(value, tuple) else value)


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """What is in a map, which may be one of Arrow's own."""
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    return plain.items() if isinstance(plain, Mapping) else plain


def _check_times(values: Iterable[Any], kind: pa.DataType) -> None:
    """`pa.ArrowInvalid` for what Arrow would cut off: a fraction of whatever is counted, hours, or the nanoseconds of
    pandas, whose times Arrow takes for those that they are derived from.
    """
    is_date = kinds.is_date(kind)
    is_coarse = is_date or kind.unit != "ns"
    for value in values:
        if isinstance(value, Number) and not isinstance(value, Integral) and not _is_none(value):
            raise pa.ArrowInvalid(f"{value} is not {kind}")
        if is_date and isinstance(value, datetime) and not (value.tzinfo is None and value.time() == time.min):
            raise pa.ArrowInvalid(f"{value} is not a day")
        if is_coarse and (getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)):
            raise pa.ArrowInvalid(f"{value} has nanoseconds, {kind} has none")


def _check_whole(whole: pa.Array) -> None:
    """`pa.ArrowInvalid` for a whole number that a short float would round: Arrow refuses that only of longer ones."""
    kept = whole.cast(pa.float16()).cast(pa.float32())
    if not pc.all(pc.equal(kept, whole.cast(pa.float32())), min_count=0).as_py():
        raise pa.ArrowInvalid("a whole number has more digits than halffloat can say")


def _has_inside(kind: pa.DataType) -> bool:
    """Whether something inside of the type is one that extends Arrow's own."""
    if not kinds.is_nested(kind):
        return False
    parts = [kind.field(index).type for index in range(kind.num_fields)]
    return any(isinstance(one, pa.BaseExtensionType) or _has_inside(one) for one in parts)


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type under which values are kept, all the way down."""
    if isinstance(kind, pa.BaseExtensionType):
        return _stored(kind.storage_type)
    if kinds.is_struct(kind):
        return pa.struct([one.with_type(_stored(one.type)) for one in kind])
    if kinds.is_map(kind):
        key, item = (one.with_type(_stored(one.type)) for one in (kind.key_field, kind.item_field))
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if kinds.is_list(kind) or kinds.is_fixed_size_list(kind):
        size = kind.list_size if kinds.is_fixed_size_list(kind) else -1
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)), size)
    if kinds.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_stored(kind.value_type)))
    return kind


def _can_cut_off(kind: pa.DataType) -> bool:
    """Whether values of this type, or something inside of them, have a last digit."""
    if kinds.is_nested(kind):
        return any(_can_cut_off(kind.field(index).type) for index in range(kind.num_fields))
    return any(check(kind) for check in (kinds.is_integer, kinds.is_timestamp, kinds.is_time, kinds.is_duration))


def _check(given: pa.Array, wanted: pa.DataType, counted: bool) -> None:
    """`pa.ArrowInvalid` if a value has more to it than the wanted type can say."""
    kind = given.type
    if kinds.is_struct(kind) and kinds.is_struct(wanted):
        for field in wanted:
            if kind.get_field_index(field.name) >= 0:
                _check(given.field(field.name), field.type, counted)
    elif is_list(kind) and is_list(wanted):
        _check(given.flatten(), wanted.value_type, counted)
    elif kinds.is_map(kind) and kinds.is_map(wanted):
        _check(given.items, wanted.item_type, counted)
    elif _is_counted_finer(kind, wanted):
        given.cast(wanted)
    elif kinds.is_float16(wanted) and kinds.is_integer(kind):
        _check_whole(given)
    elif kinds.is_timestamp(wanted) and kinds.is_timestamp(kind):
        given.cast(pa.timestamp(wanted.unit, kind.tz))
    elif _falls_into_letters(kind, wanted) or _loses_its_day(kind, wanted) or (not counted and _counts(kind, wanted)):
        raise pa.ArrowInvalid(f"what is {kind} is not {wanted}")
    elif (kinds.is_timestamp(kind) and kinds.is_date(wanted)) or (kinds.is_boolean(wanted) and _is_number(kind)):
        back = given.cast(wanted).cast(kind)
        if not pc.all(pc.equal(back, given), min_count=0).as_py():
            raise pa.ArrowInvalid(f"a value has more to it than {wanted} can say")


def _is_counted_finer(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether there may be fractions of what the other type counts: those Arrow's own cast refuses."""
    if kinds.is_integer(wanted):
        return _has_fractions(given)
    return any(is_kind(given) and is_kind(wanted) for is_kind in (kinds.is_time, kinds.is_duration))


def _falls_into_letters(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(kinds.is_unicode(given)) and bool(kinds.is_nested(wanted))


def _loses_its_day(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow takes the hours of a time without the day, or the day that it was then elsewhere."""
    in_zone = kinds.is_timestamp(given) and given.tz is not None
    return bool(kinds.is_timestamp(given) and kinds.is_time(wanted)) or bool(in_zone and kinds.is_date(wanted))


def _counts(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow takes a time for the number of whatever it is counted in, or a fraction for a time."""
    if kinds.is_temporal(given):
        return _is_number(wanted) or bool(kinds.is_boolean(wanted))
    return bool(kinds.is_temporal(wanted)) and _has_fractions(given)


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind)) or _has_fractions(kind)


def _has_fractions(kind: pa.DataType) -> bool:
    return bool(kinds.is_floating(kind) or kinds.is_decimal(kind))


def check_infinity(given: pa.Array | pa.ChunkedArray, made: pa.Array | pa.ChunkedArray) -> None:
    """`pa.ArrowInvalid` if a number is infinite that was none before, whatever others are beside it."""
    # Of 64 bits only what texts say can be too large.
    if not _infinities(made, short=not _has_texts(given.type), texts=False):
        return
    if _infinities(made) > _infinities(given):
        raise pa.ArrowInvalid(f"a number is too large for {made.type}")


def _has_texts(kind: pa.DataType) -> bool:
    if kinds.is_dictionary(kind):
        return is_text(kind.value_type)
    return is_text(kind) or any(_has_texts(kind.field(index).type) for index in range(kind.num_fields))


def _infinities(values: pa.Array | pa.ChunkedArray, *, short: bool = False, texts: bool = True) -> int:
    """How many infinite numbers are among the values, also as `texts` or in dictionaries; with `short`, of less than 64
    bits.
    """
    if isinstance(values, pa.ChunkedArray):
        return sum(_infinities(chunk, short=short, texts=texts) for chunk in values.chunks)
    kind = values.type
    if kinds.is_floating(kind):
        return 0 if short and kinds.is_float64(kind) else pc.sum(pc.is_inf(values)).as_py() or 0
    if kinds.is_dictionary(kind):
        return _infinities(decoded(values)) if texts else 0
    if is_text(kind) and texts:
        return pc.sum(pc.match_substring_regex(values.cast(pa.large_string()), _INFINITE)).as_py() or 0
    if kinds.is_map(kind):
        return _infinities(values.items, short=short, texts=texts)
    if kinds.is_struct(kind) or is_list(kind):
        inside = values.flatten()
        parts = inside if isinstance(inside, list) else [inside]
        return sum(_infinities(one, short=short, texts=texts) for one in parts)
    return 0
