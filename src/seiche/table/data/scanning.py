"""Reading rows natively, with SQL conditions and expressions, and telling a caller's mistakes from trouble."""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from seiche.errors import InvalidInput
from seiche.table.data.native_errors import (
    Panic,
    check_columns_known,
    from_storage,
    native_message,
    trouble,
    without_panics,
)
from seiche.table.data.removal import by_fragment
from seiche.table.data.sql import LITERALS, REFUSALS, USE_STATISTICS, Shape, check_quotes, closed, complaint, quoted
from seiche.table.format import roaring
from seiche.table.format.flags import FIRST_FORMAT
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    import lance
    from numpy.typing import NDArray

__all__ = [
    "ADDRESS",
    "ROW_ID",
    "batches",
    "find_rows",
    "names",
    "quoted",
    "rows_at_once",
    "rows_that_fit",
    "scan_rows",
    "scanner",
    "types_of",
]

ADDRESS = "_rowaddr"
ROW_ID = "_rowid"

# Rows that are handed from native code to Python and back at a time: few enough for wide rows, many enough to be quick.
BATCH_ROWS = 8192
# The same where only keys and addresses are read.
WIDE_BATCH_ROWS = 1 << 17
# What a batch of long values may take. Native code keeps to it from its second batch on, when it knows how long they
# are; before that, the sizes of the files have to do.
BATCH_BYTES = 1 << 26
_FEWEST_ROWS = 16
# Values of so many bits are never too many for a batch.
_SHORT = 512

_UNREAD = "the table could not be read"


def scanner(
    dataset: "lance.LanceDataset",
    *,
    columns: Mapping[str, str] | Sequence[str],
    where: str | None = None,
    what: str,
    **options: Any,
) -> "lance.LanceScanner":
    """A native scan with `where` as its condition and, in a mapping, SQL expressions as its columns.

    SQL that does not parse, or names what does not exist, is `InvalidInput`; `what` says which SQL it is, for the
    message. Nothing is read yet but what planning needs.
    """
    if where is not None and not where.strip():
        raise InvalidInput(f"{what} is empty", remedy="Give a condition in SQL, or leave it out.")
    for sql in (*(columns.values() if isinstance(columns, Mapping) else ()), where or ""):
        check_quotes(sql, lambda: dataset.schema.names)

    def plan(shape: Shape) -> "lance.LanceScanner":
        given = {name: shape(sql) for name, sql in columns.items()} if isinstance(columns, Mapping) else list(columns)
        filter_ = None if where is None else shape(where)
        made = dataset.scanner(columns=given, filter=filter_, use_stats=USE_STATISTICS, **options)
        _ = made.projected_schema  # only now the SQL is looked at
        return made

    try:
        with without_panics():
            return plan(closed)
    except (*REFUSALS, Panic) as error:
        if isinstance(error, Panic):
            check_columns_known(dataset)
        said = f"{what} is refused: {complaint(error, plan)}"
        raise InvalidInput(said, remedy=f"Check the SQL and the names of the columns. {LITERALS}") from error
    except OSError as error:
        raise trouble(_UNREAD, error) from error


def types_of(dataset: "lance.LanceDataset", expressions: Mapping[str, str], **options: Any) -> dict[str, pa.DataType]:
    """What the SQL expressions, by the columns that they are for, give; `InvalidInput` names the one that is refused.

    `options` are those of the scan that is going to evaluate them, if it has any.
    All are planned at once, since every plan takes longer the more columns there are; one by one only to find out which
    of them is wrong.
    """
    if len(expressions) > 1:
        with suppress(InvalidInput):
            return _planned(dataset, expressions, "the expressions", options)
    found: dict[str, pa.DataType] = {}
    for name, sql in expressions.items():
        found |= _planned(dataset, {name: sql}, f"the expression {sql!r} for column {name!r}", options)
    return found


def _planned(
    dataset: "lance.LanceDataset", expressions: Mapping[str, str], what: str, options: Mapping[str, Any]
) -> dict[str, pa.DataType]:
    # With the address beside it also a constant can be planned: a scan needs some column.
    schema = scanner(dataset, columns={**expressions, ADDRESS: ADDRESS}, what=what, **options).projected_schema
    return {name: schema.field(name).type for name in expressions}


def batches(scan: "lance.LanceScanner", *, what: str) -> Iterator[pa.RecordBatch]:
    """The rows of a scan, batch by batch, without empty ones."""
    with _evaluating(what):
        for batch in scan.to_batches():
            if batch.num_rows:
                yield _unified(batch)


@contextmanager
def _evaluating(what: str) -> Iterator[None]:
    try:
        with without_panics():
            yield
    except (ValueError, OSError) as error:
        if from_storage(error):
            raise trouble(_UNREAD, error) from error
        raise InvalidInput(
            f"{what} cannot be evaluated: {native_message(error)}",
            remedy="Check the SQL against the values in the table.",
        ) from error


def scan_rows(
    dataset: "lance.LanceDataset",
    rows: "NDArray[np.uint64] | Mapping[int, BitMap]",
    columns: Mapping[str, str] | Sequence[str],
    *,
    what: str,
    batch_rows: int = BATCH_ROWS,
    fragments: Iterable[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Columns of some rows, or SQL expressions over them, in the order of the table, which must be that of `rows`.

    `rows` are addresses, or in a table with stable row ids those ids, as native code wants it: an array of numbers, or
    for each upper half a bitmap of the lower halves. If `fragments` are given, all rows are in these, and no other
    fragment is looked at.
    """
    if dataset.data_storage_version in FIRST_FORMAT:
        return _taken(dataset, rows, columns, what, batch_rows)
    scan = scanner(
        dataset,
        columns=columns,
        what=what,
        fragments=None if fragments is None else [dataset.get_fragment(one) for one in fragments],
        row_addr_allowlist=_allowlist(rows if isinstance(rows, Mapping) else by_fragment(rows)),
        batch_size=batch_rows,
        blob_handling="all_binary",
    )
    return batches(scan, what=what)


def _allowlist(rows: Mapping[int, BitMap]) -> bytes:
    """Rows as native scans take them: for each upper half its value, the size of a bitmap, and that."""
    parts = [struct.pack("<I", len(rows))]
    for upper, lower in sorted(rows.items()):
        data = roaring.encode(lower)
        parts += (struct.pack("<II", upper, len(data)), data)
    return b"".join(parts)


def _taken(
    dataset: "lance.LanceDataset",
    rows: "NDArray[np.uint64] | Mapping[int, BitMap]",
    columns: Mapping[str, str] | Sequence[str],
    what: str,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The same for files of the first format: native scans take no rows to be read there, but single rows are given."""
    given = {name: closed(sql) for name, sql in columns.items()} if isinstance(columns, Mapping) else list(columns)
    with _evaluating(what):
        for numbers in _joined_halves(rows) if isinstance(rows, Mapping) else [rows]:
            for start in range(0, len(numbers), batch_rows):
                found = dataset._take_rows(pa.array(numbers[start : start + batch_rows]), columns=given)
                yield from map(_unified, found.combine_chunks().to_batches())


def _joined_halves(rows: Mapping[int, BitMap]) -> "Iterator[NDArray[np.uint64]]":
    for upper, lower in sorted(rows.items()):
        yield np.frombuffer(lower.to_array(), np.uint32).astype(np.uint64) | np.uint64(upper << 32)


def _unified(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with no null among the values of a dictionary, as there is in older files: Arrow joins no such ones."""
    for at, column in enumerate(batch.columns):
        if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
            made = column.dictionary_decode().dictionary_encode()
            indices = made.indices.cast(column.type.index_type)
            unified = pa.DictionaryArray.from_arrays(indices, made.dictionary, ordered=column.type.ordered)
            batch = batch.set_column(at, batch.schema.field(at), unified)
    return batch


def rows_at_once(schema: pa.Schema, fragments: Iterable[DataFragment], where: str | None) -> int:
    """How many rows of these fragments a scan with this condition may take into a batch.

    It reads the columns of the condition as a whole, and of texts and bytes Arrow counts no more than 2 GB in a batch:
    131,072 rows of 17 KB each could not be searched at all.
    """
    if where is None or not any(names(where, field.name) for field in schema if not _is_short(field.type)):
        return WIDE_BATCH_ROWS
    return rows_that_fit(fragments)


def rows_that_fit(fragments: Iterable[DataFragment]) -> int:
    """How many whole rows of these fragments may be read into a batch."""
    sizes = ((sum(file.file_size_bytes for file in one.files), one.physical_rows) for one in fragments)
    widest = max((size // rows for size, rows in sizes if rows and size > BATCH_BYTES), default=0)
    return max(_FEWEST_ROWS, min(BATCH_ROWS, BATCH_BYTES // max(1, widest)))


def names(sql: str, column: str) -> bool:
    """Whether the SQL seems to be about a column."""
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", sql, re.IGNORECASE) is not None


def _is_short(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width <= _SHORT)
    except ValueError:  # each value has a length of its own
        return False


def find_rows(snapshot: Snapshot, where: str | None, *, what: str) -> "NDArray[np.uint64]":
    """The addresses of the rows that meet the condition (all without one), in no particular order."""
    scan = scanner(
        snapshot.dataset,
        columns=[],
        where=where,
        what=what,
        with_row_address=True,
        scan_in_order=False,
        batch_size=rows_at_once(snapshot.schema, snapshot.manifest.fragments, where),
        batch_size_bytes=BATCH_BYTES,
    )
    found = [batch.column(ADDRESS).to_numpy() for batch in batches(scan, what=what)]
    return np.concatenate(found) if found else np.empty(0, np.uint64)
