"""Stable row ids, and the versions in which rows were created and last updated.

Only tables that have stable row ids keep any of this, and then every fragment has all of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import roaring
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest_pb2 import DataFragment, Manifest
from seiche.table.format.row_ids import RowIds, RowVersions, encode_range, encode_run
from seiche.table.format.segments import Numbers

__all__ = ["concat_rows", "keep_rows", "mark_updated", "stamp_moved", "stamp_new"]

# Rows of a fragment that does not say when they were created count as there from the beginning.
_UNKNOWN_VERSION = 1
_LAST_ID = (1 << 64) - 1


def stamp_new(fragments: Iterable[DataFragment], header: Manifest, version: int) -> None:
    """Give all rows the next free ids and `version` as that of their creation and last update; raises the counter."""
    for fragment in fragments:
        rows = _known_rows(fragment)
        fragment.inline_row_ids = encode_range(_take_ids(header, rows), rows)
        fragment.inline_created = fragment.inline_last_updated = encode_run(version, rows)


def stamp_moved(
    fragments: Sequence[DataFragment], header: Manifest, version: int, sources: Sequence[DataFragment], rest: Fragments
) -> list[int]:
    """Stamp rows of which the first ones moved here from other fragments and carry their ids already.

    Those keep the version of their creation, which is looked up in `sources`, and in `rest` if it is not there. The
    rows behind them are new. Returns the ids of the fragments that have no new rows.
    """
    moved = [_given_ids(fragment) for fragment in fragments]
    every = np.concatenate(moved) if moved else np.empty(0, np.uint64)
    if len(np.unique(every)) != len(every):
        twice = np.sort(every)[:-1][np.diff(np.sort(every)) == 0][:10].tolist()
        raise InvalidInput(
            f"two of the moved rows claim the same row id: {twice}",
            remedy="A row that moves keeps its id in one of the new fragments only; new rows get theirs at the commit.",
            row_ids=twice,
        )
    created = _created_versions(every, sources, rest)
    unmixed = []
    start = 0
    for fragment, ids in zip(fragments, moved, strict=True):
        rows = _known_rows(fragment)
        fresh = rows - len(ids)
        known = RowVersions.of(created[start : start + len(ids)])
        start += len(ids)
        fragment.inline_row_ids = RowIds(ids).concat(RowIds.range(_take_ids(header, fresh), fresh)).encode()
        fragment.inline_created = known.concat(RowVersions.run(version, fresh)).encode()
        fragment.inline_last_updated = encode_run(version, rows)
        if not fresh:
            unmixed.append(fragment.id)
    return unmixed


def mark_updated(fragment: DataFragment, version: int, offsets: bytes | None = None) -> None:
    """Record that the rows at `offsets` (a Roaring bitmap), or all of them, got other values in `version`."""
    rows = _known_rows(fragment)
    if offsets is None:
        fragment.inline_last_updated = encode_run(version, rows)
        return
    with _as_given():
        touched = roaring.decode(offsets, what=f"the updated rows of fragment {fragment.id}")
    if touched and touched.max() >= rows:
        raise InvalidInput(
            f"row {touched.max()} of fragment {fragment.id} was updated, but it has {rows} rows",
            remedy="`updated_offsets` are places inside of the fragment, from 0 on, not row ids or addresses.",
            fragments=[fragment.id],
        )
    before = _versions(fragment, fragment.WhichOneof("last_updated"), rows).to_array()
    before[np.frombuffer(touched.to_array(), dtype=np.uint32)] = version
    fragment.inline_last_updated = RowVersions.of(before).encode()


def keep_rows(fragment: DataFragment, before: DataFragment) -> None:
    """Take over ids and versions from the fragment as it was: the rows are the same."""
    for name in ("row_ids", "created", "last_updated"):
        fragment.ClearField(name)
        if stored := before.WhichOneof(name):
            _copy(fragment, before, stored)


def concat_rows(new: Sequence[DataFragment], old: Sequence[DataFragment]) -> None:
    """See to it that the new fragments have ids and versions for the rows of the old ones, in their order.

    Whoever rewrites rows knows which are left and puts the sequences into the new fragments. Where none are, they can
    be made up only if no row of the old ones is deleted.
    """
    if all(fragment.WhichOneof("row_ids") for fragment in new):
        with _as_given():
            given = [RowIds.decode(one.inline_row_ids, rows=_known_rows(one)) for one in new if _is_inline(one)]
        if len(given) == len(new) and all(map(_is_inline, old)):
            _check_same_rows(RowIds().concat(*given), old)
        return
    if any(fragment.HasField("deletion_file") for fragment in old):
        raise InvalidInput(
            "the rewritten fragments lack row ids, and which rows of the old ones are left cannot be seen from here",
            remedy="Put the row ids of the rows that are left into the new fragments.",
            fragments=[fragment.id for fragment in old],
        )
    rows = [_known_rows(fragment) for fragment in old]
    ids = np.concatenate([_stored_ids(fragment, count).to_array() for fragment, count in zip(old, rows, strict=True)])
    created = RowVersions().concat(
        *(_versions(one, one.WhichOneof("created"), n) for one, n in zip(old, rows, strict=True))
    )
    updated = RowVersions().concat(
        *(_versions(one, one.WhichOneof("last_updated"), n) for one, n in zip(old, rows, strict=True))
    )
    start = 0
    for fragment in new:
        positions = np.arange(start, start + _known_rows(fragment))
        fragment.inline_row_ids = RowIds(ids[positions]).encode()
        fragment.inline_created = created.take(positions).encode()
        fragment.inline_last_updated = updated.take(positions).encode()
        start += len(positions)


def _is_inline(fragment: DataFragment) -> bool:
    return fragment.HasField("inline_row_ids")


def _check_same_rows(given: RowIds, old: Sequence[DataFragment]) -> None:
    """Ids of other rows would be there twice: whoever looks a row up by its id, as indices do, may find the other."""
    known = RowIds().concat(*(_stored_ids(one, _known_rows(one)) for one in old))
    if given == known:
        return
    ids = np.sort(given.to_array())
    wrong = np.union1d(ids[1:][np.diff(ids) == 0], np.setdiff1d(ids, known.to_array(), assume_unique=True))
    if len(wrong):
        raise InvalidInput(
            f"rewritten rows claim ids twice, or those of other rows than fragments {[one.id for one in old]} have:"
            f" {wrong[:10].tolist()}",
            remedy="Give each row that is left the id that it has.",
            row_ids=wrong[:10].tolist(),
            fragments=[one.id for one in old],
        )


def _take_ids(header: Manifest, count: int) -> int:
    """Set `count` row ids aside, and return the first."""
    first = header.next_row_id
    if first + count >= _LAST_ID:
        raise InvalidInput(
            f"there are no {count} row ids left after {first}",
            remedy="Row ids are never given out again: write the rows into a new table, which begins at 0.",
        )
    header.next_row_id = first + count
    return first


def _created_versions(ids: Numbers, sources: Sequence[DataFragment], rest: Fragments) -> Numbers:
    """For each id the version in which its row was created."""
    found = np.zeros(len(ids), dtype=np.uint64)
    open_ids = np.ones(len(ids), dtype=np.bool_)
    for fragments in (sources, rest):
        for fragment in fragments:
            if not open_ids.any():
                return found
            rows = _known_rows(fragment)
            stored = _stored_ids(fragment, rows).to_array()
            order = np.argsort(stored)
            at = np.searchsorted(stored, ids, sorter=order)
            position = order[np.minimum(at, rows - 1)]
            here = open_ids & (stored[position] == ids)
            if here.any():
                versions = _versions(fragment, fragment.WhichOneof("created"), rows).to_array()
                found[here] = versions[position[here]]
                open_ids &= ~here
    if open_ids.any():
        missing = ids[open_ids].tolist()
        raise InvalidInput(
            f"rows claim ids that no row of the table has: {missing[:10]}",
            remedy="Only rows that move carry an id, the one they have; leave it out for new rows.",
            row_ids=missing[:10],
        )
    return found


def _given_ids(fragment: DataFragment) -> Numbers:
    stored = fragment.WhichOneof("row_ids")
    if stored is None:
        return np.empty(0, dtype=np.uint64)
    if stored != "inline_row_ids":
        raise _not_inline(fragment, stored)
    with _as_given():
        given = RowIds.decode(fragment.inline_row_ids)
        if given.length > _known_rows(fragment):
            raise InvalidInput(
                f"a new fragment has {given.length} row ids for {fragment.physical_rows} rows",
                remedy="Give one for each row that moved here, and none for new rows, which come behind them.",
            )
        return given.to_array()


@contextmanager
def _as_given() -> Iterator[None]:
    """For what the operation brings: that it makes no sense is `InvalidInput`, and no damage to the table."""
    try:
        yield
    except Corrupt as error:
        raise InvalidInput(error.message, remedy="The operation brings it: encode it as the format says.") from error


def _stored_ids(fragment: DataFragment, rows: int) -> RowIds:
    stored = fragment.WhichOneof("row_ids")
    if stored is None:
        raise Corrupt(
            f"fragment {fragment.id} has no row ids, but the table has stable ones",
            remedy="The manifest is damaged. Restore an older version, or write the rows anew with an overwrite.",
            fragments=[fragment.id],
        )
    if stored != "inline_row_ids":
        raise _not_inline(fragment, stored)
    return RowIds.decode(fragment.inline_row_ids, rows=rows)


def _versions(fragment: DataFragment, stored: str | None, rows: int) -> RowVersions:
    if stored is None:
        return RowVersions.run(_UNKNOWN_VERSION, rows)
    if stored not in {"inline_created", "inline_last_updated"}:
        raise _not_inline(fragment, stored)
    return RowVersions.decode(getattr(fragment, stored), rows=rows)


def _copy(fragment: DataFragment, before: DataFragment, name: str) -> None:
    value = getattr(before, name)
    if isinstance(value, bytes):
        setattr(fragment, name, value)
    else:
        getattr(fragment, name).CopyFrom(value)


def _known_rows(fragment: DataFragment) -> int:
    if not fragment.physical_rows:
        raise InvalidInput(
            f"fragment {fragment.id} does not say how many rows it has",
            remedy="On a table with stable row ids, set `physical_rows` of every fragment.",
        )
    return fragment.physical_rows


def _not_inline(fragment: DataFragment, stored: str) -> InvalidInput:
    return InvalidInput(
        f"fragment {fragment.id} keeps its sequences outside of the manifest ({stored}), which is not supported here",
        remedy="Compact the table with the writer that made it.",
        fragments=[fragment.id],
    )
