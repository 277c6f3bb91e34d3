"""Files with an object of JSON in each line: which columns they have, and as what these are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from seiche.cli.whole_numbers import has_floats, require_whole_json
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["json_batches", "json_columns"]

# So much of a file is looked at in one go. A line may be as long, too.
_PORTION = 8 << 20
_NULL = re.compile(rb"^(?:\xef\xbb\xbf)?\s*null\b", re.MULTILINE)


def json_columns(path: Path, files: Sequence[str], into: pa.Schema | None) -> pa.Schema:
    """Every column that one of the lines has; those that `into` has too are of its type, or of one that can be cast to
    it, if that is how JSON writes them.
    """
    columns = _columns(path, files)
    if not columns:
        raise InvalidInput(f"{path} has no columns", remedy='Write one object in each line, as in {"id": 1}.')
    if into is None:
        _require_told(path, columns)
        if any(has_floats(field.type) for field in columns):
            for block in _portions(files):
                require_whole_json(path, block, columns)
    else:
        known = set(into.names)
        for index, field in enumerate(columns):
            if field.name in known:
                columns = columns.set(index, field.with_type(_read_as(field.type, into.field(field.name).type)))
    return columns


def _require_told(path: Path, columns: pa.Schema) -> None:
    """Refuse columns of which no line has a value: nothing could ever be put into those of the types that Arrow gives
    them.
    """
    for field in columns:
        if _is_untold(field.type):
            raise InvalidInput(
                f"{path} does not tell the type of {field.name!r}: it, or what is inside of it, is null or empty in"
                " every line",
                remedy="Say the types of the columns with 'seiche create-table --schema', then add the file with"
                " 'seiche append' (of a column of objects in Python, by `lake.create_table`); or leave it out.",
                column=field.name,
            )


def _is_untold(found: pa.DataType) -> bool:
    import pyarrow.types as kinds

    if kinds.is_list(found):
        return _is_untold(found.value_type)
    if kinds.is_struct(found):
        return not found.num_fields or any(_is_untold(field.type) for field in found)
    return bool(kinds.is_null(found))


def json_batches(files: Sequence[str], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of such files, under the columns that were found in them.

    A dataset of Arrow would not do: it reads columns that its first block does not have, and a last line without an
    end, as nulls.
    """
    from pyarrow.json import ParseOptions, ReadOptions, open_json

    options = ParseOptions(explicit_schema=columns, unexpected_field_behavior="error")
    for file in files:
        with open_json(file, read_options=ReadOptions(block_size=_PORTION), parse_options=options) as reader:
            yield from reader


def _columns(path: Path, files: Sequence[str]) -> pa.Schema:
    """All columns of the files. Arrow by itself looks at its first megabyte, and passes over in silence what only
    later lines have.
    """
    import pyarrow as pa
    from pyarrow.json import ReadOptions, read_json

    found = pa.schema([])
    for block in _portions(files):
        _require_objects(path, block)
        more = read_json(BytesIO(block), read_options=ReadOptions(block_size=len(block))).schema
        found = pa.unify_schemas([_as_texts(found, more), _as_texts(more, found)], promote_options="permissive")
    return found


def _portions(files: Sequence[str]) -> Iterator[bytes]:
    """What stands in the files, by whole lines."""
    for name in files:
        with Path(name).open("rb") as file:
            while lines := file.readlines(_PORTION):
                yield b"".join(lines)


def _require_objects(path: Path, block: bytes) -> None:
    """`InvalidInput` for a null in the place of an object: where Arrow begins to read at one, it ends the process."""
    if _NULL.search(block):
        raise InvalidInput(
            f"{path} has a line with null, which is no object", remedy='Write one object in each line, as in {"id": 1}.'
        )


def _as_texts(columns: pa.Schema, others: pa.Schema) -> pa.Schema:
    """What looks like a time here, and is a text there, is a text."""
    import pyarrow.types as kinds

    for index, field in enumerate(columns):
        if kinds.is_timestamp(field.type) and field.name in others.names:
            other = others.field(field.name).type
            columns = columns.set(index, field.with_type(other if kinds.is_string(other) else field.type))
    return columns


def _read_as(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type by which Arrow's reader takes what was found, for a column of the type `wanted`."""
    import pyarrow as pa
    import pyarrow.types as kinds

    from seiche.table.data.fitting import is_list

    number = kinds.is_integer(found) or kinds.is_floating(found)
    if number and kinds.is_integer(wanted):
        return wanted
    if number and kinds.is_floating(wanted):
        return pa.float64()
    text = kinds.is_timestamp(found) or kinds.is_string(found)
    if (number or text) and kinds.is_decimal128(wanted):
        return wanted
    if text and (kinds.is_string(wanted) or kinds.is_large_string(wanted) or kinds.is_timestamp(wanted)):
        return wanted
    if text and (kinds.is_date(wanted) or kinds.is_time(wanted)):
        return pa.string()
    if kinds.is_list(found) and is_list(wanted):
        return pa.list_(_read_as(found.value_type, wanted.value_type))
    if kinds.is_struct(found) and kinds.is_struct(wanted):
        inside = {field.name: field.type for field in wanted}
        return pa.struct([field.with_type(_read_as(field.type, inside.get(field.name, field.type))) for field in found])
    return found
