"""Going back to earlier content of an Iceberg table, by new metadata."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyiceberg.manifest import read_manifest_list
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import SnapshotLogEntry

from seiche.core.runtime import Runtime
from seiche.errors import SeicheError
from seiche.lake.commit.made import Made
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.making import staged
from seiche.lake.iceberg.manifests import BROKEN
from seiche.lake.iceberg.metadata import Metadata, load
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.tree.root import millis

__all__ = ["restored"]


def restored(then: TableRow, last: TableRow, row: TableRow, state: State, *, runtime: Runtime) -> Made:
    """The metadata that has the content of `then` and comes after that of `last`; `row` is what the lake says of it.

    No counter goes back: sequence numbers, ids of columns and of partition fields are those given out last, so nothing
    that is written from now on can be taken for something older. Snapshots that came since stay in the history, but for
    those that nobody could read by what their ids stood for then; and none does if the table had no rows yet: of a
    table whose main branch has no snapshot DuckDB shows the newest that there is, and time travel the last that was.
    """
    old, current = load(state, then), load(state, last)
    if MAIN_BRANCH in old.refs:
        current = _without(_misread(old, current, LakeFileIO(state.store)), current)
    else:
        current = _without(_since(old, current), current)
    made = _content_of(old, current, millis(runtime.clock.now()))
    return staged(current, made, replace(row, iceberg=last.iceberg), state, runtime=runtime)


def _content_of(old: Metadata, current: Metadata, now_millis: int) -> Metadata:
    changed = max(current.last_updated_ms, now_millis)
    log = list(current.snapshot_log)
    if MAIN_BRANCH in old.refs:
        entry = {"snapshot-id": old.refs[MAIN_BRANCH].snapshot_id, "timestamp-ms": changed}
        log.append(SnapshotLogEntry.model_validate(entry))
    schemas = _with_last(old.schema(), _joined(old.schemas, current.schemas, lambda one: one.schema_id))
    values: dict[str, Any] = {
        "schemas": schemas,
        "current_schema_id": schemas[-1].schema_id,
        "partition_specs": _joined(old.partition_specs, current.partition_specs, lambda one: one.spec_id),
        "default_spec_id": old.default_spec_id,
        "sort_orders": _joined(old.sort_orders, current.sort_orders, lambda one: one.order_id),
        "default_sort_order_id": old.default_sort_order_id,
        "snapshots": _joined(current.snapshots, old.snapshots, lambda one: one.snapshot_id),
        "refs": old.refs,
        "current_snapshot_id": old.current_snapshot_id,
        "properties": old.properties,
        "statistics": _joined(old.statistics, current.statistics, lambda one: one.snapshot_id),
        "partition_statistics": _joined(
            old.partition_statistics, current.partition_statistics, lambda one: one.snapshot_id
        ),
        "snapshot_log": log,
        "last_updated_ms": changed,
    }
    found: Metadata = current.model_copy(update=values)
    return found


def _with_last(schema: Any, schemas: Sequence[Any]) -> list[Any]:
    """The schemas with this one at the end, under a new id if others have greater ones: DuckDB gives a new schema the
    id behind the current one's, and would not alter a table that has that id already.
    """
    greatest = max(one.schema_id for one in schemas)
    if schema.schema_id < greatest:
        return [*schemas, schema.model_copy(update={"schema_id": greatest + 1})]
    return [*(one for one in schemas if one.schema_id != greatest), schema]


def _misread(old: Metadata, current: Metadata, io: LakeFileIO) -> set[int]:
    """Snapshots that came since and were written with a schema or a partition spec whose id stood for another one then:
    that one was removed, and its id given out again.
    """
    specs = _differing(old.partition_specs, current.partition_specs, lambda one: one.spec_id)
    schemas = _differing(old.schemas, current.schemas, lambda one: one.schema_id)
    since = _since(old, current) if specs or schemas else set()
    later = [one for one in current.snapshots if one.snapshot_id in since]
    return {one.snapshot_id for one in later if one.schema_id in schemas or (specs and _has_files(one, specs, io))}


def _since(old: Metadata, current: Metadata) -> set[int]:
    return {one.snapshot_id for one in current.snapshots} - {one.snapshot_id for one in old.snapshots}


def _has_files(snapshot: Any, specs: set[int], io: LakeFileIO) -> bool:
    try:
        return any(one.partition_spec_id in specs for one in read_manifest_list(io.new_input(snapshot.manifest_list)))
    except (*BROKEN, SeicheError):
        return True  # nobody can read it anyhow


def _without(snapshots: set[int], metadata: Metadata) -> Metadata:
    if not snapshots:
        return metadata
    parts = ("snapshots", "snapshot_log", "statistics", "partition_statistics")
    left = {name: [one for one in getattr(metadata, name) if one.snapshot_id not in snapshots] for name in parts}
    found: Metadata = metadata.model_copy(update=left)
    return found


def _differing(first: Sequence[Any], second: Sequence[Any], key: Callable[[Any], int]) -> set[int]:
    """The ids that both have, and that stand for something else in each."""
    spelled = {key(one): one.model_dump_json() for one in first}
    return {key(one) for one in second if spelled.get(key(one), one.model_dump_json()) != one.model_dump_json()}


def _joined(first: Sequence[Any], second: Sequence[Any], key: Callable[[Any], Any]) -> list[Any]:
    """All of both, by their ids; where both have one, that of the first."""
    return list({**{key(one): one for one in second}, **{key(one): one for one in first}}.values())
