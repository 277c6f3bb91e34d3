"""Compaction and reordering as a change of the table: ids are reserved, then the new fragments take their place."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pyroaring import BitMap

from seiche.errors import SPENT, RetryableConflict
from seiche.table.blob_files import data_files, large_files
from seiche.table.change import Change
from seiche.table.data.index.reach import Reach
from seiche.table.data.index.remap import IndexMode, lead_on
from seiche.table.data.portion import Portion
from seiche.table.data.rewrite.tasks import RewriteResult
from seiche.table.data.write import Written
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import ReserveFragments, Rewrite, RewriteGroup
from seiche.table.snapshot import Snapshot

__all__ = ["Rewriting", "Work"]

_PATIENT_TRIES = 3

# Finds out what to rewrite in a version, and does it.
Work: TypeAlias = Callable[[Snapshot], Sequence[RewriteResult]]


class Rewriting:
    """Prepares a reservation of fragment ids, and on top of it the Rewrite that uses them.

    Results are kept. After a conflict, those whose fragments nobody has touched are committed as they are: the others
    are left out, and `left_out` says so. Only if none holds any more the work is done again.
    """

    def __init__(self, work: Work | None, index: IndexMode, results: Sequence[RewriteResult] = ()) -> None:
        """With `results` there is no work to do, only to commit what is given."""
        self._work = work
        self._index = index
        # Who hands out tasks again when no answer comes has some executed twice.
        self._results = list({one.portion: one for one in results if one.changed}.values())
        self._tries = 0
        self.left_out = 0

    def forget(self) -> None:
        """Do the work anew, unless it was done elsewhere."""
        if self._work is not None:
            self._results = []

    def __call__(self, snapshot: Snapshot) -> Change | None:
        self._tries += 1
        good = self._good(snapshot)
        if not good and self._work is not None:
            self._results = [one for one in self._work(snapshot) if one.changed]
            good = self._results
        if not good and self._results:
            raise self._stale()
        if not good:
            return None
        count = sum(len(one.new) for one in good)
        if not count:
            return self._rewrite(snapshot, good, 0)
        return Change(ReserveFragments(count), then=lambda made: self._reserved(made, good, count))

    def _reserved(self, snapshot: Snapshot, counted: Sequence[RewriteResult], count: int) -> Change:
        """The Rewrite, with the `count` ids that the version of the snapshot has reserved.

        Only for results that were `counted`: when others change an index meanwhile, one more may have become good, and
        there is no id for it.
        """
        still = self._good(snapshot)
        good = [one for one in counted if one in still]
        if not good:
            raise self._stale()
        return self._rewrite(snapshot, good, snapshot.manifest.max_fragment_id - count + 1)

    def _rewrite(self, snapshot: Snapshot, good: Sequence[RewriteResult], first_id: int) -> Change:
        groups = _numbered(good, first_id)
        in_order = all(one.in_order for one in good)
        # To write indices anew takes time in which others may come first. Rather than lose every time, leave them.
        mode = self._index if self._tries <= _PATIENT_TRIES else "drop"
        led = lead_on(snapshot, groups, mode, in_order=in_order, first_id=first_id)
        operation = Rewrite(groups, led.rewritten, led.reuse)
        new = [one for group in groups for one in group.new_fragments]
        large = list(large_files(snapshot.store, new, snapshot.manifest.header.fields))
        if self._work is None:
            # They were written elsewhere, in a lake perhaps under a transaction that was never committed: files are
            # flushed by whoever names them.
            snapshot.store.flush([*data_files(new), *(info.path for info in large)])
        written = Written(tuple(new), tuple(info.size for info in large))
        self.left_out = len(self._results) - len(good)
        notes: dict[str, object] = {
            "fragments_removed": sum(len(group.old_fragments) for group in groups),
            "fragments_added": len(new),
        }
        if led.notes:
            notes["indices"] = dict(led.notes)
        if self.left_out:
            notes["left_out"] = self.left_out
        return Change(
            operation,
            rows=written.rows,
            files=written.files + len(led.sizes),
            bytes=written.bytes + sum(led.sizes),
            notes=notes,
            since=Portion.oldest((one.portion for one in good), snapshot),
        )

    def _good(self, snapshot: Snapshot) -> list[RewriteResult]:
        """The results that can be committed on top of this version."""
        held = [one for one in self._results if one.holds_in(snapshot.manifest)]
        if not held or not snapshot.manifest.indices:
            return held
        # An index that was built meanwhile and covers a part of a group could not be led on.
        reach = Reach.of(snapshot)
        return [one for one in held if not one.in_order or reach.covers_evenly(BitMap(one.portion.ids))]

    def _stale(self) -> RetryableConflict:
        touched = sorted(fragment_id for one in self._results for fragment_id in one.portion.ids)
        return RetryableConflict(
            f"all fragments that were rewritten have been changed by others meanwhile: {touched[:10]}",
            remedy="Nothing was written. Plan and execute the rewrite again.",
            fragments=touched,
            reason=SPENT,
        )


def _numbered(results: Sequence[RewriteResult], first_id: int) -> tuple[RewriteGroup, ...]:
    groups = []
    following = first_id
    for result in results:
        new: list[DataFragment] = []
        for fragment in result.new:
            fragment.id = following
            following += 1
            new.append(fragment)
        groups.append(RewriteGroup(old_fragments=result.portion.fragments, new_fragments=new))
    return tuple(groups)
