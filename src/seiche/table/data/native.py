"""pylance datasets for versions of our tables."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import lance
import pyarrow as pa
import pyarrow.compute as pc

from seiche.core.given import several, wrong
from seiche.errors import Corrupt, InvalidInput, SeicheError
from seiche.store.base import Store
from seiche.table.data.native_errors import (
    Panic,
    check_columns_known,
    from_storage,
    is_gone,
    native_message,
    trouble,
    without_panics,
)
from seiche.table.data.sql import LITERALS, REFUSALS, USE_STATISTICS, Shape, check_quotes, closed, complaint, is_refused
from seiche.table.format.flags import FIRST_FORMAT, MIXED_DATA_VERSIONS, SEICHE_FENCE
from seiche.table.format.logical_types import is_dictionary
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Manifest as Header

__all__ = ["count", "in_memory", "looks_at_published", "open_staged", "open_version", "scan"]

Taken = TypeVar("Taken")

# Of files in these formats native code reads dictionaries only as such. Asked for their plain values it gives others,
# or ends the process.
_ALWAYS_CODED = FIRST_FORMAT | {"2.0"}


def open_version(store: Store, version: int) -> lance.LanceDataset:
    """The native dataset at a published version of the table that `store` is rooted at."""
    try:
        with without_panics():
            return lance.dataset(store.native_uri(), version=version, storage_options=_options(store))
    except (OSError, ValueError, RuntimeError) as error:
        raise _unopened(store, version, error) from error


def open_staged(store: Store, manifest: Manifest, *, base: Manifest | None = None) -> lance.LanceDataset:
    """A native dataset of a version that is not published, for reading only: it must never commit.

    Indices are read from the published version that the number in the manifest names, so the dataset pretends to be
    `base`, whose indices it then uses, with the fragments of `manifest`. It has none without a base, nor if the indices
    have changed since: those of `base` would answer for columns that have other values now. Without a base, columns of
    a dictionary type come as plain values: native code looks for dictionaries in the file of the version, too. Where
    files are so old that they have no plain values, there must be a version of the number in the manifest.
    """
    header = manifest.copy_header()
    header.ClearField("index_section")
    # The fence is for those who would commit; this dataset only writes files, for a commit of ours.
    header.writer_feature_flags &= ~SEICHE_FENCE
    if base is None:
        if not _is_always_coded(header):
            _without_dictionaries(header)
    else:
        header.version = base.version
        if base.header.HasField("index_section") and manifest.indices == base.indices:
            header.index_section = base.header.index_section
    message = b"".join([header.SerializeToString(), *manifest.fragments.pieces])
    try:
        with without_panics():
            return lance.LanceDataset(store.native_uri(), serialized_manifest=message, storage_options=_options(store))
    except (OSError, ValueError, RuntimeError) as error:
        raise _unopened(store, manifest.version, error) from error


def looks_at_published(manifest: Manifest) -> bool:
    """Whether native code looks into the published manifest when it scans a version that is opened as a staged one."""
    return bool(manifest.index_section) or any(is_dictionary(field.logical_type) for field in manifest.header.fields)


def in_memory(rows: pa.Table, place: str, *, what: str, remedy: str = "") -> lance.LanceDataset:
    """Rows as a native dataset in memory, gone with the last reference; `InvalidInput` for what Lance cannot hold."""
    try:
        with without_panics():
            return lance.write_dataset(rows, place, max_rows_per_file=max(1, len(rows)))
    except (OSError, ValueError) as error:
        names = ", ".join(rows.column_names)
        raise InvalidInput(
            f"{what} cannot work with the columns {names}: {native_message(error)}", remedy=remedy
        ) from error


def scan(dataset: lance.LanceDataset, columns: Sequence[str] | None, filter: str | None) -> pa.Table:
    """Rows of a dataset as an Arrow table."""
    if isinstance(columns, str):
        raise InvalidInput(f"columns cannot be the text {columns!r}", remedy=f"Give a list: columns=[{columns!r}].")
    names = None if columns is None else list(several(columns, "columns", "Give the names of columns, in a list."))
    return _scanned(dataset, names, filter, lambda made: made.to_table())


def count(dataset: lance.LanceDataset, filter: str | None) -> int:
    """How many rows of a dataset match; without a condition none is read."""
    if filter is None:
        try:
            with without_panics():
                return int(dataset.count_rows())
        except (OSError, ValueError) as error:
            raise trouble(f"{dataset.uri} could not be read", error) from error
    return _scanned(dataset, [], filter, lambda made: made.count_rows(), with_row_id=True)


def _scanned(
    dataset: lance.LanceDataset,
    columns: list[str] | None,
    filter: str | None,
    take: Callable[[lance.LanceScanner], Taken],
    **options: Any,
) -> Taken:
    """What is taken of a scan; `InvalidInput` if it is the columns or the condition that native code refuses."""
    if not isinstance(filter, str | None | pc.Expression):
        raise wrong("the filter", filter, "Give a condition in SQL.")
    if isinstance(filter, str):
        check_quotes(filter, lambda: dataset.schema.names)

    def made(shape: Shape) -> lance.LanceScanner:
        chosen = shape(filter) if isinstance(filter, str) else filter
        return dataset.scanner(columns=columns, filter=chosen, use_stats=USE_STATISTICS, **options)

    def planned(shape: Shape) -> pa.Schema:
        return made(shape).projected_schema

    try:
        with without_panics():
            return take(made(closed))
    except (*REFUSALS, OSError) as error:
        if isinstance(error, Panic):
            check_columns_known(dataset)
        blamed = isinstance(error, Panic) and is_refused(planned)
        if not blamed and (from_storage(error) or isinstance(error, OSError)):
            raise trouble(f"{dataset.uri} could not be read", error) from error
        raise InvalidInput(
            f"the scan was refused: {complaint(error, planned)}",
            remedy=f"Check the names of the columns and the filter. {LITERALS}",
            columns=columns,
            filter=filter,
        ) from error


def _unopened(store: Store, version: int, error: Exception) -> SeicheError:
    what = f"version {version} of {store.uri} could not be opened"
    if is_gone(error) or not isinstance(error, ValueError | RuntimeError | Panic):
        return trouble(what, error, version=version)
    remedy = "The manifest is damaged, or this release of pylance cannot read it. Open an older version."
    return Corrupt(f"{what}: {native_message(error)}", remedy=remedy, version=version)


def _is_always_coded(header: Header) -> bool:
    mixed = header.reader_feature_flags & MIXED_DATA_VERSIONS
    return bool(mixed) or header.data_format.version in _ALWAYS_CODED


def _without_dictionaries(header: Header) -> None:
    for field in header.fields:
        if is_dictionary(field.logical_type):
            field.logical_type = field.logical_type.split(":")[1]
            field.ClearField("dictionary")


def _options(store: Store) -> dict[str, Any] | None:
    return dict(store.native_options) or None
