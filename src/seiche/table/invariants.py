"""What holds for every version of a table; looked at just before one is claimed, so that no bug reaches storage."""

from collections.abc import Sequence

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
    if header.version != base.header.version + (not first):
        raise _broken(f"version {made.version} does not follow {base.version}")
    _check_counters(base, made)
    flags.require_writable(header, managed=True)
    _check_fragments(_unchecked(base, made), made)
    same = made.index_section is base.index_section
    if made.index_section and not (same and header.fields == base.header.fields):
        _check_indices(made)


def _check_counters(base: Manifest, made: Manifest) -> None:
    header, before = made.header, base.header
    given_out = made.max_fragment_id
    if given_out < base.max_fragment_id:
        raise _broken(f"the counter of fragment ids would fall to {given_out}")
    if given_out >= 0 and header.max_fragment_id != given_out:
        raise _broken(f"there are fragment ids up to {given_out}, recorded is {header.max_fragment_id}")
    if header.next_row_id < before.next_row_id:
        raise _broken(f"the counter of row ids would fall to {header.next_row_id}")
    if before.reader_feature_flags & ~header.reader_feature_flags & flags.STABLE_ROW_IDS:
        raise _broken("stable row ids would be turned off")


def _unchecked(base: Manifest, made: Manifest) -> tuple[Sequence[DataFragment], int]:
    """The fragments of `made` that may be others than those of `base`, and above which id they must be."""
    old, new = base.fragments, made.fragments
    if new is old:
        return (), -1
    more = len(new) - len(old)
    if more > 0 and (added := _added(old, new)) is not None and len(added) == more:
        return added, old.last_id
    return new.decoded(), -1


def _added(old: Fragments, new: Fragments) -> Sequence[DataFragment] | None:
    """What was put behind the old fragments, if that is all that happened."""
    known = len(old.pieces)
    if new.pieces[:known] == old.pieces:
        tail = b"".join(new.pieces[known:])
    elif (size := _length_if_first(old, new)) is not None:
        tail = bytes(new.pieces[0][size:])
    else:
        return None
    try:
        return FragmentList.FromString(tail).fragments
    except DecodeError:
        return None


def _length_if_first(old: Fragments, new: Fragments) -> int | None:
    """How many bytes the old fragments have, if the new ones were joined to one piece and begin with exactly those.

    That as many bytes as there were come first is not enough: fragments that a rewrite put among the others would pass
    for old ones, and the last of the old ones for a new one.
    """
    whole = new.pieces[0] if len(new.pieces) == 1 else b""
    at = 0
    for piece in old.pieces:
        if not isinstance(whole, bytes) or not whole.startswith(piece, at):
            return None
        at += len(piece)
    return at


def _check_fragments(fragments: tuple[Sequence[DataFragment], int], made: Manifest) -> None:
    unchecked, last = fragments
    header = made.header
    words = header.reader_feature_flags
    stable = bool(words & flags.STABLE_ROW_IDS)
    mixed = words & flags.MIXED_DATA_VERSIONS
    versions = frozenset() if mixed else data_version(header.data_format.version)
    for fragment in unchecked:
        if fragment.id <= last:
            raise _broken(f"fragment {fragment.id} comes after {last}")
        last = fragment.id
        if (fragment.WhichOneof("row_ids") is not None) != stable:
            raise _broken(f"fragment {fragment.id} {'lacks' if stable else 'has'} row ids")
        for file in fragment.files[:]:
            if versions and (file.file_major_version, file.file_minor_version) not in versions:
                raise _broken(f"{file.path} has another format version than the table")
            if file.HasField("base_id") and all(base.id != file.base_id for base in header.base_paths):
                raise _broken(f"{file.path} lies in an unknown base, {file.base_id}")
            if -1 in file.fields[:]:
                raise _broken(f"{file.path} has the field id -1")


def _check_indices(made: Manifest) -> None:
    known = {field.id for field in made.header.fields}
    bases = {base.id for base in made.header.base_paths}
    seen: set[bytes] = set()
    for index in made.indices:
        keys = {index.uuid.uuid, index.name.encode()} if is_system(index) else {index.uuid.uuid}
        if not seen.isdisjoint(keys):
            raise _broken(f"there are two of the index {index.name!r}")
        seen |= keys
        if not known.issuperset(index.fields):
            raise _broken(f"the index {index.name!r} is on a field that does not exist")
        if index.HasField("base_id") and index.base_id not in bases:
            raise _broken(f"the index {index.name!r} lies in an unknown base, {index.base_id}")


def _broken(problem: str) -> Corrupt:
    return Corrupt(
        f"the next version would be broken: {problem}",
        remedy="Nothing was written. This is a bug in Seiche, or the version that it builds on is damaged.",
    )
