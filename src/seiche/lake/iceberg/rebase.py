"""Steps of a transaction on top of what others have made of the table meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
)

from seiche.errors import InvalidInput, RetryableConflict
from seiche.lake.commit.edits import AGAIN
from seiche.lake.iceberg.appends import Appends, CannotMove
from seiche.lake.iceberg.columns import unfit
from seiche.lake.iceberg.metadata import Metadata, last_number
from seiche.lake.iceberg.specs import missing_spec
from seiche.lake.iceberg.updates import apply, unmet
from seiche.lake.iceberg.work import Step, changes_content, heads

__all__ = ["Rebase", "conflict"]


@dataclass(slots=True)
class Rebase:
    """Applies steps that were built on `found` to `running`, the newest metadata of the table.

    Requirements are checked again. Snapshots that only append are put on top of the newest one of their branch; any
    other snapshot on a branch that has moved is a conflict, even if its own requirements seem to hold: its list of
    manifests does not have what others brought.
    """

    table: str
    found: Metadata | None
    running: Metadata
    appends: Appends
    now_millis: int
    # Branches that are not what the steps were built on.
    moved: set[str] = field(default_factory=set)
    # The steps as they were applied.
    applied: list[Step] = field(default_factory=list)
    _content: bool = False
    _before: dict[int, Any] = field(default_factory=dict)
    # The snapshot that was current for whoever made the steps.
    _built_on: int | None = None

    def run(self, steps: Sequence[Step]) -> Metadata:
        """The metadata after all steps; raises `RetryableConflict`, and then nothing of it was kept."""
        was, now = heads(self.found), heads(self.running)
        self.moved |= {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
        self._content = changes_content(self.found, self.running)
        known = [*(() if self.found is None else self.found.snapshots), *self.running.snapshots]
        self._before = {one.snapshot_id: one for one in known}
        self._built_on = None if self.found is None else self.found.current_snapshot_id
        newest = self.running
        if self.found is not None and any(isinstance(one, AddSnapshotUpdate) for step in steps for one in step.updates):
            why = unfit(self.found.schema(), newest.schema())
            if why:
                raise self._conflict(why)
        for step in steps:
            self.applied.append(self._step(step))
        self._check_specs(self.found, newest)
        return self.running

    def follow(self, step: Step) -> Step:
        """Apply a step that was built on an earlier state of the very same table; returns it as it is now."""
        required = [one for one in step.requirements if isinstance(one, AssertRefSnapshotId)]
        self.moved |= {one.ref for one in required if heads(self.running).get(one.ref) != one.snapshot_id}
        self._content = bool(self.moved)
        self._before = {one.snapshot_id: one for one in self.running.snapshots}
        self._built_on = next((one.snapshot_id for one in required if one.ref == MAIN_BRANCH), None)
        return self._step(step)

    def _step(self, step: Step) -> Step:
        if step.exclusive and self._content:
            raise self._conflict("its content was changed meanwhile, and this was worked out from it")
        branches = _branches(step)
        # Where a branch must stand says what its new snapshots were built on: they are moved, or refused.
        moving = self.moved.intersection(branches.values())
        kept = [one for one in step.requirements if not (isinstance(one, AssertRefSnapshotId) and one.ref in moving)]
        why = unmet(kept, self.running)
        if why:
            raise self._conflict(why)
        updates: list[Any] = []
        for update in step.updates:
            if isinstance(update, AddSnapshotUpdate):
                so_far = self._applied(updates)
                moved = self._snapshot(update.snapshot, branches.get(update.snapshot.snapshot_id), so_far)
                self._before[update.snapshot.snapshot_id] = update.snapshot
                updates.append(AddSnapshotUpdate(snapshot=moved))
            else:
                if self._is_foreign(update, branches):
                    raise self._conflict(f"{update.ref_name} has moved meanwhile")
                updates.append(update)
        # All at once: some refer to others of the same step.
        self.running = self._applied(updates)
        return Step(tuple(kept), tuple(updates), step.exclusive)

    def _check_specs(self, *before: Metadata | None) -> None:
        """What others remove is not for our snapshots to use, nor what we remove for theirs."""
        try:
            why = missing_spec(before, self.running, self.appends.listed)
        except CannotMove as error:
            why = str(error)
        if why:
            raise self._conflict(why)

    def _applied(self, updates: Sequence[Any]) -> Metadata:
        try:
            return apply(self.running, updates, now_millis=self.now_millis)
        except InvalidInput as error:
            raise self._conflict(error.message) from error

    def _is_foreign(self, update: Any, branches: dict[int, str]) -> bool:
        """Whether a moved branch would be put on a snapshot that this step does not bring, or removed."""
        if isinstance(update, SetSnapshotRefUpdate):
            return update.ref_name in self.moved and update.snapshot_id not in branches
        return isinstance(update, RemoveSnapshotRefUpdate) and update.ref_name in self.moved

    def _snapshot(self, snapshot: Any, branch: str | None, running: Metadata) -> Any:
        """The snapshot as it can be added now."""
        late = running.format_version >= 2 and (snapshot.sequence_number or 0) <= last_number(running)
        if branch not in self.moved and not late:
            return snapshot
        if running.snapshot_by_id(snapshot.snapshot_id) is not None:
            raise self._conflict(f"snapshot {snapshot.snapshot_id} has been committed already")
        parent = None
        if snapshot.parent_snapshot_id is not None:
            parent = self._before.get(snapshot.parent_snapshot_id)
            if parent is None:
                raise self._conflict(f"snapshot {snapshot.parent_snapshot_id} that it was built on has expired")
        if branch is None:
            raise self._conflict("a snapshot beside all branches cannot be moved")
        onto = running.snapshot_by_name(branch)
        try:
            moved = self.appends.moved(snapshot, parent, onto, running)
        except CannotMove as error:
            raise self._conflict(f"snapshot {snapshot.snapshot_id}: {error}", mine=snapshot.snapshot_id) from error
        self.moved.add(branch)
        return moved

    def _conflict(self, what: str, mine: int | None = None) -> RetryableConflict:
        return conflict(self.table, what, self._built_on, self.running.current_snapshot_id, mine)


def conflict(table: str, what: str, was: int | None, now: int | None, mine: int | None = None) -> RetryableConflict:
    """Says what was in the way: the snapshot that was built on, and the one that is current."""
    return RetryableConflict(
        f"{table}: {what}; it was built on snapshot {was}, and {now} is current.",
        remedy=AGAIN,
        table=table,
        read_snapshot=was,
        snapshot=now,
        own_snapshot=mine,
    )


def _branches(step: Step) -> dict[int, str]:
    """The branch that each new snapshot of a step goes to. One on which the next is built goes to the same."""
    added = {one.snapshot.snapshot_id: one.snapshot for one in step.updates if isinstance(one, AddSnapshotUpdate)}
    found = {
        one.snapshot_id: one.ref_name
        for one in step.updates
        if isinstance(one, SetSnapshotRefUpdate) and one.type == SnapshotRefType.BRANCH and one.snapshot_id in added
    }
    for snapshot in reversed(added.values()):
        if snapshot.snapshot_id in found and snapshot.parent_snapshot_id in added:
            found.setdefault(snapshot.parent_snapshot_id, found[snapshot.snapshot_id])
    return found
