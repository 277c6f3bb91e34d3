"""Existing fragments that get changed or dropped, checked against what they are now."""

from collections.abc import Iterable

from seiche.errors import InvalidInput, RetryableConflict
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.operations.files import check_deletions

__all__ = ["check_same_rows", "check_unchanged", "existing", "masked", "only_once"]


def existing(manifest: Manifest, fragment_id: int) -> DataFragment:
    """The fragment with this id as it is now; for reading only.

    One that is gone was removed by somebody else, so running the operation again may work; one that never was is wrong.
    """
    fragment = manifest.fragments.get(fragment_id)
    if fragment is not None:
        return fragment
    if fragment_id <= manifest.max_fragment_id:
        raise RetryableConflict(
            f"fragment {fragment_id} does not exist any more in version {manifest.version}", fragments=[fragment_id]
        )
    raise InvalidInput(
        f"version {manifest.version} has no fragment {fragment_id}, and no version before it had",
        remedy=f"Ids up to {manifest.max_fragment_id} were given out; `table.manifest.fragments` has those in use.",
        fragments=[fragment_id],
    )


def only_once(fragment_ids: Iterable[int]) -> None:
    """`InvalidInput` if a fragment is named twice: which of the two is meant would be a guess."""
    seen: set[int] = set()
    for fragment_id in fragment_ids:
        if fragment_id in seen:
            raise InvalidInput(
                f"fragment {fragment_id} is named twice",
                remedy="Name it once, as changed or as removed, with all that becomes of it.",
                fragments=[fragment_id],
            )
        seen.add(fragment_id)


def masked(now: DataFragment, updated: DataFragment, header: Header) -> DataFragment:
    """The fragment as it is now, with the deletions of `updated`, which readers of this table can find.

    Everything else of `updated` is how the fragment was when the operation read it, which may be out of date.
    """
    check_same_rows(now, updated)
    check_deletions(updated, header)
    made = DataFragment()
    made.CopyFrom(now)
    if updated.HasField("deletion_file"):
        made.deletion_file.CopyFrom(updated.deletion_file)
    return made


def check_same_rows(now: DataFragment, updated: DataFragment) -> None:
    """`RetryableConflict` if `updated` does not have the rows of the fragment, or would bring deleted ones back."""
    if now.physical_rows and updated.physical_rows and now.physical_rows != updated.physical_rows:
        raise RetryableConflict(
            f"fragment {now.id} has {now.physical_rows} rows, not {updated.physical_rows}", fragments=[now.id]
        )
    # A deletion file holds all deletions of its fragment, earlier ones too, so the number never falls.
    unknown = updated.HasField("deletion_file") and not updated.deletion_file.num_deleted_rows
    if updated.deletion_file.num_deleted_rows < now.deletion_file.num_deleted_rows and not unknown:
        raise RetryableConflict(
            f"{now.deletion_file.num_deleted_rows} rows of fragment {now.id} are deleted by now, the operation knows of"
            f" {updated.deletion_file.num_deleted_rows}",
            fragments=[now.id],
        )
    if now.HasField("deletion_file") and not updated.HasField("deletion_file"):
        raise RetryableConflict(
            f"fragment {now.id} has deleted rows by now, of which the operation does not know", fragments=[now.id]
        )


def check_unchanged(now: DataFragment, read: DataFragment) -> None:
    """`RetryableConflict` if the fragment is not what it was when it was read, as far as `read` says what that was."""
    if not read.files:
        return
    masks_differ = now.HasField("deletion_file") != read.HasField("deletion_file") or (
        now.deletion_file != read.deletion_file
    )
    # Files may have gone with columns that were dropped; one that was not there before has other values in it.
    known = {file.path for file in read.files}
    if masks_differ or any(file.path not in known for file in now.files):
        raise RetryableConflict(f"fragment {now.id} was changed by somebody else", fragments=[now.id])
