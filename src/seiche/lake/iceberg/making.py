"""The next metadata of an Iceberg table, from what a transaction did to it, on top of what the lake holds now."""

from dataclasses import replace
from typing import Final

from pyiceberg.table.snapshots import MetadataLogEntry

from seiche.core.runtime import Runtime
from seiche.core.values import replaced
from seiche.lake.commit.made import Made
from seiche.lake.iceberg.appends import Appends
from seiche.lake.iceberg.emptied import is_emptied, with_empty_main
from seiche.lake.iceberg.metadata import Metadata, encode, load, new_path, remember
from seiche.lake.iceberg.places import address
from seiche.lake.iceberg.rebase import Rebase
from seiche.lake.iceberg.work import IcebergWork, changes_content
from seiche.lake.objects.rows import IcebergMetadata, TableRow
from seiche.lake.state import State
from seiche.lake.tree.root import millis

__all__ = ["make_metadata", "staged"]

_MOST_LOGGED: Final = "write.metadata.previous-versions-max"
_DEFAULT_LOGGED: Final = 100


def make_metadata(
    work: IcebergWork, found: TableRow | None, now: TableRow, state: State, *, runtime: Runtime, table: str
) -> Made:
    """What the steps make of the table; `found` is its row where the transaction began, `now` the newest.

    Raises `RetryableConflict` if others have changed it in a way that leaves no room for one of the steps.
    """
    # What steps make has been read back once (`apply`); metadata that comes from elsewhere has not.
    checked = bool(work.steps) and not work.origin
    if found is None and now.iceberg is None:
        return staged(None, work.running, now, state, runtime=runtime, checked=checked)
    current = load(state, now)
    if found is None:
        return staged(current, work.running, now, state, runtime=runtime, checked=checked)
    if found.iceberg == now.iceberg:
        return staged(current, work.running, now, state, runtime=runtime, checked=checked)
    appends = Appends(state.store, runtime, outside=state.outside)
    rebase = Rebase(table, work.found, current, appends, millis(runtime.clock.now()))
    made = staged(current, rebase.run(work.steps), now, state, runtime=runtime, checked=checked)
    return replace(made, files={**appends.files, **made.files})


def staged(
    before: Metadata | None,
    after: Metadata,
    now: TableRow,
    state: State,
    *,
    runtime: Runtime,
    checked: bool = False,
) -> Made:
    """The file of new metadata under a name of its own, and the row that names it; `checked` as in `encode`.

    The log of earlier metadata files has those that were committed, and no other. A main branch that was taken away is
    one without rows (`emptied`).
    """
    old = "" if now.iceberg is None else now.iceberg.location
    appends = Appends(state.store, runtime, outside=state.outside)
    if is_emptied(after):
        after = with_empty_main(after, address(state.store, f"{now.location}/metadata"), appends)
    if before is not None and old:
        after = _logged(before, after, address(state.store, old))
    path = new_path(now.location, old, runtime)
    row = replaced(
        now,
        table_version=now.table_version + 1,
        logical_version=now.logical_version + changes_content(before, after),
        iceberg=IcebergMetadata(location=path, previous_location=old, uuid=str(after.table_uuid)),
    )
    data = encode(after, checked=checked)
    made = Made(row, {**appends.files, path: data})
    # Its name has never been used: if it does not come to a commit, nobody ever asks for it.
    remember(state, path, after, data)
    return made


def _logged(before: Metadata, after: Metadata, location: str) -> Metadata:
    """`after` with the file of `before` as the last one of its log, which is as long as the table says.

    What a table that comes from elsewhere says need not be a number: nobody could commit to it if that mattered.
    """
    try:
        most = max(1, int(after.properties.get(_MOST_LOGGED, _DEFAULT_LOGGED)))
    except ValueError:
        most = _DEFAULT_LOGGED
    file = {"metadata-file": location, "timestamp-ms": before.last_updated_ms}
    log = [*before.metadata_log, MetadataLogEntry.model_validate(file)]
    made: Metadata = after.model_copy(update={"metadata_log": log[-most:]})
    return made
