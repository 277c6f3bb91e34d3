"""What a transaction can do to Iceberg tables: the functions behind its methods."""

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg.table.update import AddSnapshotUpdate, AssertCreate, RemovePropertiesUpdate, SetPropertiesUpdate

from seiche.errors import AlreadyExists, InvalidInput, NotFound, SeicheError
from seiche.lake.commit.edits import TableEdit, is_used
from seiche.lake.commit.reads import Aspect
from seiche.lake.federated.edit import check_one_name
from seiche.lake.federated.release import left_alone, taken_back
from seiche.lake.iceberg.appends import Appends, CannotMove
from seiche.lake.iceberg.claims import check_unclaimed, claim, is_claimed
from seiche.lake.iceberg.columns import check_columns
from seiche.lake.iceberg.creating import creation_step, new_metadata, new_row
from seiche.lake.iceberg.edit import IcebergEdit
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.foreign import tables as foreign
from seiche.lake.iceberg.foreign.edit import ForeignAppends, ForeignEdit
from seiche.lake.iceberg.keeping import keep
from seiche.lake.iceberg.metadata import Metadata, load
from seiche.lake.iceberg.new_files import age_of, named_by
from seiche.lake.iceberg.places import address, path_of
from seiche.lake.iceberg.rebase import Rebase, conflict
from seiche.lake.iceberg.registering import registered
from seiche.lake.iceberg.row_ids import counted
from seiche.lake.iceberg.specs import missing_spec
from seiche.lake.iceberg.table import IcebergTable
from seiche.lake.iceberg.updates import apply, too_late, unmet
from seiche.lake.iceberg.work import IcebergWork, Step
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.read_only import check_writable
from seiche.lake.tree.root import millis
from seiche.lake.tree.swap import stage

if TYPE_CHECKING:
    from seiche.lake.definitions import Definitions
    from seiche.lake.sight import Sight

__all__ = ["check_iceberg", "commit", "create", "look", "register", "repeat", "unregister"]

NameLike = str | Sequence[str]


def check_iceberg(row: TableRow, name: Name) -> TableRow:
    """The row, if it is that of an Iceberg table."""
    if row.format != "iceberg":
        raise InvalidInput(
            f"{text(name)} is a table of format {row.format}, not an Iceberg table",
            remedy="Use `to_lance()` or the table's own verbs." if row.format == "lance" else "Use its own engine.",
            table=text(name),
        )
    return row


def create(
    transaction: "Sight",
    name: NameLike,
    schema: Any,
    *,
    partition_spec: Any = None,
    sort_order: Any = None,
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> str:
    """Make an empty Iceberg table in the transaction; returns its id."""
    full = parts(name, what="table")
    transaction.check_free(full)
    metadata = new_metadata(
        full,
        schema,
        transaction.state.store,
        transaction.runtime,
        partition_spec=partition_spec,
        sort_order=sort_order,
        properties=properties,
        location=location,
    )
    return _begin(transaction, full, creation_step(metadata))


def look(transaction: "Sight", name: NameLike) -> IcebergTable:
    """The table as the transaction sees it."""
    full = parts(name, what="table")
    return _seen(transaction, full, transaction.named(full))


def _seen(transaction: "Sight", full: Name, edit: TableEdit) -> IcebergTable:
    row = check_iceberg(edit.row, full)
    if row.type != "managed":
        looked = foreign.seen(transaction, edit)
        metadata, at = _work(transaction, looked).running, looked.seen
        assert at is not None  # noqa: S101 - it has been looked at
        return IcebergTable(full, row, metadata, at.metadata_location, transaction.state, at.io)
    where = "" if row.iceberg is None else address(transaction.state.store, row.iceberg.location)
    return IcebergTable(full, row, _work(transaction, edit).running, where, transaction.state)


def commit(
    transaction: "Sight",
    name: NameLike,
    requirements: Sequence[Any],
    updates: Sequence[Any],
    *,
    follow: bool = False,
    exclusive: bool = False,
    written: Mapping[str, int] | None = None,
) -> IcebergTable:
    """Make a commit of an engine part of the transaction; see `Transaction.commit_iceberg`."""
    full = parts(name, what="table")
    step = Step(tuple(requirements), tuple(updates), exclusive)
    if any(isinstance(one, AssertCreate) for one in requirements):
        transaction.check_free(full)
        return _with_files(transaction, full, _begin(transaction, full, step), None, step, written)
    # Several threads may have something for the table: each is checked against what the ones before it left.
    with transaction.alone(transaction.named(full).row.id):
        edit = _looked(transaction, transaction.named(full))
        check_iceberg(edit.row, full)
        _step(transaction, edit, step, follow=follow)
        if edit.row.type != "managed":
            return _seen(transaction, full, transaction.edit(edit.row.id))
        return _with_files(transaction, full, edit.row.id, edit, step, written)


def _with_files(
    transaction: "Sight",
    name: Name,
    table_id: str,
    before: TableEdit | None,
    step: Step,
    written: Mapping[str, int] | None,
) -> IcebergTable:
    """The table after a step, whose files are the transaction's now; as it was `before` if they cannot be."""
    try:
        _take_files(transaction, step, written, _work(transaction, transaction.edit(table_id)).running.specs())
    except SeicheError as error:
        _put_back(transaction, name, table_id, before)
        transaction.check_overtaken(error)
        raise
    return _seen(transaction, name, transaction.edit(table_id))


def register(transaction: "Definitions", name: NameLike, metadata_location: str, *, overwrite: bool = False) -> str:
    """Make a table of metadata that exists; see `Transaction.register_iceberg`. Returns its id."""
    full = parts(name, what="table")
    if not overwrite:
        transaction.check_free(full)
    # Before the table goes that it takes the place of: a transaction that goes on after an error still has that one.
    row, work, files = registered(full, metadata_location, transaction.state, transaction.runtime)
    if work is None:
        check_unclaimed(transaction, full, row)
    keep(transaction, files, path_of(transaction.state.store, metadata_location))
    if work is None:
        with transaction.defining():
            claim(transaction, full, row)
    if overwrite:
        with suppress(NotFound):
            transaction.drop_table(full)
    transaction.enter_edit(full, IcebergEdit(row=row, key=table_key(full), iceberg=work))
    back = taken_back(row.location, transaction.state)
    if back is not None:
        transaction.write_row(back, None)
    transaction.unflushed += files
    return row.id


def unregister(transaction: "Definitions", name: NameLike) -> IcebergTable:
    """Take a table out of the lake and leave its files alone; see `Transaction.unregister_iceberg`."""
    full = parts(name, what="table")
    table = look(transaction, full)
    edit = transaction.named(full)
    if table.row.type != "managed" or edit.found is None or edit.changed:
        raise InvalidInput(
            f"{text(full)} is not the lake's own, or is changed by the same transaction: it cannot be unregistered",
            remedy="Drop a table that lies elsewhere; commit what is under way first.",
            table=text(full),
        )
    transaction.reads.key(transaction.state, table_key(full), Aspect.WHOLE, structural=True)
    transaction.drop_table(full)
    transaction.write_row(*left_alone(table.row))
    return table


def set_properties(transaction: "Sight", edit: TableEdit, properties: Mapping[str, str | None]) -> None:
    """Those of an Iceberg table stand in its metadata, where every engine finds them."""
    if edit.row.type == "managed":  # elsewhere an earlier attempt may have set them, which the lake is still to be told
        properties = transaction.other_properties(edit, _work(transaction, edit).running.properties, properties)
        if not properties:
            return
    updates: list[Any] = []
    given = {name: value for name, value in properties.items() if value is not None}
    gone = [name for name, value in properties.items() if value is None]
    if given:
        updates.append(SetPropertiesUpdate(updates=given))
    if gone:
        updates.append(RemovePropertiesUpdate(removals=gone))
    _step(transaction, edit, Step((), tuple(updates)), follow=False)


def repeat(transaction: "Sight", edit: TableEdit, steps: Sequence[Step]) -> None:
    """Do again what a saved transaction did to a table."""
    transaction.edits[edit.row.id] = edit
    for step in steps:
        # It may have been dropped afterwards.
        before = transaction.edits[edit.row.id]
        if _is_new(before):
            running = apply(None, step.updates, now_millis=_now(transaction))
            transaction.put_edit(IcebergEdit.of(before, IcebergWork(None, running, (step,))))
        else:
            _step(transaction, before, step, follow=True)


def _is_new(edit: TableEdit) -> bool:
    """Whether the table is still to be made, by its first step: one that was registered has metadata to begin with."""
    worked = isinstance(edit, IcebergEdit) and edit.iceberg is not None
    return edit.found is None and edit.row.iceberg is None and not worked


def _begin(transaction: "Sight", name: Name, step: Step) -> str:
    """A table that the transaction makes, by its first step."""
    why = unmet(step.requirements, None)
    if why:
        raise InvalidInput(f"{text(name)} does not exist yet, and {why}", remedy="Require only that it is new.")
    running = apply(None, step.updates, now_millis=_now(transaction))
    row = new_row(running, transaction.state.store, transaction.runtime)
    state = transaction.state
    if row.id in transaction.edits or is_used(state, row.id) or is_claimed(state, row.id):
        raise AlreadyExists(
            f"there is a table at {running.location} already, or was one",
            remedy="Leave the location out: the lake chooses a new one.",
            name=text(name),
            location=running.location,
        )
    edit = IcebergEdit(row=row, key=table_key(name), iceberg=IcebergWork(None, running, (step,)))
    check_columns(text(name), step, None, running, _appends_of(transaction, edit))
    transaction.enter_edit(name, edit)
    return row.id


def _step(transaction: "Sight", edit: TableEdit, step: Step, *, follow: bool) -> None:
    edit = _looked(transaction, edit)
    check_writable(edit.row, edit.name)
    if isinstance(edit, ForeignEdit):
        check_one_name(edit, transaction.edits.values())
    work = _work(transaction, edit)
    if edit.row.type == "managed":
        io = LakeFileIO(transaction.state.store, outside=transaction.state.outside)
        step = replace(step, updates=counted(step.updates, work.running, io))
    why = unmet(step.requirements, work.running) or ("" if follow else too_late(step.updates, work.running))
    if isinstance(edit, ForeignEdit) and foreign.was_made(transaction, edit, step):
        running = work.running
    elif not why:
        running = apply(work.running, step.updates, now_millis=_now(transaction))
        _check_specs(transaction, edit, work.running, running)
    elif follow:
        appends = _appends_of(transaction, edit)
        rebase = Rebase(edit.name, work.running, work.running, appends, _now(transaction))
        step = rebase.follow(step)
        running = rebase.running
        stage(transaction.state.store, appends.files, runtime=transaction.runtime)
    else:
        raise conflict(edit.name, why, None, work.running.current_snapshot_id)
    check_columns(edit.name, step, work.running, running, _appends_of(transaction, edit))
    transaction.put_edit(IcebergEdit.of(edit, work.with_step(step, running)))
    if any(isinstance(one, AddSnapshotUpdate) and not _appends(one) for one in step.updates) or step.exclusive:
        transaction.note_read(edit.row.id)


def _check_specs(transaction: "Sight", edit: TableEdit, before: Metadata, after: Metadata) -> None:
    try:
        why = missing_spec((before,), after, _appends_of(transaction, edit).listed)
    except CannotMove as error:
        why = str(error)
    if why:
        raise InvalidInput(f"the update cannot be applied: {why}", remedy="Nothing was written.", table=edit.name)


def _looked(transaction: "Sight", edit: TableEdit) -> TableEdit:
    """The edit; if the table is not the lake's own, with what the transaction sees of it."""
    is_own = edit.row.type == "managed" or edit.row.format != "iceberg"
    return edit if is_own else foreign.seen(transaction, edit)


def _appends_of(transaction: "Sight", edit: TableEdit) -> Appends:
    store, runtime = transaction.state.store, transaction.runtime
    if isinstance(edit, ForeignEdit) and edit.seen is not None:
        return ForeignAppends(store, runtime, io=edit.seen.io)
    return Appends(store, runtime, outside=transaction.state.outside)


def _put_back(transaction: "Sight", name: Name, table_id: str, before: TableEdit | None) -> None:
    """A statement that fails leaves the transaction as it was."""
    if before is not None:
        transaction.edits[table_id] = before
        return
    del transaction.edits[table_id], transaction.names[table_key(name)]


def _take_files(transaction: "Sight", step: Step, written: Mapping[str, int] | None, specs: Container[int]) -> None:
    """See to it that what the step names is flushed before it is committed, and not after a clean-up took it.

    Files that were written through the transaction are known to it. Others are found in the manifests; the transaction
    is as old as the oldest of them, by what `written` says or else the storage: a clean-up that has come in between, or
    comes until the commit, makes it fail.
    """
    store, known, written = transaction.state.store, set(transaction.unflushed), written or {}
    for update in step.updates:
        if isinstance(update, AddSnapshotUpdate):
            first = path_of(store, update.snapshot.manifest_list) or ""
            since = written.get(first)
            if since is not None and since < transaction.state.root.min_base:
                # A clean-up came in between, and may have taken the files. The commit will be refused for that.
                transaction.oldest = min(transaction.oldest, since)
                continue
        found = [path for path in named_by(update, transaction.state, specs) if path not in known]
        others = [path for path in found if path not in written]
        begun = min([transaction.base, transaction.oldest, *(written[path] for path in found if path in written)])
        transaction.oldest = age_of(others, update, begun, transaction.state, transaction.runtime)
        transaction.unflushed += found


def _appends(update: AddSnapshotUpdate) -> bool:
    summary = update.snapshot.summary
    return summary is not None and summary.operation.value == "append"


def _work(transaction: "Sight", edit: TableEdit) -> IcebergWork:
    if isinstance(edit, IcebergEdit) and edit.iceberg is not None:
        return edit.iceberg
    metadata = load(transaction.state, edit.row)
    return IcebergWork(metadata, metadata)


def _now(transaction: "Sight") -> int:
    return millis(transaction.runtime.clock.now())
