"""Compaction: rows of several fragments into as few as they fit in, without those that are deleted."""

import json
from typing import Any

import lance
import numpy as np
from lance.optimize import CompactionTask

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, SeicheError
from seiche.store.base import Store
from seiche.table.blob_files import data_files, with_blobs
from seiche.table.data.fragments import fragment_from_json, fragment_to_json
from seiche.table.data.native import open_version
from seiche.table.data.native_errors import (
    is_damage,
    is_refusal,
    is_unsupported,
    native_message,
    trouble,
    without_panics,
)
from seiche.table.data.portion import Portion
from seiche.table.data.removal import all_live_rows
from seiche.table.data.rewrite.compact_plan import Options
from seiche.table.data.rewrite.copying import has_dictionaries, stored_rows
from seiche.table.data.rewrite.row_marks import RowMarks, addresses
from seiche.table.data.scanning import rows_that_fit
from seiche.table.data.write import Limits, write_rows
from seiche.table.format.flags import FIRST_FORMAT
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

__all__ = ["compacted"]

# Its annotations leave out that it can be made of JSON.
_Task: Any = CompactionTask

_ROWS_PER_GROUP = 1024
_COPIED_AT_ONCE = 16 << 20
_MODES = {"reencode": "Reencode", "try_binary_copy": "TryBinaryCopy", "force_binary_copy": "ForceBinaryCopy"}


def compacted(portion: Portion, options: Options, store: Store, runtime: Runtime) -> tuple[DataFragment, ...]:
    """New fragments with the rows of the portion, in their order, written natively; row ids and versions go along."""
    snapshot = portion.snapshot(store, runtime)
    dataset: lance.LanceDataset | None = snapshot.dataset
    if has_dictionaries(snapshot.schema):
        # The native compaction of a dataset that was not opened from its file writes dictionaries that nobody can read.
        dataset = _opened(portion, store)
    # Where a format has no nulls, native code puts other values in their place; `_copied` refuses to.
    if dataset is None or snapshot.manifest.header.data_format.version in FIRST_FORMAT:
        return _copied(snapshot, portion, options)
    task = {
        "task": {"fragments": [fragment_to_json(one) for one in portion.fragments]},
        "read_version": dataset.version,
        "options": _native(options, dataset.data_storage_version, rows_that_fit(portion.fragments)),
    }
    try:
        with without_panics():
            done = _Task.from_json(json.dumps(task)).execute(dataset)
    except (ValueError, NotImplementedError, OSError) as error:
        raise _uncompacted(portion, options, error, store) from error
    made = tuple(map(fragment_from_json, json.loads(done.json())["new_fragments"]))
    store.flush(with_blobs(store, data_files(made), snapshot.manifest.header.fields))
    return made


def _uncompacted(portion: Portion, options: Options, error: Exception, store: Store) -> SeicheError:
    said = f"{portion!r} cannot be compacted with {options!r}: {native_message(error)}"
    if isinstance(error, ValueError) or is_unsupported(error):
        remedy = "With `compaction_mode='reencode'`, the usual one, and the usual sizes any table can be."
        return InvalidInput(said, remedy=remedy, table=store.uri)
    if is_refusal(error) and not is_damage(error):
        remedy = (
            "Nothing was changed. Data files of the table's format version cannot hold what these rows have: give them"
            " other values, or leave them where they are."
        )
        return InvalidInput(said, remedy=remedy, table=store.uri)
    return trouble(f"{store.uri}: {portion!r} could not be compacted", error, table=store.uri)


def _opened(portion: Portion, store: Store) -> lance.LanceDataset | None:
    """The version of the portion as it is stored; `None` if it is not, or not any more."""
    if not portion.published:
        return None
    try:
        return open_version(store, portion.version)
    except SeicheError:
        return None


def _copied(snapshot: Snapshot, portion: Portion, options: Options) -> tuple[DataFragment, ...]:
    """Compact by reading the rows and writing them again."""
    header, schema = snapshot.manifest.header, snapshot.schema
    limits = Limits.of(options.target_rows_per_fragment, options.max_bytes_per_file)
    written = write_rows(snapshot.store, header, schema, stored_rows(snapshot), limits, snapshot.runtime)
    if not snapshot.manifest.has_stable_row_ids:
        return written.fragments
    live = all_live_rows(snapshot, portion.fragments)
    left = [addresses(one.id, live[one.id]) for one in portion.fragments]
    return RowMarks.of(portion.fragments).at(np.concatenate(left)).stamped(written.fragments)


def _native(options: Options, version: str, batch_rows: int) -> dict[str, Any]:
    """Every member of the native options. Which fragments are joined, they do not decide: the task names them."""
    return {
        "target_rows_per_fragment": options.target_rows_per_fragment,
        "max_rows_per_group": _ROWS_PER_GROUP,
        "max_bytes_per_file": options.max_bytes_per_file,
        "materialize_deletions": options.materialize_deletions,
        "materialize_deletions_threshold": options.materialize_deletions_threshold,
        "num_threads": None,
        # Left to native code it is read as many rows at a time as of short values: of long ones that is too much.
        "batch_size": batch_rows if options.batch_size is None else options.batch_size,
        "io_buffer_size": None,
        # What becomes of the indices is decided when the result is committed.
        "defer_index_remap": False,
        "index_remap_mode": "Direct",
        "compaction_mode": _MODES[options.compaction_mode],
        "enable_binary_copy": False,
        "enable_binary_copy_force": False,
        "binary_copy_read_batch_bytes": _COPIED_AT_ONCE,
        "max_source_fragments": None,
        "max_source_rows": None,
        "max_source_bytes": None,
        "excluded_fragment_ids": [],
        "max_overlays_per_fragment": 10,
        "data_storage_version": version,
        "has_eager_remappable_index": False,
    }
