"""Making rows fit a table: names, types and nulls, checked before a file is written."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seiche.errors import InvalidInput
from seiche.table.data.blobs import as_blobs, is_binary, is_blob
from seiche.table.data.fitting import fits, is_list
from seiche.table.data.json_texts import check_json
from seiche.table.data.values import check_infinity, decoded

__all__ = ["Conform", "check_nulls", "coded", "conform", "founded", "without_extension"]

# By number, since every batch is asked.
_TEXTS = frozenset(kind.id for kind in (pa.string(), pa.large_string(), pa.string_view()))
_LONGEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Conform:
    """How batches of one schema become batches of another: columns picked by name, cast where nothing is lost."""

    schema: pa.Schema

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The rows under the table's types; values that do not fit, texts that are none, or nulls where none may be,
        are `InvalidInput`.
        """
        if given.schema.equals(self.schema, check_metadata=True):
            for field in self.schema:
                if _has_texts(field.type):
                    _check_texts(given.column(field.name), field.name)
                    check_json(given.column(field.name), field.name)
                if not field.nullable or _strict(field.type):
                    check_nulls(given.column(field.name), field)
            return given
        return pa.RecordBatch.from_arrays([self._column(given, field) for field in self.schema], schema=self.schema)

    def batches(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each batch made to fit, as it comes; in parts, if it has more than the offsets of a type can count."""
        return (made for batch in given for made in self._parts(batch))

    def _parts(self, given: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        try:
            whole = self.batch(given)
        except InvalidInput:
            if given.num_rows < 2 or not _is_long(given):
                raise
        else:
            yield whole
            return
        half = given.num_rows // 2
        for part in (given.slice(0, half), given.slice(half)):
            columns = [_from_zero(column) for column in part.columns]
            yield from self._parts(pa.RecordBatch.from_arrays(columns, schema=part.schema))

    def _column(self, given: pa.RecordBatch, field: pa.Field) -> pa.Array:
        values = given.column(field.name)
        if _has_texts(values.type):
            _check_texts(values, field.name)
        made = _cast(values, field.type, field.name)
        check_json(made, field.name)
        check_nulls(made, field)
        return made


def conform(given: pa.Schema, table: pa.Schema, *, whole_rows: bool = True) -> Conform:
    """How rows of the schema `given` go into a table: in its order of columns, under its types.

    Columns that may be null can be left out, and others only if these are not `whole_rows`. `InvalidInput` names the
    first column that is unknown, given twice, missing, or of a type whose values could be lost.
    """
    if table.metadata is None and given.equals(table):
        return Conform(table)
    known, offered = set(table.names), set()
    for name in given.names:
        if name in offered:
            raise InvalidInput(f"column {name!r} is given twice", remedy="Give each column once.", column=name)
        if name not in known:
            raise InvalidInput(
                f"the table has no column {name!r}, only {', '.join(map(repr, table.names))}",
                remedy="Leave the column out, or add it to the table first.",
                column=name,
            )
        offered.add(name)
    columns = []
    for field in table:
        if field.name in offered:
            columns.append(_checked(given.field(field.name), field))
        elif whole_rows and not field.nullable:
            raise InvalidInput(
                f"column {field.name!r} is missing, and it must not be null",
                remedy="Give a value for the column in each row.",
                column=field.name,
            )
    return Conform(pa.schema(columns))


def check_nulls(values: pa.Array, field: pa.Field) -> None:
    """`InvalidInput` if there are nulls where the field, or one inside of it, must not have any."""
    where = _null_in(values, field, field.name)
    if where is not None:
        raise InvalidInput(
            f"column {where!r} must not be null, but there are nulls among its values",
            remedy="Give a value in each row.",
            column=where,
        )


def _check_texts(values: pa.Array, name: str) -> None:
    """`InvalidInput` if there are texts that are not UTF-8, such as Arrow's readers of Parquet and JSON let through:
    native code would write them, and nobody could read the rows.
    """
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"column {name!r} has values that nobody could read: {error}",
            remedy="Texts must be UTF-8: decode the bytes first, or keep them in a binary column.",
            column=name,
        ) from error


def _is_long(batch: pa.RecordBatch) -> bool:
    """Whether a column may have more bytes than offsets of 32 bits can count, as those of Polars have, or one long
    value of a dictionary in many rows.
    """
    return batch.nbytes > _LONGEST or any(pa.types.is_dictionary(one) for one in batch.schema.types)


def _from_zero(values: pa.Array) -> pa.Array:
    """The same values with offsets that begin at 0: of these Arrow asks whether the last one fits."""
    if values.type not in (pa.large_string(), pa.large_binary()):
        return values
    _, starts, data = values.buffers()
    offsets = np.frombuffer(starts, np.int64)[values.offset : values.offset + len(values) + 1]
    present = values.is_valid().buffers()[1] if values.null_count else None
    inside = data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return pa.Array.from_buffers(values.type, len(values), [present, pa.py_buffer(offsets - offsets[0]), inside])


def _has_texts(kind: pa.DataType) -> bool:
    """Whether it is texts, or something inside of it is."""
    if kind.id in _TEXTS:
        return True
    if kind.num_fields:
        return any(_has_texts(kind.field(index).type) for index in range(kind.num_fields))
    if isinstance(kind, pa.BaseExtensionType):
        return _has_texts(kind.storage_type)
    return isinstance(kind, pa.DictionaryType) and _has_texts(kind.value_type)


def _cast(values: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """The values under another type, none of them changed; `InvalidInput` if that cannot be."""
    if values.type == kind:
        return values
    try:
        if is_blob(kind) and (is_blob(values.type) or is_binary(values.type)):
            return as_blobs(values, kind)
        plain = without_extension(values)
        made = _converted(plain, kind)
        # Floats fit only longer ones, but for those of Spark, which has none as short as the shortest.
        check_infinity(plain, made)
        return made
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(
            f"values of column {name!r} do not fit its type {kind}: {error}",
            remedy="Give values that fit.",
            column=name,
        ) from error


def _converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow's own cast, with steps in between where it has none from one encoding to the other."""
    values = decoded(values)
    _check_views(values, kind)
    if pa.types.is_dictionary(kind) and values.type != kind.value_type:
        values = values.cast(kind.value_type)
    return coded(founded(values), kind)


def _check_views(values: pa.Array, kind: pa.DataType) -> None:
    """`pa.ArrowInvalid` for views, as Polars has them, with more bytes than offsets of 32 bits can count: Arrow's cast
    counts on from 0 then, so that most values are wrong.
    """
    if is_list(values.type) and is_list(kind):
        _check_views(values.flatten(), kind.value_type)
    elif pa.types.is_struct(values.type) and pa.types.is_struct(kind):
        for field in values.type:
            _check_views(values.field(field.name), kind.field(field.name).type)
    elif kind not in (pa.large_string(), pa.large_binary()) and _bytes_viewed(values) > _LONGEST:
        raise pa.ArrowInvalid(f"more than {_LONGEST} bytes in one piece")


def _bytes_viewed(values: pa.Array) -> int:
    if values.type not in (pa.string_view(), pa.binary_view()) or not len(values):
        return 0
    # Each view is 16 bytes, of which the first four say how long the value is; of a null they may say anything.
    lengths = np.frombuffer(values.buffers()[1], np.int32)[::4][values.offset : values.offset + len(values)]
    return int(lengths.sum(dtype=np.int64, where=pc.is_valid(values).to_numpy(zero_copy_only=False)))


def coded(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values under a type that they fit: Arrow's cast, and one to dictionaries of numbers, which Arrow has not."""
    try:
        return values.cast(kind)
    except pa.ArrowNotImplementedError:
        if not pa.types.is_dictionary(kind):  # inside of it there is one
            return pa.array(values.to_pylist(), kind)
        made = values.dictionary_encode()
        return pa.DictionaryArray.from_arrays(made.indices.cast(kind.index_type), made.dictionary)


def founded(values: pa.Array) -> pa.Array:
    """The same values, with memory behind lists that have no element at all.

    In a batch that came as a stream there is none, and Arrow's cast to lists of fixed length reads there all the same:
    the whole process would end, only because every vector in a batch is null.
    """
    return pa.concat_arrays([values, values.slice(0, 0)]) if _hollow(values) else values


def _hollow(values: pa.Array) -> bool:
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return not len(values.values) or _hollow(values.values)
    if pa.types.is_struct(values.type):
        return any(_hollow(values.field(index)) for index in range(values.type.num_fields))
    return False


def without_extension(values: pa.Array) -> pa.Array:
    """The plain values that an extension type is made of."""
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _checked(given: pa.Field, field: pa.Field) -> pa.Field:
    if not fits(given.type, field.type):
        raise InvalidInput(
            f"column {field.name!r} has the type {field.type}, the rows have {given.type}",
            remedy="Cast the column first: only casts in which nothing can be lost are done for you.",
            column=field.name,
        )
    return field


def _null_in(values: pa.Array, field: pa.Field, where: str) -> str | None:
    """The path of a field inside `field` that has nulls and must not, if there is one."""
    if not field.nullable and values.null_count:
        return where
    if not _strict(field.type):
        return None
    values = without_extension(values)
    kind = values.type
    if pa.types.is_struct(kind):
        # Inside of a struct that is null, everything is null, and that is no fault.
        present = values.drop_null() if values.null_count else values
        parts = [(kind.field(index), pc.struct_field(present, index)) for index in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        parts = [(kind.item_field, values.items)]
    else:
        parts = [(kind.value_field, values.flatten())]
    return next((bad for one, inner in parts if (bad := _null_in(inner, one, f"{where}.{one.name}"))), None)


def _strict(kind: pa.DataType) -> bool:
    """Whether something inside the type must not be null."""
    if not kind.num_fields and not isinstance(kind, pa.BaseExtensionType):
        return False
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_map(kind):
        inside = [kind.item_field]
    elif pa.types.is_struct(kind):
        inside = [kind.field(index) for index in range(kind.num_fields)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inside = [kind.value_field]
    else:
        inside = []
    return any(not field.nullable or _strict(field.type) for field in inside)
