"""The data files of one fragment, side by side: which of them speaks for which field."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from seiche.errors import InvalidInput
from seiche.table.format.flags import MIXED_DATA_VERSIONS
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile, Field, Manifest

__all__ = [
    "TOMBSTONE",
    "changed_fields",
    "check_apart",
    "check_counted",
    "check_deletions",
    "check_files",
    "check_nothing_lost",
    "data_version",
    "live_fields",
    "settle",
    "speaking",
    "written_version",
]

# Stands in a data file's list of fields where another file has taken the field over.
TOMBSTONE = -2

# Rows of a fragment are addressed by 32 bits.
_MOST_ROWS = 1 << 32

_FIRST = frozenset({(0, 0), (0, 1), (0, 2)})
# The second is how the first files of the second generation call themselves.
_SECOND = frozenset({(2, 0), (0, 3)})
# What readers know: of a file with any other number they do not even open the table.
_READABLE = _FIRST | _SECOND | {(2, 1), (2, 2), (2, 3)}


@lru_cache(maxsize=16)
def data_version(version: str) -> frozenset[tuple[int, int]]:
    """The numbers that data files of this version carry; empty if the version does not say."""
    if version in {"0.1", "2.0"}:
        return _FIRST if version == "0.1" else _SECOND
    major, _, minor = version.partition(".")
    return (
        frozenset({(int(major), int(minor))}) if major.isdigit() and minor.isdigit() and major != "0" else frozenset()
    )


def written_version(fragments: Iterable[DataFragment]) -> str:
    """The version of the format that all data files have; empty if that is not one, or an old one."""
    found = {(file.file_major_version, file.file_minor_version) for one in fragments for file in one.files}
    major, minor = found.pop() if len(found) == 1 else (0, 0)
    return f"{major}.{minor}" if major else "2.0" if minor == 3 else ""


def check_files(fragment: DataFragment, header: Manifest) -> set[int]:
    """The fields that the fragment has values for; `InvalidInput` if readers of this table could not open its files."""
    files = fragment.files[:]  # once, as a list: to go through a container of messages takes longer
    if not files:
        raise InvalidInput(
            f"the new fragment {fragment.id} has no data file",
            remedy="Leave a fragment without rows out; one with rows names at least one file under `data/`.",
        )
    if fragment.physical_rows > _MOST_ROWS:
        raise InvalidInput(
            f"a new fragment claims {fragment.physical_rows} rows, more than one can have",
            remedy=f"Split it: row addresses leave room for {_MOST_ROWS} in each.",
        )
    check_deletions(fragment, header)
    if fragment.overlays:
        raise InvalidInput("data overlays are not supported", remedy="Write the columns anew instead.")
    versions = data_version(header.data_format.version)
    present: set[int] = set()
    for file in files:
        fields = file.fields[:]
        _check_file(file, fields, header)
        present.update(fields)
        version = (file.file_major_version, file.file_minor_version)
        if version not in _READABLE:
            raise InvalidInput(
                f"{file.path} has format version {version[0]}.{version[1]}, which there is not",
                remedy="Leave `file_major_version` and `file_minor_version` as they were when the file was written.",
                path=file.path,
            )
        if versions and version not in versions and not header.reader_feature_flags & MIXED_DATA_VERSIONS:
            raise InvalidInput(
                f"{file.path} has format version {version[0]}.{version[1]}, the table has {header.data_format.version}",
                remedy="Write the data in the table's format version.",
                path=file.path,
            )
    present.discard(TOMBSTONE)
    return present


def check_apart(fragment: DataFragment, present: Collection[int]) -> None:
    """Refuse a new fragment with two columns for one field: which of them counts, readers do not agree on.

    `present` are the fields that it has values for.
    """
    if sum(len(file.fields) for file in fragment.files) == len(present):
        return
    listed = [one for file in fragment.files for one in file.fields if one != TOMBSTONE]
    if twice := sorted({one for one in listed if listed.count(one) > 1}):
        raise InvalidInput(
            f"a new fragment has the fields {twice} in two places, {[file.path for file in fragment.files]}",
            remedy=f"Name each field once; {TOMBSTONE} stands for a column that another file has taken over.",
            fields=twice,
        )


def check_nothing_lost(before: DataFragment, after: DataFragment, schema: Iterable[Field]) -> None:
    """Refuse a fragment that has columns written anew, and has no values any more for others of the schema."""
    had, has = live_fields(before), live_fields(after)
    if lost := [one for one in schema if one.id in had and one.id not in has]:
        names = ", ".join(repr(one.name) for one in lost)
        raise InvalidInput(
            f"fragment {before.id} would lose the values of {names}: no file that is left has them",
            remedy="A fragment is given with all its files, the old ones too; only columns leave by the schema.",
            fragments=[before.id],
            fields=[one.id for one in lost],
        )


def check_counted(fragment: DataFragment) -> None:
    """Refuse a new fragment that does not say how many rows it has: only tables of old have such."""
    if not fragment.physical_rows:
        raise InvalidInput(
            "a new fragment does not say how many rows it has",
            remedy="Set `physical_rows` to the number of rows in its data files; leave a fragment without rows out.",
        )


def check_deletions(fragment: DataFragment, header: Manifest) -> None:
    """Refuse a deletion file that could not be found or read: readers would not open the table at all."""
    if not fragment.HasField("deletion_file"):
        return
    file = fragment.deletion_file
    if file.file_type not in DeletionFile.Type.values():
        raise InvalidInput(
            f"the deletion file of fragment {fragment.id} is of the kind {file.file_type}, which there is not",
            remedy=f"There are {', '.join(f'{name} ({value})' for name, value in DeletionFile.Type.items())}.",
            fragments=[fragment.id],
        )
    if fragment.physical_rows and file.num_deleted_rows > fragment.physical_rows:
        raise InvalidInput(
            f"{file.num_deleted_rows} rows of fragment {fragment.id} are to be deleted, and it has"
            f" {fragment.physical_rows}",
            remedy="`num_deleted_rows` is the number of rows in the deletion file, earlier deletions included.",
            fragments=[fragment.id],
        )
    if file.HasField("base_id"):
        _check_base(f"the deletion file of fragment {fragment.id}", file.base_id, header)


def _check_base(what: str, base_id: int, header: Manifest, **details: str) -> None:
    if all(base.id != base_id for base in header.base_paths):
        raise InvalidInput(
            f"{what} lies in base {base_id}, which the table does not have",
            remedy=f"It has {sorted(base.id for base in header.base_paths) or 'none'}; `add_bases` adds one.",
            **details,
        )


def _check_file(file: DataFile, fields: Sequence[int], header: Manifest) -> None:
    """Refuse a data file that could not be found or read."""
    if not file.path or not fields:
        raise InvalidInput(
            f"a data file has no path or no fields: {file.path!r} with {list(fields)}",
            remedy="Give its path below `data/`, and the ids of the fields that it has values for.",
            path=file.path,
        )
    columns = len(file.column_indices)
    if columns and columns != len(fields):
        raise InvalidInput(
            f"{file.path} has {len(fields)} fields in {columns} columns",
            remedy="`column_indices` has one entry for each of `fields`, or none at all.",
            path=file.path,
        )
    if min(fields) < 0 and any(one < 0 and one != TOMBSTONE for one in fields):
        raise InvalidInput(
            f"{file.path} has a negative field id: {list(fields)}",
            remedy=f"Ids are those of the schema, from 0 on; {TOMBSTONE} marks a column that is replaced.",
            path=file.path,
            fields=fields,
        )
    if file.HasField("base_id"):
        _check_base(file.path, file.base_id, header, path=file.path)


def live_fields(fragment: DataFragment) -> set[int]:
    """The fields that the fragment has values for."""
    return {one for file in fragment.files for one in file.fields if one >= 0}


def speaking(fragment: DataFragment) -> dict[int, tuple[str, int]]:
    """For each field the file that its values are read from: path and base."""
    return {
        one: (file.path, file.base_id if file.HasField("base_id") else -1)
        for file in fragment.files
        for one in file.fields
        if one >= 0
    }


def changed_fields(before: DataFragment, after: DataFragment) -> set[int]:
    """Fields that are read from another file after than before; or from one at last, or from none any more, which
    makes values of nulls and nulls of values.
    """
    return {one for one, _ in speaking(before).items() ^ speaking(after).items()}


def settle(fragment: DataFragment, keep: Collection[int] | None = None) -> None:
    """Make each field be read from one file, the last that has it, and leave out files that nothing is read from.

    Earlier files get a tombstone in place of the field. With `keep`, a file with none of these fields goes too: a file
    that shares no field with the schema is corruption to other readers.
    """
    taken: set[int] = set()
    for file in reversed(fragment.files):
        for index, one in enumerate(file.fields):
            if one in taken:
                file.fields[index] = TOMBSTONE
        taken.update(one for one in file.fields if one >= 0)
    for index in reversed(range(len(fragment.files))):
        fields = fragment.files[index].fields
        if not any(one >= 0 and (keep is None or one in keep) for one in fields):
            del fragment.files[index]
