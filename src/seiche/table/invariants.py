"""What holds for every version of a table; looked at just before one is claimed, so that no bug reaches storage."""

from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.table.format import flags
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, FragmentList
from seiche.table.operations.coverage import is_system
from seiche.table.operations.files import data_version

__all__ = ["check"]


def check(base: Manifest, made: Manifest, *, first: bool = False) -> None:
    """`Corrupt` if `made` must not follow `base`. With `first`, it is the first version of a clone of `base` instead.

    Costs nothing per fragment that was there before: `Fragments` keeps its order by construction, and what was checked
    once is not checked again.
    """
    header = made.header
    _require(made.version == base.version + (not first), f"version {made.version} does not follow {base.version}")
    _require(made.max_fragment_id >= base.max_fragment_id, "the counter of fragment ids would fall")
    recorded = header.max_fragment_id if header.HasField("max_fragment_id") else -1
    _require(recorded == made.max_fragment_id, f"fragment ids up to {made.max_fragment_id} are recorded as {recorded}")
    _require(header.next_row_id >= base.header.next_row_id, "the counter of row ids would fall")
    _require(made.has_stable_row_ids or not base.has_stable_row_ids, "stable row ids would be turned off")
    flags.require_writable(header, managed=True)
    _check_fragments(_unchecked(base, made), made)
    if made.index_section is not base.index_section or header.fields != base.header.fields:
        _check_indices(made)


def _unchecked(base: Manifest, made: Manifest) -> tuple[Sequence[DataFragment], int]:
    """The fragments of `made` that may be others than those of `base`, and above which id they must be."""
    old, new = base.fragments, made.fragments
    if new is old:
        return (), -1
    if len(new) > len(old) and (added := _added(old, new)) is not None:
        return added, old.last_id
    return new.decoded(), -1


def _added(old: Fragments, new: Fragments) -> Sequence[DataFragment] | None:
    """What was put behind the old fragments, if that is all that happened."""
    size = sum(map(len, old.pieces))
    if new.pieces[: len(old.pieces)] == old.pieces:
        tail = b"".join(new.pieces[len(old.pieces) :])
    elif len(new.pieces) == 1:
        tail = new.pieces[0][size:]
    else:
        return None
    try:
        added = FragmentList.FromString(tail).fragments
    except DecodeError:
        return None
    return added if len(added) == len(new) - len(old) else None


def _check_fragments(fragments: tuple[Sequence[DataFragment], int], made: Manifest) -> None:
    unchecked, last = fragments
    header = made.header
    stable = made.has_stable_row_ids
    versions = data_version(header.data_format.version)
    if header.reader_feature_flags & flags.MIXED_DATA_VERSIONS:
        versions = frozenset()
    bases = {base.id for base in header.base_paths}
    for fragment in unchecked:
        _require(fragment.id > last, f"fragment {fragment.id} comes after {last}")
        last = fragment.id
        has_ids = fragment.WhichOneof("row_ids") is not None
        _require(has_ids == stable, f"fragment {fragment.id} has {'' if has_ids else 'no '}row ids")
        for file in fragment.files:
            version = (file.file_major_version, file.file_minor_version)
            _require(not versions or version in versions, f"{file.path} has another format version than the table")
            _require(not file.HasField("base_id") or file.base_id in bases, f"{file.path} lies in an unknown base")
            _require(-1 not in file.fields, f"{file.path} has the field id -1")


def _check_indices(made: Manifest) -> None:
    known = {field.id for field in made.header.fields}
    bases = {base.id for base in made.header.base_paths}
    indices = made.indices
    _unique(index.uuid.uuid for index in indices)
    _unique(index.name.encode() for index in indices if is_system(index))
    for index in indices:
        _require(known.issuperset(index.fields), f"the index {index.name!r} is on a field that does not exist")
        _require(not index.HasField("base_id") or index.base_id in bases, f"{index.name!r} lies in an unknown base")


def _unique(keys: Iterable[bytes]) -> None:
    seen: set[bytes] = set()
    for key in keys:
        _require(key not in seen, f"two indices are the same: {key.hex()}")
        seen.add(key)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise Corrupt(
            f"the next version would be broken: {problem}",
            remedy="Nothing was written. This is a bug in Seiche, or the version that it builds on is damaged.",
        )
