"""What Iceberg metadata must not say, since some engine could not read or change the table any more."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)

from seiche.lake.iceberg.metadata import Metadata, last_number

__all__ = [
    "GREATEST",
    "check_column",
    "check_ids",
    "check_paths",
    "check_properties",
    "check_snapshot",
    "check_statistics",
    "check_transform",
    "lateness",
]

# Where an engine would put files if a table said so. Those of a table of the lake lie in its own place, where the
# lake's clean-up, export and checks find them.
_PATHS: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)

# Properties that name code by which engines choose where files go: whoever writes to the table would run it.
_CODE: Final = ("write.location-provider.impl", "write.py-location-provider.impl")

# Properties that are read as numbers at commits, by engines or here, which trip over anything else.
_NUMBERS: Final = (
    "history.expire.max-ref-age-ms",
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
    "write.metadata.previous-versions-max",
)

# What columns are called in files that do not know their ids; whoever reads a table begins with it.
_MAPPING: Final = "schema.name-mapping.default"

# What a default of a column is here.
_VALUES: Final[dict[type[Any], type[Any]]] = {
    BooleanType: bool,
    DoubleType: float,
    FloatType: float,
    StringType: str,
    UUIDType: UUID,
}

# Of numbers in metadata, and of ids of columns and the like: Java reads no greater ones. Some ids below that are those
# of columns that every table has.
GREATEST: Final = (1 << 63) - 1
_GREATEST_ID: Final = (1 << 31) - 201
_MOST_DIGITS: Final = 38

# How far a sequence number may be from the last one: it is the next, and the greatest would leave none for others.
_MOST_NUMBERS: Final = 1 << 32
# The end of the calendar in milliseconds. No later time could be told, and Java adds nothing that is older than the
# last snapshot.
_LAST_TIME: Final = 253_402_300_799_999


def check_paths(properties: Mapping[str, str], location: str) -> None:
    """Refuse properties that would have engines put files of the table anywhere but at its `location`.

    Of a new table when all is known about it: updates may come in any order.
    """
    for name in _PATHS:
        where = properties.get(name)
        inside = where is None or (f"{where}/".startswith(f"{location.rstrip('/')}/") and ".." not in where.split("/"))
        if not inside:
            raise ValueError(f"{name} would put files of the table outside of its place {location}")
    for name in _CODE:
        if name in properties:
            raise ValueError(f"{name} names code to choose where files go: those of the table stay at {location}")


def check_ids(what: str, *numbers: int) -> None:
    """Refuse ids that Java does not read."""
    for number in numbers:
        if abs(number) > _GREATEST_ID:
            raise ValueError(f"the {what} has the number {number}, beyond {_GREATEST_ID}")


def check_column(column: NestedField) -> None:
    """Refuse a column to which no rows could ever be written."""
    kind = column.field_type
    if not column.name:
        raise ValueError(f"the column with the id {column.field_id} has no name")
    if isinstance(kind, FixedType) and len(kind) < 1:
        raise ValueError(f"column {column.name!r} has the type {kind}: values have one byte at least")
    if isinstance(kind, DecimalType) and not (0 <= kind.scale <= kind.precision <= _MOST_DIGITS and kind.precision):
        raise ValueError(f"column {column.name!r} has the type {kind}, and there are up to {_MOST_DIGITS} digits")
    for value in (column.initial_default, column.write_default):
        if value is not None and not _is_of(kind, value):
            raise ValueError(f"column {column.name!r} has a default of {value!r}, which is no {kind}")


def check_transform(one: Any) -> None:
    """Refuse buckets and widths that there are not."""
    made = one.transform
    number = made.num_buckets if isinstance(made, BucketTransform) else getattr(made, "width", 1)
    if not 0 < number <= _GREATEST_ID:
        raise ValueError(f"{made} has a number that is not between 1 and {_GREATEST_ID}")


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse values that whoever opens the table, or commits to it, would trip over."""
    for name in _NUMBERS:
        if not _is_number(properties.get(name, "0")):
            raise ValueError(f"{name} has to be a whole number, not {properties[name]!r}")
    if not _is_mapping(properties.get(_MAPPING, "[]")):
        raise ValueError(f"{_MAPPING} is no mapping of names to columns, without which nobody could read the table")


def lateness(snapshot: Any, metadata: Metadata) -> str:
    """Why a snapshot was numbered before others were committed; empty if it was not."""
    number, last = snapshot.sequence_number or 0, last_number(metadata)
    if metadata.format_version > 1 and number <= last:
        return f"snapshot {snapshot.snapshot_id} has sequence number {number}, and the table has had {last}"
    row, following = snapshot.first_row_id, getattr(metadata, "next_row_id", None)
    if row is not None and following is not None and row < following:
        return f"snapshot {snapshot.snapshot_id} begins with row {row}, and the table has had {following - 1}"
    return ""


def check_snapshot(snapshot: Any, metadata: Metadata) -> None:
    """Refuse a snapshot that does not come next, or after which there could be no other."""
    if why := lateness(snapshot, metadata):
        raise ValueError(why)
    number, last = snapshot.sequence_number or 0, last_number(metadata)
    if max(number, snapshot.timestamp_ms) > GREATEST:
        raise ValueError(f"snapshot {snapshot.snapshot_id} has a sequence number or a time beyond 64 bits")
    if number - last > _MOST_NUMBERS:
        raise ValueError(
            f"snapshot {snapshot.snapshot_id} has sequence number {number}, far beyond {last}, the table's last one"
        )
    if snapshot.timestamp_ms > _LAST_TIME:
        raise ValueError(
            f"snapshot {snapshot.snapshot_id} has the time {snapshot.timestamp_ms}, which is not in milliseconds"
        )
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    for name in (name for name, value in summary.items() if not isinstance(value, str)):
        raise ValueError(f"summary of snapshot {snapshot.snapshot_id}: {name!r} is {summary[name]!r}, and no text")


def check_statistics(found: Any) -> None:
    """Refuse statistics, of columns or of partitions, with numbers that nobody can read."""
    numbers = [found.snapshot_id, found.file_size_in_bytes, getattr(found, "file_footer_size_in_bytes", 0)]
    for one in getattr(found, "blob_metadata", ()):
        check_ids("blob", *one.fields)
        numbers += [one.snapshot_id, one.sequence_number]
    if max(map(abs, numbers)) > GREATEST:
        raise ValueError(f"the statistics of snapshot {found.snapshot_id} have a number beyond 64 bits")


def _is_of(kind: Any, value: Any) -> bool:
    """Whether the default of a column is a value of its type, as far as PyIceberg does not see to that."""
    if isinstance(kind, DecimalType):
        digits = value.as_tuple() if isinstance(value, Decimal) else None
        return digits is not None and digits.exponent == -kind.scale and len(digits.digits) <= kind.precision
    if isinstance(kind, IntegerType | LongType):
        return type(value) is int and kind.min <= value <= kind.max
    wanted = _VALUES.get(type(kind))
    return wanted is None or isinstance(value, wanted)


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _is_mapping(text: str) -> bool:
    try:
        parse_mapping_from_json(text)
    except ValueError:
        return False
    return True
